// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that break the protocol, flood, or stay silent harm themselves only: beside each of them an honest program
//! is recorded without a loss, and a newcomer is attached within a few turns.

use std::sync::atomic::{AtomicU64, Ordering};

use kymo_abi::RingKind;
use kymo_abi::desc::{Desc, EventDesc, encode};
use kymo_abi::wire::{Attached, ByeReason, DescEntry, FromCollector, FromProgram};

use super::super::run::{MS, SECOND};
use super::super::stage::{Actor, Stage, event};
use crate::summary::{Outcome, Summary};

/// What is read of one program in a second, and at once [spec/session.md 9].
const PER_SECOND: u64 = 20_000;
/// Time in which a program that came must have introduced itself.
const GREETING_NS: u64 = 5 * SECOND;

/// An attack that goes on while newcomers arrive.
fn beside(attack: impl FnOnce(&mut Stage) -> Vec<Actor>) -> Summary {
    let mut stage = Stage::with(|_| {});
    let honest = stage.program();
    assert_eq!(stage.record(&honest, 0, 100), 100);
    let attackers = attack(&mut stage);
    assert_eq!(stage.record(&honest, 0, 100), 100);
    let newcomer = stage.program();
    assert_eq!(stage.record(&newcomer, 1, 1), 1);
    stage.run_for(SECOND);
    drop((honest, newcomer, attackers));
    let summary = stage.end(0).summary;
    let process = &summary.processes[0];
    assert_eq!((process.records, process.lost_counted.total()), (Some(200), 0), "{summary:#?}");
    summary
}

fn greeting(stage: &mut Stage) -> FromProgram {
    FromProgram::Hello(stage.hello(RingKind::Rseq))
}

#[track_caller]
fn check_bye(program: &mut Actor, expect: &str) {
    let (reason, text) = program.hear_bye();
    assert!(reason == ByeReason::Protocol && text.contains(expect), "{reason:?} {text}");
}

#[test]
fn a_bad_description_is_refused_and_the_rest_goes_on() {
    let summary = beside(|stage| {
        let mut bad = event("bad", "one");
        bad[8] = 77;
        let entries =
            vec![DescEntry { index: Some(0), desc: bad }, DescEntry { index: Some(1), desc: event("good", "one") }];
        let said = [greeting(stage), FromProgram::Descs(entries), FromProgram::DescsEnd { generation: 1 }];
        let mut program = stage.say_to(0, &said);
        assert!(matches!(program.hear(), Some(FromCollector::Attach { .. })));
        assert_eq!(program.hear(), Some(FromCollector::Enable(vec![(1, 2)])));
        vec![program]
    });
    let is_told = |caveat: &String| caveat.contains("kind of a description: value 77");
    assert!(summary.caveats.iter().any(is_told), "{:?}", summary.caveats);
}

#[test]
fn a_flood_of_messages_waits_and_disturbs_nobody() {
    const FLOOD: u64 = 60_000;
    let summary = beside(|stage| {
        let hello = greeting(stage);
        let mut flood = stage.say_to(0, &[hello]);
        let begun = stage.time.read();
        (0..FLOOD).for_each(|_| flood.say(&FromProgram::Gone(vec![1])));
        flood.say(&FromProgram::DescsEnd { generation: 1 });
        // In the midst of it.
        stage.run_for(SECOND);
        drop(stage.program());
        assert!(flood.hear().is_none(), "it is read no faster than {PER_SECOND} messages a second");
        let answer = loop {
            stage.run_for(10 * MS);
            if let Some(answer) = flood.hear() {
                break answer;
            }
            assert!(stage.time.read() - begun < 10 * SECOND, "it is not read any more");
        };
        assert_eq!(answer, FromCollector::Go { generation: 1 }, "nobody is sent away for it");
        let (took, most) = (stage.time.read() - begun, (FLOOD - PER_SECOND) * SECOND / PER_SECOND);
        assert!((most..most + SECOND / 4).contains(&took), "{took} ns");
        vec![flood]
    });
    assert_eq!(summary.processes[1].outcome, Outcome::NothingWanted, "{:?}", summary.processes);
}

