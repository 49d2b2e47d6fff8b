// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a question chooses: from its parameters to conditions of a plan [spec/view.md 11.2].

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::prelude::{DataFrame, Expr, JoinType, cast, ident, lit};
use kymo_query::Parameters;

use super::error::AskError;
use crate::day::day_number;
use crate::lake::catalog::Lake;
use crate::lake::names::LABEL;
use crate::sql::session::Session;

/// Groups of an answer.
const VALUES: usize = 8;
const VALUES_MAX: u64 = 24;
/// Rows of an answer.
const ROWS: usize = 20;
const ROWS_MAX: u64 = 1000;

/// Names of quantiles, and the share of each; the largest sample has none.
pub const QUANTILES: [(&str, Option<f64>); 6] = [
    ("p50", Some(0.5)),
    ("p90", Some(0.9)),
    ("p99", Some(0.99)),
    ("p999", Some(0.999)),
    ("p9999", Some(0.9999)),
    ("max", None),
];

/// What rows are grouped by, or chosen by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupKey {
    Host,
    Day,
    Release,
    Of,
    Name,
    Label(String),
}

impl GroupKey {
    fn parse(text: &str) -> Option<GroupKey> {
        Some(match text {
            "host" => GroupKey::Host,
            "day" => GroupKey::Day,
            "kernel_release" => GroupKey::Release,
            "of" => GroupKey::Of,
            "name" => GroupKey::Name,
            _ => GroupKey::Label(text.strip_prefix("label:")?.to_owned()),
        })
    }

    /// The column, as text.
    fn text(&self) -> Expr {
        let column = match self {
            GroupKey::Host => ident("host"),
            GroupKey::Day => ident("day"),
            GroupKey::Release => ident("kernel_release"),
            GroupKey::Of => ident("of"),
            GroupKey::Name => ident("name"),
            GroupKey::Label(key) => return ident(format!("{LABEL}{key}")),
        };
        if matches!(self, GroupKey::Day) { cast(column, DataType::Utf8) } else { column }
    }

    /// Whether losses have it, too.
    fn is_of_losses(&self) -> bool {
        matches!(self, GroupKey::Host | GroupKey::Day | GroupKey::Label(_))
    }
}

/// A condition: a value of a key, or that it is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: GroupKey,
    value: Option<String>,
}

/// What is chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    what: String,
    pub by: GroupKey,
    first: Option<i32>,
    last: Option<i32>,
    conditions: Vec<Condition>,
    /// Groups at most.
    pub values: usize,
    /// Rows at most.
    pub limit: usize,
    /// A place in [`QUANTILES`].
    pub quantile: usize,
}

impl Choice {
    /// Takes the parameters of a question.
    ///
    /// # Errors
    /// One is unknown, or has no such value.
    pub fn take(mut parameters: Parameters, lake: &Lake, question: &str) -> Result<Choice, AskError> {
        let parameters = &mut parameters;
        let own = match question {
            "worst" => "limit",
            "trend" => "quantile",
            _ => "what",
        };
        parameters.check_names(&["what", "by", "first", "last", "is", "values", own])?;
        let what = parameters.text("what")?.unwrap_or_else(|| "wakeup".to_owned());
        let by = match parameters.text("by")? {
            Some(text) => key("by", &text, lake)?,
            None => GroupKey::Host,
        };
        let conditions = parameters.texts("is").iter().map(|text| condition(text, lake)).collect::<Result<_, _>>()?;
        let (first, last) = (day(parameters, "first")?, day(parameters, "last")?);
        if first.zip(last).is_some_and(|(first, last)| first > last) {
            return Err(AskError::parameter("last", "it is before first"));
        }
        let values = parameters.number("values", 1..=VALUES_MAX)?.map_or(VALUES, |values| values as usize);
        let limit = parameters.number("limit", 1..=ROWS_MAX)?.map_or(ROWS, |limit| limit as usize);
        let quantile = parameters.text("quantile")?.unwrap_or_else(|| "p99".to_owned());
        let quantile = QUANTILES.iter().position(|(name, _)| *name == quantile).ok_or_else(|| {
            let names: Vec<&str> = QUANTILES.iter().map(|(name, _)| *name).collect();
            AskError::parameter("quantile", format!("one of {}", names.join(", ")))
        })?;
        Ok(Choice { what, by, first, last, conditions, values, limit, quantile })
    }

    /// What chooses samples and their groups, as a text that no other choice has.
    pub fn samples_key(&self) -> String {
        let Choice { what, by, first, last, conditions, values, limit: _, quantile: _ } = self;
        format!("{:?}", (what, by, first, last, conditions, values))
    }

