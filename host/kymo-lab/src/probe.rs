// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the lines of kymo-probe to a record [spec/lab.md 2].

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{Caveat, Ended, Floor, Histogram, Record, Series, Severity, Thread, WORST_MAX, Worst};

/// What a line said, as far as somebody waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// All threads are in their places; the test begins.
    Ready,
    /// Something did not go as it was asked for: one of the ids of [`Caveat`], and what.
    Trouble(String, String),
    /// The test is over and everything was said.
    Done,
    /// There are new worst samples, the longest so far of this many ns: their records should be kept.
    Worst(u64),
    /// Part of the result.
    Part,
}

/// A line, by the word in `say`.
#[derive(Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
enum ProbeLine {
    Ready { clock: String, cycles_per_ns: f64, threads: Vec<ThreadLine> },
    Floor { clock_read_ns: f64, loop_ns: f64 },
    Trouble { id: String, text: String },
    Series(Box<SeriesLine>),
    Count { name: String, value: u64 },
    Worst { longest_ns: u64 },
    Done { duration_ns: u64, ended: Ended },
}

#[derive(Deserialize)]
struct ThreadLine {
    tid: u32,
    policy: String,
    priority: i32,
    affinity: Vec<u32>,
    locked: bool,
}

#[derive(Deserialize)]
struct SeriesLine {
    name: String,
    cpu: i64,
    tid: u32,
    count: u64,
    lost: u64,
    min: u64,
    max: u64,
    sum: u64,
    sum_squares: String,
    histogram: Histogram,
    worst: Vec<(u64, u64, u64)>,
}

/// A probe that is being listened to.
#[derive(Debug)]
pub struct Reading {
    record: Record,
    threads: BTreeMap<u32, Thread>,
    is_done: bool,
}

impl Reading {
    /// Of a test with these options.
    pub fn new(test: &str, method: &str, options: BTreeMap<String, Value>) -> Reading {
        let mut record = Record::new("kymo", test);
        env!("CARGO_PKG_VERSION").clone_into(&mut record.version);
        method.clone_into(&mut record.method);
        record.options = options;
        // Until the probe has said how it ended: it was cut off.
        record.ended = Ended::Signal;
        Reading { record, threads: BTreeMap::new(), is_done: false }
    }

    /// The threads that measure, once they are in their places.
    pub fn tids(&self) -> impl Iterator<Item = u32> {
        self.threads.keys().copied()
    }

    /// Takes a line. The text of an error says what is wrong with it.
    pub fn line(&mut self, line: &str) -> Result<Said, String> {
        let line: ProbeLine =
            serde_json::from_str(line).map_err(|error| format!("the probe said {line:?}: {error}"))?;
        match line {
            ProbeLine::Ready { clock, cycles_per_ns, threads } => {
                self.record.environment.insert("clock".to_owned(), clock.into());
                self.record.environment.insert("cycles_per_ns".to_owned(), cycles_per_ns.into());
                self.threads = threads.into_iter().map(|thread| (thread.tid, thread.into())).collect();
                return Ok(Said::Ready);
            }
            ProbeLine::Floor { clock_read_ns, loop_ns } => self.record.floor = Some(Floor { clock_read_ns, loop_ns }),
            ProbeLine::Trouble { id, text } => {
                self.record.caveats.push(caveat(&id, &text));
                return Ok(Said::Trouble(id, text));
            }
            ProbeLine::Series(said) => self.series(*said)?,
            ProbeLine::Count { name, value } => {
                self.record.counts.insert(name, value);
            }
            ProbeLine::Worst { longest_ns } => return Ok(Said::Worst(longest_ns)),
            ProbeLine::Done { duration_ns, ended } => {
                self.record.duration_s = Some(duration_ns as f64 / 1e9);
                self.record.ended = ended;
                self.is_done = true;
                return Ok(Said::Done);
            }
        }
        Ok(Said::Part)
    }

