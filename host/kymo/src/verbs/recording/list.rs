// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo list`: programs that can be recorded now, and the events of programs and files; of the kernel in `kernel`, of
//! the state dump in `state`, what of a file can be probed in `places`.
//!
//! A file's events come from its section `kymo_events` [spec/event.md 3.1]; the file is not run.

mod args;
mod kernel;
mod places;
mod state;

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use kymo_abi::RingKind;
use kymo_abi::desc::{Desc, EnumDesc, EventDesc, FieldType, Walk};
use kymo_collect::{Elsewhere, Patterns, RunningProgram, RuntimeDir, elsewhere, near, other_users_dirs, running};
use object::{Object as _, ObjectSection as _};
use serde_json::{Value, json};

use kymo_command::figures::plural;
use kymo_command::terminal::{Style, paint};

pub use args::ListArgs;

/// How long one program may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Programs that are named although they cannot be listed.
const ELSEWHERE_SHOWN: usize = 5;

/// Events of one program or file.
struct DescribedEvents {
    events: Vec<EventDesc>,
    enums: Vec<EnumDesc>,
    /// What was refused.
    bad: Vec<String>,
}

/// Runs the verb.
pub fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    args.show.begin();
    if args.kernel {
        args.show.page();
        return kernel::run(&args);
    }
    if args.state {
        return Ok(state::run(args.show.json()));
    }
    let (files, patterns): (Vec<_>, Vec<_>) = args.what.iter().cloned().partition(|what| is_file(what));
    let choice = places::Choice::new(&patterns);
    let wanted = Patterns::new(&patterns, &[])?;
    if files.is_empty() {
        return list_running(&args, &wanted, !patterns.is_empty());
    }
    let mut all = Vec::new();
    let mut is_empty = true;
    args.show.page();
    for file in &files {
        let mut found = read_file(Path::new(file))?;
        let had_events = !found.events.is_empty();
        found.events.retain(|event| wanted.want(&event.full_name()));
        let places = choice.of(Path::new(file));
        is_empty &= found.events.is_empty() && places.is_empty();
        for reason in &found.bad {
            eprintln!("kymo: {file}: {reason}");
        }
        if args.show.json() {
            let mut value = json!({ "file": file, "events": events_json(&found) });
            places.add_to(&mut value);
            all.push(value);
            continue;
        }
        if found.events.is_empty() {
            let why = match had_events {
                true => "no event matches the pattern",
                false if !places.is_empty() => "no tracepoints of kymo; what can be probed (kymo record -U) follows",
                false => {
                    "no tracepoints of kymo (no section kymo_events); libraries that it loads may have some. Put tracepoints into it \
                     (#include <kymo/tracepoint.h>), or record it with `kymo record --with malloc`"
                }
            };
            eprintln!("kymo: {file}: {why}");
        } else {
            println!("{file}: {}", plural(found.events.len() as u64, "event"));
            print_events(&found);
        }
        places.print(file, args.verbose || !patterns.is_empty());
    }
    if args.show.json() {
        println!("{:#}", Value::Array(all));
    }
    Ok(ExitCode::from(u8::from(is_empty)))
}

/// A path is what has a slash, or exists and cannot be a pattern.
fn is_file(what: &str) -> bool {
    what.contains('/') || (!what.contains([':', '*', '?', '[']) && Path::new(what).is_file())
}

