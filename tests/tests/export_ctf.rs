// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo export --format ctf`: what is written has the records and losses of its source, by kymo, babeltrace2 (2.0 and
//! 2.1) and babeltrace 1.5, whole or in part; and what is not whole is not left. Every field type goes the same way in
//! goldens.rs and round_trip.rs.

use std::path::{Path, PathBuf};

use kymo_tests::{Lab, Outcome, SmallDisk, babeltrace, paths, trace};
use serde_json::Value;

/// A trace of two writers. With `ring` so small that records are lost.
fn recorded(lab: &Lab, ring: &[&str]) -> PathBuf {
    let program = lab.cc("produce.c");
    lab.record("trace").args(ring).run(&[program.to_str().unwrap(), "2", "2000", "20"]).expect(0).dir
}

fn lossy(lab: &Lab) -> PathBuf {
    let dir = recorded(lab, &["--ring-size", "4K", "--poll-us", "2000"]);
    assert!(trace::read(lab, &dir, &[]).whole().lost() > 0, "the test must overflow the ring");
    dir
}

fn lttng_kernel() -> PathBuf {
    paths::repository().join("tests/traces/lttng-kernel")
}

fn export(lab: &Lab, from: &Path, to: &Path, more: &[&str]) -> Outcome {
    let mut command = lab.command(paths::kymo());
    command.arg("export").arg(from).args(["--format", "ctf", "-o"]).arg(to).args(more);
    lab.start(command).wait()
}

/// What `kymo read --json --state` prints.
#[track_caller]
fn read(lab: &Lab, dir: &Path, more: &[&str]) -> String {
    let mut command = lab.command(paths::kymo());
    command.args(["read", "--json", "--state"]).arg(dir).args(more);
    lab.start(command).wait().expect(0).stdout
}

#[track_caller]
fn same_lines(ours: &str, source: &str) {
    for (at, (ours, source)) in ours.lines().zip(source.lines()).enumerate() {
        assert_eq!(ours, source, "line {at}: the export, and its source");
    }
    assert_eq!(ours.lines().count(), source.lines().count());
}

/// Exports all of a trace, and compares it with every reader.
#[track_caller]
fn check_whole(lab: &Lab, from: &Path, to: &str) -> PathBuf {
    let to = lab.path(to);
    let outcome = export(lab, from, &to, &[]).expect(0);
    assert!(!outcome.stderr.contains("not in this format"), "{}", outcome.stderr);
    let source = read(lab, from, &[]);
    same_lines(&read(lab, &to, &[]), &source);
    let records = source.lines().filter(|line| !line.starts_with("{\"lost\"")).count();
    assert!(records > 0);
    let others = [babeltrace::agrees_on_events, babeltrace::first_agrees, babeltrace::latest_agrees];
    for found in others.map(|agrees: fn(&Lab, &Path) -> Option<usize>| agrees(lab, &to)) {
        assert!(found.is_none_or(|found| found == records), "{found:?} of {records}");
    }
    to
}

#[test]
fn an_export_has_the_records_and_losses_of_its_source() {
    let lab = Lab::new("export_ctf");
    let from = lossy(&lab);
    let to = check_whole(&lab, &from, "copy");
    // Threads, processes, losses with their times: by babeltrace2, too.
    babeltrace::agrees(&lab, &to, &trace::read(&lab, &to, &[]).whole());
    // An export of an export is the same.
    check_whole(&lab, &to, "again");
    // What is recorded is read by babeltrace 1.5 as it is.
    let read = trace::read(&lab, &from, &[]);
    let found = babeltrace::first_agrees(&lab, &from);
    assert!(found.is_none_or(|found| found == read.records.len()), "{found:?} of {}", read.records.len());
}

