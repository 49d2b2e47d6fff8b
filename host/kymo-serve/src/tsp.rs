// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Trace Server Protocol [spec/view.md 10]: the answers of kymo-query in the form that the trace viewers of VS Code
//! and Theia read. One experiment of one trace: what kymo view has opened. No path of a call opens a file.

mod asked;
mod charts;
mod graphs;
mod guard;
mod lines;
mod model;
mod outputs;
mod pieces;
mod reply;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use kymo_query::{Opened, Stop, learn};
use serde_json::{Map, Value, json};

pub use guard::{Admitted, admit, may_read};

use asked::Asked;
use lines::KnownRows;
use model::{count, envelope};
use outputs::{Has, View};
use reply::{Asker, Failure};

/// Version of the protocol.
const VERSION: &str = "0.6.0";
/// Losses that are shown.
const LOSSES: u64 = 4096;
/// How annotations of losses are called.
const LOST: &str = "Lost records";

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: String,
    /// The path below `api`.
    pub path: String,
    /// The body of a POST or PUT; null where there is none.
    pub body: Value,
}

/// What is kept between calls.
pub struct Tsp {
    /// Directories that were opened.
    paths: Vec<PathBuf>,
    known: OnceLock<Arc<TraceFacts>>,
    rows: KnownRows,
}

/// What does not change.
struct TraceFacts {
    has: Has,
    /// Records that the table shows.
    rows: u64,
    losses: Vec<LossMark>,
    properties: Map<String, Value>,
}

/// A loss.
struct LossMark {
    from: i64,
    to: i64,
    text: String,
}

impl Tsp {
    /// Of traces that were opened from these directories.
    pub fn new(paths: Vec<PathBuf>) -> Tsp {
        Tsp { paths, known: OnceLock::new(), rows: KnownRows::default() }
    }

    /// Status and body.
    pub fn respond(&self, of: &Opened, call: &Call, stop: &Stop) -> (u16, Value) {
        match self.answer(Asker { of, stop }, call) {
            Ok(value) => (200, value),
            Err(failure) => (failure.status(), json!({ "title": failure.message() })),
        }
    }

    fn answer(&self, asker: Asker<'_>, call: &Call) -> Result<Value, Failure> {
        let path: Vec<&str> = call.path.split('/').filter(|part| !part.is_empty()).collect();
        match (call.method.as_str(), &path[..]) {
            ("GET", ["health"]) => Ok(json!({ "status": "UP" })),
            ("GET", ["identifier"]) => Ok(json!({
                "version": env!("CARGO_PKG_VERSION"), "productId": "kymo", "tspVersion": VERSION,
                "os": std::env::consts::OS, "osArch": std::env::consts::ARCH,
            })),
            ("GET", ["config", "types"]) => Ok(json!([])),
            ("GET", ["traces"]) => Ok(json!([self.trace(asker)?])),
            ("POST", ["traces"]) => self.open(asker, &Asked::of(&call.body)),
            // What is forgotten is there again at the next call: it is the only one.
            ("GET" | "DELETE", ["traces", id]) if self.is_own(asker, id) => self.trace(asker),
            ("GET", ["experiments"]) => Ok(json!([self.experiment(asker)?])),
            ("POST", ["experiments"]) => {
                let asked = Asked::of(&call.body);
                let ids = asked.value("traces").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let is_own = |id: &Value| id.as_str().is_some_and(|id| self.is_own(asker, id));
                if ids.is_empty() || !ids.iter().all(is_own) {
                    return Err(Failure::missing("traces: this server has one trace, and it is not among them"));
                }
                self.experiment(asker)
            }
            ("GET" | "DELETE" | "PUT", ["experiments", id]) if self.is_own(asker, id) => self.experiment(asker),
            (method, ["experiments", id, rest @ ..]) if self.is_own(asker, id) => {
                self.below(asker, method, rest, &Asked::of(&call.body))
            }
            _ => Err(Failure::missing("there is nothing at this address")),
        }
    }

    /// Calls of the experiment.
    fn below(&self, asker: Asker<'_>, method: &str, path: &[&str], asked: &Asked) -> Result<Value, Failure> {
        let known = self.known(asker)?;
        let find = |id: &str| outputs::find(id, known.has).ok_or_else(|| Failure::missing("there is no such output"));
        match (method, path) {
            ("GET", ["bookmarks"]) => Ok(json!([])),
            ("GET", ["outputs"]) => Ok(outputs::list(known.has)),
            ("GET", ["outputs", "markerSets"]) => Ok(envelope(json!([]))),
            ("GET", ["outputs", id]) => find(id).map(|(_, output)| output),
            ("GET", ["outputs", id, "configTypes"]) => find(id).map(|_| json!([])),
            ("GET", ["outputs", id, "annotations"]) => {
                let (view, _) = find(id)?;
                let categories = if has_marks(view) && !known.losses.is_empty() { vec![LOST] } else { Vec::new() };
                Ok(envelope(json!({ "annotationCategories": categories })))
            }
            ("POST", ["outputs", id, "annotations"]) => {
                let (view, _) = find(id)?;
                annotations(asker, asked, &known, view).map(envelope)
            }
            ("POST", ["outputs", id, "style"]) => find(id).map(|_| envelope(outputs::styles())),
            ("POST", ["outputs", kind, id, what]) => {
                let (view, _) = find(id)?;
                self.ask(asker, (view, *kind, *what), asked, known.rows).map(envelope)
            }
            _ => Err(Failure::missing("there is nothing at this address")),
        }
    }

