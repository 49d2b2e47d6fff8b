// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that are lost: how many, why, and when.

use kymo_abi::RingKind;
use kymo_abi::ring::RING_BYTES_MIN;

use super::super::run::SECOND;
use super::super::stage::Stage;
use crate::summary::{Cause, Summary};

fn dated(summary: &Summary) -> u64 {
    summary.losses.iter().map(|loss| loss.records).sum()
}

#[test]
fn losses_are_counted_and_dated() {
    let mut stage = Stage::with(|config| config.ring_bytes = RING_BYTES_MIN);
    let program = stage.program();
    let before = stage.record(&program, 0, 10);
    stage.run_for(SECOND);
    let from = stage.time.read();
    let kept = before + stage.record(&program, 0, 9_990);
    let to = stage.time.read();
    // Losses after that are another interval.
    stage.run_for(SECOND);
    drop(program);
    let mut ended = stage.end(0);
    let lost = 10_000 - kept;
    assert!(lost > 0);
    assert_eq!((ended.summary.records, ended.summary.lost_counted.full), (kept, lost));
    let file = ended.files.remove("user_0_0").expect("the file of CPU 0");
    assert_eq!((file.packets[0].lost, file.discarded), (0, lost));
    let loss = ended.summary.losses.remove(0);
    assert!(loss.from < to && from < loss.to, "{loss:?}, not within {from} and {to}");
    assert!(loss.from < loss.to && loss.to <= ended.summary.end && loss.from >= ended.summary.start, "{loss:?}");
    assert_eq!((loss.cpu, loss.cause, loss.records), (Some(0), Cause::Full, lost));
    assert!(ended.summary.losses.is_empty(), "{:?}", ended.summary.losses);
}

#[test]
fn a_full_disk_ends_the_trace_at_a_packet() {
    let mut stage = Stage::with(|_| {});
    let program = stage.program();
    stage.record_slowly(&program, 0, 20_000);
    stage.session().disk.set_faults(|faults| faults.is_full = true);
    stage.record_slowly(&program, 0, 180_000);
    drop(program);
    let mut ended = stage.end(0);
    let summary = &ended.summary;
    let file = ended.files.remove("user_0_0").expect("the file of CPU 0");
    let kept: u64 = file.packets.iter().map(|packet| packet.records).sum();
    assert_eq!(kept, summary.records);
    let lost = summary.lost_counted.not_written;
    // What is written has room that was reserved.
    assert!((20_000..30_000).contains(&kept), "{kept}");
    assert_eq!((kept + lost, summary.lost_counted.total()), (200_000, lost));
    assert!(summary.write_error.is_some() && !summary.write_resumed, "{:?}", summary.write_error);
    assert!(summary.losses.iter().all(|loss| loss.cause == Cause::NotWritten), "{:?}", summary.losses);
    assert_eq!(dated(summary), lost);
}

#[test]
fn a_disk_that_has_room_again_gets_the_rest() {
    let mut stage = Stage::with(|_| {});
    let program = stage.program();
    stage.record_slowly(&program, 0, 20_000);
    stage.session().disk.set_faults(|faults| faults.is_full = true);
    stage.record_slowly(&program, 0, 20_000);
    stage.session().disk.set_faults(|faults| faults.is_full = false);
    // It is tried again every second.
    stage.run_for(3 * SECOND);
    stage.record_slowly(&program, 0, 1000);
    drop(program);
    let summary = stage.end(0).summary;
    let lost = summary.lost_counted.not_written;
    assert!(lost > 10_000 && summary.records > 21_000 - 1 && summary.write_resumed, "{lost} of {}", summary.records);
    assert_eq!((summary.records + lost, dated(&summary)), (41_000, lost));
}

#[test]
fn portable_programs_have_lanes_for_threads() {
    let mut stage = Stage::with(|_| {});
    let hello = stage.hello(RingKind::Portable);
    let program = stage.attach(0, hello);
    assert!(program.rings().layout.lane_count >= 258);
    assert_eq!(stage.record(&program, 257, 3), 3);
    let header = || program.rings().view();
    header().header().lanes_used.store(300_000, std::sync::atomic::Ordering::Relaxed);
    header().header().lost_lane.store(4, std::sync::atomic::Ordering::Relaxed);
    drop(program);
    let ended = stage.end(0);
    assert_eq!((ended.summary.records, ended.summary.lost_counted.lane), (3, 4));
    assert!(ended.files.keys().all(|name| name.starts_with("user_t_")), "{:?}", ended.files.keys());
}
