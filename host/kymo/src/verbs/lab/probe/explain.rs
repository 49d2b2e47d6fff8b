// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--explain`: a flight recorder of the kernel beside a test, and what the worst samples were made of [spec/lab.md 7].
//!
//! The run is cut into slots, with the recorder and without; what is recorded is looked at when all have been measured.

mod budget;
mod flight;

use std::collections::BTreeMap;

use kymo_lab::causes::{Causes, Level, Spike, Watching, clusters, watching};
use kymo_lab::stats::period;
use kymo_lab::{Machine, RUNS_MIN, Record, caveat, is_guest, join};
use serde_json::Value;

use kymo_command::terminal::Progress;

use super::measure::{Alone, Probes, options};
use super::setup::Test;
use flight::{Flight, Kernel, Shot, TempDir};

/// Slots with the recorder. As many without it come in between.
const SLOTS: u64 = RUNS_MIN as u64;
/// A shorter slot says nothing, ns; nor does one with fewer samples.
const SLOT_NS_MIN: u64 = 500_000_000;
const SLOT_SAMPLES_MIN: u64 = 20;
/// The probe says so often whether there are new worst samples, ns: the rings hold more than that.
const LOOK_NS: u64 = 1_000_000_000;

/// A part of the run.
struct Slot {
    record: Record,
    /// What was kept of the kernel's records.
    shots: Vec<Shot>,
}

/// Runs the test in slots and explains the `count` worst samples of each series.
pub fn run(test: &Test<'_>, cpus: &[u32], count: u32, probes: &Probes) -> anyhow::Result<Record> {
    let all = options(test, cpus);
    let kernel = Kernel::find(test.explaining.irqs_off, is_guest(&Machine::default()));
    if let Err(why) = &kernel {
        eprintln!("kymo: the kernel's events cannot be had, so no sample can be explained: {why}");
    }
    let plan = Plan::of(&all, test.explaining.no_check || kernel.is_err());
    let dir = TempDir::make(test.explaining.keep_traces.as_deref())?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut progress = Progress::wanted(plan.is_checked && !test.common.out.json);
    for (at, is_watched) in plan.order().into_iter().enumerate() {
        plan.show(at, &mut progress);
        let above = floor_of_worst(&with, count);
        let slot = match (&kernel, is_watched) {
            (Ok(kernel), true) => watched(test, plan.options(&all, Some(above)), probes, (kernel, &dir, at))?,
            _ => Slot { record: probes.measure(test, plan.options(&all, None), &mut Alone)?, shots: Vec::new() },
        };
        match is_watched {
            true => with.push(slot),
            false => without.push(slot.record),
        }
        if probes.is_interrupted() {
            break;
        }
    }
    progress.end();
    anyhow::ensure!(!with.is_empty(), "the run was interrupted before its first slot with the recorder");
    assemble(test, &all, count, kernel.as_ref(), (with, without))
}

/// One slot with the recorder.
fn watched(
    test: &Test<'_>,
    options: BTreeMap<String, Value>,
    probes: &Probes,
    (kernel, dir, at): (&Kernel, &TempDir, usize),
) -> anyhow::Result<Slot> {
    let mut flight = Flight::new(kernel, dir.slot(at));
    let record = probes.measure(test, options, &mut flight)?;
    Ok(Slot { record, shots: flight.finish() })
}

/// What is already among the `count` worst of every series: shorter samples need not be kept. ns.
fn floor_of_worst(slots: &[Slot], count: u32) -> u64 {
    let records: Vec<Record> = slots.iter().map(|slot| slot.record.clone()).collect();
    let Some(whole) = join(&records) else { return 0 };
    let floor = |series: &kymo_lab::Series| series.worst.get(count as usize - 1).map_or(0, |worst| worst.value_ns);
    whole.series.iter().map(floor).min().unwrap_or(0)
}

