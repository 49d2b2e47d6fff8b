// SPDX-License-Identifier: MIT OR Apache-2.0
//! One verb's test: what is true around it is read, the probe measures, the record is written.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use kymo_lab::{Ended, Machine, Meanwhile, Record, caveat};
use serde_json::Value;

use super::hwlat_kernel::{GapSearch, Windows};
use super::measure::{Probes, options};
use super::setup::{Common, Test, USUAL};
use super::time_line::TimeLine;
use super::{explain, hwlat_kernel, show};
use crate::verbs::lab::tool;

/// Runs the test and prints what came of it.
pub(super) fn run(test: &Test<'_>) -> anyhow::Result<ExitCode> {
    let common = test.common;
    let cpus = cpus(test)?;
    let throttling = if test.is_busy { kymo_lab::busy_loop(&Machine::default(), &cpus) } else { Vec::new() };
    for caveat in &throttling {
        eprintln!("kymo: {}; {}", caveat.text, caveat.next);
    }
    let around = Around::begin(test.name, &cpus);
    let probes = Probes::prepare()?;
    let mut record = match test.explaining.explain {
        Some(count) => explain::run(test, &cpus, count, &probes)?,
        None => probes.measure(test, options(test, &cpus), &mut TimeLine::new(test))?,
    };
    record.caveats.extend(throttling);
    around.end(&mut record, &cpus);
    write(common, &record)?;
    let is_faulty = test.faults.iter().any(|name| record.counts.get(*name).is_some_and(|count| *count > 0));
    Ok(ExitCode::from(u8::from(is_faulty)))
}

/// Runs `kymo hwlat --kernel`.
pub(super) fn hwlat_kernel(
    common: &Common,
    windows: Windows,
    options: BTreeMap<&'static str, Value>,
) -> anyhow::Result<ExitCode> {
    // What a run left that was killed is no setting to be put back.
    crate::verbs::shield::restore(false)?;
    let cpus = tool::cpus(common.cpus.list())?;
    let mut options: BTreeMap<String, Value> =
        options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    options.insert("cpus".to_owned(), tool::list(&cpus).into());
    options.insert("by".to_owned(), "kernel".into());
    let search = GapSearch { cpus: &cpus, windows, duration: common.duration.unwrap_or(USUAL) };
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_nanos() as u64);
    let around = Around::begin("hwlat", &cpus);
    let mut record = hwlat_kernel::search(&search, options)?;
    record.started_ns = started.ok();
    if record.ended == Ended::Signal {
        record.caveats.push(caveat("interrupted", "the run was interrupted: this is what there was until then"));
    }
    around.end(&mut record, &cpus);
    write(common, &record)?;
    Ok(ExitCode::SUCCESS)
}

/// What is read before a test and after it.
struct Around {
    environment: BTreeMap<String, Value>,
    before: Meanwhile,
    /// Of a search for gaps: system management interrupts of each CPU, or why they are not known.
    smis: Option<Result<Vec<u64>, String>>,
}

impl Around {
    fn begin(test: &str, cpus: &[u32]) -> Around {
        let machine = Machine::default();
        let smis = (test == "hwlat").then(|| kymo_lab::smi_counts(&machine, cpus));
        Around { environment: kymo_lab::environment(&machine), before: Meanwhile::read(&machine), smis }
    }

    /// Puts into the record what was true around it.
    fn end(self, record: &mut Record, cpus: &[u32]) {
        // What the probe told of its clock stays.
        record.environment.extend(self.environment);
        let seconds = record.duration_s.unwrap_or(0.0);
        let (meanwhile, caveats) = Meanwhile::read(&Machine::default()).since(&self.before, cpus, seconds);
        record.meanwhile = meanwhile;
        record.caveats.extend(caveats);
        match self
            .smis
            .map(|before| before.and_then(|before| Ok((before, kymo_lab::smi_counts(&Machine::default(), cpus)?))))
        {
            None => {}
            Some(Err(why)) => record
                .caveats
                .push(caveat("smi-unread", &format!("system management interrupts were not counted: {why}"))),
            Some(Ok((before, after))) => {
                for ((cpu, before), after) in cpus.iter().zip(before).zip(after) {
                    record.counts.insert(format!("smis_cpu{cpu}"), after.wrapping_sub(before) & 0xffff_ffff);
                }
            }
        }
        record.caveats.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    }
}

/// The record to its file, and to who reads it.
fn write(common: &Common, record: &Record) -> anyhow::Result<()> {
    if let Some(path) = &common.output {
        let text = serde_json::to_string(record).context("cannot write the result as JSON")?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    match common.out.json {
        true => println!("{}", serde_json::to_string(record).context("cannot write the result as JSON")?),
        false => show::text(record).iter().for_each(|line| println!("{line}")),
    }
    Ok(())
}

/// The CPUs to measure on, which must be there.
fn cpus(test: &Test<'_>) -> anyhow::Result<Vec<u32>> {
    let mut cpus = tool::cpus(test.common.cpus.list())?;
    if test.is_single {
        // The last one: the first has most of the machine's interrupts.
        let one = if test.common.cpus.list().is_some() { cpus.first() } else { cpus.last() };
        cpus = one.copied().into_iter().collect();
    }
    Ok(cpus)
}
