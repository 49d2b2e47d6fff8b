// SPDX-License-Identifier: MIT OR Apache-2.0
//! What babeltrace2 reads, through its Python bindings, which give every value exactly; and whether `kymo read` agrees.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::trace::NOT_KNOWN;
use crate::{Lab, Read, Record, paths};

/// The Python that has babeltrace2's bindings: Debian's own, before others in PATH.
fn python() -> Option<&'static str> {
    static PYTHON: OnceLock<Option<&'static str>> = OnceLock::new();
    *PYTHON.get_or_init(|| {
        let works = |python: &&str| {
            let output = Command::new(python).args(["-c", "import bt2"]).output();
            output.is_ok_and(|output| output.status.success())
        };
        ["/usr/bin/python3", "python3"].into_iter().find(works)
    })
}

/// Fails unless babeltrace2 reads the same records and losses from `dir` as `read`. False, with a visible skip, where
/// it is not installed.
#[track_caller]
pub fn agrees(lab: &Lab, dir: &Path, read: &Read) -> bool {
    let Some(python) = python() else {
        crate::skip(lab.name(), "no python3 with babeltrace2's bindings (Debian: python3-bt2)");
        return false;
    };
    let mut command = lab.command(python);
    command.arg(paths::programs().with_file_name("tools").join("bt2_json.py")).arg(dir);
    let outcome = lab.start(command).wait().expect(0);
    let (mut records, mut losses) = (Vec::new(), Vec::new());
    for line in outcome.stdout.lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error} in {line}"));
        if value.get("lost").is_some() { losses.push(value) } else { records.push(value) }
    }
    // Where nobody asked for the state dump (`--state`), kymo read leaves it out.
    let is_state = |event: &str| event.starts_with("lttng_statedump_") || event.starts_with("kymo_statedump_");
    if !read.records.iter().any(|record| is_state(&record.event)) {
        records.retain(|record| !record["event"].as_str().is_some_and(is_state));
    }
    assert_eq!(records.len(), read.records.len(), "records by babeltrace2, and by kymo read");
    for (theirs, ours) in in_one_order(&records).into_iter().zip(in_our_order(&read.records)) {
        if let Err(what) = same_record(theirs, ours) {
            panic!("{what:.600}:\nbabeltrace2 {:.600}\nkymo read   {:.600}", theirs.to_string(), format!("{ours:?}"));
        }
    }
    let lost: u64 = losses.iter().map(|loss| loss["lost"].as_u64().expect("a count")).sum();
    assert_eq!(lost, read.lost(), "records lost by babeltrace2, and by kymo read");
    let mut theirs: Vec<_> =
        losses.iter().map(|loss| ["from", "to", "lost"].map(|key| loss[key].as_u64().expect("a number"))).collect();
    let mut ours: Vec<_> = read.losses.iter().map(|loss| [loss.from, loss.to, loss.records]).collect();
    theirs.sort();
    ours.sort();
    let near = |a: &[u64; 3], b: &[u64; 3]| a[0].abs_diff(b[0]) <= 1 && a[1].abs_diff(b[1]) <= 1 && a[2] == b[2];
    let same = theirs.len() == ours.len() && theirs.iter().zip(&ours).all(|(theirs, ours)| near(theirs, ours));
    assert!(same, "losses [from, to, records] by babeltrace2: {theirs:?}, and by kymo read: {ours:?}");
    true
}

