// SPDX-License-Identifier: MIT OR Apache-2.0
//! speedscope's JSON [spec/exchange.md 2]: a sampled profile for each thread, each different stack once with its
//! weight.

use std::collections::HashMap;
use std::path::Path;

use kymo_ctf::read::{Loss, Record, Trace};
use serde_json::json;

use super::exporter::{Done, Exporter};
use super::facts::env_text;
use super::output::Output;
use super::stacks::{OfThread, Stacks, Symbols};
use crate::Error;

/// The file.
pub struct Speedscope {
    output: Output,
    name: String,
    stacks: Stacks,
}

impl Speedscope {
    pub fn new(traces: &[Trace], path: &Path, symbols: Symbols) -> Result<Speedscope, Error> {
        let host = traces.first().and_then(|trace| env_text(trace, "hostname")).unwrap_or("");
        let name = traces.first().map_or("", |trace| trace.label.as_str());
        let name = format!("{host}{}{name}", if host.is_empty() { "" } else { ":" });
        Ok(Speedscope { output: Output::create(path)?, name, stacks: Stacks::new(symbols) })
    }
}

impl Exporter for Speedscope {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.stacks.record(record);
        Ok(())
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        self.stacks.loss(loss);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Done, Error> {
        let (threads, are_calls, done) = self.stacks.finish()?;
        let text = document(&self.name, &threads, are_calls).to_string();
        self.output.write(text.as_bytes())?;
        self.output.write(b"\n")?;
        self.output.finish()?;
        Ok(done)
    }
}

fn document(name: &str, threads: &[OfThread], are_calls: bool) -> serde_json::Value {
    let (mut frames, mut places): (Vec<&str>, HashMap<&str, usize>) = (Vec::new(), HashMap::new());
    let mut profiles = Vec::new();
    for thread in threads {
        let samples: Vec<Vec<usize>> = thread
            .stacks
            .iter()
            .map(|(stack, _)| {
                let indices = stack.iter().map(|frame| {
                    *places.entry(frame.as_str()).or_insert_with(|| {
                        frames.push(frame);
                        frames.len() - 1
                    })
                });
                indices.collect()
            })
            .collect();
        let weights: Vec<u64> = thread.stacks.iter().map(|(_, weight)| *weight).collect();
        let sum = weights.iter().fold(0u64, |sum, weight| sum.saturating_add(*weight));
        profiles.push(json!({
            "type": "sampled",
            "name": thread.name,
            "unit": if are_calls { "nanoseconds" } else { "none" },
            "startValue": 0,
            "endValue": sum,
            "samples": samples,
            "weights": weights,
        }));
    }
    let frames: Vec<_> = frames.iter().map(|name| json!({ "name": name })).collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": format!("kymo {}", env!("CARGO_PKG_VERSION")),
        "name": name,
        "shared": { "frames": frames },
        "profiles": profiles,
    })
}
