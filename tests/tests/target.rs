// SPDX-License-Identifier: MIT OR Apache-2.0
//! The small target: a board in QEMU and a program on this machine send, `kymo collect` makes a trace of it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_target::Receiver;
use kymo_tests::{Lab, Outcome, Proc, Read, SmallDisk, has, paths, skip, trace};
use rustix::process::Signal;
use serde_json::Value;

fn make(args: &[&str]) {
    let done = Command::new("make").arg("-s").args(args).current_dir(paths::repository()).output().expect("make runs");
    assert!(done.status.success(), "make {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The example for a board, which runs so long (0: for ever); none where it cannot be built and run.
fn board(lab: &Lab, milliseconds: u32) -> Option<PathBuf> {
    if !has("arm-none-eabi-gcc") || !has("qemu-system-arm") {
        skip(lab.name(), "no arm-none-eabi-gcc or no qemu-system-arm");
        return None;
    }
    let out = lab.path("board");
    make(&["-C", "examples/target", &format!("OUT={}", out.display()), &format!("MILLISECONDS={milliseconds}")]);
    Some(out.join("demo.elf"))
}

/// A simulated board whose time passes with its instructions: the same bytes, however busy the machine is.
fn sent_by_board(lab: &Lab, program: &Path) -> Vec<u8> {
    let file = lab.path("line");
    let serial = format!("file:{}", file.display());
    let program = program.to_str().unwrap();
    let args = [
        "-M",
        "mps2-an385",
        "-display",
        "none",
        "-monitor",
        "none",
        "-icount",
        "shift=6,sleep=off",
        "-serial",
        &serial,
        "-semihosting-config",
        "enable=on,target=native",
        "-kernel",
        program,
    ];
    lab.run("qemu-system-arm", &args).expect(0);
    std::fs::read(file).unwrap()
}

fn collect(lab: &Lab, from: &Path, to: &str) -> (Outcome, Value) {
    let outcome = lab.kymo(&["collect", "--json", "--from", from.to_str().unwrap(), "-o", to]);
    let summary = serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stderr));
    (outcome, summary)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn data(record: &kymo_tests::Record) -> Vec<u32> {
    let text = record.fields["data"].as_str().unwrap_or_else(|| panic!("bytes in {record:?}"));
    let bytes: Vec<u8> =
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect();
    words(&bytes)
}

/// What the example records is in order and whole.
fn check_demo(read: &Read) {
    let of = |name: &str| -> Vec<Vec<u32>> { read.records.iter().filter(|r| r.event == name).map(data).collect() };
    let (ticks, samples) = (of("tick"), of("sample"));
    assert!(ticks.len() > 20 && samples.len() > 20, "{} ticks, {} samples", ticks.len(), samples.len());
    for two in ticks.windows(2) {
        assert_eq!(two[1][0], two[0][0] + 10, "a tick every ten milliseconds");
    }
    for (number, sample) in samples.iter().enumerate() {
        assert_eq!(sample[..2], [number as u32 + 1, (number as u32 + 1).pow(2)]);
    }
}

#[test]
fn board_from_reset_to_trace() {
    let lab = Lab::new("target-board");
    let Some(program) = board(&lab, 500) else { return };
    let line = sent_by_board(&lab, &program);
    let file = lab.path("line");
    let (outcome, summary) = collect(&lab, &file, "t");
    outcome.expect(0);
    assert_eq!((&summary["lost"]["target"], &summary["lost"]["line"]), (&Value::from(0), &Value::from(0)));
    assert_eq!((summary["stray_bytes"].as_u64(), summary["line_bytes"].as_u64()), (Some(0), Some(line.len() as u64)));
    let epoch = &summary["epochs"][0];
    assert_eq!((epoch["name"].as_str(), epoch["clock_hz"].as_u64()), (Some("demo"), Some(25_000_000)));
    assert_eq!((epoch["boot"].as_u64(), epoch["final"].as_bool()), (Some(1), Some(true)));
    let read = lab.read("t");
    check_demo(&read);
    assert_eq!(read.records.len() as u64, summary["records"].as_u64().unwrap());
}

/// A torn frame and a flipped byte: two gaps, each told of with its records.
#[test]
fn what_a_line_loses_is_told() {
    let lab = Lab::new("target-loss");
    let Some(program) = board(&lab, 500) else { return };
    let mut line = sent_by_board(&lab, &program);
    let (_, whole) = collect(&lab, &lab.path("line"), "whole");
    let middle = line.len() / 2;
    line.drain(middle..middle + 300);
    let flipped = line.len() / 4;
    line[flipped] ^= 0x20;
    let damaged = lab.path("damaged");
    std::fs::write(&damaged, &line).unwrap();
    let (outcome, summary) = collect(&lab, &damaged, "t");
    let outcome = outcome.expect(1);
    assert!(outcome.stderr.contains("lost on the line"), "{}", outcome.stderr);
    let count = |summary: &Value, what: &str| summary[what].as_u64().unwrap();
    let lost = summary["lost"]["line"].as_u64().unwrap();
    assert!(lost > 0 && count(&summary, "frames_missing") >= 2, "{summary}");
    assert_eq!(count(&summary, "records") + lost, count(&whole, "records"));
    assert!(!summary["epochs"][0]["losses"].as_array().unwrap().is_empty());
    let read = lab.read("t");
    assert_eq!(read.losses.iter().map(|loss| loss.records).sum::<u64>(), lost);
}

fn line_with(proc: &Proc, part: &str) -> String {
    loop {
        let line = proc.line();
        if line.contains(part) {
            return line;
        }
    }
}

/// A terminal, a reset in the middle, a reader that follows, Ctrl-C; and the terminal has its settings back.
#[test]
fn board_on_a_terminal_that_is_reset() {
    let lab = Lab::new("target-reset");
    let Some(program) = board(&lab, 0) else { return };
    let program = program.to_str().unwrap();
    let args = ["-M", "mps2-an385", "-display", "none", "-monitor", "stdio", "-serial", "pty", "-kernel", program];
    let mut qemu = lab.spawn("qemu-system-arm", &args);
    let text = line_with(&qemu, "char device redirected to ");
    let path = text.split("redirected to ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    let settings = || lab.run("stty", &["-F", &path, "-g"]).expect(0).stdout;
    // QEMU has made it raw; a terminal that nobody looked after has lines and echo.
    lab.run("stty", &["-F", &path, "sane"]).expect(0);
    let before = settings();
    let collector = lab.spawn(paths::kymo(), &["collect", "--json", "--from", &path, "-o", "t"]);
    collector.until_stderr("Ctrl-C ends it");
    assert_ne!(settings(), before, "the terminal is raw");
    let dir = lab.path("t");
    let follower = lab.spawn(paths::kymo(), &["read", "--follow", dir.to_str().unwrap()]);
    // The first boot was under way when the collector came.
    line_with(&follower, "sample");
    qemu.say("system_reset");
    lab.wait_for("records of the second boot", || {
        std::fs::metadata(dir.join("user_t_1")).is_ok_and(|file| file.len() > 2000).then_some(())
    });
    let outcome = collector.end(Signal::INT);
    assert_eq!(settings(), before, "the terminal is as it was");
    let summary: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let epochs = summary["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 2, "{summary}");
    assert_eq!((epochs[0]["boot"].as_u64(), epochs[1]["boot"].as_u64()), (Some(1), Some(2)));
    assert!(epochs.iter().all(|epoch| epoch["clock_hz"] == 25_000_000 && epoch["damaged"] == 0), "{summary}");
    assert!(epochs.iter().all(|epoch| epoch["records"].as_u64().unwrap() > 0));
    follower.wait();
    qemu.say("quit");
    qemu.wait();
}

/// The library on this machine, under sanitizers, with signals as interrupts: built once for all tests.
fn native(lab: &Lab) -> PathBuf {
    let (out, sanitize) = (lab.path("native"), "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all");
    let out = out.display();
    make(&["-C", "emit", "posix", "PRESET=target", &format!("OUT={out}"), &format!("CFLAGS={sanitize}")]);
    let binary = lab.path("native/native");
    let include = paths::include();
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11"]).args(sanitize.split(' ')).arg(format!("-I{out}/include")).arg("-I").arg(include);
    cc.arg(paths::repository().join("emit/posix/tests/target/native.c")).arg(format!("{out}/libkymo-posix.a"));
    let done = cc.arg("-o").arg(&binary).output().expect("cc runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    binary
}

/// Of every writer the numbers come in order, and what is missing of all is what was lost on the target.
#[test]
fn interrupted_writers_lose_nothing_untold() {
    let lab = Lab::new("target-native");
    let binary = native(&lab);
    for seed in 1..=4 {
        let file = lab.path("native.line");
        let outcome = lab.run(&binary, &["log", file.to_str().unwrap(), "100000", &seed.to_string()]).expect(0);
        let sent: Vec<u64> = outcome.stdout.lines().map(|line| line.parse().unwrap()).collect();
        let mut receiver = Receiver::new();
        receiver.push(&std::fs::read(&file).unwrap(), None);
        receiver.finish();
        let batches = receiver.take();
        let [epoch] = receiver.epochs() else { panic!("one epoch: {:?}", receiver.epochs()) };
        assert_eq!((receiver.stray_bytes(), epoch.lost_line, epoch.damaged, epoch.is_final), (0, 0, 0, true));
        let writers = ["task", "irq 1", "irq 2", "irq 3", "irq 4"];
        let mut next: BTreeMap<&str, u32> = writers.iter().map(|name| (*name, 0)).collect();
        let mut user = 0;
        for record in batches.iter().flat_map(|batch| &batch.records) {
            let name = epoch.name_of(record.id);
            let Some(next) = next.get_mut(name.as_str()) else { continue };
            let numbers = words(&record.data);
            assert!(numbers[0] >= *next, "{name}: {} behind {next}", numbers[0]);
            assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{name}: {numbers:?}");
            assert_eq!(writers[record.thread as usize], name);
            *next = numbers[0] + 1;
            user += 1;
        }
        // The stream's own start and stop may be among what was overwritten.
        let missing = sent.iter().sum::<u64>() - user;
        let extra = epoch.lost_target.checked_sub(missing).unwrap_or_else(|| panic!("{missing} missing, {epoch:?}"));
        assert!(extra <= 4, "{missing} missing, {} told of", epoch.lost_target);
        assert!(user > 1000 && missing > 0, "seed {seed}: {user} of {sent:?}");
    }
}

/// A connection that ends in the middle of a frame; a line that is none; and words for both.
#[test]
fn connections_pipes_and_what_is_no_line() {
    let lab = Lab::new("target-sources");
    let rubbish = lab.write("rubbish", "this is not what a target sends\n");
    let (outcome, summary) = collect(&lab, &rubbish, "none");
    let outcome = outcome.expect(1);
    assert!(outcome.stderr.contains("no frame came"), "{}", outcome.stderr);
    assert_eq!(summary["stray_bytes"].as_u64(), Some(32));
    let refused = lab.kymo(&["collect", "--from", "tcp:127.0.0.1:1", "-o", "refused"]).expect(2);
    assert!(refused.stderr.contains("does something listen there?"), "{}", refused.stderr);
    assert!(!lab.path("refused").exists());
    let missing = lab.kymo(&["collect", "--from", "/nowhere/tty", "-o", "missing"]).expect(2);
    assert!(missing.stderr.contains("cannot open /nowhere/tty"), "{}", missing.stderr);
    let baud = lab.kymo(&["collect", "--from", rubbish.to_str().unwrap(), "--baud", "9600"]).expect(2);
    assert!(baud.stderr.contains("--baud is for terminals"), "{}", baud.stderr);

    let binary = native(&lab);
    let file = lab.path("native.line");
    lab.run(&binary, &["log", file.to_str().unwrap(), "3000", "9"]).expect(0);
    let line = std::fs::read(&file).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = format!("tcp:127.0.0.1:{}", listener.local_addr().unwrap().port());
    let collector = lab.spawn(paths::kymo(), &["collect", "--json", "--from", &from, "-o", "tcp"]);
    let (mut stream, _) = listener.accept().unwrap();
    for piece in line[..line.len() - 7].chunks(777) {
        stream.write_all(piece).unwrap();
    }
    // What the collector asks for is read: closing with unread bytes would throw away what was sent.
    let mut asked = [0];
    std::io::Read::read_exact(&mut stream, &mut asked).unwrap();
    assert_eq!(asked, *b"h");
    drop(stream);
    let outcome = collector.wait();
    let summary: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(summary["records"].as_u64().unwrap() > 100, "{summary}");
    assert_eq!((summary["epochs"][0]["final"].as_bool(), summary["complete"].as_bool()), (Some(false), Some(false)));
    assert!(summary["stray_bytes"].as_u64().unwrap() > 0);
    assert_eq!((outcome.code, &summary["lost"]), (3, &Value::Null));
    assert!(outcome.stderr.contains("the line ended within a frame"), "{}", outcome.stderr);
}

/// Where each frame of a line ends.
fn frame_ends(line: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    while let Some(head) = line.get(*ends.last().unwrap()..).filter(|rest| rest.len() > 8) {
        assert_eq!(head[..3], *b"KY\xa5");
        ends.push(ends.last().unwrap() + 16 + usize::from(u16::from_le_bytes([head[4], head[5]])) + 4);
    }
    ends
}

/// A line that ends before its stream did: how much is missing is never said to be nothing, wherever it was cut.
#[test]
fn a_tail_that_is_missing_is_unknown() {
    let lab = Lab::new("target-tail");
    let binary = native(&lab);
    let file = lab.path("native.line");
    lab.run(&binary, &["log", file.to_str().unwrap(), "3000", "9"]).expect(0);
    let line = std::fs::read(&file).unwrap();
    let ends = frame_ends(&line);
    assert_eq!(ends.last(), Some(&line.len()));
    let check = |name: &str, bytes: &[u8], code: i32, words: &str| {
        let path = lab.path(name);
        std::fs::write(&path, bytes).unwrap();
        let (outcome, summary) = collect(&lab, &path, &format!("{name}-trace"));
        let outcome = outcome.expect(code);
        let is_known = words.is_empty();
        assert_eq!((summary["complete"].as_bool(), summary["ended"].as_bool()), (Some(is_known), Some(true)), "{name}");
        assert_eq!(summary["lost"].is_null(), !is_known, "{name}: {summary}");
        assert!(outcome.stderr.contains(words), "{name}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.contains("UNKNOWN"), !is_known, "{name}: {}", outcome.stderr);
        let dir = lab.path(&format!("{name}-trace"));
        let read = trace::read(&lab, &dir, &[]);
        assert_eq!(read.stderr.contains("UNKNOWN"), !is_known, "{name}: kymo read says {}", read.stderr);
        // Who follows it does not wait for more.
        lab.kymo(&["read", "--follow", dir.to_str().unwrap()]).expect(0);
        summary
    };
    let (last, before) = (ends[ends.len() - 2], ends[ends.len() - 3]);
    check("whole", &line, 1, "");
    check("boundary", &line[..last], 3, "before the stream was shut down");
    check("events", &line[..before], 3, "before the stream was shut down");
    check("middle", &line[..before + 30], 3, "within a frame");
    check("head", &line[..last + 5], 3, "within a frame");
    check("one", &line[..ends[1]], 3, "before the stream was shut down");
    check("empty", &[], 1, "no frame came");
    // The target again, after a reset: its first stream was never shut down, its second was.
    lab.run(&binary, &["log", file.to_str().unwrap(), "3000", "10"]).expect(0);
    let other = std::fs::read(&file).unwrap();
    let cut = [&line[..ends[ends.len() / 2]], &other[..]].concat();
    let summary = check("reset", &cut, 3, "started again before the stream was shut down");
    assert_eq!(summary["epochs"].as_array().unwrap().len(), 2, "{summary}");
    // Both were.
    let summary = check("both", &[&line[..], &other[..]].concat(), 1, "");
    assert_eq!(summary["epochs"].as_array().unwrap().len(), 2, "{summary}");
}

/// No room for the trace, at its begin or later: that is said, and what was written is a trace.
#[test]
fn a_full_disk_ends_the_collecting_with_what_there_is() {
    let lab = Lab::new("target-full");
    let Some(disk) = SmallDisk::mount(&lab) else { return };
    let file = lab.path("native.line");
    lab.run(native(&lab), &["log", file.to_str().unwrap(), "100000", "5"]).expect(0);
    let collect = || lab.kymo(&["collect", "--json", "--from", file.to_str().unwrap(), "-o", &disk.path("trace")]);
    let mut records = Vec::new();
    for free in [0, 4096, 16 << 10, 64 << 10, 256 << 10] {
        disk.fill_but(free);
        let outcome = collect().expect(2);
        assert!(outcome.stderr.contains("No space left on device"), "{free} free: {}", outcome.stderr);
        if !disk.names().is_empty() {
            assert_eq!(disk.names(), ["trace"]);
            let names: Vec<_> =
                std::fs::read_dir(disk.path("trace")).unwrap().flatten().map(|e| e.file_name()).collect();
            assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{free} free: {names:?}");
            let read = trace::read(&lab, Path::new(&disk.path("trace")), &[]).whole();
            records.push(read.records.len());
            std::fs::remove_dir_all(disk.path("trace")).unwrap();
        }
    }
    assert!(records.is_sorted() && records.last().is_some_and(|last| *last > 100), "{records:?}");
    disk.make_room();
}
