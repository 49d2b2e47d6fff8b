// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of a choice as histograms by group and day, with what was lost there.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::UInt64Array;
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use arrow_schema::DataType;
use datafusion::error::Result as PlanResult;
use datafusion::functions_aggregate::expr_fn::{count, count_distinct, max, min, sum};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::{cast, ident, lit, when};
use kymo_analyze::{QUANTILES, Quantile, Series};
use kymo_histogram::{Bucket, Histogram};

use super::choice::{Choice, GroupKey};
use super::error::AskError;
use super::rows::each;
use crate::sql::session::Session;

/// A group with samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// None: not known.
    pub value: Option<String>,
    pub samples: u64,
    pub hosts: u64,
    pub traces: u64,
}

/// The groups with most samples.
#[derive(Debug, Default)]
pub struct Groups {
    pub list: Vec<Group>,
    /// Groups in all.
    pub total: u64,
    /// Samples of those that are left out.
    pub left_out: u64,
}

/// What is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    pub records: u64,
    /// Packets of which nobody knows how many records were in them.
    pub packets: u64,
}

impl Missing {
    pub fn plus(self, other: Missing) -> Missing {
        Missing {
            records: self.records.saturating_add(other.records),
            packets: self.packets.saturating_add(other.packets),
        }
    }

    /// Samples that may be missing, at most.
    fn samples(self) -> u64 {
        if self.packets > 0 { u64::MAX } else { self.records }
    }

    pub fn is_none(self) -> bool {
        self == Missing::default()
    }
}

/// Samples of a group on a day.
#[derive(Clone, Debug)]
pub struct Cell {
    pub series: Series,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell { series: Series::new() }
    }
}

impl Cell {
    pub fn count(&self) -> u64 {
        self.series.count()
    }

    pub fn plus(&mut self, other: &Cell) {
        self.series.histogram.merge(&other.series.histogram);
        self.series.min_ns = self.series.min_ns.min(other.series.min_ns);
        self.series.max_ns = self.series.max_ns.max(other.series.max_ns);
        self.series.doubtful += other.series.doubtful;
    }

    /// In the order of [`QUANTILES`]; none where there are too few samples.
    pub fn quantiles(&self, missing: Missing) -> [Option<Quantile>; QUANTILES.len()] {
        let found = self.series.quantiles(missing.samples());
        QUANTILES.map(|q| found.iter().find(|quantile| quantile.q == q).copied())
    }
}

/// All cells of some groups.
#[derive(Debug, Default)]
pub struct Cells {
    /// By place of the group, and day.
    pub samples: BTreeMap<(usize, Option<i64>), Cell>,
    /// Losses by place of the group and day; those of no group or no day may be of any.
    lost: BTreeMap<(Option<usize>, Option<i64>), Missing>,
}

impl Cells {
    /// What is missing of a group, on all days.
    pub fn lost_of(&self, group: usize) -> Missing {
        self.lost_where(|of, _| of.is_none_or(|of| of == group))
    }

    /// What is missing of a group on a day.
    pub fn lost_on(&self, group: usize, day: i64) -> Missing {
        self.lost_where(|of, on| of.is_none_or(|of| of == group) && on.is_none_or(|on| on == day))
    }

    /// Days of a group, on which there are samples or losses of its own.
    pub fn days_of(&self, group: usize) -> Vec<i64> {
        let sampled = self.samples.keys().filter(|(of, _)| *of == group).filter_map(|(_, day)| *day);
        let lost = self.lost.keys().filter(|(of, _)| *of == Some(group)).filter_map(|(_, day)| *day);
        let mut days: Vec<i64> = sampled.chain(lost).collect();
        days.sort_unstable();
        days.dedup();
        days
    }

    fn lost_where(&self, is: impl Fn(Option<usize>, Option<i64>) -> bool) -> Missing {
        let own = self.lost.iter().filter(|((of, day), _)| is(*of, *day));
        own.fold(Missing::default(), |sum, (_, lost)| sum.plus(*lost))
    }
}

/// The groups with most samples, the largest first.
pub async fn groups(session: &Session, choice: &Choice) -> Result<Groups, AskError> {
    let text = |name: &str| cast(ident(name), DataType::Utf8);
    let all = choice.samples(session).await?.aggregate(
        vec![choice.value()],
        vec![
            count(lit(1)).alias("samples"),
            count_distinct(text("host")).alias("hosts"),
            count_distinct(text("trace")).alias("traces"),
        ],
    )?;
    let mut found = Groups::default();
    each(all, |batch| {
        let (values, samples) = (batch.words("value")?, batch.counts("samples")?);
        let (hosts, traces) = (batch.counts("hosts")?, batch.counts("traces")?);
        for row in 0..batch.rows() {
            found.list.push(Group {
                value: values.get(row).map(str::to_owned),
                samples: samples.get(row).unwrap_or(0),
                hosts: hosts.get(row).unwrap_or(0),
                traces: traces.get(row).unwrap_or(0),
            });
        }
        found.total += batch.rows() as u64;
        found.cut(choice.values);
        Ok(())
    })
    .await?;
    Ok(found)
}

impl Groups {
    fn cut(&mut self, most: usize) {
        self.list.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.value.cmp(&b.value)));
        let rest = self.list.split_off(most.min(self.list.len()));
        self.left_out += rest.iter().map(|group| group.samples).sum::<u64>();
    }

    fn place(&self, value: Option<&str>) -> Option<usize> {
        self.list.iter().position(|group| group.value.as_deref() == value)
    }

    /// Rows of these groups.
    fn condition(&self) -> Expr {
        let known = self.list.iter().filter_map(|group| group.value.as_ref());
        let among = ident("value").in_list(known.map(lit).collect(), false);
        if self.place(None).is_some() { among.or(ident("value").is_null()) } else { among }
    }
}

