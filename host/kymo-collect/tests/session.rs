// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole sessions against programs in the small: what a user gets when all goes well, and when there is too much of
//! something.

mod support;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kymo_abi::ring::RING_BYTES_MIN;
use kymo_abi::wire::{ByeReason, DescEntry, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, RingKind};
use kymo_collect::{Cause, Outcome, Patterns, RuntimeDir, Scope, Session, Summary, running};

use support::*;

/// Writes `count` records on `lane`, waiting for room.
fn write(fake: &Fake, lane: u32, count: u64) {
    for n in 0..count {
        while !fake.record(lane, n) {
            fake.ring(lane).lost_full.fetch_sub(1, Ordering::Relaxed);
            std::thread::yield_now();
        }
    }
}

fn end(session: Session) -> Summary {
    let begun = Instant::now();
    let summary = session.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let text = fs::read_to_string(summary.trace.join(kymo_collect::SUMMARY_FILE)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["complete"], true);
    summary
}

#[test]
fn records_of_a_program_are_in_the_trace() {
    let place = Place::new();
    let session = place.start();
    let fake = Fake::attach(&place.sessions()[0], hello());
    let metadata = fs::read_to_string(place.trace().join("metadata")).unwrap();
    assert!(metadata.contains("fake:tick"), "the metadata is there before the first record: {metadata}");
    write(&fake, 0, 20_000);
    write(&fake, 1, 100);
    write(&fake, 2, 7);
    drop(fake);
    wait_until("the program's memory is given back", || session.progress().programs == 0);
    let summary = end(session);
    assert_eq!((summary.records, summary.lost_counted.total(), summary.recorded_count), (20_107, 0, 1));
    let names: Vec<_> =
        streams(&place.trace()).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["user_0_0", "user_1_0", "user_t_0"]);
    assert!(payloads(&place.trace().join("user_0_0")).into_iter().eq(0..20_000));
    assert!(payloads(&place.trace().join("user_t_0")).into_iter().eq(0..7));
    let process = &summary.processes[0];
    assert_eq!((process.comm.as_str(), process.records, &process.outcome), ("fake", Some(20_107), &Outcome::Attached));
    assert!(process.first < process.last);
    assert!(summary.clock.baseline_ns >= 50_000_000, "{:?}", summary.clock);
}

#[test]
fn what_is_in_the_rings_at_the_end_is_taken_and_programs_are_told() {
    let place = Place::new();
    let session = place.start();
    let fake = Fake::attach(&place.sessions()[0], hello());
    let thread = std::thread::spawn(move || {
        write(&fake, 0, 50);
        fake.leave()
    });
    wait_until("something arrives", || session.progress().records > 0);
    let summary = end(session);
    assert_eq!((thread.join().unwrap(), summary.records), (Some(ByeReason::End), 50));
    assert!(place.sessions().is_empty(), "the socket is gone");
}

#[test]
fn a_program_that_ignores_bye_holds_nobody_up() {
    let place = Place::new();
    let session = place.start();
    let fake = Fake::attach(&place.sessions()[0], hello());
    write(&fake, 0, 50);
    assert_eq!(end(session).records, 50);
    drop(fake);
}

#[test]
fn losses_are_counted_and_dated() {
    let place = Place::new();
    let mut config = place.config();
    config.ring_bytes = RING_BYTES_MIN;
    // So seldom that the ring must overflow.
    config.poll = Duration::from_secs(1);
    let session = Session::start(config).unwrap();
    let fake = Fake::attach(&place.sessions()[0], hello());
    // The drain thread has taken the program in, and sleeps.
    session.ring_use().unwrap();
    let kept = (0..10_000).filter(|n| fake.record(0, *n)).count() as u64;
    drop(fake);
    let mut summary = end(session);
    assert_eq!((summary.records, summary.lost_counted.full), (kept, 10_000 - kept));
    let packets = packets(&place.trace().join("user_0_0"));
    assert_eq!((packets[0].discarded, packets.last().unwrap().discarded), (0, 10_000 - kept));
    let loss = summary.losses.remove(0);
    assert!(loss.from < loss.to && loss.to <= summary.end && loss.from >= summary.start, "{loss:?}");
    assert_eq!(loss.cpu, Some(0));
}

#[test]
fn two_sessions_have_the_same_program() {
    let place = Place::new();
    let first = place.start();
    let mut config = place.config();
    config.output = place.dir.path().join("second");
    let second = Session::start(config).unwrap();
    let fakes: Vec<Fake> = place.sessions().iter().map(|path| Fake::attach(path, hello())).collect();
    assert_eq!(fakes.len(), 2);
    assert_ne!(fakes[0].session, fakes[1].session, "a program tells the sessions of one collector apart");
    for fake in &fakes {
        write(fake, 0, 1000);
    }
    drop(fakes);
    assert_eq!((end(first).records, end(second).records), (1000, 1000));
}