/// Of a trace of any tracer: fails unless babeltrace2 reads the same events with the same clock and payload from `dir`
/// as `kymo read` does. How many; `None`, with a visible skip, where babeltrace2's Python bindings are not installed.
#[track_caller]
pub fn agrees_on_events(lab: &Lab, dir: &Path) -> Option<usize> {
    let Some(python) = python() else {
        crate::skip(lab.name(), "no python3 with babeltrace2's bindings (Debian: python3-bt2)");
        return None;
    };
    let mut command = lab.command(python);
    command.arg(paths::programs().with_file_name("tools").join("bt2_json.py")).arg("--events").arg(dir);
    let theirs = in_any_order(&lab.start(command).wait().expect(0).stdout);
    let mut command = lab.command(paths::kymo());
    command.args(["read", "--json", "--state"]).arg(dir);
    let ours = in_any_order(&lab.start(command).wait().expect(0).stdout);
    assert_eq!(theirs.len(), ours.len(), "records by babeltrace2, and by kymo read");
    let texts: HashSet<(String, String)> = ours.iter().flat_map(texts).collect();
    let mut ours = ours;
    for (at, theirs) in theirs.iter().enumerate() {
        let key = |record: &Value| (record["cycles"].clone(), record["event"].clone());
        // Two CPUs may write the same event in the same cycle.
        let equal = (at..ours.len()).take_while(|other| key(&ours[*other]) == key(&ours[at]));
        let same = equal.into_iter().find(|other| same_event(theirs, &ours[*other], &texts).is_ok());
        ours.swap(at, same.unwrap_or(at));
        if let Err(what) = same_event(theirs, &ours[at], &texts) {
            panic!("{what:.600}:\nbabeltrace2 {:.600}\nkymo read   {:.600}", theirs.to_string(), ours[at].to_string());
        }
    }
    Some(ours.len())
}

/// Fails unless babeltrace 1.5 prints the same records from `dir` as babeltrace2 does, with clock cycles. How many;
/// `None`, with a visible skip, where one of them is not installed. KYMO_BT15 names another babeltrace 1.5.
#[track_caller]
pub fn first_agrees(lab: &Lab, dir: &Path) -> Option<usize> {
    let first = std::env::var("KYMO_BT15").unwrap_or_else(|_| "babeltrace".to_owned());
    for (command, package) in [(first.as_str(), "babeltrace"), ("babeltrace2", "babeltrace2")] {
        if Command::new(command).arg("--help").output().is_err() {
            crate::skip(lab.name(), &format!("no {command} (Debian: {package})"));
            return None;
        }
    }
    let (first, second) = (printed(lab, lab.command(&first), dir), printed(lab, lab.command("babeltrace2"), dir));
    same_text("babeltrace 1.5", &first, &second);
    Some(first.len())
}

/// Fails unless babeltrace2 2.1 or later prints the same records from `dir` as the babeltrace2 that is installed, with
/// clock cycles. How many; `None`, with a visible skip, where one of them is not there. KYMO_BT21_ROOT is the folder of
/// a system that has it, as scripts/babeltrace.sh makes one.
#[track_caller]
pub fn latest_agrees(lab: &Lab, dir: &Path) -> Option<usize> {
    let root = PathBuf::from(std::env::var_os("KYMO_BT21_ROOT").unwrap_or_default());
    if !root.join("usr/bin/babeltrace2").exists() {
        let why = "KYMO_BT21_ROOT names no system with babeltrace2 2.1 (scripts/babeltrace.sh makes one)";
        crate::skip(lab.name(), why);
        return None;
    }
    if Command::new("babeltrace2").arg("--help").output().is_err() {
        crate::skip(lab.name(), "no babeltrace2 (Debian: babeltrace2)");
        return None;
    }
    // It sees nothing but that system: the files go there.
    let copy = tempfile::tempdir_in(root.join("tmp")).expect("a folder in the other system");
    for entry in std::fs::read_dir(dir).expect("the trace").flatten().filter(|entry| entry.path().is_file()) {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a file of our own");
    }
    let mut command = lab.command("chroot");
    command.arg(&root).arg("babeltrace2");
    let seen = Path::new("/").join(copy.path().strip_prefix(&root).expect("a folder in it"));
    let (latest, second) = (printed(lab, command, &seen), printed(lab, lab.command("babeltrace2"), dir));
    same_text("babeltrace2 2.1", &latest, &second);
    Some(latest.len())
}

