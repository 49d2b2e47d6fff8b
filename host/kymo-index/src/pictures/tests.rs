// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of parts as bytes and back; folded into longer parts; and bytes that nobody put.

use kymo_analyze::shown::Calls;
use kymo_analyze::{CallId, Context, Doing, Doubt, Ready, Vocabulary};
use kymo_testing::Random;
use proptest::prelude::*;

use crate::pictures::part::{LongCall, PartPicture, ThreadPicture};
use crate::pictures::row::{Kind, Long};
use crate::pictures::take::{take_cpus, take_threads};

/// Stretches of some threads and CPUs, which follow each other, with columns of 2 to the power of `shift`.
fn picture(random: &mut Random, base: i64, shift: u32, ends: &mut [i64; 3]) -> PartPicture {
    let calls = Calls::new(&Vocabulary::new());
    let mut part = PartPicture { base, shift, ..PartPicture::default() };
    for (number, end) in ends.iter_mut().enumerate() {
        for _ in 0..random.below(60u32) {
            let from = *end;
            let bits = random.below(14u32);
            *end += 1 + random.below(1i64 << bits);
            let doubt = if random.below(5u32) == 0 { Doubt::LOST } else { Doubt::NONE };
            let (to, is_late) = (*end, random.below(9u32) == 0);
            let (tid, cpu) = (number as i32 + 1, random.below(4u32));
            let doing = match random.below(4u32) {
                0 => Doing::Running { cpu },
                1 => Doing::Runnable { why: Ready::Preempted { by: 7 }, cpu: Some(cpu) },
                2 => Doing::Blocked { state: b'S', call: Some(CallId(3)), in_fault: random.below(2u8) == 0 },
                _ => Doing::Unknown,
            };
            part.thread(tid).row.stretch(shift, &Long { from, to, what: doing, doubt, is_late }, &calls);
            let (call, value, blocked) = (CallId(cpu as u16), -5, cpu == 1);
            part.thread(tid).call(shift, &LongCall { from, to, call, value, blocked, doubt });
            part.thread(tid).end = to;
            let what = if cpu == 0 { Context::Idle } else { Context::Thread(random.below(9)) };
            part.cpu(number as u32).row.stretch(shift, &Long { from, to, what, doubt, is_late: false }, &calls);
            let what = Kind(cpu > 1);
            let long = Long { from, to, what, doubt: Doubt::NONE, is_late: false };
            part.cpu(number as u32).interrupts.stretch(shift, &long, &calls);
        }
    }
    part.finish();
    part
}

#[test]
fn pictures_are_what_they_were_and_a_longer_part_is_as_if_painted_at_once() {
    let mut random = Random::new("picture_bytes", 2);
    for _ in 0..200 {
        let shift = random.below(12u32);
        let base = random.below(1i64 << 40) - (1 << 39);
        let parts: Vec<PartPicture> = {
            let mut ends = [base; 3];
            (0..4).map(|_| picture(&mut random, base, shift, &mut ends)).collect()
        };
        let calls = Calls::new(&Vocabulary::new());
        for part in &parts {
            let [threads, cpus] = part.encode(&calls).expect("stretches that follow each other");
            assert_eq!(take_threads(&threads, |_| true), Some((shift, part.threads.clone())));
            assert_eq!(take_cpus(&cpus), Some((shift, part.cpus.clone())));
            let second: Vec<_> = part.threads.iter().filter(|of| of.tid == 2).cloned().collect();
            assert_eq!(take_threads(&threads, |tid| tid == 2), Some((shift, second)));
        }
        let of = |parts: &[PartPicture], shift: u32| {
            let mut all = PartPicture::default();
            all.fold(parts, shift, &calls);
            all
        };
        let at_once = of(&parts, shift + 3);
        let halves = [&parts[..2], &parts[2..]].map(|parts| of(parts, shift + 1));
        let in_steps = of(&halves, shift + 3);
        // Of a CPU's threads only the longest are kept on the way.
        let without_tids = |mut part: PartPicture| {
            for cpu in &mut part.cpus {
                cpu.row.cells.0.iter_mut().for_each(|cell| cell.tids.clear());
            }
            part
        };
        assert_eq!(without_tids(at_once), without_tids(in_steps));
    }
}

/// Changes one thing of a row of a thread, as nobody paints it.
fn spoil(random: &mut Random, of: &mut ThreadPicture) {
    let (cells, longs) = (&mut of.row.cells.0, &mut of.row.longs);
    let (cell, long) = (random.below(cells.len().max(1) as u64), random.below(longs.len().max(1) as u64));
    let by = 1i64 << random.below(12u32);
    match (random.below(10u32), cells.get_mut(cell as usize), longs.get_mut(long as usize)) {
        (0, Some(_), _) => drop(cells.remove(cell as usize)),
        (1, Some(cell), _) => cell.ns[random.below(11u32) as usize] += by as u64,
        (2, Some(cell), _) => cell.ns[1] = cell.ns[1].saturating_sub(by as u64),
        (3, Some(cell), _) => cell.is_joined = !cell.is_joined,
        (4, Some(cell), _) => cell.touches = random.below(4u32),
        (5, Some(cell), _) => cell.doubt = Doubt::MISSED,
        (6, _, Some(_)) => drop(longs.remove(long as usize)),
        (7, _, Some(long)) => long.from -= by,
        (8, _, Some(long)) => long.to += by,
        _ => of.end += random.below(3i64) - 1,
    }
}

#[test]
fn what_is_put_is_taken_even_of_rows_that_nobody_paints() {
    let mut random = Random::new("spoilt_pictures", 4);
    let calls = Calls::new(&Vocabulary::new());
    let mut put = 0;
    for _ in 0..3000 {
        let (shift, base) = (random.below(12u32), random.below(1i64 << 40));
        let mut part = picture(&mut random, base, shift, &mut [base; 3]);
        part.cpus.clear();
        let row = random.below(part.threads.len().max(1) as u64) as usize;
        part.threads.get_mut(row).into_iter().for_each(|of| spoil(&mut random, of));
        if let Some([threads, _]) = part.encode(&calls) {
            assert_eq!(take_threads(&threads, |_| true), Some((shift, part.threads)));
            put += 1;
        }
    }
    assert!((100..2900).contains(&put), "{put}: all or none is put");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_anyone_as_pictures_never_panic(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut random = Random(seed);
        let part = picture(&mut random, 1 << 40, 5, &mut [1 << 40; 3]);
        let calls = Calls::new(&Vocabulary::new());
        for mut bytes in part.encode(&calls).into_iter().flatten() {
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            for of in take_threads(&bytes, |_| true).into_iter().flat_map(|found| found.1) {
                of.row.replay(5, 9, &calls, |_| {});
                of.each_call(9, |_| {});
                of.each_late(&calls, |_| true, |_| {});
            }
            for of in take_cpus(&bytes).into_iter().flat_map(|found| found.1) {
                of.row.replay(5, 9, &calls, |_| {});
                of.interrupts.replay(5, 9, &calls, |_| {});
            }
        }
    }
}