    /// What is drawn.
    fn ask(&self, asker: Asker<'_>, of: (View, &str, &str), asked: &Asked, rows: u64) -> Result<Value, Failure> {
        match of {
            (View::Records, "table", "columns") => Ok(lines::columns()),
            (View::Records, "table", "lines") => lines::lines(asker, asked, &self.rows, rows),
            (View::Threads, "timeGraph", "tree") => graphs::thread_tree(asker, asked),
            (View::Threads, "timeGraph", "states") => graphs::thread_states(asker, asked),
            (View::Threads, "timeGraph", "arrows") => graphs::arrows(asker, asked),
            (View::Threads, "timeGraph", "tooltip") => graphs::thread_tooltip(asker, asked),
            (View::Cpus, "timeGraph", "tree") => graphs::cpu_tree(asker, asked),
            (View::Cpus, "timeGraph", "states") => graphs::cpu_states(asker, asked),
            (View::Cpus, "timeGraph", "tooltip") => graphs::cpu_tooltip(asker, asked),
            (View::Spans, "timeGraph", "tree") => graphs::span_tree(asker, asked),
            (View::Spans, "timeGraph", "states") => graphs::span_states(asker, asked),
            (View::Spans, "timeGraph", "tooltip") => Ok(json!({})),
            (View::Cpus | View::Spans, "timeGraph", "arrows") => Ok(json!([])),
            (View::Histogram, "XY", "tree") => Ok(charts::histogram_tree(asker)),
            (View::Histogram, "XY", "xy") => charts::histogram(asker, asked),
            (View::Usage, "XY", "tree") => charts::usage_tree(asker, asked),
            (View::Usage, "XY", "xy") => charts::usage(asker, asked),
            (View::Values, "XY", "tree") => charts::values_tree(asker),
            (View::Values, "XY", "xy") => charts::values(asker, asked),
            (View::Latencies, "XY", "tree") => charts::latency_tree(asker, asked),
            (View::Latencies, "XY", "xy") => charts::latencies(asker, asked),
            (View::Statistics, "data", "tree") => charts::statistics(asker, asked),
            _ => Err(Failure::missing("this output has no such part")),
        }
    }