/// What a babeltrace prints of the records of a trace, one a line. Losses and whatever else it says is on standard
/// error. Records of one time may come in any order.
#[track_caller]
fn printed(lab: &Lab, mut command: Command, dir: &Path) -> Vec<String> {
    command.args(["--clock-cycles", "--no-delta"]).arg(dir);
    let text = lab.start(command).wait().expect(0).stdout;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Fails unless `name` prints the same as babeltrace2 2.0.
#[track_caller]
fn same_text(name: &str, lines: &[String], second: &[String]) {
    for (line, second) in lines.iter().zip(second) {
        // Behind an empty text babeltrace2 2.0.4 may print that of the last record.
        let is_same = line == second || line.split_once("= \"\"").is_some_and(|(begin, _)| second.starts_with(begin));
        assert!(is_same, "{name}, and babeltrace2:\n{line}\n{second}");
    }
    assert_eq!(lines.len(), second.len(), "records by {name}, and by babeltrace2");
}

/// The texts of a record, with the names of their fields.
fn texts(record: &Value) -> impl Iterator<Item = (String, String)> + '_ {
    let fields = record["fields"].as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
}

/// The same event with the same payload. `known`: all texts that kymo read shows.
fn same_event(theirs: &Value, ours: &Value, known: &HashSet<(String, String)>) -> Result<(), String> {
    if theirs["event"] != ours["event"] {
        return Err("event".into());
    }
    // Written anew by babeltrace2, text has no length any more, and the field that had it is one like others.
    let all = ours["fields"].as_object().expect("fields");
    let visible = all.iter().filter(|(name, _)| !is_length_of_other(name, all));
    let visible: Map<String, Value> = visible.map(|(name, value)| (name.clone(), value.clone())).collect();
    // babeltrace2 2.0.4 shows the last record's text in place of an empty one: one that kymo read shows there.
    let mut theirs = theirs["fields"].clone();
    for (name, value) in visible.iter().filter(|(_, value)| *value == "") {
        if theirs[name].as_str().is_some_and(|text| known.contains(&(name.clone(), text.to_owned()))) {
            theirs[name] = value.clone();
        }
    }
    same_fields(&theirs, &visible)
}

/// Records of equal time may come in any order from different streams; those of one event of one stream keep theirs.
#[track_caller]
fn in_any_order(lines: &str) -> Vec<Value> {
    let record = |line: &str| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error} in {line}"))
    };
    let mut records: Vec<Value> = lines.lines().map(record).filter(|record| record.get("cycles").is_some()).collect();
    records.sort_by_key(|record| (record["cycles"].as_u64(), record["event"].as_str().map(str::to_owned)));
    records
}

/// Records of equal time may come in any order from different streams.
fn in_one_order(records: &[Value]) -> Vec<&Value> {
    let mut sorted: Vec<&Value> = records.iter().collect();
    sorted.sort_by_key(|record| (["cycles", "cpu", "tid"].map(|key| record[key].as_u64()), record["event"].as_str()));
    sorted
}

fn in_our_order(records: &[Record]) -> Vec<&Record> {
    let mut sorted: Vec<&Record> = records.iter().collect();
    let numbers = |record: &Record| [record.cycles, record.cpu.unwrap_or(u64::from(u32::MAX)), record.tid].map(Some);
    sorted.sort_by_key(|record| (numbers(record), Some(record.event.as_str())));
    sorted
}

