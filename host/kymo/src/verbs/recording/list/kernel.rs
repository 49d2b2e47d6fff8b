// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo list -k`: the events of the running kernel, as tracefs describes them. Nothing is switched on.

use std::collections::BTreeMap;
use std::process::ExitCode;

use kymo_command::figures::plural;
use kymo_ctf::write::EventClass;
use kymo_ftrace::format::{self, EventFormat, Field, FieldEncoding, PageFormat};
use kymo_ftrace::{Decoder, Naming};
use kymo_tracefs::{EventName, Tracefs, Wanted};
use serde_json::{Value, json};

use super::args::ListArgs;

/// A kernel event and its fields.
struct Described {
    name: EventName,
    /// Its name in a trace.
    traced: String,
    fields: Vec<DescribedField>,
}

struct DescribedField {
    name: String,
    /// C type, with `[n]` for arrays and `[]` for what varies in length.
    ty: String,
    /// Its name in a trace; `None` where traces do not have it.
    traced: Option<String>,
    /// What a trace has instead of its value, as `prio - 100`; `None` where it is the same.
    value: Option<String>,
}

/// Runs `kymo list -k`.
pub(super) fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let tracefs = Tracefs::find()?;
    let events = tracefs.events()?;
    let wanted = if args.what.is_empty() { Wanted::parse(&["all".to_owned()])? } else { Wanted::parse(&args.what)? };
    let chosen: Vec<EventName> = wanted.choose(&events)?.into_iter().map(|chosen| chosen.event).collect();
    let with_fields = args.verbose || !args.what.is_empty();
    if with_fields {
        let described = describe_all(&tracefs, &chosen);
        match args.show.json() {
            true => print_json(described.iter().map(to_json)),
            false => described.iter().for_each(print),
        }
    } else if args.show.json() {
        print_json(chosen.iter().map(name_json));
    } else {
        print_names(&chosen);
    }
    if chosen.is_empty() {
        explain(&wanted, args);
    }
    Ok(ExitCode::from(u8::from(chosen.is_empty())))
}

/// Groups may have no event here; a pattern without one is an error before this.
fn explain(wanted: &Wanted, args: &ListArgs) {
    if wanted.wants_marker_only() {
        eprintln!(
            "kymo: 'mark' has no events of the kernel: `kymo record -k mark` records what is written to its marker file"
        );
    } else {
        eprintln!("kymo: this kernel has no events of the group {}; `kymo list -k` has all", args.what.join(", "));
    }
}

fn describe_all(tracefs: &Tracefs, names: &[EventName]) -> Vec<Described> {
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        match describe(tracefs, name) {
            Ok(described) => all.push(described),
            Err(error) => eprintln!("kymo: {name} cannot be described: {error:#}"),
        }
    }
    all
}

fn describe(tracefs: &Tracefs, name: &EventName) -> anyhow::Result<Described> {
    let format = format::parse_event(&tracefs.format(name)?)?;
    Ok(Described::new(name.clone(), &format))
}

impl Described {
    fn new(name: EventName, format: &EventFormat) -> Described {
        let field = |field: &Field| DescribedField {
            name: field.name.clone(),
            ty: type_text(field),
            traced: traced(&name.system, format, Some(&field.name)).fields.into_iter().next().map(|field| field.name),
            value: value_in_trace(&name.system, &field.name),
        };
        let fields = format.fields.iter().map(field).collect();
        Described { traced: traced(&name.system, format, None).name, name, fields }
    }
}

/// What becomes of an event, or of one of its fields, in a trace with LTTng's names.
fn traced(system: &str, format: &EventFormat, field: Option<&String>) -> EventClass {
    // The layout of pages has no part in names.
    let page = PageFormat { time_offset: 0, commit_offset: 8, commit_bytes: 8, data_offset: 16, data_bytes: 4080 };
    Decoder::new(page).add(system, format, Naming::Lttng, field.map(std::slice::from_ref))
}

/// `prio - 100`, `rwbs as bits`: where the table of names changes a value too.
fn value_in_trace(system: &str, field: &str) -> Option<String> {
    let key = format!("{system}:*.{field}");
    Naming::table().find(|(kernel, traced)| *kernel == key && traced.contains(' ')).map(|(_, traced)| traced)
}

