// SPDX-License-Identifier: MIT OR Apache-2.0
//! From snapshots to the budgets of a record's worst samples.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_analyze::cause::{
    AnswerPart, Asked, Cause, CausePart, Evidence, Explained, Ground, Group, GroupFound, Machine, MissingEvent,
    MissingEvents, Moment,
};
use kymo_analyze::{
    CpuSpan, Event, Facts, Head, Interrupt, InterruptSpan, OffSpan, SOFTIRQS, SPANS_MAX, Sink, State, Thread,
    ThreadSpan, Threads, priority,
};
use kymo_ctf::read::{Clock, Reader};
use kymo_lab::Record;
use kymo_lab::causes::{Budget, BudgetPart, Causes, MissingKind};
use kymo_query::Surroundings;
use serde_json::Value;

use super::flight::Shot;
use crate::verbs::analyze::feed::{Classes, Input, Visit, walk};
use crate::verbs::args::TraceArgs;
use crate::verbs::symbols::Symbolizer;

/// Records this long before and after samples are kept, ns: who runs is told by switches, which may be rare.
const AROUND_NS: i64 = 2_000_000_000;

/// A sample that is to be explained.
#[derive(Clone, Copy)]
struct WorstSample {
    series: usize,
    at: usize,
    cycles: u64,
    value_ns: u64,
}

/// Gives budgets to the `count` worst samples of each series.
pub fn explain(
    record: &mut Record,
    causes: &mut Causes,
    shots: &[Shot],
    (asked, count): (Asked, usize),
) -> anyhow::Result<()> {
    // All snapshots are of one machine.
    let mut machine = None;
    let mut wanted = wanted(record, count);
    let mut missing = MissingEvents::default();
    for shot in shots {
        if wanted.is_empty() {
            break;
        }
        let input = Input::open(&TraceArgs::of(Path::new(&shot.dir)))?;
        let Some(clock) = input.traces.first().and_then(|trace| trace.metadata.clocks.first()) else { continue };
        let moments = |sample: &WorstSample| moment(record, sample, clock, asked);
        let all: Vec<(WorstSample, Moment)> =
            wanted.iter().filter_map(|sample| Some((*sample, moments(sample)?))).collect();
        let machine = match machine {
            Some(machine) => machine,
            None => {
                let is_guest = is_guest(record);
                let known = Symbolizer::new(None, &input.traces)?;
                *machine.insert(Machine { is_guest, ..Surroundings::of(&input.traces, known).machine })
            }
        };
        let mut keep = gather(&input, &all, machine);
        for (tid, path) in &shot.groups {
            keep.evidence.learn_group(*tid, Group { path: path.clone(), found: GroupFound::Snapshot });
        }
        for (sample, moment) in all {
            if !keep.reaches(&moment) {
                continue;
            }
            let explained = keep.evidence.explain(&moment);
            missing.add(&missing_of(&keep.facts, &explained));
            let budget = budget_of(&explained, (&keep.evidence, &moment), clock.absolute.then_some(moment.to));
            record.series[sample.series].worst[sample.at].budget = Some(budget);
            causes.explained += 1;
            wanted.retain(|other| (other.series, other.at) != (sample.series, sample.at));
        }
        causes.unexplained.extend(shot.caveats.iter().cloned());
    }
    causes.missing_events = told(&missing);
    if !wanted.is_empty() {
        causes.unexplained.push(format!(
            "{} samples have no budget: their records were overwritten before a snapshot could keep them",
            wanted.len()
        ));
    }
    Ok(())
}

/// Kinds of events that the recorder did not have, and that could have been a part of a sample.
fn missing_of(facts: &Facts, explained: &Explained) -> MissingEvents {
    let parts: Vec<AnswerPart> = explained.parts.iter().map(AnswerPart::from).collect();
    // A sample is measured from when its timer was due: the probe knows.
    MissingEvents::of(facts, &parts, false)
}