fn list_running(args: &ListArgs, wanted: &Patterns, by_pattern: bool) -> anyhow::Result<ExitCode> {
    let mut dirs = vec![RuntimeDir::own()?];
    for other in other_users_dirs() {
        if other.path() != dirs[0].path() {
            dirs.push(other);
        }
    }
    let programs = running(&dirs, PATIENCE);
    let names: Vec<String> =
        programs.iter().flat_map(|program| program.events.iter().map(EventDesc::full_name)).collect();
    let mut shown = 0;
    let mut all = Vec::new();
    for program in programs.iter() {
        let events = program.events.iter().filter(|event| wanted.want(&event.full_name())).cloned().collect();
        let found =
            DescribedEvents { events, enums: program.enums.clone(), bad: program.caveat.clone().into_iter().collect() };
        if by_pattern && found.events.is_empty() {
            continue;
        }
        shown += 1;
        if args.show.json() {
            all.push(program_json(program, &found));
            continue;
        }
        if shown == 1 {
            println!("{:>8}  {:15}  {:8}  {:>6}  EXECUTABLE", "PID", "NAME", "RING", "EVENTS");
        }
        let ring = program.ring.map_or("?", RingKind::name);
        println!("{:>8}  {:15}  {ring:8}  {:>6}  {}", program.pid, program.comm, program.events.len(), program.exe);
        if program.pid != program.vpid {
            println!("{:>8}  process {} inside of its container", "", program.vpid);
        }
        if let Some(caveat) = &program.caveat {
            println!("{:>8}  not complete: {caveat}", "");
        }
        if args.verbose || by_pattern {
            print_events(&found);
        }
    }
    if args.show.json() {
        println!("{:#}", Value::Array(all));
        return Ok(ExitCode::from(u8::from(shown == 0)));
    }
    if shown == 0 {
        explain(&programs, &names, args, &dirs);
    }
    if !by_pattern {
        tell_elsewhere(&programs, &dirs);
    }
    Ok(ExitCode::from(u8::from(shown == 0)))
}

/// Why nothing was listed.
fn explain(programs: &[RunningProgram], names: &[String], args: &ListArgs, dirs: &[RuntimeDir]) {
    if programs.is_empty() {
        let places: Vec<_> = dirs.iter().map(|dir| dir.path().display().to_string()).collect();
        eprintln!(
            "kymo: no running program with tracepoints of kymo was found in {}; `kymo list ./program` looks into a file, \
             `kymo record -- ./program` starts one",
            places.join(", ")
        );
        return;
    }
    for pattern in &args.what {
        let near = near(pattern, names, 5);
        let hint = if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) };
        eprintln!(
            "kymo: '{pattern}' matches none of the {} of {}{hint}",
            plural(names.len() as u64, "event"),
            plural(programs.len() as u64, "program")
        );
    }
}

/// Programs with libkymo.so that are not found here.
fn tell_elsewhere(programs: &[RunningProgram], dirs: &[RuntimeDir]) {
    let found = elsewhere(dirs, |pid| programs.iter().any(|program| program.pid == pid));
    elsewhere_lines(&found).iter().for_each(|line| eprintln!("kymo: {line}"));
}

/// What is said of them: of many with one name and one reason, the first.
fn elsewhere_lines(found: &[Elsewhere]) -> Vec<String> {
    let mut groups: Vec<(&Elsewhere, u64)> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    for process in found {
        let group = *known.entry((&process.comm, process.reason())).or_insert(groups.len());
        match groups.get_mut(group) {
            Some((_, others)) => *others += 1,
            None => groups.push((process, 0)),
        }
    }
    let line = |(first, others): &(&Elsewhere, u64)| {
        let others = if *others > 0 {
            format!("; the same of {} of that name", plural(*others, "other"))
        } else {
            String::new()
        };
        format!("{} has libkymo and is not listed: {}{others}", first.comm, first.why)
    };
    let mut lines: Vec<String> = groups.iter().take(ELSEWHERE_SHOWN).map(line).collect();
    let left: u64 = groups.iter().skip(ELSEWHERE_SHOWN).map(|(_, others)| others + 1).sum();
    if left > 0 {
        lines.push(format!("and {} more", plural(left, "such program")));
    }
    lines
}

fn print_events(found: &DescribedEvents) {
    for event in &found.events {
        let place = if event.file.is_empty() { String::new() } else { format!("  ({}:{})", event.file, event.line) };
        println!("    {}{place}", paint(Style::Name, &event.full_name()));
        for field in &event.fields {
            println!("        {} {}{}", field.ty, field.name, labels(&field.ty, &found.enums));
        }
    }
}