#[test]
fn ctf2_becomes_what_every_reader_reads() {
    let lab = Lab::new("export_ctf_of_ctf2");
    let from = recorded(&lab, &["--ctf2", "--memory", "16G"]);
    let to = check_whole(&lab, &from, "copy");
    assert!(std::fs::read(from.join("metadata")).unwrap().starts_with(&[0x1E]));
    assert!(std::fs::read(to.join("metadata")).unwrap().starts_with(b"/* CTF 1.8 */"));
}

#[test]
fn a_kernel_trace_of_lttng_has_its_threads_in_an_export() {
    let lab = Lab::new("export_ctf_lttng");
    let to = check_whole(&lab, &lttng_kernel(), "copy");
    let metadata = std::fs::read_to_string(to.join("metadata")).unwrap();
    for part in ["int32_t _tid;", "int32_t _pid;", "_procname;", "tracer_name = \"lttng-modules\""] {
        assert!(metadata.contains(part), "{part}");
    }
    assert!(!metadata.contains("kymo_trim"), "all of it");
    // Analyses find the same.
    let latency = |dir: &Path| lab.kymo(&["latency", dir.to_str().unwrap(), "--json"]).expect(0).stdout;
    let without_paths = |text: String| -> Value {
        let mut found: Value = serde_json::from_str(&text).unwrap();
        found.as_object_mut().unwrap().retain(|key, _| key == "series");
        found
    };
    assert_eq!(without_paths(latency(&to)), without_paths(latency(&lttng_kernel())));
}

/// The numbers of `from` and `to` are those of two records in the middle.
fn middle(lab: &Lab, dir: &Path) -> (String, String) {
    let text = read(lab, dir, &[]);
    let times: Vec<u64> =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["time"].as_u64()).collect();
    (times[times.len() / 4].to_string(), times[times.len() * 3 / 4].to_string())
}

/// Exports a part of a trace: it is what `kymo read` shows with the same options, and says what it is.
#[track_caller]
fn check_part(lab: &Lab, dir: &Path, name: &str, options: &[&str]) {
    let part = lab.path(name);
    let said = export(lab, dir, &part, &[options, &["--json"]].concat()).expect(0).stdout;
    let said: Value = serde_json::from_str(&said).unwrap();
    let expect = read(lab, dir, options);
    assert!(expect.lines().count() > 1, "{options:?} chooses something");
    same_lines(&read(lab, &part, &[]), &expect);
    babeltrace::first_agrees(lab, &part);
    babeltrace::latest_agrees(lab, &part);
    let metadata = std::fs::read_to_string(part.join("metadata")).unwrap();
    assert!(metadata.contains(&format!("kymo_trim_left_out = {};", said["left_out"])), "{said}\n{metadata:.2000}");
    assert!(metadata.contains("kymo_trim = \"--"), "{metadata:.2000}");
    let told = lab.kymo(&["read", part.to_str().unwrap()]).expect(0).stderr;
    assert!(told.contains("were left out on purpose"), "{told}");
}

#[test]
fn a_part_of_a_trace_is_what_kymo_read_shows_of_it() {
    let lab = Lab::new("export_ctf_trim");
    let trace = lossy(&lab);
    let (from, to) = middle(&lab, &trace);
    check_part(&lab, &trace, "end", &["--from", &from]);
    check_part(&lab, &trace, "middle", &["--from", &from, "--to", &to, "--filter", "n < 1500"]);
    check_part(&lab, &trace, "writer", &["--event", "produce:*", "--filter", "n % 2 == 0"]);
    babeltrace::agrees(&lab, &lab.path("middle"), &trace::read(&lab, &lab.path("middle"), &[]).whole());
    // A part of a part says both.
    let again = lab.path("again");
    export(&lab, &lab.path("middle"), &again, &["--filter", "writer == 0"]).expect(0);
    let metadata = std::fs::read_to_string(again.join("metadata")).unwrap();
    assert!(metadata.contains("'n < 1500'; --filter 'writer == 0'"), "{metadata:.2000}");
}