/// The record of the whole run, with budgets, clusters, and whether watching changed it.
fn assemble(
    test: &Test<'_>,
    options: &BTreeMap<String, Value>,
    count: u32,
    kernel: Result<&Kernel, &String>,
    (with, without): (Vec<Slot>, Vec<Record>),
) -> anyhow::Result<Record> {
    let records: Vec<Record> = with.iter().map(|slot| slot.record.clone()).collect();
    let mut check = watching(&without, &records);
    count_shots(&mut check, &with);
    let mut whole = join(&records).unwrap_or_else(|| Record::new("kymo", test.name));
    whole.options.clone_from(options);
    whole.options.insert("explain".to_owned(), count.into());
    let mut causes = Causes {
        level: kernel.map_or(Level::UserSpace, |kernel| kernel.level),
        cannot_see: kernel.map_or_else(|why| blind(why), |kernel| kernel.cannot_see.clone()),
        missing_events: Vec::new(),
        asked: count,
        explained: 0,
        unexplained: Vec::new(),
        clusters: Vec::new(),
        period: None,
        watching: check,
    };
    if kernel.is_ok() {
        let shots: Vec<Shot> = with.into_iter().flat_map(|slot| slot.shots).collect();
        budget::explain(&mut whole, &mut causes, &shots, (test.asked, count as usize))?;
        find_common(&whole, &records, &mut causes);
    }
    if causes.watching.outcome == "worse" {
        whole.caveats.push(caveat("tracing-on", &causes.watching.text));
    }
    whole.causes = Some(causes);
    Ok(whole)
}

/// What no event of the kernel means for the explanations.
fn blind(why: &str) -> Vec<String> {
    vec![format!("everything but the counters of /proc for the whole run: the kernel's events cannot be had ({why})")]
}

fn count_shots(check: &mut Watching, with: &[Slot]) {
    let shots = || with.iter().flat_map(|slot| &slot.shots);
    check.snapshots = shots().count() as u32;
    check.snapshot_ns_max = shots().map(|shot| shot.took.as_nanos() as u64).max().unwrap_or(0);
}

/// Clusters and periods. Times are those since 1970, which every slot has.
fn find_common(whole: &Record, slots: &[Record], causes: &mut Causes) {
    let explained = whole.series.iter().flat_map(|series| series.worst.iter().map(move |worst| (series.cpu, worst)));
    let spikes: Vec<Spike<'_>> = explained
        .filter_map(|(cpu, worst)| {
            let budget = worst.budget.as_ref()?;
            Some(Spike { cpu, at: budget.at_ns? as f64, value_ns: worst.value_ns, budget })
        })
        .collect();
    let stretch = |slot: &Record| {
        let from = slot.started_ns? as f64;
        Some((from, from + slot.duration_s? * 1e9))
    };
    let watched: Vec<(f64, f64)> = slots.iter().filter_map(stretch).collect();
    let interval = whole.options.get("interval_ns").and_then(Value::as_f64).unwrap_or(1e6);
    causes.clusters = clusters(&spikes, &watched, interval);
    let times: Vec<f64> = spikes.iter().map(|spike| spike.at).collect();
    causes.period = period::find(&times, &watched, interval);
}

/// How a run is cut into slots.
struct Plan {
    /// Slots with the recorder, and whether those without are there.
    slots: u64,
    is_checked: bool,
}

impl Plan {
    /// Five slots of each kind, where they are long enough; else one with the recorder.
    fn of(options: &BTreeMap<String, Value>, no_check: bool) -> Plan {
        let number = |name: &str| options.get(name).and_then(Value::as_u64);
        let is_long = match (number("count"), number("duration_ns")) {
            (Some(count), _) => count / SLOTS >= SLOT_SAMPLES_MIN,
            (None, duration) => duration.unwrap_or(0) / SLOTS >= SLOT_NS_MIN,
        };
        let is_checked = is_long && !no_check;
        Plan { slots: if is_checked { SLOTS } else { 1 }, is_checked }
    }

    /// With the recorder or without: A B B A A B ..., so that a drift meets both alike.
    fn order(&self) -> Vec<bool> {
        if !self.is_checked {
            return vec![true];
        }
        (0..self.slots).flat_map(|pair| if pair % 2 == 0 { [true, false] } else { [false, true] }).collect()
    }

    /// The options of one slot; `above` of one with the recorder.
    fn options(&self, all: &BTreeMap<String, Value>, above: Option<u64>) -> BTreeMap<String, Value> {
        let mut options = all.clone();
        for name in ["count", "duration_ns"] {
            if let Some(value) = options.get_mut(name).filter(|value| value.is_u64()) {
                *value = (value.as_u64().unwrap_or(0) / self.slots).max(1).into();
            }
        }
        if let Some(above) = above {
            options.insert("watch_ns".to_owned(), LOOK_NS.into());
            options.insert("watch_above_ns".to_owned(), above.into());
            options.insert("wait".to_owned(), 1.into());
        }
        options
    }

    /// The slot that begins.
    fn show(&self, at: usize, progress: &mut Progress) {
        let all = 2 * self.slots;
        progress.show_share_now(at as f64 / all as f64, &format!("slot {} of {all}", at + 1));
    }
}
