// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies [spec/view.md 4.10, 4.11]: those of `kymo latency`, over time and as they are distributed.

pub(super) mod cut;
pub(super) mod density;
pub(super) mod index;
pub(super) mod only;
pub(super) mod pass;
pub(super) mod spans;
pub(super) mod tables;

use kymo_analyze::{By, What};

use crate::columns::Answer;
use crate::error::Error;
use crate::names::NameTable;
use crate::opened::{Functions, Opened};
use crate::pairs;
use crate::parameters::Parameters;
use crate::pixels::Pixels;
use crate::questions::begun::begin;
use crate::questions::latencies::index::indexed;
use crate::questions::latencies::only::{Only, kind};
use crate::questions::latencies::pass::{LatencyPass, LatencyRequest, pass};
use crate::questions::latencies::tables::{density_table, histogram_table, point_table, series_table};
use crate::walk::{Stop, Walk, Walked};

fn kinds(parameters: &mut Parameters) -> Result<Vec<What>, Error> {
    let words = parameters.words("what")?;
    let names = || What::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let kinds: Option<Vec<What>> = words.iter().map(|word| kind(word)).collect();
    let kinds = kinds.ok_or_else(|| Error::parameter("what", format!("some of {}", names())))?;
    Ok(if kinds.is_empty() { What::ALL.iter().map(|(what, _)| *what).collect() } else { kinds })
}

fn grouping(parameters: &mut Parameters) -> Result<By, Error> {
    let mut by = By::default();
    for word in parameters.words("by")? {
        match word.as_str() {
            "process" => by.process = true,
            "thread" => by.thread = true,
            "prio" => by.prio = true,
            "cpu" => by.cpu = true,
            _ => return Err(Error::parameter("by", "some of process, thread, prio, cpu")),
        }
    }
    Ok(by)
}

/// Answers `latencies`.
///
/// # Errors
/// Parameters; a span or a filter that is none.
pub fn latencies(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let LatencyAnswer { mut answer, walked, .. } = find(of, parameters, stop, true)?;
    walked.tell(&mut answer);
    Ok(answer)
}

/// An answer on its way: series and points are in it.
pub(super) struct LatencyAnswer<'o> {
    pub answer: Answer,
    pub pass: LatencyPass<'o>,
    pub spans: Vec<String>,
    pub walked: Walked,
}

/// Bins of a window, on a grid where that is asked for.
pub(super) fn bins(of: &Opened, parameters: &mut Parameters) -> Result<Pixels, Error> {
    let (window, bins) = (parameters.window(of)?, parameters.bins()?);
    let is_on_grid = parameters.flag("grid")?;
    Ok(if is_on_grid { Pixels::on_grid(window, bins, of.whole()) } else { Pixels::new(window, bins) })
}

/// What is asked for; without `bins`: of `worst`.
fn request(of: &Opened, parameters: &mut Parameters, bins: Option<Pixels>) -> Result<LatencyRequest, Error> {
    let own = parameters.texts("span");
    let what = kinds(parameters)?;
    let spans = if own.is_empty() && what.contains(&What::Span) { pairs::spans(of) } else { own };
    Ok(LatencyRequest {
        what,
        spans,
        by: grouping(parameters)?,
        limit: parameters.limit(if bins.is_some() { 1000 } else { 20 })?,
        past: parameters.number("past", 0..=u64::MAX)?,
        bins,
        ending: None,
    })
}

/// Finds what is asked for. `with_density`: `latencies`, else `worst`.
pub(super) fn find<'o>(
    of: &'o Opened,
    parameters: &mut Parameters,
    stop: &Stop,
    with_density: bool,
) -> Result<LatencyAnswer<'o>, Error> {
    let bins = if with_density { Some(bins(of, parameters)?) } else { None };
    let window = bins.map_or_else(|| parameters.window(of), |bins| Ok(bins.window()))?;
    let asked = request(of, parameters, bins)?;
    let only = Only::asked(of, parameters, &asked.spans)?;
    let walk = Walk::new(of, window).filtered(parameters)?;
    let mut answer = begin(if with_density { "latencies" } else { "worst" }, of, window);
    let mut notes = Vec::new();
    let (pass, walked, source) = match indexed(of, &walk, &asked, only, &mut notes, stop)? {
        Ok((pass, walked)) => (pass, walked, "index"),
        Err(only) => {
            let (pass, walked) = pass(of, walk, &asked, only, stop)?;
            (pass, walked, "records")
        }
    };
    answer.notes.extend(notes);
    answer.set("source", source);
    if let Some(bins) = bins.filter(|bins| bins.shift().is_some()) {
        let (from, to) = bins.frame();
        answer.set("bins", bins.count());
        answer.set("frame", [answer.time(from), answer.time(to)]);
    }
    answer.set("samples", pass.points.samples);
    answer.set("points_left_out", pass.points.left_out());
    answer.set("spans", asked.spans.clone());
    let lost = walked.losses.sum();
    let missing = if lost.packets > 0 { u64::MAX } else { lost.records };
    let names = NameTable {
        vocabulary: &of.classes.vocabulary,
        devices: pass.devices(),
        spans: &asked.spans,
        keys: pass.spans.keys(),
        functions: &Functions::of(of),
    };
    let series = pass.latency.series();
    let table = series_table(&mut answer, &series, &pass.latency, &names, missing);
    answer.push(table);
    if with_density {
        answer.push(histogram_table(&series));
        let table = density_table(&mut answer, &pass.density);
        answer.push(table);
    }
    let table = point_table(&mut answer, &pass, &series);
    answer.push(table);
    Ok(LatencyAnswer { answer, pass, spans: asked.spans, walked })
}