fn type_text(field: &Field) -> String {
    let ty = field.ty.as_str();
    // Types of such data may already say that there are several.
    let element = ty.strip_suffix("[]").unwrap_or(ty).trim_end();
    match field.kind {
        FieldEncoding::Number | FieldEncoding::Opaque => ty.to_owned(),
        FieldEncoding::Array { count, .. } | FieldEncoding::Chars { count } => format!("{element}[{count}]"),
        FieldEncoding::DataLoc { .. } | FieldEncoding::RelLoc { .. } | FieldEncoding::Rest { .. } => {
            format!("{element}[]")
        }
    }
}

fn print_names(names: &[EventName]) {
    let mut systems: BTreeMap<&str, Vec<&EventName>> = BTreeMap::new();
    for name in names {
        systems.entry(&name.system).or_default().push(name);
    }
    println!("{} in {}:", plural(names.len() as u64, "kernel event"), plural((systems.len()) as u64, "system"));
    for (system, names) in &systems {
        println!("{:>6}  {system}", names.len());
    }
    for names in systems.values() {
        println!();
        names.iter().for_each(|name| println!("{name}"));
    }
}

fn print(event: &Described) {
    let differs = event.traced != event.name.name;
    let traced = if differs { format!("  (in a trace: {})", event.traced) } else { String::new() };
    println!("{}{traced}", event.name);
    for field in &event.fields {
        let traced = match (&field.value, &field.traced) {
            (_, None) => "  (not in a trace)".to_owned(),
            (Some(value), _) => format!("  (in a trace: {value})"),
            (None, Some(traced)) if *traced != field.name => format!("  (in a trace: {traced})"),
            (None, Some(_)) => String::new(),
        };
        println!("    {} {}{traced}", field.ty, field.name);
    }
}

fn print_json(events: impl Iterator<Item = Value>) {
    println!("{:#}", events.collect::<Value>());
}

fn name_json(name: &EventName) -> Value {
    json!({ "name": name.to_string(), "name_in_trace": Naming::Lttng.event(&name.system, &name.name) })
}

fn to_json(event: &Described) -> Value {
    let field = |field: &DescribedField| json!({ "name": field.name, "type": field.ty, "name_in_trace": field.traced });
    let fields: Vec<Value> = event.fields.iter().map(field).collect();
    json!({ "name": event.name.to_string(), "name_in_trace": event.traced, "fields": fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(system: &str, text: &str) -> Described {
        let format = format::parse_event(text).unwrap();
        Described::new(EventName::new(system, &format.name), &format)
    }

    fn fields(event: &Described) -> Vec<(&str, &str, Option<&str>)> {
        event.fields.iter().map(|field| (field.ty.as_str(), field.name.as_str(), field.traced.as_deref())).collect()
    }

    #[test]
    fn values_that_differ_in_a_trace() {
        assert_eq!(value_in_trace("sched", "prev_prio").as_deref(), Some("prev_prio - 100"));
        assert_eq!(value_in_trace("block", "rwbs").as_deref(), Some("rwbs as bits"));
        assert_eq!(value_in_trace("sched", "prev_pid"), None);
        assert_eq!(value_in_trace("signal", "prio"), None);
    }

    const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                          \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

    #[test]
    fn types_and_names_of_fields() {
        let text = format!(
            "name: sched_move\nID: 7\n{COMMON}\
             \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:__data_loc char[] path;\toffset:28;\tsize:4;\tsigned:0;\n\
             \tfield:u32 parts[2];\toffset:32;\tsize:8;\tsigned:0;\n\
             \tfield:const void * at;\toffset:40;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n"
        );
        let event = described("sched", &text);
        assert_eq!(event.traced, "sched_move");
        assert_eq!(
            fields(&event),
            [
                ("char[16]", "comm", Some("comm")),
                ("pid_t", "prev_pid", Some("prev_tid")),
                ("char[]", "path", Some("path")),
                ("u32[2]", "parts", Some("parts")),
                ("const void *", "at", Some("at")),
            ]
        );
        assert_eq!(
            to_json(&event)["fields"][1],
            json!({"name": "prev_pid", "type": "pid_t", "name_in_trace": "prev_tid"})
        );
    }

    #[test]
    fn what_a_trace_does_not_have() {
        let text = format!(
            "name: sys_enter_close\nID: 8\n{COMMON}\
             \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n"
        );
        let event = described("syscalls", &text);
        assert_eq!(event.traced, "syscall_entry_close");
        assert_eq!(fields(&event), [("int", "__syscall_nr", None), ("unsigned int", "fd", Some("fd"))]);
        assert_eq!(to_json(&event)["fields"][0]["name_in_trace"], Value::Null);
    }
}
