// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who used what, as one JSON document. Times are ns since 1970 (or of the trace's clock), durations ns, sizes bytes.

use std::cmp::Reverse;

use kymo_analyze::usage::{Actor, Durations, FileName, ThreadUse, Transfers};
use kymo_analyze::{Interrupt, Of};
use serde_json::{Map, Value, json};

use super::functions::FunctionUse;
use super::parts::Part;
use super::report::{TopReport, file_label};
use super::text::{is_hard, ranked_files, ranked_processes, ranked_threads};
use crate::verbs::analyze::show;

/// The document. A part that the trace says nothing of is null, and one that is not asked for is not there.
pub fn document(found: &TopReport<'_>) -> String {
    let (from, to) = found.usage.stretch().unzip();
    let idle_ns = found.usage.cpus().map(|(_, used)| used.idle_ns).fold(0, u64::saturating_add);
    let unknown_ns = found.usage.cpus().map(|(_, used)| used.unknown_ns).fold(0, u64::saturating_add);
    let (open, dropped) = found.usage.open_requests();
    let mut document = Map::new();
    let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
    put("schema", "kymo-top-1".into());
    put("from", json!(from));
    put("to", json!(to));
    put("duration_ns", json!(from.zip(to).map(|(from, to)| to.abs_diff(from))));
    put("records", found.totals.records.into());
    put("lost", show::missing(&found.totals.lost));
    put("only", found.recorded.is_restricted.into());
    put("clock_backs", found.clock_backs.into());
    let cpu_time = found.recorded.facts.switches;
    put("idle_ns", json!(cpu_time.then_some(idle_ns)));
    put("unknown_ns", json!(cpu_time.then_some(unknown_ns)));
    put("requests", json!({ "open": open, "left_out": dropped }));
    put("files_left_out", found.usage.files_left_out().into());
    let missing = found.missing.iter().map(|(part, why)| json!({ "part": part.name(), "why": why }));
    put("missing", missing.collect());
    for (part, _) in &found.missing {
        put(key(*part), Value::Null);
    }
    for part in &found.parts {
        put(key(*part), rows(found, *part).into_iter().take(found.limit).collect());
    }
    Value::Object(document).to_string()
}

fn key(part: Part) -> &'static str {
    match part {
        Part::Cpu => "cpus",
        Part::Process => "processes",
        Part::Thread => "threads",
        Part::Irq => "irqs",
        Part::Softirq => "softirqs",
        Part::Device => "devices",
        Part::File => "files",
        Part::Function => "functions",
    }
}

fn rows(found: &TopReport<'_>, part: Part) -> Vec<Value> {
    match part {
        Part::Cpu => cpus(found),
        Part::Process => ranked_processes(found)
            .iter()
            .map(|(actor, used, threads)| {
                let who = json!({ "process": actor.process, "name": actor.name, "threads": threads });
                merged(who, of_thread(found, used))
            })
            .collect(),
        Part::Thread => {
            let all = ranked_threads(found);
            all.into_iter().map(|(actor, used)| merged(who(actor), of_thread(found, used))).collect()
        }
        Part::Irq => interrupts(found, is_hard),
        Part::Softirq => interrupts(found, |interrupt| !is_hard(interrupt)),
        Part::Device => devices(found),
        Part::File => files(found),
        Part::Function => functions(found),
    }
}

/// The members of two objects.
fn merged(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) => {
            first.extend(second);
            Value::Object(first)
        }
        (first, _) => first,
    }
}

fn who(actor: &Actor) -> Value {
    json!({
        "tid": actor.tid,
        "name": if actor.tid == 0 { "idle" } else { actor.name.as_str() },
        "process": actor.process,
        "process_name": actor.process_name,
    })
}