fn told(missing: &MissingEvents) -> Vec<MissingKind> {
    let one = |one: MissingEvent| MissingKind { kind: one.kind.word().to_owned(), text: one.text };
    missing.beside_a_test().into_iter().map(one).collect()
}

fn wanted(record: &Record, count: usize) -> Vec<WorstSample> {
    let of = |(series, one): (usize, &kymo_lab::Series)| {
        let worst = one.worst.iter().take(count).enumerate();
        worst
            .filter_map(|(at, worst)| Some(WorstSample { series, at, cycles: worst.cycles?, value_ns: worst.value_ns }))
            .collect::<Vec<_>>()
    };
    record.series.iter().enumerate().flat_map(of).collect()
}

fn is_guest(record: &Record) -> bool {
    let environment = kymo_lab::environment(&kymo_lab::Machine::default());
    let told = record.environment.get("hypervisor").or(environment.get("hypervisor"));
    told.and_then(Value::as_str).is_some_and(|name| name != "none")
}

/// A clock value as ns of the trace; as the reader does it.
fn ns_of(clock: &Clock, cycles: u64) -> Option<i64> {
    let cycles = i128::from(cycles) + i128::from(clock.offset_cycles);
    let ns = i128::from(clock.offset_s) * 1_000_000_000
        + (cycles * 1_000_000_000).div_euclid(i128::from(clock.frequency_hz.max(1)));
    i64::try_from(ns).ok()
}

fn moment(record: &Record, sample: &WorstSample, clock: &Clock, asked: Asked) -> Option<Moment> {
    let series = &record.series[sample.series];
    let to = ns_of(clock, sample.cycles)?;
    // Slots have threads of their own; the sample says which.
    let tid = series.worst[sample.at].tid.or(series.thread.as_ref().map(|thread| thread.tid))?;
    let from = to.checked_sub_unsigned(sample.value_ns)?;
    Some(Moment { tid: i32::try_from(tid).ok()?, cpu: series.cpu, from, to, asked })
}

/// The records around the samples.
fn gather(input: &Input, all: &[(WorstSample, Moment)], machine: Machine) -> SpansAround {
    let from = all.iter().map(|(_, moment)| moment.from).min().unwrap_or(0);
    let to = all.iter().map(|(_, moment)| moment.to).max().unwrap_or(0);
    let evidence = Evidence::new(from.saturating_sub(AROUND_NS), to.saturating_add(AROUND_NS), SPANS_MAX, machine);
    let classes = Classes::new(&input.traces);
    let mut keep = SpansAround { evidence, reach: BTreeMap::new(), facts: classes.vocabulary.facts() };
    walk(&mut Reader::new(&input.traces), &classes, &mut keep);
    keep
}

/// All spans around the samples.
struct SpansAround {
    evidence: Evidence,
    /// By CPU: first and last record.
    reach: BTreeMap<u32, (i64, i64)>,
    /// Which events were recorded.
    facts: Facts,
}

impl SpansAround {
    /// Whether the records of the sample's CPU begin before it, and any end behind it.
    fn reaches(&self, moment: &Moment) -> bool {
        let first = match moment.cpu {
            Some(cpu) => self.reach.get(&cpu).map(|reach| reach.0),
            None => self.reach.values().map(|reach| reach.0).max(),
        };
        let last = self.reach.values().map(|reach| reach.1).max();
        first.is_some_and(|first| first <= moment.from) && last.is_some_and(|last| moment.to <= last)
    }
}

impl Visit for SpansAround {}

impl Sink for SpansAround {
    fn event(&mut self, head: &Head, event: &Event, state: &State) {
        if let Some(cpu) = head.cpu {
            self.reach.entry(cpu).or_insert((head.time, head.time)).1 = head.time;
        }
        self.evidence.event(head, event, state);
    }

    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.evidence.thread(span, thread);
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.evidence.cpu(span);
    }

    fn interrupt(&mut self, span: &InterruptSpan, threads: Threads<'_>) {
        self.evidence.interrupt(span, threads);
    }

    fn off(&mut self, span: &OffSpan, threads: Threads<'_>) {
        self.evidence.off(span, threads);
    }

    fn lost(&mut self, cpu: Option<u32>, from: i64, to: i64) {
        self.evidence.lost(cpu, from, to);
    }
}

