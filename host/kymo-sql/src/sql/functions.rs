// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of `kymo sql` [spec/tables.md 4]: times and durations as the verbs write them, quantiles by kymo's
//! histogram, spans between two events, critical paths.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use kymo_command::when::{self, When};
use kymo_histogram::Histogram;
use kymo_tables::{Source, TableFunction};

use super::provider::TraceTable;

/// Names and what they do, for the prompt and the reference page.
pub const FUNCTIONS: [(&str, &str); 7] = [
    ("at('+1.5s')", "A time of the traces: +1.5s from their first record, -1s from their last, or ns of the clock"),
    ("ns('1.5ms')", "A duration in ns: a number with ns, us, ms, s, min or h"),
    (
        "quantile(x, q)",
        "The value below which a share q (0 to 1) of the values of x lies: the upper end of the histogram's bucket, as \
         kymo latency prints it, at most 0.8 % above the value, and not above the largest one",
    ),
    (
        "quantile_low(x, q)",
        "The lower end of that bucket, and not below the smallest value: the quantile lies between both",
    ),
    (
        "quantile_most(x, q, missing)",
        "The quantile if so many samples are missing that were all longer; none where nothing bounds it",
    ),
    (
        "span('begin', 'end' [, 'by'])",
        "A table with the spans between two events, with the columns of slices: paired by fields that both have, else by \
         thread",
    ),
    (
        "critical_path(tid, from, to)",
        "A table with what a stretch of a thread depended on, step by step; times as in at()",
    ),
];

/// Those of [`FUNCTIONS`] that need a trace.
pub const OF_TRACES: [&str; 3] = ["at", "span", "critical_path"];

/// Adds those that need no trace.
pub fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(Duration::new()));
    for which in [Which::High, Which::Low, Which::Most] {
        context.register_udaf(AggregateUDF::from(Quantile::new(which)));
    }
}

/// Adds those that need traces.
pub fn register_of_traces(context: &SessionContext, source: &Arc<Source>) {
    context.register_udf(ScalarUDF::from(At::new(source)));
    context.register_udtf("span", Arc::new(SpanTable(Arc::clone(source))));
    context.register_udtf("critical_path", Arc::new(PathTable(Arc::clone(source))));
}

fn plan<T>(text: String) -> Result<T> {
    Err(DataFusionError::Plan(text))
}

/// A text that is a constant.
fn constant(value: &ColumnarValue, name: &str) -> Result<String> {
    match value {
        ColumnarValue::Scalar(value) => match value.try_as_str().flatten() {
            Some(text) => Ok(text.to_owned()),
            None => plan(format!("{name} takes a text")),
        },
        ColumnarValue::Array(_) => plan(format!("{name} takes a constant")),
    }
}

/// The time of the traces that a text means, ns.
fn time_of(source: &Source, text: &str) -> Result<i64> {
    let when = when::parse(text).map_err(|error| DataFusionError::Plan(format!("{text:?}: {error}")))?;
    if let When::At(ns) = when {
        return Ok(ns);
    }
    match source.bounds() {
        Some((first, last)) => Ok(when.at(first, last)),
        None => plan(format!("{text:?}: the traces have no records")),
    }
}

/// `at('+1.5s')`.
struct At {
    signature: Signature,
    source: Arc<Source>,
}

impl At {
    fn new(source: &Arc<Source>) -> At {
        let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
        At { signature, source: Arc::clone(source) }
    }

    fn zone(&self) -> Option<Arc<str>> {
        self.source.is_absolute().then(|| "UTC".into())
    }
}

/// There is one in a session.
impl PartialEq for At {
    fn eq(&self, _: &At) -> bool {
        true
    }
}

impl Eq for At {}

impl std::hash::Hash for At {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        "at".hash(state);
    }
}

impl std::fmt::Debug for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("at")
    }
}

impl ScalarUDFImpl for At {
    fn name(&self) -> &str {
        "at"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, self.zone()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ns = time_of(&self.source, &constant(&args.args[0], "at()")?)?;
        Ok(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(ns), self.zone())))
    }
}

