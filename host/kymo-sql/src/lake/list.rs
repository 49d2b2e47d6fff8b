// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in a lake, as text and JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::manifest::{Adding, Lost, Manifest};
use super::place::Place;
use super::unfinished::lives;

/// What there is.
pub struct Listing {
    /// Where.
    lake: String,
    additions: Vec<Manifest>,
    /// Runs on their way, or what they left, and whether they live.
    unfinished: Vec<(Adding, bool)>,
}

impl Listing {
    /// Reads manifests.
    ///
    /// # Errors
    /// The place is no lake, or cannot be read.
    pub async fn read(place: &Place) -> anyhow::Result<Listing> {
        let additions = Manifest::all(place).await?;
        let mut unfinished = Vec::new();
        for adding in Adding::all(place).await? {
            let lives = lives(place, &adding).await?;
            unfinished.push((adding, lives));
        }
        Ok(Listing { lake: place.text().to_owned(), additions, unfinished })
    }

    /// Where the lake is.
    pub fn lake(&self) -> &str {
        &self.lake
    }

    /// Additions, by host and day.
    pub fn additions(&self) -> &[Manifest] {
        &self.additions
    }

    /// Runs on their way, or what they left, and whether they live.
    pub fn unfinished(&self) -> &[(Adding, bool)] {
        &self.unfinished
    }

    /// As an object.
    pub fn json(&self) -> Value {
        let unfinished = |(adding, lives): &(Adding, bool)| {
            json!({
                "trace": adding.trace, "place": adding.place, "host": adding.owner.host, "pid": adding.owner.pid,
                "is_running": lives,
            })
        };
        json!({
            "lake": self.lake,
            "additions": self.additions.iter().map(addition).collect::<Vec<_>>(),
            "unfinished": self.unfinished.iter().map(unfinished).collect::<Vec<_>>(),
        })
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for manifest in &self.additions {
            let _ = writeln!(text, "{}\n  {}", manifest.place, about(manifest));
        }
        let rows: u64 = self.additions.iter().map(Manifest::rows).sum();
        let bytes: u64 = self.additions.iter().map(Manifest::bytes).sum();
        let _ = writeln!(text, "{}: {} traces, {rows} rows, {}", self.lake, self.additions.len(), size(bytes));
        for (adding, lives) in &self.unfinished {
            let (place, pid, host) = (&adding.place, adding.owner.pid, &adding.owner.host);
            let _ = match lives {
                true => writeln!(text, "being added: {place}, by process {pid} of {host}"),
                false => writeln!(
                    text,
                    "unfinished: {place}: its run was ended (process {pid} of {host}). kymo sql --lake does not read \
                     what it left; kymo lake add {place} --to {} removes that and completes it",
                    self.lake
                ),
            };
        }
        text
    }
}

fn size(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Hosts of an addition.
pub fn hosts(manifest: &Manifest) -> BTreeSet<&str> {
    manifest.files.iter().filter_map(|file| file.host.as_deref()).collect()
}

/// Its days.
pub fn days(manifest: &Manifest) -> BTreeSet<&str> {
    manifest.files.iter().filter_map(|file| file.day.as_deref()).collect()
}

/// Its tables.
pub fn tables(manifest: &Manifest) -> BTreeSet<&str> {
    manifest.files.iter().map(|file| file.table.as_str()).collect()
}

/// An addition as an object.
pub fn addition(manifest: &Manifest) -> Value {
    let Lost { records, packets, damaged } = manifest.lost;
    json!({
        "trace": manifest.trace,
        "place": manifest.place,
        "added_on": manifest.added_on,
        "added": manifest.added,
        "hosts": hosts(manifest),
        "days": days(manifest),
        "labels": manifest.labels,
        "tables": tables(manifest),
        "files": manifest.files.len(),
        "rows": manifest.rows(),
        "bytes": manifest.bytes(),
        "is_copy": manifest.is_copy,
        "has_wall_clock": manifest.has_wall_clock,
        "lost_records": records,
        "lost_packets": packets,
        "damaged": damaged,
        "missing_before": manifest.missing_before,
    })
}

/// The same in words.
pub fn about(manifest: &Manifest) -> String {
    let or = |texts: BTreeSet<&str>, none: &str| match texts.is_empty() {
        true => none.to_owned(),
        false => texts.into_iter().collect::<Vec<_>>().join(" "),
    };
    let days = days(manifest);
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(day), _) => (*day).to_owned(),
        _ => "day unknown".to_owned(),
    };
    let (rows, count) = (manifest.rows(), tables(manifest).len());
    let host = or(hosts(manifest), "host unknown");
    let mut text = format!("{host}, {days}: {rows} rows in {count} tables, {}", size(manifest.bytes()));
    for (key, value) in &manifest.labels {
        let _ = write!(text, ", {key}={value}");
    }
    let Lost { records, packets, damaged } = manifest.lost;
    if records > 0 || packets > 0 {
        let _ = write!(text, "; lost: {records} records, {packets} packets");
    }
    if damaged > 0 {
        let _ = write!(text, "; {damaged} places are damaged or doubtful");
    }
    if !manifest.missing_before.is_empty() {
        let _ = write!(text, "; not in the lake, before it: {}", manifest.missing_before.join(" "));
    }
    text
}
