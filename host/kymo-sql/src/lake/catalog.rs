// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of a lake: which files each has, by the manifests, and the columns of all of them [spec/lake.md 6].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kymo_tables::TableInfo;

use super::manifest::{FileColumn, Lost, Manifest};
use super::names::LABEL;
use super::place::Place;
use super::rows::words;
use super::scan::{LakeFile, schema_of_file};

/// A lake, as its manifests had it at one time.
pub struct Lake {
    place: Place,
    additions: Vec<Manifest>,
    tables: BTreeMap<String, Arc<LakeFiles>>,
}

/// A table's files.
#[derive(Debug)]
pub struct LakeFiles {
    /// Its name.
    pub table: String,
    /// All columns.
    pub schema: SchemaRef,
    /// In the order of the additions.
    pub files: Vec<LakeFile>,
}

impl Lake {
    /// Reads the manifests.
    ///
    /// # Errors
    /// The place is no lake, or cannot be read; a manifest is damaged.
    pub async fn open(place: Place) -> anyhow::Result<Lake> {
        let additions = Manifest::all(&place).await?;
        let keys: BTreeSet<&String> = additions.iter().flat_map(|addition| addition.labels.keys()).collect();
        let labels: Vec<String> = keys.into_iter().map(|key| format!("{LABEL}{key}")).collect();
        let mut columns: BTreeMap<&str, Vec<Field>> = BTreeMap::new();
        // Most additions have the same columns: their types are read once.
        let mut met: BTreeMap<&str, Vec<&[FileColumn]>> = BTreeMap::new();
        let mut files: BTreeMap<String, Vec<LakeFile>> = BTreeMap::new();
        for addition in &additions {
            let own = Arc::new(addition.labels.clone());
            for entry in &addition.files {
                let labels = Arc::clone(&own);
                files.entry(entry.table.clone()).or_default().push(LakeFile { entry: entry.clone(), labels });
            }
            for (table, schema) in &addition.schemas {
                if !files.contains_key(table) {
                    files.insert(table.clone(), Vec::new());
                }
                let met = met.entry(table).or_default();
                if !met.contains(&&schema[..]) {
                    let fields = fields(&place, addition, table, schema).await?;
                    // A type that could not be read may be in the file of another addition.
                    if fields.len() == schema.len() {
                        met.push(schema);
                    }
                    unite(columns.entry(table).or_default(), fields);
                }
            }
        }
        let table = |(table, files): (String, Vec<LakeFile>)| {
            let fields = columns.remove(&table[..]).unwrap_or_default();
            let schema = with_partitions(fields, &labels);
            (table.clone(), Arc::new(LakeFiles { table, schema, files }))
        };
        let tables: BTreeMap<String, Arc<LakeFiles>> = files.into_iter().map(table).collect();
        Ok(Lake { place, additions, tables })
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What it consists of.
    pub fn additions(&self) -> &[Manifest] {
        &self.additions
    }

    /// Its tables by name.
    pub fn files(&self) -> &BTreeMap<String, Arc<LakeFiles>> {
        &self.tables
    }

    /// The same, as a source of traces lists them.
    pub fn tables(&self) -> Vec<TableInfo> {
        let info = |files: &Arc<LakeFiles>| TableInfo {
            name: files.table.clone(),
            about: format!("{} files of the lake", files.files.len()),
            schema: Arc::clone(&files.schema),
            is_event: files.table.contains(':'),
        };
        self.tables.values().map(info).collect()
    }

    /// What is missing in all of it.
    pub fn lost(&self) -> Lost {
        let mut sum = Lost::default();
        for lost in self.additions.iter().map(|addition| addition.lost) {
            sum.records = sum.records.saturating_add(lost.records);
            sum.packets = sum.packets.saturating_add(lost.packets);
            sum.damaged = sum.damaged.saturating_add(lost.damaged);
        }
        sum
    }
}

/// Columns of a table in the files of an addition.
async fn fields(place: &Place, addition: &Manifest, table: &str, columns: &[FileColumn]) -> anyhow::Result<Vec<Field>> {
    let known = columns.iter().filter_map(|column| Some(Field::new(&column.name, column.data_type()?, true)));
    let known: Vec<Field> = known.collect();
    // Without rows, a column whose type cannot be read has no values either.
    let entry = addition.files.iter().find(|file| file.table == table);
    let Some(entry) = entry.filter(|_| known.len() < columns.len()) else { return Ok(known) };
    let schema = schema_of_file(place, entry).await?;
    Ok(schema.fields().iter().map(|field| field.as_ref().clone()).collect())
}

/// Adds columns that are not there yet; a column of two types has one that takes both.
fn unite(all: &mut Vec<Field>, more: Vec<Field>) {
    for field in more {
        match all.iter_mut().find(|known| known.name() == field.name()) {
            Some(known) if known.data_type() == field.data_type() => {}
            Some(known) => known.set_data_type(either(known.data_type(), field.data_type())),
            None => all.push(field),
        }
    }
}

/// A type that takes values of both: the wider integer, else text.
fn either(a: &DataType, b: &DataType) -> DataType {
    if !a.is_integer() || !b.is_integer() {
        return DataType::Utf8;
    }
    if a.is_signed_integer() == b.is_signed_integer() {
        return if a.primitive_width() >= b.primitive_width() { a.clone() } else { b.clone() };
    }
    let unsigned = if a.is_signed_integer() { b } else { a };
    // 64 bits without a sign fit into no integer that has one.
    if unsigned.primitive_width() < Some(8) { DataType::Int64 } else { DataType::Utf8 }
}

/// With the columns that are not in the files, or not in all.
fn with_partitions(mut fields: Vec<Field>, labels: &[String]) -> SchemaRef {
    fields.retain(|field| !labels.contains(field.name()));
    fields.push(Field::new("host", words(), true));
    fields.push(Field::new("day", DataType::Date32, true));
    fields.extend(labels.iter().map(|label| Field::new(label, words(), true)));
    Arc::new(Schema::new(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_two_types_takes_both() {
        use DataType::{Boolean, Int8, Int32, Int64, UInt8, UInt32, UInt64, Utf8};
        for (a, b, expect) in [
            (UInt8, UInt32, UInt32),
            (Int8, Int32, Int32),
            (UInt32, Int8, Int64),
            (UInt32, Int64, Int64),
            (UInt64, Int64, Utf8),
            (UInt64, Int8, Utf8),
            (Boolean, Int8, Utf8),
            (Utf8, Int64, Utf8),
        ] {
            assert_eq!(either(&a, &b), expect, "{a} {b}");
            assert_eq!(either(&b, &a), expect, "{b} {a}");
        }
    }
}