/// The samples of some groups, by day.
pub async fn cells(session: &Session, choice: &Choice, groups: &Groups) -> Result<Cells, AskError> {
    let mut found = Cells::default();
    if groups.list.is_empty() {
        return Ok(found);
    }
    let bucket = ScalarUDF::from(BucketOf::new()).call(vec![cast(ident("duration_ns"), DataType::UInt64)]);
    let columns = [choice.value(), ident("day"), ident("duration_ns"), ident("doubt"), bucket.alias("bucket")];
    let buckets = choice.samples(session).await?.select(columns)?.filter(groups.condition())?.aggregate(
        vec![ident("value"), ident("day"), ident("bucket")],
        vec![
            count(lit(1)).alias("samples"),
            count(ident("doubt")).alias("doubtful"),
            min(ident("duration_ns")).alias("least"),
            max(ident("duration_ns")).alias("most"),
        ],
    )?;
    each(buckets, |batch| {
        let (values, days, buckets) = (batch.words("value")?, batch.numbers("day")?, batch.counts("bucket")?);
        let (samples, doubtful) = (batch.counts("samples")?, batch.counts("doubtful")?);
        let (least, most) = (batch.counts("least")?, batch.counts("most")?);
        for row in 0..batch.rows() {
            let Some(group) = groups.place(values.get(row)) else { continue };
            let series = &mut found.samples.entry((group, days.get(row))).or_default().series;
            series.histogram.add(buckets.get(row).unwrap_or(0), samples.get(row).unwrap_or(0));
            series.doubtful += doubtful.get(row).unwrap_or(0);
            series.min_ns = series.min_ns.min(least.get(row).unwrap_or(u64::MAX));
            series.max_ns = series.max_ns.max(most.get(row).unwrap_or(0));
        }
        Ok(())
    })
    .await?;
    found.lost = losses(session, choice, groups).await?;
    Ok(found)
}

type LossesBy = BTreeMap<(Option<usize>, Option<i64>), Missing>;

async fn losses(session: &Session, choice: &Choice, groups: &Groups) -> Result<LossesBy, AskError> {
    let (frame, has_group) = choice.losses(session).await?;
    let value = if has_group { choice.value() } else { cast(lit(""), DataType::Utf8).alias("value") };
    // Packets whose records are counted are no more than these records.
    let mut unknown = when(ident("records").is_null().or(ident("records").eq(lit(0_u64))), ident("packets"));
    let unknown = unknown.otherwise(lit(0_u64))?;
    let rows = frame.filter(ident("kind").eq(lit("lost")))?;
    let rows = rows.select([value, ident("day"), ident("records"), unknown.alias("unknown")])?.aggregate(
        vec![ident("value"), ident("day")],
        vec![sum(ident("records")).alias("records"), sum(ident("unknown")).alias("packets")],
    )?;
    let mut found = LossesBy::new();
    each(rows, |batch| {
        let (values, days) = (batch.words("value")?, batch.numbers("day")?);
        let (records, packets) = (batch.counts("records")?, batch.counts("packets")?);
        for row in 0..batch.rows() {
            let missing = Missing { records: records.get(row).unwrap_or(0), packets: packets.get(row).unwrap_or(0) };
            // A label that an addition does not have is a group; a host or day that is not known may be any.
            let value = values.get(row);
            let is_known = has_group && (value.is_some() || matches!(choice.by, GroupKey::Label(_)));
            let group = groups.place(value).filter(|_| is_known);
            if is_known && group.is_none() {
                continue;
            }
            let sum = found.entry((group, days.get(row))).or_default();
            *sum = sum.plus(missing);
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

/// Traces that could not be opened, of what is chosen as far as they tell: nothing of them is among the samples.
pub async fn unreadable(session: &Session, choice: &Choice) -> Result<u64, AskError> {
    let (frame, _) = choice.losses(session).await?;
    let rows = frame.filter(ident("kind").eq(lit("unreadable")))?;
    let counted = rows.aggregate(Vec::new(), vec![count(lit(1)).alias("traces")])?;
    let mut traces = 0;
    each(counted, |batch| {
        traces += batch.counts("traces")?.get(0).unwrap_or(0);
        Ok(())
    })
    .await?;
    Ok(traces)
}

/// A column without a group: the least value of a duration's bucket.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BucketOf {
    signature: Signature,
}

impl BucketOf {
    fn new() -> BucketOf {
        BucketOf { signature: Signature::exact(vec![DataType::UInt64], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for BucketOf {
    fn name(&self) -> &str {
        "bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let buckets: UInt64Array = values.as_primitive::<UInt64Type>().unary(|value| Bucket::of(value).low);
        Ok(ColumnarValue::Array(Arc::new(buckets)))
    }
}

/// The histogram of all cells of a group.
pub fn whole(cells: &Cells, group: usize) -> Cell {
    let own = cells.samples.iter().filter(|((of, _), _)| *of == group);
    own.fold(Cell::default(), |mut sum, (_, cell)| {
        sum.plus(cell);
        sum
    })
}

/// Buckets of a cell that are not empty.
pub fn buckets(cell: &Cell) -> impl Iterator<Item = Bucket> {
    let histogram: &Histogram = &cell.series.histogram;
    histogram.buckets()
}
