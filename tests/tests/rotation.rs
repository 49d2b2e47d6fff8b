// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that goes on in a new directory: nothing is lost or doubled at a cut, each chunk is a trace, old ones go,
//! and what befalls disks, collectors and readers meanwhile.

use std::path::PathBuf;
use std::process::Command;

use kymo_tests::session::{Session, ask, contains, runner, session};
use kymo_tests::trace::assert_counts_up;
use kymo_tests::{Kernel, Lab, Read, babeltrace, skip, times, trace};
use serde_json::Value;

fn chunks(lab: &Lab, name: &str) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> =
        std::fs::read_dir(lab.path(name)).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    dirs.retain(|dir| dir.is_dir());
    dirs.sort();
    dirs
}

fn names(lab: &Lab, name: &str) -> Vec<String> {
    chunks(lab, name).iter().map(|dir| dir.file_name().expect("a name").to_string_lossy().into_owned()).collect()
}

/// Numbers of one writer of produce.c, in the order of time.
fn of_writer(read: &Read, writer: u64) -> Vec<u64> {
    let of = read.of("produce:rec").filter(|record| record.number("writer") == writer);
    of.map(|record| record.number("n")).collect()
}

fn summary(dir: &std::path::Path) -> Value {
    let text = std::fs::read(dir.join(".kymo.json")).expect("a summary");
    serde_json::from_slice(&text).expect("JSON")
}

/// The summary behind what the program itself printed.
fn of_stdout(text: &str) -> Value {
    let at = text.find('{').expect("a summary");
    serde_json::from_str(&text[at..]).expect("JSON")
}

#[test]
fn nothing_is_lost_or_doubled_at_a_cut() {
    let lab = Lab::new("rotation_exact");
    let program = lab.cc("produce.c");
    let with_kernel = Kernel::find("nothing_is_lost_or_doubled_at_a_cut").is_some();
    let kernel: &[&str] = if with_kernel { &["-k", "sched:sched_switch"] } else { &[] };
    let session_ = Session::start(&lab, "r", &[&["--ring-size", "16M"], kernel].concat());
    // All of them are read into memory, twice, beside what the kernel recorded.
    let records = times(60_000, 250_000);
    let cuts = times(12, 100);
    let proc = lab.spawn(&program, &["2", &records.to_string(), "20", "100"]);
    session_.until("records", |status| status["records"].as_u64() > Some(0));
    let mut of_chunks = 0;
    for number in 1..=cuts {
        let answer = session_.ask(&["rotate"]);
        let chunk = &answer["chunk"];
        assert_eq!((&chunk["number"], &chunk["lost"]), (&(number as u64).into(), &0.into()));
        assert_eq!(answer["next"].as_str().map(PathBuf::from), Some(chunks(&lab, "r").pop().expect("a chunk")));
        assert_eq!(summary(chunk["dir"].as_str().expect("a path").as_ref())["chunk"], *chunk);
        of_chunks += chunk["records"].as_u64().expect("a number");
    }
    assert_eq!(proc.wait().code, 0);
    let summary = session_.ask(&["stop"]);
    let listed = summary["chunks"].as_array().expect("chunks");
    assert_eq!(listed.len(), cuts + 1);
    of_chunks += listed[cuts]["records"].as_u64().expect("a number");
    assert_eq!(summary["records"], of_chunks);
    // The whole is one trace ...
    let all = lab.read("r").whole();
    assert_eq!(all.lost(), 0);
    for writer in 0..2 {
        assert_counts_up(&of_writer(&all, writer), records as u64);
    }
    // ... and each part is one.
    let mut next = [0, 0];
    for (dir, chunk) in chunks(&lab, "r").iter().zip(listed) {
        let read = trace::read(&lab, dir, &[]).whole();
        for (writer, next) in next.iter_mut().enumerate() {
            for number in of_writer(&read, writer as u64) {
                assert_eq!(number, *next, "writer {writer} in {}", dir.display());
                *next += 1;
            }
        }
        assert_eq!(chunk["records"], read.records.len() as u64);
    }
    let middle = &chunks(&lab, "r")[1];
    babeltrace::agrees(&lab, middle, &trace::read(&lab, middle, &["--state"]));
}

#[test]
fn losses_are_told_once() {
    let lab = Lab::new("rotation_losses");
    let program = lab.cc("produce.c");
    // The collector looks rarely, at rings that are full long before.
    let session_ = Session::start(&lab, "l", &["--ring-size", "64K", "--poll-us", "20000"]);
    let proc = lab.spawn(&program, &["2", "400000"]);
    session_.until("losses", |status| status["lost"].as_u64() > Some(0));
    for _ in 0..8 {
        session_.ask(&["rotate"]);
    }
    assert_eq!(proc.wait().code, 0);
    let summary = session_.ask(&["stop"]);
    let told: u64 = chunks(&lab, "l").iter().map(|dir| trace::read(&lab, dir, &[]).whole().lost()).sum();
    let of_chunks: u64 =
        summary["chunks"].as_array().expect("chunks").iter().filter_map(|chunk| chunk["lost"].as_u64()).sum();
    let read = lab.read("l").whole();
    assert_eq!((told, of_chunks), (summary["lost"]["full"].as_u64().expect("a number"), told));
    assert_eq!(read.records.len() as u64 + told, 800_000);
}

