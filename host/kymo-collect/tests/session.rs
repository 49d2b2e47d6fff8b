// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole sessions against programs in the small, over real sockets and directories. What control and drain thread
//! decide, and when, is tested without time by the scenarios of the simulation.

mod support;

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kymo_abi::wire::{ByeReason, DescEntry, FromCollector, FromProgram};
use kymo_collect::{Outcome, RuntimeDir, Session, Summary, running};

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
    let summary = session.stop().unwrap();
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
    let last = Fake::attach(&place.sessions()[0], hello());
    let told = std::thread::spawn(move || last.leave());
    let summary = end(session);
    assert_eq!(told.join().unwrap(), Some(ByeReason::End));
    assert!(place.sessions().is_empty(), "the socket is gone");
    assert_eq!((summary.records, summary.lost_counted.total(), summary.recorded_count), (20_107, 0, 2));
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
fn a_socket_that_appears_later_is_visited() {
    let place = Place::new();
    let session = place.start();
    let socket = listen(&place);
    let line = Line { socket: rustix::net::accept(&socket).unwrap(), descriptor: None };
    introduce(&line);
    wait_until("it is attached", || session.progress().programs == 1);
    drop(line);
    assert_eq!(end(session).recorded_count, 1);
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
