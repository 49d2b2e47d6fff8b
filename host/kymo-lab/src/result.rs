// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result record [spec/lab.md 3]: one run of one test with everything that is needed to judge it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Histogram;
use crate::causes::{Budget, Causes};

/// Version of the form.
pub const SCHEMA: &str = "kymo-lab-1";
/// Worst samples that a series keeps.
pub const WORST_MAX: usize = 20;

/// One run of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// Who measured.
    pub tool: String,
    /// Its version; empty where it does not say.
    pub version: String,
    /// What was run: `wakeup`, `npt`, ...
    pub test: String,
    /// How a sample comes about, in a sentence.
    pub method: String,
    /// As they were given, by name.
    pub options: BTreeMap<String, Value>,
    /// Nanoseconds since 1970; `None` where it is not known.
    pub started_ns: Option<u64>,
    /// Length of the measurement; `None` where it is not known.
    pub duration_s: Option<f64>,
    /// How it ended.
    pub ended: Ended,
    /// What was measured, at least one.
    pub series: Vec<Series>,
    /// What a test counts beside its samples: `out_of_order`, `behind_middle`.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// What the tool itself costs, where that was measured.
    pub floor: Option<Floor>,
    /// Where it ran: names and values, as `doctor` reads them.
    pub environment: BTreeMap<String, Value>,
    /// What happened there while it ran: interrupts of the measured CPUs, steal time, what changed.
    #[serde(default)]
    pub meanwhile: BTreeMap<String, Value>,
    /// What makes the numbers doubtful.
    pub caveats: Vec<Caveat>,
    /// Causes of the worst samples, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub causes: Option<Causes>,
    /// Of a record that was made from another tool's file.
    pub source: Option<ResultSource>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// As many samples as were wanted.
    Count,
    /// Its time was over.
    Time,
    /// It was interrupted: what there was until then.
    Signal,
    /// The file does not say.
    Unknown,
}

/// Samples of one thread, or of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// `wakeup`, `loop`, `irq`, `thread`, ...
    pub name: String,
    /// Where it ran.
    pub cpu: Option<u32>,
    /// Who measured, as it was in effect.
    pub thread: Option<Thread>,
    /// Samples that were taken, those in no bucket too.
    pub count: u64,
    /// Samples that were taken and are neither in a bucket nor in `overflow`.
    pub lost: u64,
    /// Samples beyond the range of the tool's own histogram.
    pub overflow: Option<Overflow>,
    /// Smallest, nanoseconds. Exact, as the next three.
    pub min: Option<u64>,
    /// Largest, nanoseconds.
    pub max: Option<u64>,
    /// Mean, nanoseconds.
    pub mean: Option<f64>,
    /// Standard deviation, nanoseconds.
    pub std: Option<f64>,
    /// Width of the tool's own buckets, where they are wider than ours: a value may be so much larger than its bucket
    /// says.
    pub bucket_ns: Option<u64>,
    /// Nanoseconds.
    pub histogram: Histogram,
    /// The largest samples, the worst first.
    pub worst: Vec<Worst>,
}

/// A measuring thread, as it was in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// `SCHED_FIFO`, ...
    pub policy: String,
    /// Real-time priority, or the nice value.
    pub priority: i32,
    /// CPUs that it may run on, as `0-1,3`.
    pub affinity: String,
    /// Its memory is locked.
    pub locked: bool,
}

/// Samples that a foreign histogram has no bucket for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overflow {
    /// How many.
    pub count: u64,
    /// They are at least this, nanoseconds.
    pub beyond_ns: u64,
    /// The file did not say so: found by comparing its sums.
    pub computed: bool,
}

/// One of the worst samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Nanoseconds.
    pub value_ns: u64,
    /// Clock value of the trace's clock when it ended; `None` where the tool has none.
    pub cycles: Option<u64>,
    /// Number of the sample, from 0; `None` where it is not known.
    pub sample: Option<u64>,
    /// The thread, where it is known and may be another than that of the series.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tid: Option<u32>,
    /// What it is made of, once it was explained.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget: Option<Budget>,
}

/// What the tool itself costs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Median of one reading of the clock, nanoseconds.
    pub clock_read_ns: f64,
    /// Median of an empty measurement, nanoseconds.
    pub loop_ns: f64,
}

/// How much a caveat weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// The numbers may be somewhat off.
    Medium,
    /// They are likely to be wrong, or to say nothing of real operation.
    High,
    /// They are of no use for what was asked.
    Fatal,
}

/// Something that makes a number doubtful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    /// Of the list in spec/lab.md 6.
    pub id: String,
    /// How much it weighs.
    pub severity: Severity,
    /// What was found.
    pub text: String,
    /// What to do.
    pub next: String,
}

/// Where an imported record came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultSource {
    /// Path, as it was given.
    pub file: String,
    /// `cyclictest-text`, `rteval-xml`, ...
    pub format: String,
}