fn budget_of(explained: &Explained, (evidence, of): (&Evidence, &Moment), at_ns: Option<i64>) -> Budget {
    let parts: Vec<BudgetPart> = explained.parts.iter().map(|part| part_of(part, evidence, of)).collect();
    Budget {
        at_ns,
        signature: Budget::signature_of(&parts),
        parts,
        faults: explained.faults,
        doubt: explained.doubt.names().map(str::to_owned).collect(),
    }
}

fn part_of(part: &CausePart, evidence: &Evidence, of: &Moment) -> BudgetPart {
    let behind = match part.cause {
        Cause::LockOwnerWaits { by: Some(by), .. } => {
            let name = evidence.name(by, of.to);
            Some(if name.is_empty() { format!("thread {by}") } else { name.to_string() })
        }
        Cause::LockOwnerWaits { by: None, .. } => Some("nobody: its CPU was not there yet".to_owned()),
        Cause::LockOwnerSleeps { .. } => Some("nobody: it slept".to_owned()),
        _ => None,
    };
    BudgetPart {
        cause: part.cause.word().to_owned(),
        name: name_of(part),
        tid: part.cause.tid(),
        priority: part.prio.map(priority),
        behind,
        limit: part.cause.limit().map(|limit| limit.word().to_owned()),
        group: evidence.limiting_group(part.cause, of.tid).map(|group| group.path.clone()),
        by: by_what(part.cause, evidence.group(of.tid)),
        ns: part.ns,
        pieces: part.pieces,
        seen: part.ground == Ground::Seen,
    }
}

/// What throttled or stopped it, in words.
fn by_what(cause: Cause, group: Option<&Group>) -> Option<String> {
    match cause {
        Cause::Throttled { limit, .. } => Some(limit.text(group)),
        Cause::Stopped { traced: true, .. } => Some("a debugger".to_owned()),
        Cause::Stopped { traced: false, .. } => Some("a signal".to_owned()),
        _ => None,
    }
}

