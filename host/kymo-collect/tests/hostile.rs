// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that break the protocol, flood, or stay silent harm themselves only: beside each of them an honest program
//! is recorded without a loss. Here over real sockets, and with real files; how much of what is read when, and why who
//! is sent away, is tested by the scenarios of the simulation.

mod support;

use kymo_abi::wire::{Attached, BYTES_MAX, ByeReason, DescEntry, FromCollector, FromProgram};
use kymo_collect::{Outcome, Summary};

use support::*;

/// Runs `attack` beside an honest program; the attack has the session's socket.
fn beside(attack: impl FnOnce(&std::path::Path)) -> Summary {
    let place = Place::new();
    let session = place.start();
    let path = place.sessions()[0].clone();
    let honest = Fake::attach(&path, hello());
    for n in 0..100 {
        assert!(honest.record(0, n));
    }
    attack(&path);
    for n in 100..200 {
        assert!(honest.record(0, n));
    }
    // A newcomer is served while and after the attack goes on.
    let other = Fake::attach(&path, hello());
    assert!(other.record(1, 1));
    drop((honest, other));
    let summary = session.stop().unwrap();
    assert_eq!(
        (summary.processes[0].records, summary.processes[0].lost_counted.total()),
        (Some(200), 0),
        "{summary:#?}"
    );
    summary
}

#[track_caller]
fn check_bye(line: &mut Line, expect: &str) {
    let (reason, text) = line.hear_bye().expect("no BYE");
    assert!(reason == ByeReason::Protocol && text.contains(expect), "{reason:?} {text}");
}

#[test]
fn rubbish_ends_the_connection_with_the_reason() {
    beside(|path| {
        let check = |packets: &[Vec<u8>], expect: &str| {
            let mut line = Line::connect(path);
            for packet in packets {
                line.say(packet);
            }
            check_bye(&mut line, expect);
        };
        let greeting = FromProgram::Hello(hello()).encode();
        check(&[vec![0xff; 3]], "message: 3 bytes");
        check(&[vec![0xff; 300]], "says 4294967295 bytes");
        check(&[vec![0; BYTES_MAX + 1]], "bytes of a message");
        check(&[vec![1, 0, 0, 0, 9, 0, 0, 0, 0]], "message: 9 bytes");
        check(&[FromProgram::DescsEnd { generation: 1 }.encode()], "first message is not HELLO");
        check(&[greeting.clone(), greeting.clone()], "second HELLO");
        let attached =
            FromProgram::Attached(Attached { serial: 1, error: 0, locked: true, touched_bytes: 0, late: false });
        check(&[greeting.clone(), attached.encode()], "memory that it does not have");
        let without_index = FromProgram::Descs(vec![DescEntry { index: None, desc: event("a", "b") }]);
        check(&[greeting.clone(), without_index.encode()], "without an index");
        check(&[FromProgram::Hello(kymo_abi::wire::Hello { cpu_count: 0, ..hello() }).encode()], "number of CPUs");
        check(
            &[FromProgram::Hello(kymo_abi::wire::Hello { cpu_count: u32::MAX, ..hello() }).encode()],
            "number of CPUs",
        );
    });
}

#[test]
fn a_flood_of_messages_waits_and_disturbs_nobody() {
    const FLOOD: usize = 60_000;
    let summary = beside(|path| {
        let mut line = Line::connect(path);
        line.say(&FromProgram::Hello(hello()).encode());
        let packet = FromProgram::Gone(vec![1]).encode();
        assert_eq!((0..FLOOD).take_while(|_| line.say(&packet)).count(), FLOOD, "nobody is sent away for it");
        line.say(&FromProgram::DescsEnd { generation: 1 }.encode());
        assert!(matches!(line.hear(), Some(FromCollector::Go { generation: 1 })));
    });
    assert_eq!(summary.processes[1].outcome, Outcome::NothingWanted, "{:?}", summary.processes);
}

#[test]
fn a_peer_that_does_not_read_is_dropped() {
    beside(|path| {
        let line = Line::connect(path);
        line.say(&FromProgram::Hello(hello()).encode());
        line.say(&FromProgram::Descs(vec![DescEntry { index: Some(0), desc: event("fake", "tick") }]).encode());
        for generation in 0..15_000 {
            if !line.say(&FromProgram::DescsEnd { generation }.encode()) {
                break;
            }
        }
    });
}

#[test]
fn hundreds_of_connections_that_come_and_go() {
    beside(|path| {
        for _ in 0..20 {
            let lines: Vec<Line> = (0..50).map(|_| Line::connect(path)).collect();
            for line in &lines {
                line.say(&FromProgram::Hello(hello()).encode());
            }
        }
    });
}

/// The programs of the session's own user have files for rings, which they can cut short by their names: that ends
/// their own recording, and is told.
#[test]
fn a_ring_file_that_is_cut_short_ends_its_program_and_no_other() {
    // What is cut off behind the control blocks is noticed when a record is read from there.
    for (round, flight) in [(0, false), (4096, false), (0, true)] {
        let place = Place::new();
        let mut config = place.config();
        let rings = place.dir.path().join("rings");
        std::fs::create_dir(&rings).unwrap();
        (config.ring_dir, config.flight) = (Some(rings.clone()), flight);
        let session = kymo_collect::Session::start(config).unwrap();
        let path = place.sessions()[0].clone();
        let files = || -> Vec<_> { std::fs::read_dir(&rings).unwrap().flatten().map(|entry| entry.path()).collect() };
        let victim = Fake::attach(&path, hello());
        let [file] = &files()[..] else { panic!("{:?}", files()) };
        let honest = Fake::attach(&path, hello());
        // A flight recorder's writer would have to move tail soon, which these do not.
        let all: u64 = if flight { 80 } else { 200 };
        for n in 0..all / 2 {
            assert!(victim.record(0, n) && honest.record(0, n));
        }
        std::fs::File::options().write(true).open(file).unwrap().set_len(round).unwrap();
        // The collector gives it up at its next look, and its file goes.
        wait_until("the program is given up", || !file.exists());
        for n in all / 2..all {
            assert!(honest.record(0, n));
        }
        let other = Fake::attach(&path, hello());
        assert!(other.record(0, 0));
        drop((honest, other, victim));
        let summary = session.stop().unwrap();
        let entry = summary.unknown.iter().find(|entry| entry.process == Some(0)).expect("an entry");
        assert!(entry.why.contains("ring memory was taken away"), "{entry:?}");
        assert_eq!((summary.unknown_count, summary.lost), (1, None), "{:?}", summary.unknown);
        assert_eq!((summary.processes[1].records, summary.processes[2].records), (Some(all), Some(1)));
        assert_eq!(summary.processes[1].lost.map(|lost| lost.total()), Some(0));
        if !flight {
            let read: Vec<u64> = streams(&place.trace()).iter().flat_map(|path| payloads(path)).collect();
            assert!(read.iter().filter(|n| **n == all - 1).count() == 1 && read.len() as u64 == summary.records);
        }
    }
}
