// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a record keeps of the explanations of a run's worst samples [spec/lab.md 7].

use serde::{Deserialize, Serialize};

/// What of a run was explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Causes {
    /// What the explanations rest on.
    pub level: Level,
    /// What that level cannot see, in sentences.
    pub cannot_see: Vec<String>,
    /// Kinds of events that were not recorded, and that could have been a part of an explained sample.
    #[serde(default)]
    pub missing_events: Vec<MissingKind>,
    /// Samples of each series that were to be explained.
    pub asked: u32,
    /// Samples, of all series together, that have a budget.
    pub explained: u32,
    /// Worst samples of the watched part of the run that have none, with the reasons.
    pub unexplained: Vec<String>,
    /// Samples with the same main cause, the longest first.
    pub clusters: Vec<Cluster>,
    /// Of all explained samples together; `None`: they come in no period that could be found.
    pub period: Option<Period>,
    /// Whether watching changed the test.
    pub watching: Watching,
}

/// A kind of events that was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingKind {
    /// One of the words of spec/analyze.md 6.1.
    pub kind: String,
    /// What is not known without it, and how to record it.
    pub text: String,
}

/// What explanations rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Tracepoints, and those of the kernel that tell when interrupts and preemption are off.
    KernelTracers,
    /// Tracepoints of scheduler, interrupts, timers, idle states and faults.
    Tracepoints,
    /// Nothing of the kernel: what counters of /proc say of the whole run.
    UserSpace,
}

/// What one sample was made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// When the sample ended, ns since 1970; `None` where the clock does not tell.
    pub at_ns: Option<i64>,
    /// The main cause and its name: `higher_priority hog`.
    pub signature: String,
    /// Its parts, the largest first. Their sum is the sample.
    pub parts: Vec<BudgetPart>,
    /// Page faults of the measuring thread.
    pub faults: u64,
    /// What is doubtful about the records [spec/analyze.md 4].
    pub doubt: Vec<String>,
}

/// A part of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetPart {
    /// One of the words of spec/analyze.md 6.
    pub cause: String,
    /// Name of the thread, interrupt or frequency; may be empty.
    pub name: String,
    /// The thread.
    pub tid: Option<i32>,
    /// Its priority then: `rt 90`, `nice 0`, `deadline`.
    pub priority: Option<String>,
    /// Of a lock's owner: who kept it from running.
    pub behind: Option<String>,
    /// Of `throttled`: which limit, by word.
    pub limit: Option<String>,
    /// The control group whose limit that is, where it is known: as it was when the snapshot was taken.
    pub group: Option<String>,
    /// Of `throttled` and `stopped`: by which limit, by a signal or by a debugger, in words.
    pub by: Option<String>,
    /// How long, in all.
    pub ns: u64,
    /// In how many pieces.
    pub pieces: u64,
    /// Records say so; else it follows from the absence of records.
    pub seen: bool,
}

/// Samples with the same main cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// The cause and its name.
    pub signature: String,
    /// How many samples.
    pub count: u32,
    /// The longest of them.
    pub worst_ns: u64,
    /// Where they were.
    pub cpus: Vec<u32>,
    /// Share of their time that the main cause has.
    pub share: f64,
    /// The period that they come in, if there is one.
    pub period: Option<Period>,
}

/// Spikes come in a period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// Its length.
    pub period_ns: u64,
    /// Probability that times without a period look so much like one.
    pub p: f64,
    /// Spikes that this rests on; those of one moment are one.
    pub spikes: u32,
}

/// Whether watching changed the test: slots with and without the recorder, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watching {
    /// `better`, `worse`, `mixed`, `no_difference`, `not_enough_data`, `not_tested`.
    pub outcome: String,
    /// In words.
    pub text: String,
    /// Slots with the recorder, and without.
    pub slots: [u32; 2],
    /// Medians of the slots' p99.9, without the recorder and with it, ns.
    pub p999_ns: Option<[f64; 2]>,
    /// Snapshots that were taken, and the longest time that one took, ns.
    pub snapshots: u32,
    /// See `snapshots`.
    pub snapshot_ns_max: u64,
}

impl BudgetPart {
    /// Cause and name, by which parts belong together. Of a thread that was throttled it is the limit: who ran
    /// meanwhile is chance, and no cause. Of one that was stopped it is by a signal or by a debugger; by whose is in
    /// the part.
    fn key(&self) -> String {
        let name = match (self.cause.as_str(), &self.by) {
            ("throttled", _) => self.limit.clone().unwrap_or_default(),
            ("stopped", by) => by.as_ref().map_or_else(String::new, |by| format!("by {by}")),
            _ => self.name.clone(),
        };
        format!("{} {name}", self.cause).trim_end().to_owned()
    }
}

impl Budget {
    /// Its signature: cause and name that have most of the time together.
    pub fn signature_of(parts: &[BudgetPart]) -> String {
        let mut sums: Vec<(String, u64)> = Vec::new();
        for part in parts {
            let key = part.key();
            match sums.iter_mut().find(|(known, _)| *known == key) {
                Some((_, ns)) => *ns = ns.saturating_add(part.ns),
                None => sums.push((key, part.ns)),
            }
        }
        // The first of equals: parts are in the order of their size.
        let main = sums.into_iter().rev().max_by_key(|(_, ns)| *ns);
        main.map_or_else(String::new, |(key, _)| key)
    }

    /// Time of the main cause.
    pub fn main_ns(&self) -> u64 {
        self.parts.iter().filter(|part| part.key() == self.signature).map(|part| part.ns).sum()
    }
}