    /// The samples that are chosen. `value`: the group, as text.
    pub async fn samples(&self, session: &Session) -> Result<DataFrame, AskError> {
        Ok(self.latencies(session).await?.filter(ident("kind").eq(lit(&self.what)))?)
    }

    /// The same of all kinds.
    pub async fn latencies(&self, session: &Session) -> Result<DataFrame, AskError> {
        let latencies = session.table("latencies").await.map_err(|_| {
            AskError::Question(kymo_query::Error::Trace {
                message: "no addition of this lake has the table latencies".to_owned(),
                hint: "kymo lake add TRACE --to URL".to_owned(),
            })
        })?;
        // What the CPU spent idle is no latency.
        let doubt = cast(ident("doubt"), DataType::Utf8);
        let mut frame = latencies.filter(ident("doubt").is_null().or(doubt.not_like(lit("%idle%"))))?;
        let keys = self.conditions.iter().map(|condition| &condition.key).chain([&self.by]);
        if keys.clone().any(|key| *key == GroupKey::Release) {
            frame = with_release(session, frame).await?;
        }
        for condition in self.conditions(|_| true) {
            frame = frame.filter(condition)?;
        }
        Ok(frame)
    }

    /// Losses in what is chosen, as far as they tell. Whether `value` is the group: else they may be of any.
    pub async fn losses(&self, session: &Session) -> Result<(DataFrame, bool), AskError> {
        let mut frame = session.table("losses").await?;
        for condition in self.conditions(GroupKey::is_of_losses) {
            frame = frame.filter(condition)?;
        }
        Ok((frame, self.by.is_of_losses()))
    }

    /// The group of a row, as text.
    pub fn value(&self) -> Expr {
        cast(self.by.text(), DataType::Utf8).alias("value")
    }

    /// Conditions on days, and on keys that `has`.
    fn conditions(&self, has: impl Fn(&GroupKey) -> bool) -> Vec<Expr> {
        let one = |condition: &Condition| {
            let column = condition.key.text();
            match &condition.value {
                Some(value) => column.eq(lit(value)),
                None => column.is_null(),
            }
        };
        let day = |day: i32| lit(ScalarValue::Date32(Some(day)));
        let first = self.first.map(|first| ident("day").gt_eq(day(first)));
        let last = self.last.map(|last| ident("day").lt_eq(day(last)));
        let chosen = self.conditions.iter().filter(|condition| has(&condition.key));
        chosen.map(one).chain(first).chain(last).collect()
    }
}

/// With the release of the kernel that ran then: machines get other kernels.
async fn with_release(session: &Session, frame: DataFrame) -> Result<DataFrame, AskError> {
    let names = [("host", "k_host"), ("trace", "k_trace"), ("time", "k_time"), ("end_time", "k_end_time")];
    let columns = names.iter().map(|(name, alias)| ident(*name).alias(*alias));
    let hosts = session.table("hosts").await?.select(columns.chain([ident("kernel_release")]))?;
    let on = [
        ident("host").eq(ident("k_host")),
        ident("trace").eq(ident("k_trace")),
        ident("end_time").gt_eq(ident("k_time")),
        ident("end_time").lt_eq(ident("k_end_time")),
    ];
    Ok(frame.join_on(hosts, JoinType::Left, on)?)
}

fn day(parameters: &mut Parameters, name: &str) -> Result<Option<i32>, AskError> {
    let Some(text) = parameters.text(name)? else { return Ok(None) };
    let number = day_number(&text).and_then(|day| i32::try_from(day).ok());
    number.map(Some).ok_or_else(|| AskError::parameter(name, "a day, as 2026-11-27"))
}

fn key(parameter: &str, text: &str, lake: &Lake) -> Result<GroupKey, AskError> {
    let key = GroupKey::parse(text).ok_or_else(|| {
        let message = format!("host, day, kernel_release, of, name, or label:KEY; {text:?} is none of these");
        AskError::parameter(parameter, message)
    })?;
    if let GroupKey::Label(label) = &key {
        let known = || lake.additions().iter().flat_map(|addition| addition.labels.keys());
        if !known().any(|known| known == label) {
            let near = kymo_tables::near_misses(label, known().map(String::as_str));
            return Err(AskError::parameter(
                parameter,
                format!("no addition of the lake has the label {label:?}{near}"),
            ));
        }
    }
    Ok(key)
}

fn condition(text: &str, lake: &Lake) -> Result<Condition, AskError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let key = key("is", name, lake)?;
    if key == GroupKey::Day {
        return Err(AskError::parameter("is", "days are chosen with first and last"));
    }
    Ok(Condition { key, value })
}
