// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot and what waits behind it: `check_snapshots` fails where records of a program are missing.

use kymo_abi::RingKind;

use super::super::run::{MS, SECOND};
use super::super::session::Traits;
use super::super::stage::Stage;

fn flight_recorder(change: impl FnOnce(&mut crate::Config)) -> Stage {
    Stage::of(Traits { is_flight: true, ..Traits::default() }, change)
}

/// Asks for a snapshot while the drain thread stands still. It is taken after `meanwhile`. Its records.
fn snapshot_behind(stage: &mut Stage, meanwhile: impl FnOnce(&mut Stage)) -> u64 {
    stage.stall_drain(SECOND);
    let now = stage.time.read();
    let before = stage.session().frozen;
    stage.session().ask_for_snapshot(None, now);
    meanwhile(stage);
    stage.run_for(2 * SECOND);
    stage.session().frozen - before
}

/// Found by KYMO_SEED=1795558736.
#[test]
fn a_snapshot_has_programs_that_were_added_behind_it() {
    let mut stage = flight_recorder(|_| {});
    let first = stage.program();
    stage.record(&first, 0, 10);
    let mut second = None;
    let records = snapshot_behind(&mut stage, |stage| {
        let program = stage.program();
        stage.record(&program, 1, 5);
        second = Some(program);
    });
    assert_eq!(records, 15);
    drop((first, second));
    stage.end(0);
}

/// The program that is cut off is in the snapshot, too, which was asked for before.
#[test]
fn a_snapshot_has_programs_that_were_added_behind_a_cut_off() {
    let mut stage = flight_recorder(|config| config.memory_bytes_max = 6 << 20);
    let mut hello = stage.hello(RingKind::Rseq);
    hello.cpu_count = 60;
    let large = stage.attach(0, hello);
    let hello = stage.hello(RingKind::Portable);
    let mut greedy = stage.attach(0, hello);
    stage.record(&greedy, 0, 10);
    // By then it may claim what the large one has left: 36 lanes.
    stage.run_for(5 * SECOND);
    drop(large);
    stage.run_for(10 * MS);
    // A flight recorder keeps the rings of the last eight that ended: the large one's are given back, and nobody has
    // looked since how much others may claim.
    for _ in 0..8 {
        drop(stage.program());
        stage.run_for(10 * MS);
    }
    let mut second = None;
    let records = snapshot_behind(&mut stage, |stage| {
        greedy.rings().touch(45);
        let program = stage.program();
        stage.record(&program, 1, 5);
        second = Some(program);
        let (_, why) = greedy.hear_bye();
        assert!(why.contains("more ring memory"), "{why}");
    });
    assert_eq!(records, 15);
    drop((greedy, second));
    stage.end(0);
}