fn name_of(part: &CausePart) -> String {
    match (part.cause, part.cause.tid()) {
        (Cause::Interrupt(Interrupt::Softirq(vec)), _) => {
            SOFTIRQS.get(usize::from(vec)).map_or_else(|| vec.to_string(), |name| (*name).to_owned())
        }
        (Cause::Interrupt(Interrupt::Irq(number)), _) => format!("{number} {}", part.name).trim_end().to_owned(),
        (Cause::Interrupt(interrupt), _) => interrupt.to_string(),
        (Cause::Frequency { khz }, _) => format!("{} MHz", khz / 1000),
        (Cause::Blocked { state, .. }, _) => char::from(state).to_string(),
        (_, Some(tid)) if part.name.is_empty() => format!("thread {tid}"),
        _ => part.name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_analyze::cause::Limit;
    use kymo_analyze::{Doubt, Name};

    #[test]
    fn every_cause_is_a_word_of_the_schema() {
        let schema: Value = serde_json::from_str(kymo_testing::schema::TEXT).unwrap();
        let words = schema["$defs"]["part"]["properties"]["cause"]["enum"].as_array().unwrap();
        let interrupts = [Interrupt::Irq(4), Interrupt::Softirq(3), Interrupt::Vector(0), Interrupt::Timer(0)];
        let mut causes = vec![
            Cause::Firmware,
            Cause::Steal,
            Cause::IrqsOff { by: 1 },
            Cause::PreemptionOff { by: 1 },
            Cause::IdleExit,
            Cause::Nmi,
            Cause::Thread { by: 1 },
            Cause::LockOwner { owner: 1 },
            Cause::LockOwnerWaits { owner: 1, by: None },
            Cause::Fault,
            Cause::Throttled { by: None, limit: Limit::RealTime },
            Cause::RunQueue { by: 1 },
            Cause::Frequency { khz: 800_000 },
            Cause::Stopped { by: None, traced: false },
            Cause::Waker { tid: 1 },
            Cause::Slack,
            Cause::Switching,
            Cause::Blocked { state: b'S', call: None, waker: None },
            Cause::Own,
            Cause::Remainder,
        ];
        causes.extend(interrupts.map(Cause::Interrupt));
        let used: std::collections::BTreeSet<&str> = causes.iter().map(|cause| cause.word()).collect();
        let known: std::collections::BTreeSet<&str> = words.iter().filter_map(Value::as_str).collect();
        assert_eq!(used, known);
    }

    #[test]
    fn names_and_priorities_are_those_that_people_use() {
        let part = |cause, name: &str| CausePart {
            cause,
            ground: Ground::Seen,
            ns: 1,
            pieces: 1,
            name: Name::new(name),
            prio: None,
            cpu: None,
            doubt: Doubt::NONE,
        };
        let rows = [
            (part(Cause::Interrupt(Interrupt::Irq(14)), "nvme0q1"), "14 nvme0q1"),
            (part(Cause::Interrupt(Interrupt::Irq(14)), ""), "14"),
            (part(Cause::Interrupt(Interrupt::Softirq(3)), ""), "net_rx"),
            (part(Cause::Interrupt(Interrupt::Vector(0)), ""), "local_timer"),
            (part(Cause::Thread { by: 9 }, "hog"), "hog"),
            (part(Cause::Thread { by: 9 }, ""), "thread 9"),
            (part(Cause::Throttled { by: None, limit: Limit::Quota }, ""), ""),
            (part(Cause::Frequency { khz: 800_000 }, ""), "800 MHz"),
        ];
        rows.iter().for_each(|(part, name)| assert_eq!(name_of(part), *name));
        assert_eq!([-1, 0, 19, 120, 139].map(priority), ["deadline", "rt 99", "rt 80", "nice 0", "nice 19"]);
    }

    #[test]
    fn a_clock_value_is_a_time_as_the_reader_has_it() {
        let clock = Clock { frequency_hz: 2_000_000_000, offset_s: 10, offset_cycles: -4, ..Clock::default() };
        assert_eq!(ns_of(&clock, 2_000_000_005), Some(11_000_000_000));
        assert_eq!(ns_of(&Clock { offset_s: i64::MAX, ..clock }, 0), None);
    }

    #[test]
    fn a_throttled_part_has_its_limit_and_the_group_whose_limit_it_is() {
        let mut evidence = Evidence::new(0, 10, 10, Machine::default());
        evidence.learn_group(7, Group { path: "/a".to_owned(), found: GroupFound::Snapshot });
        let of = Moment { tid: 7, cpu: Some(0), from: 0, to: 10, asked: Asked::Timer };
        let told = |cause| {
            let (ground, name) = (Ground::Seen, Name::default());
            let part = CausePart { cause, ground, ns: 1, pieces: 1, name, prio: None, cpu: None, doubt: Doubt::NONE };
            let part = part_of(&part, &evidence, &of);
            (part.limit, part.group, part.by)
        };
        let throttled = |limit| told(Cause::Throttled { by: None, limit });
        let some = |text: &str| Some(text.to_owned());
        let quota = "the CPU quota of its control group /a (at the time of the snapshot)";
        assert_eq!(throttled(Limit::Quota), (some("quota"), some("/a"), some(quota)));
        let group = "real-time throttling of its control group /a (at the time of the snapshot)";
        assert_eq!(throttled(Limit::RealTimeGroup), (some("real_time_group"), some("/a"), some(group)));
        assert_eq!(throttled(Limit::RealTime), (some("real_time"), None, some("real-time throttling")));
        assert_eq!(told(Cause::Stopped { by: None, traced: true }), (None, None, some("a debugger")));
        assert_eq!(told(Cause::Stopped { by: None, traced: false }), (None, None, some("a signal")));
        assert_eq!(told(Cause::Own), (None, None, None));
    }
}