#[test]
fn threads_of_a_part_are_those_of_the_whole() {
    let (lab, kernel) = (Lab::new("export_ctf_trim_kernel"), lttng_kernel());
    let (from, to) = middle(&lab, &kernel);
    check_part(&lab, &kernel, "middle", &["--from", &from, "--to", &to]);
    // Who wrote these is known from records that are left out.
    check_part(&lab, &kernel, "waking", &["--event", "sched_waking"]);
    check_part(&lab, &kernel, "sleep", &["--thread", "sleep", "--cpu", "0,1"]);
    babeltrace::agrees_on_events(&lab, &lab.path("waking"));
}

#[test]
fn several_traces_keep_their_places() {
    let lab = Lab::new("export_ctf_several");
    let kernel = lab.path("session/kernel");
    std::fs::create_dir_all(&kernel).unwrap();
    for entry in std::fs::read_dir(lttng_kernel()).unwrap().flatten() {
        std::fs::copy(entry.path(), kernel.join(entry.file_name())).unwrap();
    }
    let program = recorded(&lab, &["--memory", "16G"]);
    std::fs::create_dir_all(lab.path("session/ust/uid")).unwrap();
    std::fs::rename(program, lab.path("session/ust/uid/0")).unwrap();
    let to = lab.path("copy");
    export(&lab, &lab.path("session"), &to, &[]).expect(0);
    same_lines(&read(&lab, &to, &[]), &read(&lab, &lab.path("session"), &[]));
    for (name, records) in [("kernel", 569), ("ust/uid/0", 4000)] {
        let found = babeltrace::agrees_on_events(&lab, &to.join(name));
        assert!(found.is_none_or(|found| found == records), "{name}: {found:?}");
    }
}

#[test]
fn what_is_damaged_is_exported_as_far_as_it_is_read() {
    let lab = Lab::new("export_ctf_damaged");
    let from = recorded(&lab, &[]);
    let stream = std::fs::read_dir(&from).unwrap().flatten().map(|entry| entry.path());
    let stream = stream.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("user_"));
    let stream = stream.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let length = std::fs::metadata(&stream).unwrap().len();
    std::fs::File::options().write(true).open(&stream).unwrap().set_len(length * 2 / 3).unwrap();
    let expect = trace::read(&lab, &from, &[]).ordered();
    assert!(expect.code == 1 && !expect.records.is_empty(), "{}", expect.stderr);
    let to = lab.path("copy");
    let outcome = export(&lab, &from, &to, &[]).expect(1);
    assert!(outcome.stderr.contains("damaged"), "{}", outcome.stderr);
    let copy = trace::read(&lab, &to, &[]).whole();
    assert_eq!(copy.records, expect.records);
    babeltrace::agrees(&lab, &to, &copy);
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let lab = Lab::new("export_ctf_full");
    let from = recorded(&lab, &["--memory", "16G"]);
    // Somebody's files.
    let taken = lab.path("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("mine"), "x").unwrap();
    let refused = export(&lab, &from, &taken, &[]).expect(2);
    assert!(refused.stderr.contains("is there already"), "{}", refused.stderr);
    assert_eq!(std::fs::read_dir(&taken).unwrap().count(), 1);
    let refused = lab.kymo(&["export", from.to_str().unwrap(), "--format", "ctf", "-o", "-"]).expect(2);
    assert!(refused.stderr.contains("a trace is a directory"), "{}", refused.stderr);
    let Some(disk) = SmallDisk::mount(&lab) else { return };
    for free in [0, 4096, 16 << 10] {
        disk.fill_but(free);
        let outcome = export(&lab, &from, Path::new(&disk.path("copy")), &[]).expect(2);
        assert!(outcome.stderr.contains("No space left on device"), "{free} free: {}", outcome.stderr);
        assert!(disk.names().is_empty(), "{free} free: {:?}", disk.names());
    }
    disk.make_room();
    export(&lab, &from, Path::new(&disk.path("copy")), &[]).expect(0);
    same_lines(&read(&lab, Path::new(&disk.path("copy")), &[]), &read(&lab, &from, &[]));
}