#[test]
fn successive_programs_share_files_and_concurrent_ones_do_not() {
    let place = Place::new();
    let session = place.start();
    let path = place.sessions()[0].clone();
    for round in 0..20 {
        let fake = Fake::attach(&path, Hello { pid: 1000 + round, ..hello() });
        write(&fake, 0, 5);
        drop(fake);
        wait_until("it is gone", || {
            session.progress().programs == 0 && session.progress().records == 5 * (u64::from(round) + 1)
        });
        // The file is free when the drain thread has looked for the last time, and memory is given back after that.
        wait_until("its memory is given back", || session.view().unwrap().memory_bytes == 0);
    }
    assert_eq!(streams(&place.trace()).len(), 1);
    let both = [Fake::attach(&path, hello()), Fake::attach(&path, hello())];
    for fake in &both {
        write(fake, 0, 5);
    }
    wait_until("both were looked at", || session.progress().records == 110);
    drop(both);
    assert_eq!(end(session).records, 110);
    let files = streams(&place.trace());
    assert_eq!(files.len(), 2);
    for file in files {
        let packets = packets(&file);
        assert!(packets.iter().all(|packet| packet.begin <= packet.end));
        assert!(packets.windows(2).all(|pair| pair[0].end <= pair[1].begin && pair[0].seq + 1 == pair[1].seq));
    }
}

#[test]
fn memory_is_capped_by_smaller_rings_and_then_by_refusal() {
    let place = Place::new();
    let mut config = place.config();
    config.ring_bytes = 1 << 20;
    // Enough for the machine's CPUs once, at an eighth of the wish.
    let cpus = std::thread::available_parallelism().unwrap().get().min(2) as u64;
    config.memory_bytes_max = cpus * (128 << 10) + 1;
    let session = Session::start(config).unwrap();
    let path = place.sessions()[0].clone();
    let first = Fake::attach(&path, hello());
    assert_eq!(first.layout.ring_bytes, 128 << 10);
    let ask = || {
        let mut line = Line::connect(&path);
        line.say(&FromProgram::Hello(hello()).encode());
        line.say(&FromProgram::Descs(vec![DescEntry { index: Some(0), desc: event("fake", "tick") }]).encode());
        line.say(&FromProgram::DescsEnd { generation: 1 }.encode());
        line.hear_bye()
    };
    let (reason, text) = ask().unwrap();
    assert_eq!(reason, ByeReason::Memory, "{text}");
    drop(first);
    wait_until("memory is given back", || session.view().unwrap().memory_bytes == 0);
    drop(Fake::attach(&path, hello()));
    let summary = end(session);
    assert_eq!(summary.rings_bytes_max, cpus * (128 << 10));
    assert!(
        matches!(&summary.processes[1].outcome, Outcome::Refused(why) if why.contains("--memory")),
        "{:?}",
        summary.processes
    );
}

/// Collector and program may find each other both ways. The memory that the second connection lacks is what the first
/// one has: nothing is missing, and nothing is unknown.
#[test]
fn a_second_connection_of_a_recorded_program_is_not_refused_for_memory() {
    let place = Place::new();
    let mut config = place.config();
    config.ring_bytes = 128 << 10;
    let cpus = std::thread::available_parallelism().unwrap().get().min(2) as u64;
    config.memory_bytes_max = cpus * (128 << 10) + 1;
    let session = Session::start(config).unwrap();
    let path = place.sessions()[0].clone();
    let named = || Hello { nonce: 7, ..hello() };
    let first = Fake::attach(&path, named());
    let mut line = Line::connect(&path);
    line.say(&FromProgram::Hello(named()).encode());
    line.say(&FromProgram::Descs(vec![DescEntry { index: Some(0), desc: event("fake", "tick") }]).encode());
    line.say(&FromProgram::DescsEnd { generation: 1 }.encode());
    assert_eq!(line.hear_bye().map(|(reason, _)| reason), Some(ByeReason::End));
    assert!(first.record(0, 5));
    drop(first);
    let summary = end(session);
    assert_eq!((summary.records, summary.unknown_count), (1, 0), "{:?}", summary.processes);
    assert!(summary.processes.iter().all(|process| !matches!(process.outcome, Outcome::Refused(_))));
}

