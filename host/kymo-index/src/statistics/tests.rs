// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of parts as bytes: they are what was put, a longer part is what two parts are, and hostile ones end.

use kymo_analyze::usage::{Actor, CpuTime, CpuUse, LanePart, LaneStep, PartUsage};
use kymo_analyze::{Context, CpuSpan, Doubt, Interrupt, Name};
use kymo_testing::Random;

use crate::probe;
use crate::statistics::names::{WriterName, WriterNames};
use crate::statistics::part::{CountedRecords, StatisticsPart};
use crate::statistics::written_bytes::{StreamWriters, Stretch, WrittenRow, put_streams, take_streams};

const BASE: i64 = 1_700_000_000_000_000_000;

fn actor(random: &mut Random) -> Actor {
    let tid = random.below(20i32);
    Actor { process: Some(tid / 3), tid, name: Name::new("name"), ..Actor::default() }
}

fn names() -> WriterNames {
    let mut names = WriterNames::default();
    for tid in 0..20 {
        names.number(WriterName { process: Some(tid / 3), tid: Some(tid), name: Name::new("name") });
    }
    names
}

fn counted(random: &mut Random) -> CountedRecords {
    let first = BASE + random.below(1_000_000i64);
    CountedRecords { records: 1 + random.below(300u64), first, last: first + random.below(1_000_000i64) }
}

fn time(random: &mut Random) -> CpuTime {
    let is_doubtful = random.below(4u8) == 0;
    let doubt = if is_doubtful { Doubt::LOST | Doubt::MISSED } else { Doubt::NONE };
    let doubtful_ns = if is_doubtful { random.below(500u64) } else { 0 };
    CpuTime {
        ns: random.below(90_000u64),
        interrupted_ns: random.below(900u64),
        doubtful_ns,
        doubt,
        ..CpuTime::default()
    }
}

fn step(random: &mut Random, cpu: u32) -> LaneStep {
    let from = BASE + random.below(10_000i64) - 5000;
    match random.below(5u8) {
        0 => LaneStep::Lost,
        1 => LaneStep::FirstSwitch(Context::Idle, from),
        2 => LaneStep::Leaving(actor(random)),
        3 => LaneStep::Left(actor(random)),
        _ => {
            let current = [Context::Unknown, Context::Idle, Context::Thread(5)][random.below(3usize)];
            let context = if random.below(2u8) == 0 { Context::Interrupt(Interrupt::Hard) } else { current };
            let doubt = [Doubt::NONE, Doubt::CLOCK][random.below(2usize)];
            LaneStep::Span(CpuSpan { cpu, from, to: from + random.below(900i64), context, current, doubt })
        }
    }
}

fn lane(random: &mut Random, cpu: u32) -> LanePart {
    let steps = (0..random.below(4u8)).map(|_| step(random, cpu)).collect();
    let leaving = (random.below(2u8) == 0).then(|| actor(random));
    let mut lane = LanePart { steps, leaving, ..LanePart::default() };
    if random.below(3u8) > 0 {
        lane.current = Some((Context::Thread(random.below(9i32)), time(random)));
        lane.counted_to = BASE + random.below(5000i64);
        if random.below(2u8) == 0 {
            lane.first_run = Some((time(random), (random.below(2u8) == 0).then(|| actor(random))));
            lane.used = CpuUse { thread_ns: 7, idle_ns: random.below(1 << 40), runs: 3, ..CpuUse::default() };
        }
    }
    lane
}

fn part(random: &mut Random) -> StatisticsPart {
    let mut part = StatisticsPart::default();
    for _ in 0..random.below(30u8) {
        part.writers.add(random.below(20u32), &counted(random));
    }
    for cpu in 0..random.below(4u32) {
        part.cpus.insert(cpu.checked_sub(1), counted(random));
    }
    let lanes = (0..random.below(4u32)).map(|cpu| (random.below(4u8) > 0).then(|| lane(random, cpu))).collect();
    part.usage = PartUsage { begin: Some(BASE + 5), lanes, ..PartUsage::default() };
    for _ in 0..random.below(10u8) {
        let (actor, time, runs) = (actor(random), time(random), 1 + random.below(3u64));
        let longest_ns = if runs == 1 { time.ns } else { time.ns / 2 };
        part.usage.threads.insert(actor, CpuTime { runs, longest_ns, ..time });
    }
    part
}

#[test]
fn parts_are_taken_as_they_were_put() {
    let (mut random, mut names) = (Random::new("statistics_parts", 3), names());
    for round in 0..500 {
        let part = part(&mut random);
        let bytes = part.encode(&mut names).unwrap();
        assert_eq!(StatisticsPart::decode(&bytes, &names).as_ref(), Some(&part), "{round}");
        let mut longer = part.clone();
        longer.append(&StatisticsPart::default());
        assert_eq!(longer, part, "nothing was added");
    }
    let mut odd = part(&mut random);
    odd.usage.is_odd = true;
    assert_eq!(odd.encode(&mut names), None);
}

#[test]
fn names_are_taken_as_they_were_put() {
    let mut names = names();
    names.number(WriterName::default());
    names.number(WriterName { process: Some(i32::MIN), tid: Some(i32::MAX), name: Name::new("größer") });
    let mut put = kymo_analyze::compact::Put::default();
    names.put(&mut put);
    let mut take = kymo_analyze::compact::Take(&put.0);
    assert_eq!(WriterNames::take(&mut take).as_ref(), Some(&names));
    assert!(take.is_empty());
}

#[test]
fn streams_are_taken_as_they_were_put() {
    let mut random = Random::new("written_streams", 5);
    for _ in 0..200 {
        let mut all = Vec::new();
        for stream in 0..random.below(4usize) {
            let writers =
                vec![(WriterName::default(), None), (WriterName { tid: Some(3), ..Default::default() }, Some(1))];
            let (mut stretches, mut at) = (Vec::new(), 0);
            for _ in 0..random.below(6u8) {
                let row = |random: &mut Random, writer| {
                    let of = counted(random);
                    WrittenRow { writer, counted: CountedRecords { first: of.first + at, last: of.last + at, ..of } }
                };
                let rows = (0..1 + random.below(2u32)).map(|writer| row(&mut random, writer)).collect();
                stretches.extend(Stretch::of(rows));
                at += 3_000_000;
            }
            all.push(StreamWriters { stream: 2 * stream, writers, stretches });
        }
        assert_eq!(take_streams(&put_streams(&all).unwrap()), Some(all));
    }
}

/// Cut anywhere, and changed anywhere.
#[test]
fn bytes_of_anyone_end() {
    let (mut random, mut names) = (Random::new("hostile_statistics", 7), names());
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..3000 {
        let mut bytes = part(&mut random).encode(&mut names).unwrap();
        match random.below(2u8) {
            0 => bytes.truncate(random.below(bytes.len())),
            _ => {
                for _ in 0..1 + random.below(3u8) {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8u8);
                }
            }
        }
        bytes.insert(0, 20);
        match probe::piece(&bytes) {
            true => taken += 1,
            false => refused += 1,
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} and {refused}");
}