    /// What is asked for once.
    fn known(&self, asker: Asker<'_>) -> Result<Arc<TraceFacts>, Failure> {
        if let Some(known) = self.known.get() {
            return Ok(Arc::clone(known));
        }
        let summary = asker.ask("summary", &[("limit", LOSSES.to_string())])?;
        let (events, losses) = (summary.table("events"), summary.table("losses"));
        let is_shown = |row: &usize| !events.text("name", *row).is_some_and(learn::is_state);
        let records = |row: usize| events.number("records", row).and_then(|records| u64::try_from(records).ok());
        let rows = (0..events.rows()).filter(is_shown).filter_map(records).fold(0, u64::saturating_add);
        let mark = |row: usize| {
            let (from, to) = losses.time("from", row).zip(losses.time("to", row))?;
            let (records, packets) = (losses.number("records", row)?, losses.number("packets", row)?);
            let cpu = losses.number("cpu", row).map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
            let packets = if packets > 0 { format!(" and {packets} packets") } else { String::new() };
            Some(LossMark { from, to, text: format!("{records} records{packets} lost{cpu}") })
        };
        let has_spans = !pairs_are_empty(asker)?;
        let mut properties = Map::new();
        for (key, value) in summary.info("traces")[0]["env"].as_object().into_iter().flatten() {
            properties.insert(key.clone(), json!(value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
        let known = TraceFacts {
            has: Has { switches: asker.of.has_switches(), spans: has_spans, values: charts::has_values(asker) },
            rows: count(rows),
            losses: (0..losses.rows()).filter_map(mark).collect(),
            properties,
        };
        Ok(Arc::clone(self.known.get_or_init(|| Arc::new(known))))
    }

    fn trace(&self, asker: Asker<'_>) -> Result<Value, Failure> {
        let known = self.known(asker)?;
        let (start, end) = asker.of.bounds.unwrap_or((0, 0));
        let path = self.paths.first().map_or_else(String::new, |path| path.display().to_string());
        Ok(json!({
            "name": asker.of.name, "path": path, "UUID": uuid(asker.of), "nbEvents": known.rows,
            "start": start, "end": end, "properties": known.properties, "indexingStatus": "COMPLETED",
        }))
    }

    fn experiment(&self, asker: Asker<'_>) -> Result<Value, Failure> {
        let trace = self.trace(asker)?;
        let part = |name: &str| trace[name].clone();
        Ok(json!({
            "name": part("name"), "UUID": part("UUID"), "nbEvents": part("nbEvents"), "start": part("start"),
            "end": part("end"), "indexingStatus": part("indexingStatus"), "traces": [trace],
        }))
    }

    fn is_own(&self, asker: Asker<'_>, id: &str) -> bool {
        id == uuid(asker.of)
    }

    /// A client names the path that its user chose. Only its text is looked at: it must be ours, or below it.
    fn open(&self, asker: Asker<'_>, asked: &Asked) -> Result<Value, Failure> {
        let path = asked.text("uri").ok_or_else(|| Failure::wrong("uri: the path of a trace"))?;
        let is_plain = Path::new(path).components().all(|part| !matches!(part, std::path::Component::ParentDir));
        if is_plain && self.paths.iter().any(|own| Path::new(path).starts_with(own)) {
            return self.trace(asker);
        }
        Err(Failure::missing("this server shows the trace that kymo view was started with, and no other"))
    }
}

/// Whether losses are marked in it.
fn has_marks(view: View) -> bool {
    !matches!(view, View::Records | View::Statistics)
}

fn pairs_are_empty(asker: Asker<'_>) -> Result<bool, Failure> {
    Ok(asker.ask("schema", &[])?.table("pairs").rows() == 0)
}

/// Losses in the window that is asked for.
fn annotations(asker: Asker<'_>, asked: &Asked, known: &TraceFacts, view: View) -> Result<Value, Failure> {
    let range = asked.range(asker.of)?;
    let chosen = asked.value("requested_marker_categories").and_then(Value::as_array);
    let is_chosen = chosen.is_none_or(|chosen| chosen.is_empty() || chosen.iter().any(|name| name == LOST));
    if !has_marks(view) || !is_chosen {
        return Ok(json!({ "annotations": {} }));
    }
    let is_inside = |loss: &&LossMark| loss.from <= range.end && loss.to >= range.start;
    let style = json!({ "values": { "color": "#c8102e", "opacity": 0.3, "height": 1 } });
    let one = |loss: &LossMark| {
        json!({
            "time": loss.from, "duration": loss.to.saturating_sub(loss.from), "entryId": -1, "type": "CHART",
            "label": loss.text, "style": style,
        })
    };
    let list: Vec<Value> = known.losses.iter().filter(is_inside).map(one).collect();
    Ok(match list.is_empty() {
        true => json!({ "annotations": {} }),
        false => json!({ "annotations": { LOST: list } }),
    })
}

/// The number of trace and experiment: the same each time that the same trace is opened.
fn uuid(of: &Opened) -> String {
    let fnv = |seed: u64, bytes: &[u8]| {
        bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let (first, last) = of.bounds.unwrap_or((0, 0));
    let text = format!("{first} {last} {}", of.name);
    let [high, low] = [0xcbf2_9ce4_8422_2325, 0x6c62_272e_07bb_0142].map(|seed| fnv(seed, text.as_bytes()));
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Opened {
        Opened::new(Vec::new(), kymo_index::Indexes::default(), "t".to_owned(), Vec::new())
    }

    fn ask(method: &str, path: &str, body: Value) -> (u16, Value) {
        let tsp = Tsp::new(vec![PathBuf::from("/traces/t")]);
        let call = Call { method: method.to_owned(), path: path.to_owned(), body };
        tsp.respond(&none(), &call, &Stop::default())
    }

    #[test]
    fn no_path_but_our_own_is_opened() {
        let open = |uri: &str| ask("POST", "traces", json!({ "parameters": { "uri": uri, "name": "x" } })).0;
        for uri in ["/traces/t", "/traces/t/", "/traces/t/kernel"] {
            assert_eq!(open(uri), 200, "{uri}");
        }
        for uri in ["/etc", "/traces", "/traces/tt", "/traces/t/../../etc", "", "t"] {
            assert_eq!(open(uri), 404, "{uri}");
        }
        assert_eq!(ask("POST", "traces", json!({})).0, 400);
    }

    #[test]
    fn a_trace_without_a_record_has_its_views_and_none_of_the_scheduler() {
        let (status, experiments) = ask("GET", "experiments", Value::Null);
        assert_eq!(status, 200);
        let id = experiments[0]["UUID"].as_str().unwrap();
        assert_eq!(id, uuid(&none()));
        let (status, list) = ask("GET", &format!("experiments/{id}/outputs"), Value::Null);
        assert_eq!((status, list.as_array().map(Vec::len)), (200, Some(4)));
        let table = list[0]["id"].as_str().unwrap();
        let path = format!("experiments/{id}/outputs/table/{table}/lines");
        let (status, lines) = ask("POST", &path, json!({ "parameters": { "requested_table_index": 0 } }));
        assert_eq!((status, &lines["model"]["lines"]), (200, &json!([])));
        for path in ["nothing", "experiments/1", &format!("experiments/{id}/outputs/x"), ""] {
            let (status, error) = ask("GET", path, Value::Null);
            assert!(status == 404 && error["title"].is_string(), "{path}");
        }
    }
}