#[test]
fn only_wanted_events_are_switched_on_and_ids_are_shared() {
    let place = Place::new();
    let mut config = place.config();
    config.patterns = Patterns::new(&["fake:*".into(), "nothing:*".into()], &["fake:secret".into()]).unwrap();
    let session = Session::start(config).unwrap();
    let mut line = Line::connect(&place.sessions()[0]);
    line.say(&FromProgram::Hello(hello()).encode());
    let events = [("fake", "a"), ("fake", "secret"), ("other", "a"), ("fake", "a"), ("fake", "b")];
    let entry = |(index, (provider, name)): (usize, &(&str, &str))| DescEntry {
        index: Some(index as u32),
        desc: event(provider, name),
    };
    line.say(&FromProgram::Descs(events.iter().enumerate().map(entry).collect()).encode());
    line.say(&FromProgram::DescsEnd { generation: 3 }.encode());
    assert!(matches!(line.hear(), Some(FromCollector::Attach { .. })));
    assert_eq!(line.hear(), Some(FromCollector::Enable(vec![(0, 1), (3, 1), (4, 2)])));
    assert_eq!(line.hear(), Some(FromCollector::Go { generation: 3 }));
    // A library comes with an event that is known, and one that is new; another goes.
    line.say(&FromProgram::Gone(vec![4]).encode());
    let more = vec![
        DescEntry { index: Some(9), desc: event("fake", "b") },
        DescEntry { index: Some(10), desc: event("fake", "c") },
    ];
    line.say(&FromProgram::Descs(more).encode());
    line.say(&FromProgram::DescsEnd { generation: 4 }.encode());
    assert_eq!(line.hear(), Some(FromCollector::Enable(vec![(9, 2), (10, 3)])));
    assert_eq!(line.hear(), Some(FromCollector::Go { generation: 4 }));
    drop(line);
    let summary = end(session);
    let seen: Vec<_> = summary.events.iter().map(|event| (event.name.as_str(), event.wanted)).collect();
    assert_eq!(
        seen,
        [("fake:a", true), ("fake:b", true), ("fake:c", true), ("fake:secret", false), ("other:a", false)]
    );
}

#[test]
fn programs_outside_of_the_scope_are_sent_away() {
    let place = Place::new();
    let mut config = place.config();
    config.scope = Scope::Pids(vec![1]);
    config.scope = match Scope::Pids(vec![1]).wants(std::process::id()) {
        true => Scope::Pids(vec![u32::MAX]),
        false => config.scope,
    };
    let session = Session::start(config).unwrap();
    let mut line = Line::connect(&place.sessions()[0]);
    line.say(&FromProgram::Hello(hello()).encode());
    assert_eq!(line.hear_bye().unwrap().0, ByeReason::Scope);
    assert_eq!(end(session).processes[0].outcome, Outcome::OutOfScope);
}

#[test]
fn programs_that_do_not_fit_are_told_why() {
    let place = Place::new();
    let session = place.start();
    let check = |hello: Hello, expect: &str| {
        let mut line = Line::connect(&place.sessions()[0]);
        line.say(&FromProgram::Hello(hello).encode());
        // One whose messages can be read is refused only if it has an event that is wanted.
        let entry = DescEntry { index: Some(0), desc: event("fake", "tick") };
        line.say(&FromProgram::Descs(vec![entry]).encode());
        line.say(&FromProgram::DescsEnd { generation: 1 }.encode());
        let (reason, text) = line.hear_bye().unwrap();
        assert!(reason == ByeReason::Version && text.contains(expect), "{reason:?} {text}");
    };
    check(Hello { abi: 9, ..hello() }, &format!("ABI 9, this kymo has ABI {ABI_VERSION}"));
    check(Hello { kind: 7, ..hello() }, "kind 7");
    let other = if session_clock() == Clock::Tsc { Clock::Monotonic } else { Clock::Tsc };
    check(Hello { clock: other.code(), ..hello() }, other.name());
    assert_eq!(end(session).processes.len(), 3);
}

#[test]
fn portable_programs_have_lanes_for_threads() {
    let place = Place::new();
    let session = place.start();
    let fake = Fake::attach(&place.sessions()[0], Hello { kind: RingKind::Portable.code(), ..hello() });
    assert!(fake.layout.lane_count >= 258);
    fake.view().header().lanes_used.store(300_000, Ordering::Relaxed);
    write(&fake, 257, 3);
    fake.view().header().lost_lane.store(4, Ordering::Relaxed);
    drop(fake);
    let summary = end(session);
    assert_eq!((summary.records, summary.lost_counted.lane), (3, 4));
    assert!(
        streams(&place.trace()).iter().all(|path| path.file_name().unwrap().to_string_lossy().starts_with("user_t_"))
    );
}

/// A program's own socket, which collectors find in the directory.
fn listen(place: &Place) -> std::os::fd::OwnedFd {
    use rustix::net::*;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let path = place.runtime().join(format!("p.{}.0000abcd", std::process::id()));
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&socket, 4).unwrap();
    socket
}

