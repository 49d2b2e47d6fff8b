// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that end, one after the other and at the session's end, and sessions beside each other.

use kymo_abi::RingKind;
use kymo_abi::wire::ByeReason;

use super::super::run::{MS, SECOND};
use super::super::session::Traits;
use super::super::stage::Stage;
use crate::control::ToControl;

/// What a session waits for programs to leave [spec/session.md 8].
const LEAVING_NS: u64 = 200 * MS;

#[test]
fn what_is_in_the_rings_at_the_end_is_taken_and_programs_are_told() {
    let mut stage = Stage::with(|_| {});
    let mut program = stage.program();
    assert_eq!(stage.record(&program, 0, 20), 20);
    stage.stop(0);
    // It has not read BYE yet.
    assert_eq!(stage.record(&program, 0, 30), 30);
    assert_eq!(program.hear_bye().0, ByeReason::End);
    assert!(!stage.session().hall.lock().unwrap().is_open, "the socket is gone");
    drop(program);
    let ended = stage.end(0);
    assert_eq!((ended.summary.records, ended.summary.unknown_count), (50, 0));
    assert!(ended.took < LEAVING_NS, "nobody is waited for any more: {} ns", ended.took);
}

#[test]
fn a_program_that_ignores_bye_holds_nobody_up() {
    let mut stage = Stage::with(|_| {});
    let program = stage.program();
    assert_eq!(stage.record(&program, 0, 50), 50);
    let ended = stage.end(0);
    assert_eq!(ended.summary.records, 50);
    assert!((LEAVING_NS..2 * LEAVING_NS).contains(&ended.took), "{} ns", ended.took);
    drop(program);
}

#[test]
fn two_sessions_have_the_same_program() {
    let mut stage = Stage::with(|_| {});
    let second = stage.begin(Traits::default(), |_| {});
    let hello = stage.hello(RingKind::Rseq);
    let programs = [stage.attach(0, hello.clone()), stage.attach(second, hello)];
    assert_ne!(programs[0].session, programs[1].session, "a program tells the sessions of one collector apart");
    for program in &programs {
        stage.record_slowly(program, 0, 1000);
    }
    drop(programs);
    assert_eq!([0, second].map(|number| stage.end(number).summary.records), [1000, 1000]);
}

#[test]
fn successive_programs_share_files_and_concurrent_ones_do_not() {
    let mut stage = Stage::with(|_| {});
    for _ in 0..20 {
        let program = stage.program();
        stage.record(&program, 0, 5);
        drop(program);
        stage.run_for(10 * MS);
        assert_eq!(stage.ask(ToControl::View).program_count, 0);
        assert_eq!(stage.memory_bytes(), 0, "its memory is given back");
    }
    assert_eq!(stage.session().disk.streams().len(), 1);
    let both = [stage.program(), stage.program()];
    for program in &both {
        stage.record(program, 0, 5);
    }
    stage.run_for(10 * MS);
    drop(both);
    let ended = stage.end(0);
    // That packets follow each other in time is checked with every trace.
    assert_eq!((ended.summary.records, ended.files.len()), (110, 2));
    let records: Vec<u64> = ended.files.values().map(|file| file.packets.iter().map(|of| of.records).sum()).collect();
    assert_eq!(records, [105, 5]);
}

#[test]
fn a_child_writes_on_in_the_rings_of_its_parent_and_they_are_given_back_when_it_is_gone() {
    let mut stage = Stage::with(|_| {});
    let program = stage.program();
    assert_eq!(stage.record(&program, 0, 5), 5);
    let child = program.forked();
    drop(program);
    stage.run_for(5 * SECOND);
    assert_eq!(stage.record(&child, 0, 7), 7);
    stage.run_for(5 * SECOND);
    assert!(stage.memory_bytes() > 0, "the child has them");
    drop(child);
    stage.run_for(2 * SECOND);
    assert_eq!(stage.memory_bytes(), 0);
    let summary = stage.end(0).summary;
    assert_eq!((summary.records, summary.recorded_count, summary.unknown_count), (12, 1, 0));
}