#[test]
fn too_many_descriptions_are_refused() {
    let entry = |index| {
        let (name, file) = (format!("e{index}"), String::new());
        let event = EventDesc { provider: "p".into(), name, file, line: 0, fields: Vec::new() };
        DescEntry { index: Some(index), desc: encode(&Desc::Event(event)) }
    };
    beside(|stage| {
        let hello = greeting(stage);
        let mut program = stage.say_to(0, &[hello]);
        for first in (0..70_000).step_by(500) {
            program.say(&FromProgram::Descs((first..first + 500).map(entry).collect()));
        }
        stage.run_for(SECOND);
        check_bye(&mut program, "too many descriptions");
        vec![program]
    });
}

#[test]
fn a_peer_that_does_not_read_is_dropped() {
    let summary = beside(|stage| {
        let hello = greeting(stage);
        let descs = FromProgram::Descs(vec![DescEntry { index: Some(0), desc: event("fake", "tick") }]);
        let program = stage.say_to(0, &[hello, descs]);
        // Each is answered, and what is not read fills 4 MiB.
        (0..100_000).for_each(|generation| program.say(&FromProgram::DescsEnd { generation }));
        stage.run_for(10 * SECOND);
        assert!(program.is_closed());
        vec![program]
    });
    let entry = summary.unknown.iter().find(|entry| entry.process == Some(1)).expect("an entry");
    assert!(entry.why.contains("read"), "{entry:?}");
}

#[test]
fn silent_peers_hold_nobody_up_and_are_sent_away() {
    beside(|stage| {
        let begun = stage.time.read();
        let hello = greeting(stage);
        // Half an introduction is none.
        let mut silent = vec![stage.say_to(0, &[hello])];
        for _ in 0..50 {
            silent.push(stage.connect(0));
            stage.run_for(MS);
        }
        drop(stage.program());
        stage.run_for(begun + GREETING_NS - MS - stage.time.read());
        assert!(silent.iter().all(|program| !program.is_closed()), "they have {GREETING_NS} ns");
        stage.run_for(SECOND);
        silent.iter_mut().for_each(|program| check_bye(program, "in time"));
        assert!(silent.iter().all(Actor::is_closed));
        silent
    });
}

#[test]
fn a_hostile_ring_spoils_its_own_lane_only() {
    let summary = beside(|stage| {
        let hostile = stage.program();
        assert_eq!(stage.record(&hostile, 0, 1), 1);
        let view = hostile.rings().view();
        let rings = view.rings();
        rings[0].head.store(u64::MAX / 3, Ordering::Release);
        rings[1].lost_full.store(u64::MAX - 5, Ordering::Release);
        view.header().lost_lane.store(u64::MAX, Ordering::Release);
        assert_eq!(stage.record(&hostile, 2, 1), 1);
        stage.run_for(SECOND);
        let at = |word: &AtomicU64| word.load(Ordering::Acquire);
        assert_eq!(at(&rings[2].tail), at(&rings[2].head), "its honest lane was emptied");
        vec![hostile]
    });
    let damaged: Vec<_> = summary.damage.iter().map(|damage| (damage.process, damage.lane)).collect();
    assert!(damaged.contains(&(1, 0)) && damaged.contains(&(1, 1)), "{:?}", summary.damage);
    assert_eq!(summary.lost_counted.total(), 0);
    // The spill lane was honest.
    assert_eq!(summary.processes[1].records, Some(1));
    assert!(summary.unknown.iter().any(|entry| entry.process == Some(1)), "{:?}", summary.unknown);
}

/// A program that answers offers of other rings with anything: nothing is lost of what it wrote, and nothing hangs.
#[test]
fn answers_to_offers_that_nobody_made() {
    let summary = beside(|stage| {
        let mut program = stage.program();
        assert_eq!(stage.record(&program, 0, 1), 1);
        for serial in [0, 1, u64::MAX] {
            let attached = Attached { serial, error: 0, locked: false, touched_bytes: 0, late: false };
            program.say(&FromProgram::Attached(attached));
        }
        stage.run_for(MS);
        check_bye(&mut program, "memory that it does not have");
        vec![program]
    });
    assert_eq!(summary.processes[1].records, Some(1));
}
