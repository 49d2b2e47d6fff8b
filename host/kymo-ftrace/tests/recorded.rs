// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels wrote: each page of `tests/pages` against the times and threads that the kernel's own text gave for it,
//! each text of `tests/formats` against `tests/formats.expect`. With KYMO_TRACEFS, or a tracefs at its usual place,
//! also all formats of this kernel and a capture of now.

use crate::support;

use kymo_ftrace::format::{EventFormat, FieldEncoding, PageFormat, parse_event, parse_page_format};
use kymo_ftrace::page::{Missed, Page, RawRecord};
use std::fmt::Write;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use support::{files, folder};

fn page_format() -> PageFormat {
    parse_page_format(&std::fs::read_to_string(folder("formats/header_page")).unwrap()).unwrap()
}

fn event(name: &str) -> EventFormat {
    let path = folder("formats").join(format!("{name}.format"));
    parse_event(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// `common_pid` of a record.
fn pid(record: &RawRecord<'_>, format: &EventFormat) -> i32 {
    let at = usize::from(format.common.pid.unwrap().offset);
    i32::from_le_bytes(record.data[at..at + 4].try_into().unwrap())
}

#[test]
fn pages_hold_what_the_text_of_the_kernel_says() {
    let (page_format, event) = (page_format(), event("sched.sched_switch"));
    for (name, bytes) in files("pages", "page") {
        let page = Page::parse(&bytes, &page_format).unwrap();
        let mut text = match page.missed() {
            Missed::None => "missed none\n".to_owned(),
            Missed::Some(count) => format!("missed {count}\n"),
            Missed::Unknown => "missed unknown\n".to_owned(),
        };
        for record in page.records() {
            let record = record.unwrap();
            writeln!(text, "{} {}", record.time, pid(&record, &event)).unwrap();
        }
        let expect = std::fs::read_to_string(folder("pages").join(&name).with_extension("expect")).unwrap();
        assert!(text == expect, "{name}: expected\n{expect}\nfound\n{text}");
    }
}

/// Each field as one line: everything that the parser made of it.
fn describe(event: &EventFormat) -> String {
    let mut text = format!("{} {}\n", event.name, event.id);
    for field in &event.fields {
        let pointer = if field.is_pointer() { " pointer" } else { "" };
        let (offset, size, signed) = (field.offset, field.size, if field.signed { "signed" } else { "unsigned" });
        writeln!(text, "\t{}\t{}\t{offset}+{size} {signed}\t{:?}{pointer}", field.name, field.ty, field.kind).unwrap();
    }
    text
}

#[test]
fn formats_are_read_as_expected() {
    let mut text = String::new();
    for (_, bytes) in files("formats", "format") {
        text += &describe(&parse_event(&String::from_utf8(bytes).unwrap()).unwrap());
    }
    let expect = std::fs::read_to_string(folder("formats.expect")).unwrap();
    for (line, (found, expect)) in (1..).zip(text.lines().zip(expect.lines())) {
        assert_eq!(found, expect, "formats.expect:{line}");
    }
    assert_eq!(text.lines().count(), expect.lines().count(), "lines of formats.expect, found:\n{text}");
}

/// The tracefs of this machine, if it can be used.
fn tracefs() -> Option<PathBuf> {
    let named = std::env::var_os("KYMO_TRACEFS").map(PathBuf::from);
    let usual = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let found = named.into_iter().chain(usual).find(|path| path.join("events/header_page").exists());
    if found.is_none() {
        kymo_testing::skip_this("no tracefs can be read (set KYMO_TRACEFS to where it is mounted)");
    }
    found
}

#[test]
fn all_formats_of_this_kernel() {
    let Some(tracefs) = tracefs() else { return };
    let mut kinds = [0; 7];
    let mut events = 0;
    for system in std::fs::read_dir(tracefs.join("events")).unwrap().flatten() {
        let Ok(entries) = std::fs::read_dir(system.path()) else { continue };
        for entry in entries.flatten() {
            let path = entry.path().join("format");
            // Events of probes come and go.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let event = parse_event(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            check_against_text(&event, &text);
            events += 1;
            for field in &event.fields {
                let kind = match field.kind {
                    FieldEncoding::Number => 0,
                    FieldEncoding::Array { .. } => 1,
                    FieldEncoding::Chars { .. } => 2,
                    FieldEncoding::DataLoc { .. } => 3,
                    FieldEncoding::RelLoc { .. } => 4,
                    FieldEncoding::Rest { .. } => 5,
                    FieldEncoding::Opaque => 6,
                };
                kinds[kind] += 1;
                if kind == 6 {
                    eprintln!("opaque: {} {field:?}", event.name);
                }
            }
        }
    }
    eprintln!("{events} events; numbers, arrays, chars, data_loc, rel_loc, rest, opaque: {kinds:?}");
    assert!(events > 100 && kinds[0] > kinds[6] * 100);
}

/// Every `field:` line must be found again by its columns, in order.
fn check_against_text(event: &EventFormat, text: &str) {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("\tfield:")).collect();
    let own: Vec<&str> = lines.iter().copied().filter(|line| !line.contains(" common_")).collect();
    assert_eq!(own.len(), event.fields.len(), "{text}");
    assert_eq!(lines.len() - own.len(), 4, "{text}");
    for (line, field) in own.iter().zip(&event.fields) {
        let signed = u8::from(field.signed);
        let columns = format!(";\toffset:{};\tsize:{};\tsigned:{signed};", field.offset, field.size);
        assert!(line.ends_with(&columns) && line.contains(&field.name), "{line}: {field:?}");
    }
    assert!(text.trim_end().ends_with(&event.print) && !event.print.is_empty());
}

/// An instance of our own, which goes with its owner. Not named `kymo-*`: sessions remove those of the dead.
struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("tracing_on"), "0");
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Instance {
    fn new(tracefs: &Path) -> Option<Instance> {
        let path = tracefs.join("instances").join(format!("walk-test-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Some(Instance(path)),
            Err(error) => {
                kymo_testing::skip_this(&format!("{} cannot be made: {error}", path.display()));
                None
            }
        }
    }

    fn set(&self, name: &str, value: &str) {
        let path = self.0.join(name);
        std::fs::write(&path, value).unwrap_or_else(|error| panic!("{} = {value}: {error}", path.display()));
    }
}

#[test]
fn a_capture_has_the_events_that_the_text_of_the_kernel_has() {
    let Some(tracefs) = tracefs() else { return };
    let Some(instance) = Instance::new(&tracefs) else { return };
    instance.set("tracing_on", "0");
    instance.set("buffer_size_kb", "2048");
    // In this clock, the text has whole ticks.
    let raw_clock = std::fs::read_to_string(instance.0.join("trace_clock")).unwrap().contains("x86-tsc");
    instance.set("trace_clock", if raw_clock { "x86-tsc" } else { "counter" });
    instance.set("events/sched/enable", "1");
    instance.set("tracing_on", "1");
    for number in 0..300 {
        instance.set("trace_marker", &format!("mark {number} {}", "m".repeat(number * 7)));
        std::thread::yield_now();
    }
    instance.set("tracing_on", "0");
    instance.set("events/sched/enable", "0");
    let format = parse_page_format(&read_at_once(&tracefs.join("events/header_page"))).unwrap();
    let (mut records, mut marks) = (0, 0);
    for cpu in std::fs::read_dir(instance.0.join("per_cpu")).unwrap().flatten() {
        let text = std::fs::read_to_string(cpu.path().join("trace")).unwrap();
        let expect: Vec<u64> = text.lines().filter_map(time_of_line).collect();
        marks += text.lines().filter(|line| line.contains("tracing_mark_write: mark ")).count();
        let mut options = std::fs::OpenOptions::new();
        let pages = options.read(true).custom_flags(O_NONBLOCK).open(cpu.path().join("trace_pipe_raw")).unwrap();
        let found = times(pages, &format);
        assert_eq!(found.len(), expect.len(), "{}", cpu.path().display());
        assert_eq!(found, expect, "{}", cpu.path().display());
        records += found.len();
    }
    eprintln!("{records} records, {marks} marks");
    assert!(marks == 300 && records >= 300, "{marks} marks, {records} records");
}

/// The kernel gives this file to the first read and nothing to those after it, and that of `read_to_string` is small.
fn read_at_once(path: &Path) -> String {
    let mut bytes = vec![0; 1 << 16];
    let count = std::fs::File::open(path).unwrap().read(&mut bytes).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

/// The same number on every architecture that we run on.
const O_NONBLOCK: i32 = 0o4000;

/// The times of all records. The buffer is at rest, so what cannot be read now is not there.
fn times(mut pages: std::fs::File, format: &PageFormat) -> Vec<u64> {
    let mut bytes = vec![0; usize::from(format.data_offset) + format.data_bytes as usize];
    let mut times = Vec::new();
    loop {
        match pages.read(&mut bytes) {
            Ok(0) => return times,
            Ok(count) => {
                let page = Page::parse(&bytes[..count], format).unwrap();
                times.extend(page.records().map(|record| record.unwrap().time));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return times,
            Err(error) => panic!("trace_pipe_raw: {error}"),
        }
    }
}

/// The time in a line like `  task-12 [000] d..2. 123456: sched_switch: ..`; none for comments.
fn time_of_line(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(" [")?;
    let (_, rest) = rest.split_once("] ")?;
    let (_, rest) = rest.trim_start().split_once(' ')?;
    rest.trim_start().split_once(':')?.0.parse().ok()
}

/// Walks 4 KiB of records again and again and prints the best time for one of them:
/// `cargo test --release -p kymo-ftrace recorded -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, of use only in a release build on a machine at rest"]
fn time_of_one_record() {
    let mut pages = files("pages", "page");
    let record = |type_len: u32| [(type_len | 40 << 5).to_le_bytes().to_vec(), vec![7; type_len as usize * 4]].concat();
    for type_len in [3, 7, 15] {
        let records = record(type_len).repeat(4080 / (4 + type_len as usize * 4));
        let head = [7u64.to_le_bytes(), (records.len() as u64).to_le_bytes()].concat();
        pages.push((format!("only records of {} bytes", type_len * 4), [head, records].concat()));
    }
    let format = page_format();
    for (name, bytes) in pages {
        let count = Page::parse(&bytes, &format).unwrap().records().count();
        let best = (0..20).map(|_| walk_often(&bytes, &format)).min().unwrap();
        println!("{:.2} ns per record: {name} ({count} records)", best as f64 / (WALKS * count) as f64);
    }
}

const WALKS: usize = 2000;

/// Nanoseconds of many walks that look at the time and the id of each record.
fn walk_often(bytes: &[u8], format: &PageFormat) -> u128 {
    let begin = std::time::Instant::now();
    let mut sum = 0u64;
    for _ in 0..WALKS {
        for record in Page::parse(std::hint::black_box(bytes), format).unwrap().records() {
            let record = record.unwrap();
            let id = record.data.first_chunk().map_or(0, |id| u16::from_le_bytes(*id));
            sum = sum.wrapping_add(record.time ^ u64::from(id));
        }
    }
    std::hint::black_box(sum);
    begin.elapsed().as_nanos()
}