/// ` = idle 0, moving 1` behind an enumeration's field.
fn labels(ty: &FieldType, enums: &[EnumDesc]) -> String {
    let FieldType::Enum { name, .. } = ty else { return String::new() };
    let Some(labelled) = enums.iter().find(|labelled| labelled.full_name() == *name) else { return String::new() };
    let mut list: Vec<String> =
        labelled.labels.iter().take(16).map(|(label, value)| format!("{label} {value}")).collect();
    if labelled.labels.len() > list.len() {
        list.push("...".to_owned());
    }
    format!(" = {}", list.join(", "))
}

fn events_json(found: &DescribedEvents) -> Value {
    let fields = |event: &EventDesc| -> Vec<Value> {
        event.fields.iter().map(|field| json!({ "name": field.name, "type": field.ty.to_string() })).collect()
    };
    let event = |event: &EventDesc| json!({ "name": event.full_name(), "file": event.file, "line": event.line, "fields": fields(event) });
    found.events.iter().map(event).collect()
}

fn program_json(program: &RunningProgram, found: &DescribedEvents) -> Value {
    json!({
        "pid": program.pid,
        "vpid": program.vpid,
        "uid": program.uid,
        "comm": program.comm,
        "exe": program.exe,
        "ring": program.ring.map(RingKind::name),
        "caveat": program.caveat,
        "events": events_json(found),
    })
}

/// Events, enumerations and refusals of an ELF file.
fn read_file(path: &Path) -> anyhow::Result<DescribedEvents> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = object::File::parse(&*bytes).map_err(|error| {
        anyhow::anyhow!("{} is not an executable, library or object file (ELF): {error}", path.display())
    })?;
    let mut found = DescribedEvents { events: Vec::new(), enums: Vec::new(), bad: Vec::new() };
    let mut seen = std::collections::HashSet::new();
    for section in file.sections().filter(|section| section.name() == Ok("kymo_events")) {
        let data = section.uncompressed_data().with_context(|| format!("{}: section kymo_events", path.display()))?;
        for (at, desc) in Walk::new(&data) {
            match desc {
                Ok(Desc::Event(event)) => {
                    if seen.insert((event.provider.clone(), event.name.clone(), event.fields.clone())) {
                        found.events.push(event);
                    }
                }
                Ok(Desc::Enum(labelled)) => found.enums.push(labelled),
                Err(error) => {
                    found.bad.push(format!("the description at byte {at} of kymo_events is refused: {error}"))
                }
            }
        }
    }
    found.events.sort_by_key(EventDesc::full_name);
    Ok(found)
}

/// Names of the events in a file.
pub(super) fn events_in_file(path: &Path) -> anyhow::Result<Vec<String>> {
    Ok(read_file(path)?.events.iter().map(EventDesc::full_name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_with_one_reason_hides_no_other_program() {
        let of = |pid: u32, comm: &str, why: &str| {
            let (comm, why) = (comm.to_owned(), format!("process {pid} {why}"));
            Elsewhere { pid, comm, why }
        };
        let mut found: Vec<Elsewhere> = (1..1000).map(|pid| of(pid, "worker", "looks in /a for sessions")).collect();
        found.push(of(1000, "worker", "is in a container"));
        found.push(of(1001, "robot", "looks in /a for sessions"));
        let lines = elsewhere_lines(&found);
        let worker = "worker has libkymo and is not listed: process";
        assert_eq!(lines[0], format!("{worker} 1 looks in /a for sessions; the same of 998 others of that name"));
        assert_eq!(lines[1], format!("{worker} 1000 is in a container"));
        assert_eq!(lines[2..], ["robot has libkymo and is not listed: process 1001 looks in /a for sessions"]);
        found.extend((0..5u32).map(|number| of(2000 + number, "other", &format!("is number {number}"))));
        assert_eq!(elsewhere_lines(&found)[5..], ["and 3 such programs more"]);
    }
}
