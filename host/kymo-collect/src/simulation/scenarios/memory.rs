// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that programs are given, and make the collector use.

use kymo_abi::RingKind;
use kymo_abi::wire::ByeReason;

use super::super::run::MS;
use super::super::stage::Stage;
use crate::control::Limits;
use crate::summary::Outcome;

/// Found by KYMO_SEED=1795549676. `step_control` fails where a user has more than it may.
#[test]
fn connections_count_for_the_memory_of_their_user_before_they_speak() {
    let mut stage = Stage::with(|_| {});
    // Room for three that say nothing.
    stage.session().control_mut().limits = Limits { user_bytes: 7 << 10, all_bytes: 900 << 10 };
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(stage.connect(0));
        stage.run_for(MS);
    }
    let gone: Vec<usize> = (0..4).filter(|number| silent[*number].is_closed()).collect();
    assert_eq!(gone.len(), 1, "{gone:?}");
    let (reason, why) = silent[gone[0]].hear_bye();
    assert!(reason == ByeReason::Protocol && why.contains("take more than"), "{reason:?} {why}");
    drop(silent);
    stage.end(0);
}

#[test]
fn memory_is_capped_by_smaller_rings_and_then_by_refusal() {
    // Room for the rings of two CPUs once, at an eighth of the wish.
    let cap = 2 * (128 << 10);
    let mut stage = Stage::with(|config| (config.ring_bytes, config.memory_bytes_max) = (1 << 20, cap + 1));
    let first = stage.program();
    assert_eq!(first.rings().layout.ring_bytes, 128 << 10);
    assert_eq!(stage.memory_bytes(), cap);
    let hello = stage.hello(RingKind::Rseq);
    let mut second = stage.introduce(0, hello);
    stage.run_for(MS);
    let (reason, why) = second.hear_bye();
    assert!(reason == ByeReason::Memory && why.contains("--memory"), "{reason:?} {why}");
    drop((first, second));
    stage.run_for(MS);
    assert_eq!(stage.memory_bytes(), 0, "it was given back");
    drop(stage.program());
    let summary = stage.end(0).summary;
    assert_eq!(summary.rings_bytes_max, cap);
    let why = &summary.processes[1].outcome;
    assert!(matches!(why, Outcome::Refused(why) if why.contains("--memory")), "{why:?}");
    assert_eq!((summary.processes.len(), summary.recorded_count, summary.unknown_count), (3, 2, 1));
    assert!(summary.caveats.iter().any(|text| text.contains("made smaller")), "{:?}", summary.caveats);
}

/// They could have 288 lanes each, 18 MiB.
#[test]
fn portable_programs_take_the_memory_of_lanes_that_threads_have() {
    let mut stage = Stage::with(|config| config.memory_bytes_max = 2 << 20);
    let mut programs = Vec::new();
    for _ in 0..3 {
        let hello = stage.hello(RingKind::Portable);
        let program = stage.attach(0, hello);
        assert_eq!(stage.record(&program, 0, 10), 10);
        programs.push(program);
    }
    drop(programs);
    let summary = stage.end(0).summary;
    assert_eq!((summary.records, summary.recorded_count, summary.unknown_count), (30, 3, 0));
}

/// Collector and program may find each other both ways. The memory that the second connection lacks is what the first
/// one has: nothing is missing, and nothing is unknown.
#[test]
fn a_second_connection_of_a_recorded_program_is_not_refused_for_memory() {
    let mut stage =
        Stage::with(|config| (config.ring_bytes, config.memory_bytes_max) = (128 << 10, 2 * (128 << 10) + 1));
    let hello = stage.hello(RingKind::Rseq);
    let first = stage.attach(0, hello.clone());
    let mut again = stage.introduce(0, hello);
    stage.run_for(MS);
    assert_eq!(again.hear_bye().0, ByeReason::End);
    assert_eq!(stage.record(&first, 0, 1), 1);
    drop((first, again));
    let summary = stage.end(0).summary;
    assert_eq!((summary.records, summary.unknown_count, summary.process_count), (1, 0, 1), "{:?}", summary.processes);
    assert!(summary.processes.iter().all(|process| !matches!(process.outcome, Outcome::Refused(_))));
}