impl Series {
    /// Samples in buckets of the histogram, beyond it, and lost: their sum is `count` where the record is consistent.
    pub fn accounted(&self) -> u64 {
        let overflow = self.overflow.map_or(0, |overflow| overflow.count);
        self.histogram.count().saturating_add(overflow).saturating_add(self.lost)
    }

    /// An empty series.
    pub fn new(name: impl Into<String>) -> Series {
        Series {
            name: name.into(),
            cpu: None,
            thread: None,
            count: 0,
            lost: 0,
            overflow: None,
            min: None,
            max: None,
            mean: None,
            std: None,
            bucket_ns: None,
            histogram: Histogram::new(),
            worst: Vec::new(),
        }
    }
}

impl Record {
    /// A record without series, environment and caveats.
    pub fn new(tool: impl Into<String>, test: impl Into<String>) -> Record {
        Record {
            schema: SCHEMA.to_owned(),
            tool: tool.into(),
            version: String::new(),
            test: test.into(),
            method: String::new(),
            options: BTreeMap::new(),
            started_ns: None,
            duration_s: None,
            ended: Ended::Unknown,
            series: Vec::new(),
            counts: BTreeMap::new(),
            floor: None,
            environment: BTreeMap::new(),
            meanwhile: BTreeMap::new(),
            caveats: Vec::new(),
            causes: None,
            source: None,
        }
    }

    /// Reads a list of records, or records one behind the other, such as a line each. `None` where it is neither: a
    /// single record, or something else. The text of an error says which record is wrong, and how.
    pub fn several_from_json(text: &[u8]) -> Option<Result<Vec<Record>, String>> {
        let is_record = |value: &Value| value.get("schema").and_then(Value::as_str) == Some(SCHEMA);
        let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
        let first = stream.next()?.ok()?;
        let values: Vec<Value> = match first {
            Value::Array(list) if list.first().is_some_and(is_record) => list,
            first if is_record(&first) => {
                let mut values = vec![first];
                for value in stream {
                    match value {
                        Ok(value) => values.push(value),
                        Err(error) => return Some(Err(format!("record {}: {error}", values.len() + 1))),
                    }
                }
                if values.len() == 1 {
                    return None;
                }
                values
            }
            _ => return None,
        };
        let read = |(at, value): (usize, &Value)| {
            let record = serde_json::to_vec(value).map_err(|error| error.to_string());
            record.and_then(|text| Record::from_json(&text)).map_err(|error| format!("record {}: {error}", at + 1))
        };
        Some(values.iter().enumerate().map(read).collect())
    }

    /// Reads a record. The text of an error says what is wrong.
    pub fn from_json(text: &[u8]) -> Result<Record, String> {
        let record: Record = serde_json::from_slice(text).map_err(|error| format!("not a result of kymo: {error}"))?;
        if record.schema != SCHEMA {
            return Err(format!("a result of the form {:?}; this kymo reads {SCHEMA:?}", record.schema));
        }
        match record.series.iter().find(|series| series.accounted() != series.count) {
            Some(series) => Err(format!(
                "series {:?}: {} samples, but {} in buckets, beyond them, and lost",
                series.name,
                series.count,
                series.accounted()
            )),
            None => Ok(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut series = Series::new("wakeup");
        series.histogram.add(5_000, 9);
        (series.count, series.overflow) = (12, Some(Overflow { count: 2, beyond_ns: 400_000, computed: true }));
        series.lost = 1;
        series.worst.push(Worst { value_ns: 5_000, cycles: Some(1), sample: None, tid: None, budget: None });
        let mut record = Record::new("cyclictest", "wakeup");
        record.series.push(series);
        record
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let text = serde_json::to_vec(&record()).unwrap();
        assert_eq!(Record::from_json(&text), Ok(record()));
    }

    #[test]
    fn several_records_are_a_list_or_lines() {
        let one = serde_json::to_string(&record()).unwrap();
        let several = |text: &str| Record::several_from_json(text.as_bytes());
        for text in [format!("[{one},{one}]"), format!("{one}\n{one}\n")] {
            assert_eq!(several(&text), Some(Ok(vec![record(), record()])));
        }
        assert_eq!((several(&one), several("[]"), several("[1]"), several("x")), (None, None, None, None));
        assert_eq!(several(&format!("[{one}]")), Some(Ok(vec![record()])));
        let cut = several(&format!("{one}\n{}", &one[..one.len() / 2])).unwrap().unwrap_err();
        assert!(cut.starts_with("record 2"), "{cut}");
        let wrong = several(&format!("[{one},{{}}]")).unwrap().unwrap_err();
        assert!(wrong.starts_with("record 2"), "{wrong}");
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let mut wrong = record();
        wrong.series[0].count = 13;
        let error = Record::from_json(&serde_json::to_vec(&wrong).unwrap()).unwrap_err();
        assert!(error.contains("13 samples, but 12"), "{error}");
        let mut other = record();
        other.schema = "kymo-lab-9".to_owned();
        assert!(Record::from_json(&serde_json::to_vec(&other).unwrap()).unwrap_err().contains("kymo-lab-9"));
        assert!(Record::from_json(b"{").unwrap_err().contains("not a result"));
    }
}
