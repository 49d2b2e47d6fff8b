//! From snapshots to the budgets of a record's worst samples.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kymo_analyze::cause::{Asked, Cause, Evidence, Explained, Ground, Machine, Moment, Part};
use kymo_analyze::{
    CpuSpan, Event, Head, Interrupt, InterruptSpan, OffSpan, SOFTIRQS, Sink, State, Thread, ThreadSpan, Threads,
};
use kymo_ctf::read::{Clock, Reader};
use kymo_lab::Record;
use kymo_lab::causes::{Budget, BudgetPart, Causes};
use serde_json::Value;

use super::flight::Shot;
use crate::verbs::analyze::feed::{Classes, Input, Visit, walk};

/// Records this long before and after samples are kept, ns: who runs is told by switches, which may be rare.
const AROUND_NS: i64 = 2_000_000_000;

/// A sample that is to be explained.
#[derive(Clone, Copy)]
struct Wanted {
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
    let machine = Machine { is_guest: is_guest(record) };
    let mut wanted = wanted(record, count);
    for shot in shots {
        if wanted.is_empty() {
            break;
        }
        let input = Input::open(&[PathBuf::from(&shot.dir)])?;
        let Some(clock) = input.traces.first().and_then(|trace| trace.metadata.clocks.first()) else { continue };
        let moments = |sample: &Wanted| moment(record, sample, clock, asked);
        let all: Vec<(Wanted, Moment)> = wanted.iter().filter_map(|sample| Some((*sample, moments(sample)?))).collect();
        let keep = gather(&input, &all, machine);
        for (sample, moment) in all {
            if !keep.reaches(&moment) {
                continue;
            }
            let explained = keep.evidence.explain(&moment);
            let budget = budget_of(&explained, &keep.evidence, clock.absolute.then_some(moment.to));
            record.series[sample.series].worst[sample.at].budget = Some(budget);
            causes.explained += 1;
            wanted.retain(|other| (other.series, other.at) != (sample.series, sample.at));
        }
        causes.unexplained.extend(shot.caveats.iter().cloned());
    }
    if !wanted.is_empty() {
        causes.unexplained.push(format!(
            "{} samples have no budget: their records were overwritten before a snapshot could keep them",
            wanted.len()
        ));
    }
    Ok(())
}

fn wanted(record: &Record, count: usize) -> Vec<Wanted> {
    let of = |(series, one): (usize, &kymo_lab::Series)| {
        let worst = one.worst.iter().take(count).enumerate();
        worst
            .filter_map(|(at, worst)| Some(Wanted { series, at, cycles: worst.cycles?, value_ns: worst.value_ns }))
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

fn moment(record: &Record, sample: &Wanted, clock: &Clock, asked: Asked) -> Option<Moment> {
    let series = &record.series[sample.series];
    let to = ns_of(clock, sample.cycles)?;
    // Slots have threads of their own; the sample says which.
    let tid = series.worst[sample.at].tid.or(series.thread.as_ref().map(|thread| thread.tid))?;
    let from = to.checked_sub_unsigned(sample.value_ns)?;
    Some(Moment { tid: i32::try_from(tid).ok()?, cpu: series.cpu, from, to, asked })
}

/// The records around the samples.
fn gather(input: &Input, all: &[(Wanted, Moment)], machine: Machine) -> Keep {
    let from = all.iter().map(|(_, moment)| moment.from).min().unwrap_or(0);
    let to = all.iter().map(|(_, moment)| moment.to).max().unwrap_or(0);
    let evidence = Evidence::new(from.saturating_sub(AROUND_NS), to.saturating_add(AROUND_NS), machine);
    let mut keep = Keep { evidence, reach: BTreeMap::new() };
    let classes = Classes::new(&input.traces);
    walk(&mut Reader::new(&input.traces), &classes, &mut keep);
    keep
}

/// All spans around the samples.
struct Keep {
    evidence: Evidence,
    /// By CPU: first and last record.
    reach: BTreeMap<u32, (i64, i64)>,
}

impl Keep {
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

impl Visit for Keep {}

impl Sink for Keep {
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
}

fn budget_of(explained: &Explained, evidence: &Evidence, at_ns: Option<i64>) -> Budget {
    let parts: Vec<BudgetPart> = explained.parts.iter().map(|part| part_of(part, evidence)).collect();
    Budget {
        at_ns,
        signature: Budget::signature_of(&parts),
        parts,
        faults: explained.faults,
        doubt: explained.doubt.names().map(str::to_owned).collect(),
    }
}

fn part_of(part: &Part, evidence: &Evidence) -> BudgetPart {
    let behind = match part.cause {
        Cause::LockOwnerWaits { by: Some(by), .. } => {
            let name = evidence.history().name(by);
            Some(if name.is_empty() { format!("thread {by}") } else { name.to_string() })
        }
        Cause::LockOwnerWaits { by: None, .. } => Some("nobody: it slept".to_owned()),
        _ => None,
    };
    BudgetPart {
        cause: part.cause.word().to_owned(),
        name: name_of(part),
        tid: part.cause.tid(),
        priority: part.prio.map(priority),
        behind,
        ns: part.ns,
        pieces: part.pieces,
        seen: part.ground == Ground::Seen,
    }
}

fn name_of(part: &Part) -> String {
    match (part.cause, part.cause.tid()) {
        (Cause::Interrupt(Interrupt::Softirq(vec)), _) => {
            SOFTIRQS.get(usize::from(vec)).map_or_else(|| vec.to_string(), |name| (*name).to_owned())
        }
        (Cause::Interrupt(Interrupt::Irq(number)), _) => format!("{number} {}", part.name).trim_end().to_owned(),
        (Cause::Interrupt(interrupt), _) => interrupt.to_string(),
        (Cause::Frequency { khz }, _) => format!("{} MHz", khz / 1000),
        (Cause::Blocked { state }, _) => char::from(state).to_string(),
        (_, Some(tid)) if part.name.is_empty() => format!("thread {tid}"),
        _ => part.name.to_string(),
    }
}

/// A priority as people give it; the kernel counts the other way round.
fn priority(prio: i16) -> String {
    match prio {
        ..0 => "deadline".to_owned(),
        0..100 => format!("rt {}", 99 - prio),
        _ => format!("nice {}", prio - 120),
    }
}