    fn series(&mut self, said: SeriesLine) -> Result<(), String> {
        let SeriesLine { name, cpu, tid, count, lost, min, max, sum, sum_squares, histogram, worst } = said;
        let kept = count.checked_sub(lost).filter(|kept| *kept == histogram.count());
        let kept = kept.ok_or_else(|| {
            format!("series {name:?}: {count} samples, {lost} of them lost, but {} in buckets", histogram.count())
        })?;
        let squares: u128 = sum_squares.parse().map_err(|_| format!("series {name:?}: a sum of {sum_squares:?}"))?;
        let mut series = Series::new(name);
        series.cpu = u32::try_from(cpu).ok();
        series.thread = self.threads.get(&tid).cloned();
        (series.count, series.lost, series.histogram) = (count, lost, histogram);
        if kept > 0 {
            let mean = sum as f64 / kept as f64;
            (series.min, series.max, series.mean) = (Some(min), Some(max), Some(mean));
            series.std = Some((squares as f64 / kept as f64 - mean * mean).max(0.0).sqrt());
        }
        let of = |(value_ns, cycles, sample): (u64, u64, u64)| Worst {
            value_ns,
            cycles: Some(cycles),
            sample: Some(sample),
            tid: Some(tid),
            budget: None,
        };
        series.worst = worst.into_iter().take(WORST_MAX).map(of).collect();
        self.record.series.push(series);
        Ok(())
    }

    /// Of a trouble that was just said: why it came about, and what to do.
    pub fn because(&mut self, cause: &str, next: &str) {
        if let Some(caveat) = self.record.caveats.last_mut() {
            caveat.text = format!("{}: {cause}", caveat.text);
            next.clone_into(&mut caveat.next);
        }
    }

    /// Everything that was said; what was cut off is marked.
    pub fn finish(mut self) -> Record {
        let lost: u64 = self.record.series.iter().map(|series| series.lost).sum();
        if lost > 0 {
            let text = format!("{lost} expirations passed while a thread was late or still busy: they have no sample");
            self.record.caveats.push(caveat("lost-samples", &text));
        }
        if !self.is_done || self.record.ended == Ended::Signal {
            self.record
                .caveats
                .push(caveat("interrupted", "the run was interrupted: this is what there was until then"));
        }
        self.record
    }
}

impl From<ThreadLine> for Thread {
    fn from(line: ThreadLine) -> Thread {
        let ThreadLine { tid, policy, priority, affinity, locked } = line;
        Thread { tid, policy, priority, affinity: ranges(&affinity), locked }
    }
}