fn cpus(found: &TopReport<'_>) -> Vec<Value> {
    let row = |(number, used): (u32, &kymo_analyze::usage::CpuUse)| {
        json!({
            "cpu": number,
            "has_records": used.has_records,
            "thread_ns": used.thread_ns,
            "interrupt_ns": used.interrupt_ns,
            "other_ns": used.other_ns,
            "idle_ns": used.idle_ns,
            "unknown_ns": used.unknown_ns,
            "inferred_ns": used.inferred_ns,
            "runs": used.runs,
        })
    };
    found.usage.cpus().map(row).collect()
}

fn of_thread(found: &TopReport<'_>, used: &ThreadUse) -> Value {
    let time = &used.cpu;
    let cpu = json!({
        "ns": time.ns,
        "interrupted_ns": time.interrupted_ns,
        "runs": time.runs,
        "longest_ns": time.longest_ns,
        "doubtful_ns": time.doubtful_ns,
        "marks": time.doubt,
    });
    json!({
        "cpu": found.recorded.facts.switches.then_some(cpu),
        "calls": found.recorded.has_transfers.then(|| transfers(&used.calls)),
        "disk": found.recorded.facts.requests.then(|| transfers(&used.disk)),
    })
}

fn transfers(of: &Transfers) -> Value {
    json!({
        "reads": of.reads,
        "writes": of.writes,
        "others": of.others,
        "read_bytes": of.read_bytes,
        "written_bytes": of.written_bytes,
        "failed": of.errors,
        "doubtful": of.doubtful,
        "marks": of.doubt,
    })
}

fn durations(of: &Durations) -> Value {
    json!({
        "count": of.count,
        "total_ns": of.total_ns,
        "mean_ns": of.mean_ns(),
        "longest_ns": of.longest_ns,
        "doubtful": of.doubtful,
        "marks": of.doubt,
    })
}

fn interrupts(found: &TopReport<'_>, is_listed: impl Fn(Interrupt) -> bool) -> Vec<Value> {
    let mut all: Vec<_> = found.usage.interrupts().filter(|(interrupt, ..)| is_listed(*interrupt)).collect();
    all.sort_by_key(|(interrupt, name, of)| (Reverse(of.total_ns), *interrupt, *name));
    let row = |(interrupt, name, of): (Interrupt, kymo_analyze::Name, &Durations)| {
        let number = match interrupt {
            Interrupt::Irq(number) => Some(i64::from(number)),
            Interrupt::Softirq(vec) => Some(i64::from(vec)),
            _ => None,
        };
        merged(json!({ "number": number, "what": interrupt.to_string(), "name": name }), durations(of))
    };
    all.into_iter().map(row).collect()
}

fn devices(found: &TopReport<'_>) -> Vec<Value> {
    let mut all: Vec<_> = found.usage.devices().collect();
    all.sort_by_key(|(number, device)| (Reverse(device.transfers.bytes()), *number));
    let row = |(number, device): (u64, &kymo_analyze::usage::DeviceUse)| {
        let about = json!({
            "device": found.names.of(Of::Device(number)),
            "number": number,
            "times": durations(&device.times),
            "without_issue": device.without_issue,
        });
        merged(about, transfers(&device.transfers))
    };
    all.into_iter().map(row).collect()
}

fn functions(found: &TopReport<'_>) -> Vec<Value> {
    let row = |function: &FunctionUse| {
        json!({
            "function": function.name,
            "samples": function.samples,
            "self_ns": function.self_ns,
            "total_ns": function.total_ns,
        })
    };
    found.functions.iter().map(row).collect()
}

fn files(found: &TopReport<'_>) -> Vec<Value> {
    let row = |file: kymo_analyze::usage::FileUse| {
        let label = file_label(&file.name);
        let about = match file.name {
            FileName::Path(path) => json!({ "file": label, "path": path }),
            FileName::Descriptor { process, fd, made_by, .. } => {
                json!({ "file": label, "path": null, "process": process, "fd": fd, "made_by": made_by })
            }
        };
        merged(about, transfers(&file.transfers))
    };
    ranked_files(found).into_iter().map(row).collect()
}