/// `ns('1.5ms')`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Duration {
    signature: Signature,
}

impl Duration {
    fn new() -> Duration {
        Duration { signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Duration {
    fn name(&self) -> &str {
        "ns"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = constant(&args.args[0], "ns()")?;
        match when::parse(&format!("+{text}")) {
            Ok(When::Behind(ns)) => Ok(ColumnarValue::Scalar(ScalarValue::UInt64(Some(ns.unsigned_abs())))),
            _ => plan(format!("{text:?} is no duration: a number with ns, us, ms, s, min or h")),
        }
    }
}

/// Which end of a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    High,
    Low,
    Most,
}

/// `quantile` and those like it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantile {
    which: Which,
    signature: Signature,
}

impl Quantile {
    fn new(which: Which) -> Quantile {
        Quantile { which, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Quantile {
    fn name(&self) -> &str {
        match self.which {
            Which::High => "quantile",
            Which::Low => "quantile_low",
            Which::Most => "quantile_most",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = [DataType::UInt64, DataType::Float64, DataType::UInt64];
        let wanted = if self.which == Which::Most { &wanted[..] } else { &wanted[..2] };
        let is_number = |of: &DataType| of.is_numeric() || of.is_null();
        let is_fine = types.len() == wanted.len() && types[0].is_integer() && types.iter().all(is_number);
        match is_fine {
            true => Ok(wanted.to_vec()),
            false => plan(format!(
                "{} takes whole numbers, a share from 0 to 1{}",
                self.name(),
                match self.which {
                    Which::Most => ", and how many samples are missing",
                    Which::High | Which::Low => "",
                }
            )),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan(format!("{} has no DISTINCT: choose the rows in a query inside of the query", self.name()));
        }
        let (histogram, share) = (Histogram::new(), Share::Unknown);
        Ok(Box::new(Samples { which: self.which, histogram, min: u64::MAX, max: 0, share, missing: 0 }))
    }

    fn state_fields(&self, _: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
        Ok(vec![
            field("histogram", DataType::Utf8),
            field("share", DataType::Float64),
            field("has_none", DataType::Boolean),
            field("missing", DataType::UInt64),
            field("min", DataType::UInt64),
            field("max", DataType::UInt64),
        ])
    }
}

/// The values of a group.
#[derive(Debug)]
struct Samples {
    which: Which,
    histogram: Histogram,
    /// Of the values: a bucket may reach beyond them.
    min: u64,
    max: u64,
    share: Share,
    missing: u64,
}

/// The share of a quantile, which is the same in all rows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    /// There was no row.
    Unknown,
    /// It is null, and so is the quantile.
    Null,
    Is(f64),
}

impl Samples {
    fn take_share(&mut self, share: Option<f64>) -> Result<()> {
        let share = match share {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                return plan(format!("a quantile's share is from 0 to 1: {share}"));
            }
            share => share.map_or(Share::Null, Share::Is),
        };
        if self.share != Share::Unknown && self.share != share {
            return plan("a quantile has the same share for all rows of a group".to_owned());
        }
        self.share = share;
        Ok(())
    }
}

impl Accumulator for Samples {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let samples: &UInt64Array = values[0].as_primitive::<UInt64Type>();
        for value in samples.iter().flatten() {
            self.histogram.record(value);
            (self.min, self.max) = (self.min.min(value), self.max.max(value));
        }
        let shares = values[1].as_primitive::<arrow_array::types::Float64Type>();
        shares.iter().try_for_each(|share| self.take_share(share))?;
        if let Some(missing) = values.get(2) {
            self.missing = missing.as_primitive::<UInt64Type>().iter().flatten().max().unwrap_or(0).max(self.missing);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.histogram.count();
        let Share::Is(share) = self.share else { return Ok(ScalarValue::UInt64(None)) };
        // As the verbs have it: the smallest value so that a share of all lies at or below it.
        let rank = |count: u64| ((share * count as f64).ceil() as u64).clamp(1, count.max(1)) - 1;
        let bucket = match self.which {
            Which::Most => self.histogram.at_rank(rank(count.saturating_add(self.missing))),
            _ => self.histogram.at_rank(rank(count)),
        };
        let value = bucket.map(|bucket| match self.which {
            Which::Low => bucket.low.max(self.min),
            Which::High | Which::Most => bucket.high.min(self.max),
        });
        Ok(ScalarValue::UInt64(value))
    }

    fn size(&self) -> usize {
        // Up to its largest bucket; 64 octaves of 128 at most.
        size_of::<Samples>() + 8 * 8192
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let text =
            serde_json::to_string(&self.histogram).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(vec![
            ScalarValue::Utf8(Some(text)),
            ScalarValue::Float64(if let Share::Is(share) = self.share { Some(share) } else { None }),
            ScalarValue::Boolean(Some(self.share == Share::Unknown)),
            ScalarValue::UInt64(Some(self.missing)),
            ScalarValue::UInt64(Some(self.min)),
            ScalarValue::UInt64(Some(self.max)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for text in states[0].as_string::<i32>().iter().flatten() {
            let other = serde_json::from_str(text).map_err(|error| DataFusionError::External(Box::new(error)))?;
            self.histogram.merge(&other);
        }
        let shares = states[1].as_primitive::<arrow_array::types::Float64Type>();
        let are_unknown = states[2].as_boolean();
        // Of a part without a row nothing is known.
        for (share, _) in shares.iter().zip(are_unknown).filter(|(_, is_unknown)| *is_unknown != Some(true)) {
            self.take_share(share)?;
        }
        let numbers = |state: usize| states[state].as_primitive::<UInt64Type>().iter().flatten();
        self.missing = numbers(3).fold(self.missing, u64::max);
        self.min = numbers(4).fold(self.min, u64::min);
        self.max = numbers(5).fold(self.max, u64::max);
        Ok(())
    }
}

/// A constant argument as text: of texts and numbers.
fn argument(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(value, _) if !value.is_null() => {
            let text = value.try_as_str().flatten().map(str::to_owned);
            Some(text.unwrap_or_else(|| value.to_string()))
        }
        Expr::Negative(inner) => argument(inner).map(|text| format!("-{text}")),
        _ => None,
    }
}

fn arguments(args: &TableFunctionArgs<'_, '_>, usage: &str) -> Result<Vec<String>> {
    let all: Option<Vec<String>> = args.exprs().iter().map(argument).collect();
    all.map_or_else(|| plan(format!("{usage}: arguments are constants")), Ok)
}

/// `span('begin', 'end', 'by')`.
struct SpanTable(Arc<Source>);

impl std::fmt::Debug for SpanTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("span")
    }
}

impl TableFunctionImpl for SpanTable {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = "span('begin', 'end' [, 'by'])";
        let function = match &arguments(&args, usage)?[..] {
            [begin, end] => TableFunction::Span { begin: begin.clone(), end: end.clone(), by: None },
            [begin, end, by] => TableFunction::Span { begin: begin.clone(), end: end.clone(), by: Some(by.clone()) },
            _ => return plan(format!("it takes two or three arguments: {usage}")),
        };
        Ok(Arc::new(TraceTable::of_function(&self.0, function)))
    }
}

/// `critical_path(tid, from, to)`.
struct PathTable(Arc<Source>);

impl std::fmt::Debug for PathTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("critical_path")
    }
}

impl TableFunctionImpl for PathTable {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = "critical_path(tid, from, to)";
        let arguments = arguments(&args, usage)?;
        let [tid, from, to] = &arguments[..] else { return plan(format!("it takes three arguments: {usage}")) };
        let tid = tid.parse().map_err(|_| DataFusionError::Plan(format!("{tid:?} is no number of a thread")))?;
        let (from, to) = (time_of(&self.0, from)?, time_of(&self.0, to)?);
        Ok(Arc::new(TraceTable::of_function(&self.0, TableFunction::CriticalPath { tid, from, to })))
    }
}