/// `0-2,5` of an ascending list.
fn ranges(list: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for cpu in list {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let text = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// A caveat of the list in spec/lab.md 6.
pub fn caveat(id: &str, text: &str) -> Caveat {
    let (severity, next) = match id {
        "not-fifo" | "not-deadline" => {
            (Severity::Fatal, "run as root or with CAP_SYS_NICE, or raise `ulimit -r` (RLIMIT_RTPRIO)")
        }
        "affinity" => (Severity::Fatal, "choose CPUs that are online and that this process may use (taskset -p $$)"),
        "not-locked" => (Severity::High, "raise `ulimit -l` (RLIMIT_MEMLOCK): page faults may be among the samples"),
        "rt-throttling" => (
            Severity::High,
            "sysctl kernel.sched_rt_runtime_us=-1 for the test, or a load that leaves 5 % of the CPU free",
        ),
        "fair-server" => (
            Severity::Medium,
            "leave nothing else to run on the CPUs of the test, or echo 0 > /sys/kernel/debug/sched/fair_server/cpuN/runtime",
        ),
        "dma-latency" => (Severity::Medium, "run as root: idle states are as deep as usual"),
        "lost-samples" => (Severity::Medium, "a longer --interval, or find out what held the thread up that long"),
        "guest-steal" => {
            (Severity::High, "the host took the CPU away: pin the virtual CPUs, or measure on the machine itself")
        }
        "thermal-throttling" => (Severity::High, "cool the machine, or measure at a frequency that it can hold"),
        "frequency-scaled" => {
            (Severity::Medium, "a fixed frequency: governor `performance`, or the same bound for least and most")
        }
        "environment-changed" => (Severity::High, "measure again, and leave the machine alone meanwhile"),
        "tracing-on" => (Severity::Medium, "what the test says without the recorder stands in `causes.watching`"),
        "few-samples" => (Severity::Medium, "measure longer: a maximum of few samples says little"),
        "smi-unread" => (Severity::Info, "where it can be had: as root, modprobe msr, on the machine itself"),
        "interrupted" => (Severity::Info, "run it again if the length matters"),
        _ => (Severity::Info, "see kymo-lab(7), section 6"),
    };
    Caveat { id: id.to_owned(), severity, text: text.to_owned(), next: next.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        Reading::new("wakeup", "a sentence", BTreeMap::new())
    }

    const READY: &str = "{\"say\":\"ready\",\"pid\":1,\"clock\":\"tsc\",\"cycles_per_ns\":2.3,\"threads\":[\
        {\"tid\":7,\"cpu\":1,\"policy\":\"SCHED_FIFO\",\"priority\":80,\"locked\":true,\"affinity\":[0,1,3]}]}";
    const SERIES: &str = "{\"say\":\"series\",\"name\":\"wakeup\",\"cpu\":1,\"tid\":7,\"count\":5,\"lost\":1,\"min\":2,\
        \"max\":4,\"sum\":12,\"sum_squares\":\"38\",\"histogram\":[[2,1],[3,2],[4,1]],\"worst\":[[4,99,3]]}";

    #[test]
    fn lines_become_a_record() {
        let mut reading = reading();
        assert_eq!(reading.line(READY), Ok(Said::Ready));
        assert_eq!(reading.line("{\"say\":\"floor\",\"clock_read_ns\":8.4,\"loop_ns\":11.3}"), Ok(Said::Part));
        assert_eq!(reading.tids().collect::<Vec<_>>(), [7]);
        assert_eq!(reading.line("{\"say\":\"worst\",\"longest_ns\":81}"), Ok(Said::Worst(81)));
        assert_eq!(reading.line(SERIES), Ok(Said::Part));
        assert_eq!(reading.line("{\"say\":\"count\",\"name\":\"out_of_order\",\"value\":3}"), Ok(Said::Part));
        assert_eq!(reading.line("{\"say\":\"done\",\"duration_ns\":1500000000,\"ended\":\"count\"}"), Ok(Said::Done));
        let record = reading.finish();
        let series = &record.series[0];
        assert_eq!((series.min, series.max, series.mean), (Some(2), Some(4), Some(3.0)));
        assert!((series.std.unwrap() - 0.5f64.sqrt()).abs() < 1e-9);
        let thread = series.thread.as_ref().unwrap();
        assert_eq!((thread.affinity.as_str(), thread.priority), ("0-1,3", 80));
        assert_eq!((record.ended, record.duration_s, record.counts["out_of_order"]), (Ended::Count, Some(1.5), 3));
        assert_eq!(record.caveats.iter().map(|caveat| caveat.id.as_str()).collect::<Vec<_>>(), ["lost-samples"]);
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(Record::from_json(&text), Ok(record));
    }

    #[test]
    fn what_was_cut_off_is_marked() {
        let mut reading = reading();
        reading.line(READY).unwrap();
        let record = reading.finish();
        assert_eq!((record.ended, record.caveats[0].id.as_str()), (Ended::Signal, "interrupted"));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in
            ["", "{}", "{\"say\":\"sing\"}", &SERIES.replace("\"lost\":1", "\"lost\":9"), &SERIES.replace("38", "x")]
        {
            assert!(reading().line(bad).is_err(), "{bad}");
        }
    }
}