#[test]
fn traces_are_cut_by_size_and_old_chunks_go() {
    let lab = Lab::new("rotation_size");
    let program = lab.cc("produce.c");
    let output = lab.path("t");
    let mut command = lab.command(kymo_tests::paths::kymo());
    command.args(["record", "--json", "--rotate-size", "1M", "--keep", "2", "-o"]).arg(&output).arg("--");
    command.arg(&program).args(["1", "200000", "20", "1000"]);
    let outcome = lab.start(command).wait().expect(0);
    let summary: Value = of_stdout(&outcome.stdout);
    let listed = summary["chunks"].as_array().expect("chunks");
    assert!(listed.len() > 3, "{listed:?}");
    let there: Vec<&Value> = listed.iter().filter(|chunk| chunk["removed"] == false).collect();
    assert_eq!((names(&lab, "t").len(), there.len()), (3, 3));
    contains(&outcome.stderr, "were removed (--keep)");
    // A size is looked at twenty times a second.
    assert!(listed[..listed.len() - 1].iter().all(|chunk| chunk["bytes"].as_u64() >= Some(1 << 20)));
    let numbers = of_writer(&lab.read("t").whole(), 0);
    let first = numbers[0];
    assert!(first > 0 && numbers.iter().zip(first..).all(|(number, expect)| *number == expect));
    assert_eq!(numbers.last(), Some(&199_999));
    // And the next recording may take its place.
    let again = lab.kymo(&["record", "--overwrite", "-q", "-o", output.to_str().expect("UTF-8"), "--", "/bin/true"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(names(&lab, "t").is_empty());
}

#[test]
fn traces_are_cut_by_time_as_was_said_last() {
    let lab = Lab::new("rotation_time");
    let mut proc = runner(&lab);
    let session_ = Session::start(&lab, "t", &[]);
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 10", "done");
    assert_eq!(session_.ask(&["rotate", "--time", "100ms", "--keep", "1"])["rotation"]["time_ms"], 100);
    lab.wait_for("a cut", || names(&lab, "t").contains(&"chunk-0004".to_owned()).then_some(()));
    let saved = session(&lab, &["save", "t"]).expect(0).stdout;
    contains(&saved, "rotate-time = \"100ms\"");
    contains(&saved, "keep = 1");
    contains(&session(&lab, &["status", "t"]).expect(0).stdout, "cut after 0.1 s, keeping 1 chunk closed");
    session_.ask(&["stop"]);
    assert_eq!(names(&lab, "t").len(), 2);
}

#[test]
fn what_cannot_be_cut() {
    let lab = Lab::new("rotation_refused");
    let flight = Session::start(&lab, "box", &["--flight"]);
    contains(&session(&lab, &["rotate", "box"]).expect(2).stderr, "flight recorder");
    contains(&session(&lab, &["rotate", "box", "--keep", "1"]).expect(2).stderr, "flight recorder");
    flight.ask(&["stop"]);
    contains(&session(&lab, &["rotate", "box"]).expect(1).stderr, "no session box");
    let outcome = lab.kymo(&["record", "--flight", "--rotate-size", "1M", "/bin/true"]);
    contains(&outcome.expect(2).stderr, "without --flight");
    for (option, part) in [("--rotate-size=100", "4 KiB at least"), ("--rotate-time=1ms", "100 ms at least")] {
        contains(&lab.kymo(&["record", option, "/bin/true"]).expect(2).stderr, part);
    }
}

/// Programs that come while the trace is cut: what each chunk has, its metadata knows.
#[test]
fn programs_that_come_at_a_cut_are_known_where_they_are() {
    let lab = Lab::new("rotation_arrivals");
    let session_ = Session::start(&lab, "a", &[]);
    let programs: Vec<PathBuf> = (0..times(12, 60))
        .map(|number| {
            let source = format!(
                "#include <kymo/tracepoint.h>\nKYMO_EVENT(p{number}, e, (u32, n))\n\
                 int main(void) {{ for (unsigned n = 0; n < 100; n++) kymo_trace(p{number}, e, n); return 0; }}\n"
            );
            lab.cc_text(&format!("p{number}"), &source)
        })
        .collect();
    for pair in programs.chunks(2) {
        let procs: Vec<_> = pair.iter().map(|program| lab.spawn(program, &[])).collect();
        session_.ask(&["rotate"]);
        procs.into_iter().for_each(|proc| assert_eq!(proc.wait().code, 0));
    }
    assert_eq!(session_.ask(&["stop"])["lost"]["full"], 0);
    for dir in chunks(&lab, "a") {
        trace::read(&lab, &dir, &[]).whole();
    }
    let all = lab.read("a").whole();
    for number in 0..programs.len() {
        assert_counts_up(&all.numbers(&format!("p{number}:e"), "n"), 100);
    }
}

/// A disk that is too small for the whole trace, and large enough for what is kept.
#[test]
fn a_full_disk_is_survived_by_what_is_not_kept() {
    let lab = Lab::new("rotation_full");
    let disk = lab.path("disk");
    std::fs::create_dir(&disk).expect("a directory");
    let mount =
        |args: &[&str]| Command::new("mount").args(args).arg(&disk).status().is_ok_and(|status| status.success());
    if !mount(&["-t", "tmpfs", "-o", "size=3M", "kymo-test"]) {
        return skip("a_full_disk_is_survived_by_what_is_not_kept", "no tmpfs can be mounted (not root)");
    }
    let result = std::panic::catch_unwind(|| {
        let program = lab.cc("produce.c");
        let output = disk.join("t");
        // 11 MB: more than the disk has room for, however they are cut. There is room again when their chunks are gone.
        // The second goes into a chunk that was begun behind two cuts (each waits for a minute at most).
        let chunks = format!("ls -d {}/chunk-* | tail -n 1", output.display());
        let cut = format!("was=$({chunks}); for i in $(seq 600); do [ $({chunks}) = $was ] || break; sleep 0.1; done");
        let script = format!("{0} 1 200000 20 200; {cut}; {cut}; {0} 1 1000 20 200", program.display());
        let mut command = lab.command(kymo_tests::paths::kymo());
        command.args(["record", "--json", "--keep", "1", "--rotate-time", "1s", "-o"]);
        command.arg(&output).args(["--", "sh", "-c", &script]);
        let summary: Value = of_stdout(&lab.start(command).wait().expect(0).stdout);
        let listed = summary["chunks"].as_array().expect("chunks");
        let is_full = |chunk: &Value| chunk["write_error"].is_string();
        let first = listed.iter().position(is_full).expect("a chunk for which the disk was too small");
        let mut later = listed[first..].iter();
        assert!(later.any(|chunk| !is_full(chunk) && chunk["records"].as_u64() > Some(0)), "{summary}");
        let (records, lost) = (summary["records"].as_u64().expect("a number"), &summary["lost"]);
        assert_eq!(
            records + lost["not_written"].as_u64().expect("a number") + lost["full"].as_u64().expect("a number"),
            201_000
        );
        assert!(summary["write_error"].is_string());
        trace::read(&lab, &output, &[]).whole();
    });
    let unmounted = Command::new("umount").arg(&disk).status().is_ok_and(|status| status.success());
    if let Err(error) = result {
        std::panic::resume_unwind(error);
    }
    assert!(unmounted);
}

#[test]
fn the_rings_of_a_dead_session_go_into_its_newest_chunk() {
    let lab = Lab::new("rotation_recover");
    let mut proc = runner(&lab);
    let rings = lab.path("rings");
    std::fs::create_dir(&rings).expect("a directory");
    let session_ = Session::start(&lab, "d", &["--ring-dir", rings.to_str().expect("UTF-8")]);
    ask(&mut proc, "enabled", "enabled");
    for _ in 0..3 {
        ask(&mut proc, "burst 100", "done");
        session_.ask(&["rotate"]);
    }
    // Not taken yet: less than an eighth of the ring, and sooner than 100 ms.
    ask(&mut proc, "burst 50", "done");
    session_.kill();
    ask(&mut proc, "disabled", "disabled");
    let words = ["recover", rings.to_str().expect("UTF-8"), lab.path("d").to_str().expect("UTF-8")].map(str::to_owned);
    let outcome = lab.kymo(&words.each_ref().map(String::as_str)).expect(0);
    contains(&outcome.stderr, "recovered");
    let numbers = lab.read("d").whole().numbers("runner:rec", "n");
    assert_counts_up(&numbers, 350);
    assert_eq!(std::fs::read_dir(&rings).expect("a directory").count(), 0);
}

#[test]
fn a_trace_is_followed_over_its_cuts() {
    let lab = Lab::new("rotation_follow");
    let mut proc = runner(&lab);
    let session_ = Session::start(&lab, "f", &[]);
    ask(&mut proc, "enabled", "enabled");
    ask(&mut proc, "burst 100", "done");
    let mut command = lab.command(kymo_tests::paths::kymo());
    command.args(["read", "--json", "--follow", "f"]);
    let reader = lab.start(command);
    reader.until("{\"time\":");
    for _ in 0..times(4, 20) {
        session_.ask(&["rotate"]);
        ask(&mut proc, "burst 100", "done");
    }
    // One that begins when the trace has been cut already.
    let mut command = lab.command(kymo_tests::paths::kymo());
    command.args(["read", "--json", "--follow"]).arg(lab.path("f"));
    let late = lab.start(command);
    late.until("{\"time\":");
    session_.ask(&["stop"]);
    for outcome in [reader.wait(), late.wait()] {
        let followed = trace::parse(outcome.code, &outcome.stdout, outcome.stderr);
        assert_eq!(followed.code, 0, "{}", followed.stderr);
        assert_counts_up(&followed.numbers("runner:rec", "n"), 100 * (1 + times(4, 20) as u64));
    }
}