fn introduce(line: &Line) {
    line.say(&FromProgram::Hello(hello()).encode());
    line.say(&FromProgram::Descs(vec![DescEntry { index: Some(0), desc: event("fake", "tick") }]).encode());
    line.say(&FromProgram::DescsEnd { generation: 1 }.encode());
}

#[test]
fn running_programs_are_found_listed_and_attached() {
    let place = Place::new();
    let dir = RuntimeDir::make(&place.runtime()).unwrap();
    let socket = listen(&place);
    let server = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for _ in 0..2 {
            let line = Line { socket: rustix::net::accept(&socket).unwrap(), descriptor: None };
            introduce(&line);
            lines.push(line);
        }
        lines
    });
    let programs = running(&[dir], Duration::from_secs(5));
    assert_eq!(programs.len(), 1);
    assert_eq!(
        (programs[0].comm.as_str(), programs[0].events[0].full_name(), &programs[0].caveat),
        ("fake", "fake:tick".into(), &None)
    );
    let session = place.start();
    let mut lines = server.join().unwrap();
    assert!(matches!(lines[1].hear(), Some(FromCollector::Attach { .. })));
    drop(lines);
    assert_eq!(end(session).recorded_count, 1);
}

#[test]
fn a_socket_that_appears_later_is_visited_unless_its_program_came_by_itself() {
    let place = Place::new();
    let session = place.start();
    let came = Fake::attach(&place.sessions()[0], Hello { nonce: 0xabcd, ..hello() });
    let socket = listen(&place);
    let mut set = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN)];
    let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
    assert_eq!(rustix::event::poll(&mut set, Some(&wait)).unwrap(), 0, "visited although it is served");
    drop(came);
    fs::remove_file(place.runtime().join(format!("p.{}.0000abcd", std::process::id()))).unwrap();
    let socket = listen(&place);
    let line = Line { socket: rustix::net::accept(&socket).unwrap(), descriptor: None };
    introduce(&line);
    wait_until("it is attached", || session.progress().programs == 1);
    drop(line);
    assert_eq!(end(session).recorded_count, 2);
}

#[test]
fn leftovers_are_removed_once_they_are_old() {
    let place = Place::new();
    let dir = RuntimeDir::make(&place.runtime()).unwrap();
    drop(listen(&place));
    let path = place.runtime().join(format!("p.{}.0000abcd", std::process::id()));
    let dirs = [dir];
    assert!(running(&dirs, Duration::from_secs(1)).is_empty());
    assert!(path.exists(), "it may be about to listen");
    wait_until("it is old", || {
        assert!(running(&dirs, Duration::from_secs(1)).is_empty());
        !path.exists()
    });
}

/// A tmpfs of 1 MiB, unmounted at the end.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None` where we may not mount.
    fn mount(at: &Path) -> Option<SmallDisk> {
        fs::create_dir_all(at).unwrap();
        let done =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(at).status().ok()?;
        done.success().then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_trace_at_a_packet() {
    let place = Place::new();
    let disk = place.dir.path().join("disk");
    let Some(mounted) = SmallDisk::mount(&disk) else {
        return kymo_testing::skip_this("may not mount a tmpfs");
    };
    let mut config = place.config();
    config.output = disk.join("trace");
    let session = Session::start(config).unwrap();
    let fake = Fake::attach(&place.sessions()[0], hello());
    write(&fake, 0, 200_000);
    drop(fake);
    let summary = end(session);
    let stream = disk.join("trace/user_0_0");
    let kept = payloads(&stream);
    let text = fs::read_to_string(disk.join("trace").join(kymo_collect::SUMMARY_FILE)).unwrap();
    drop(mounted);
    assert_eq!(kept.len() as u64, summary.records);
    // A smaller packet may fit behind one that did not: what is between them is counted below.
    assert!(kept[0] == 0 && kept.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(
        (summary.records + summary.lost_counted.not_written, summary.lost_counted.total()),
        (200_000, summary.lost_counted.not_written)
    );
    assert!(summary.lost_counted.not_written > 100_000 && summary.write_error.is_some(), "{:?}", summary.lost);
    // One interval from the stop to the end, or more where a packet fitted in between.
    let dated: u64 = summary.losses.iter().map(|loss| loss.records).sum();
    assert!(summary.losses.iter().all(|loss| loss.cause == Cause::NotWritten), "{:?}", summary.losses);
    assert_eq!(dated, summary.lost_counted.not_written);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["lost"]["not_written"], summary.lost_counted.not_written, "the summary on the full disk says so");
}
