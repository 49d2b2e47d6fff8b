// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a story consists of.

use serde::Serialize;

use crate::cause::{AnswerPart, Cause, Ground, MissingEvent};
use crate::doubt::Doubt;
use crate::latency::What;
use crate::name::Name;

/// The story of a [`super::question::Question`]. Times are ns of the trace's clock, durations ns.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// Who, how long, and why, in one sentence.
    pub headline: String,
    /// The kind of latency.
    pub what: Option<What>,
    /// What it is of; may be empty.
    pub of: String,
    /// The thread.
    pub tid: Option<i32>,
    /// Its name; may be empty.
    pub name: Name,
    /// Its priority, the kernel's.
    pub prio: Option<i16>,
    /// The CPU where it ended.
    pub cpu: Option<u32>,
    /// It began.
    pub from: i64,
    /// It ended.
    pub to: i64,
    /// Of a wake-up: how late the timer was that woke the thread; it begins when that was due.
    pub late_ns: u64,
    /// Page faults of the thread in it.
    pub faults: u64,
    /// What the time went to, the largest first. The sum is `to - from`.
    pub budget: Vec<Slice>,
    /// The longest single piece of the largest part of the budget, where anything but the thread itself had it.
    pub gap: Option<Gap>,
    /// The longest time without any record on the CPU, within the stretch.
    pub silence: Option<Gap>,
    /// Who was waited for, thread by thread, where one was.
    pub chain: Vec<Link>,
    /// Links that are not among these, because they are shorter.
    pub chain_left_out: u64,
    /// Their time, ns.
    pub chain_left_out_ns: u64,
    /// Of a moment: what each CPU did.
    pub cpus: Vec<String>,
    /// What happened, in the order of time.
    pub rows: Vec<StoryRow>,
    /// What is doubtful about it.
    pub doubt: Doubt,
    /// The same in sentences.
    pub doubts: Vec<String>,
    /// Kinds of events that are not in it, and that could have been a part of what the time went to.
    pub missing_events: Vec<MissingEvent>,
    /// What else the trace does not show: CPUs without records, a silence.
    pub blind: Vec<String>,
    /// What to try next.
    pub advice: Vec<Advice>,
}

/// A part of the budget.
#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    /// What it went to, for programs.
    #[serde(skip)]
    pub cause: Cause,
    /// How that is known.
    #[serde(skip)]
    pub ground: Ground,
    /// The same by name: `higher_priority`, `idle_exit`, ... [spec/analyze.md 6].
    pub kind: &'static str,
    /// The same for people.
    pub text: String,
    /// The same without who had the CPU meanwhile, where that is no matter: slices that have the same text here are one
    /// cause ([`super::together::together`]).
    #[serde(skip)]
    pub shared: Option<String>,
    /// The thread that it went to, where it is one.
    pub tid: Option<i32>,
    /// Of `throttled`: the limit, `real_time`, `real_time_group`, `fair_server`, `deadline`, `quota`.
    pub limit: Option<&'static str>,
    /// The control group whose limit that is, where it is known.
    pub group: Option<String>,
    /// When the thread was found in that group, as it may have been moved since: `state_dump`, `snapshot`.
    pub group_found: Option<&'static str>,
    /// Records say so; else it follows from the absence of records.
    pub seen: bool,
    /// ns.
    pub ns: u64,
    /// In so many pieces.
    pub pieces: u64,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

impl From<&Slice> for AnswerPart {
    fn from(slice: &Slice) -> AnswerPart {
        AnswerPart { cause: slice.cause, ground: slice.ground, ns: slice.ns, doubt: slice.doubt }
    }
}

/// A stretch that matters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// The CPU.
    pub cpu: Option<u32>,
    /// What it is.
    pub text: String,
}

/// A thread that was waited for.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// ns.
    pub from: i64,
    /// ns.
    pub to: i64,
    /// The thread.
    pub tid: i32,
    /// How many threads wait for it, one for the other.
    pub depth: usize,
    /// Who, and what it did.
    pub text: String,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StretchSide {
    /// What led up to it.
    Before,
    /// In it.
    Inside,
    /// What came next.
    After,
}

/// One record, told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// ns.
    pub time: i64,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The thread that wrote it.
    pub tid: Option<i32>,
    /// Its name and number; may be empty.
    pub who: String,
    /// What it says.
    pub text: String,
    /// The event as the trace calls it.
    pub event: String,
    /// Where it lies.
    pub place: StretchSide,
    /// The call stack that it has, the innermost first.
    pub stack: Vec<String>,
}

/// A row of the time line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoryRow {
    /// A record.
    Moment(Moment),
    /// The gap that matters.
    Gap(Gap),
    /// Records that are left out.
    Skipped(u64),
}

/// What to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Why: what of the story backs it.
    pub because: String,
    /// What.
    pub try_this: String,
}