fn same_record(theirs: &Value, ours: &Record) -> Result<(), String> {
    let head = |name: &str, ours: Value| match theirs[name] == ours {
        true => Ok(()),
        false => Err(format!("{name} is {} and {ours}", theirs[name])),
    };
    // babeltrace2 goes from cycles to nanoseconds by way of a double; cycles are what must be the same.
    if theirs["time"].as_u64().is_none_or(|time| time.abs_diff(ours.time) > 1) {
        return Err(format!("time is {} and {}", theirs["time"], ours.time));
    }
    head("cycles", ours.cycles.into())?;
    head("cpu", ours.cpu.unwrap_or(u64::from(u32::MAX)).into())?;
    // The program of a kernel's record is what kymo read found out; babeltrace2 only has the thread.
    if theirs.get("pid").is_some() {
        head("proc", ours.proc.as_str().into())?;
        head("pid", ours.pid.into())?;
    }
    // A mark may come from nobody that says who it is.
    let tid = if ours.tid == NOT_KNOWN { Value::from(-1) } else { ours.tid.into() };
    head("tid", tid)?;
    head("event", ours.event.as_str().into())?;
    same_fields(&theirs["contexts"], &ours.contexts)?;
    same_fields(&theirs["fields"], &ours.fields)
}

fn same_fields(theirs: &Value, ours: &Map<String, Value>) -> Result<(), String> {
    let fields = theirs.as_object().ok_or("no fields")?;
    let visible: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| !is_length_of_other(name, fields))
        .map(|(name, value)| (name.clone(), shown(name, value, fields)))
        .collect();
    if !visible.keys().eq(ours.keys()) {
        return Err(format!("fields are {:?} and {:?}", visible.keys(), ours.keys()));
    }
    for (name, value) in &visible {
        if !same_value(value, &ours[name]) {
            return Err(format!("{name} is {value} and {}", ours[name]));
        }
    }
    Ok(())
}

/// What is meant by a value: a text of length 0 has no text. (babeltrace2 2.0.4 shows the last record's in its place.)
fn shown(name: &str, value: &Value, fields: &Map<String, Value>) -> Value {
    let is_empty = fields.get(&format!("_{name}_length")).is_some_and(|length| length == 0);
    if value.is_string() && is_empty { Value::from("") } else { value.clone() }
}

/// CTF 1.8 has the length of `x` as a field `_x_length`; kymo read does not show it.
fn is_length_of_other(name: &str, fields: &Map<String, Value>) -> bool {
    let other = name.strip_prefix('_').and_then(|name| name.strip_suffix("_length"));
    other.is_some_and(|other| fields.contains_key(other))
}

/// `theirs` as tools/bt2_json.py writes it.
fn same_value(theirs: &Value, ours: &Value) -> bool {
    match theirs {
        Value::Object(tagged) => {
            if let Some(bits) = tagged.get("f32") {
                let theirs = f32::from_bits(bits.as_u64().expect("bits") as u32);
                return same_float(f64::from(theirs), &float32(ours));
            }
            if let Some(bits) = tagged.get("f64") {
                return same_float(f64::from_bits(bits.as_u64().expect("bits")), &float64(ours));
            }
            if !tagged.contains_key("enum") {
                // A structure.
                return ours.as_object().is_some_and(|ours| same_fields(theirs, ours).is_ok());
            }
            let label = tagged["labels"].get(0).cloned().unwrap_or(Value::Null);
            match ours {
                Value::Bool(value) => {
                    tagged["enum"] == u64::from(*value) && label.as_str() == Some(if *value { "true" } else { "false" })
                }
                _ => tagged["enum"] == ours["value"] && label == ours["label"],
            }
        }
        Value::Array(elements) => match ours {
            Value::Array(ours) => {
                elements.len() == ours.len() && elements.iter().zip(ours).all(|(theirs, ours)| same_value(theirs, ours))
            }
            Value::String(hex) => {
                let bytes = elements.iter().map(|byte| format!("{:02x}", byte.as_u64().expect("a byte")));
                bytes.collect::<String>() == *hex
            }
            _ => false,
        },
        _ => theirs == ours,
    }
}

fn same_float(theirs: f64, ours: &Option<f64>) -> bool {
    ours.is_some_and(|ours| ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()))
}

/// A float as `kymo read --json` shows it.
pub fn float64(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// The same of 32 bits: the digits are the shortest that give back those bits.
pub fn float32(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.to_string().parse::<f32>().ok().map(f64::from),
        _ => float64(value),
    }
}
