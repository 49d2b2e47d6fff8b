// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of `kymo compare` [spec/lab.md 5] on runs that were counted elsewhere, such as by Spark.

use std::collections::BTreeMap;

use kymo_lab::{CompareOptions, Record, Series, compare as compare_runs, report};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A series of a run: its name, its CPU, and how often each value was seen, ns.
type CountedSeries = (String, Option<u32>, Vec<(u64, u64)>);

/// A run as `kymo compare` reads it: JSON of the form kymo-lab-1. `environment`: names and values, as JSON.
#[pyfunction]
#[pyo3(signature = (test, series, started_ns=None, duration_s=None, environment="{}"))]
pub fn result_record(
    test: String,
    series: Vec<CountedSeries>,
    started_ns: Option<u64>,
    duration_s: Option<f64>,
    environment: &str,
) -> PyResult<String> {
    let environment: BTreeMap<String, serde_json::Value> = serde_json::from_str(environment).map_err(wrong)?;
    let mut record = Record::new("kymo", test);
    record.version = env!("CARGO_PKG_VERSION").to_owned();
    record.method = "durations from a trace".to_owned();
    record.started_ns = started_ns;
    record.duration_s = duration_s;
    record.environment = environment;
    record.series = series.into_iter().map(counted).collect();
    serde_json::to_string(&record).map_err(wrong)
}

fn counted((name, cpu, values): CountedSeries) -> Series {
    let mut series = Series { cpu, ..Series::new(name) };
    let mut sum = 0.0;
    for (value, times) in values.into_iter().filter(|(_, times)| *times > 0) {
        series.histogram.add(value, times);
        series.count = series.count.saturating_add(times);
        series.min = Some(series.min.map_or(value, |min| min.min(value)));
        series.max = Some(series.max.map_or(value, |max| max.max(value)));
        sum += value as f64 * times as f64;
    }
    series.mean = (series.count > 0).then(|| sum / series.count as f64);
    series
}

/// Compares two groups of runs, each of the form kymo-lab-1. Gives the document of `kymo compare --json`, and its text.
#[pyfunction]
#[pyo3(signature = (a, b, deadline_ns=None, per_cpu=false, extreme=false))]
pub fn compare(
    py: Python<'_>,
    a: Vec<String>,
    b: Vec<String>,
    deadline_ns: Option<u64>,
    per_cpu: bool,
    extreme: bool,
) -> PyResult<(String, String)> {
    let read = |runs: Vec<String>| {
        let read = |run: String| Record::from_json(run.as_bytes()).map_err(PyValueError::new_err);
        runs.into_iter().map(read).collect::<PyResult<Vec<Record>>>()
    };
    let (a, b) = (read(a)?, read(b)?);
    let (document, text) = py.detach(|| {
        let comparison = compare_runs(&a, &b, CompareOptions { deadline_ns, per_cpu, extreme });
        (serde_json::to_string(&comparison), report::comparison(&comparison).join("\n"))
    });
    Ok((document.map_err(wrong)?, text))
}

fn wrong(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}
