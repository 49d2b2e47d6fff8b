// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time line: which records are told, and where the gap lies.

use super::decode::{self, Flags};
use super::names::StoryNames;
use super::note::Note;
use super::story::{Gap, Moment, Slice, StoryRow, StretchSide};
use crate::cause::{Cause, Segment};
use crate::event::{Event, Leaves, Off, SOFTIRQS, Wake};
use crate::units::{duration, priority};

/// Neighbours before and after that are told for certain.
const NEIGHBOURS: usize = 2;

/// The rows: at most `rows_max` records.
pub(super) fn rows(names: &StoryNames<'_>, stretches: &[Segment], gap: Option<&Gap>, rows_max: usize) -> Vec<StoryRow> {
    let notes: Vec<&Note> = names.scene.notes.iter().filter(|note| is_near(names, stretches, note)).collect();
    let weights = weigh(names, &notes, stretches, gap);
    let mut order: Vec<usize> = (0..notes.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(weights[index]), index));
    order.truncate(rows_max);
    order.sort_unstable();
    let mut rows = Vec::new();
    let mut gap = gap;
    let mut next = None;
    for index in order {
        let skipped = next.map_or(0, |next| index - next);
        if gap.is_some_and(|gap| gap.from < notes[index].head.time) {
            rows.extend(gap.take().map(|gap| StoryRow::Gap(gap.clone())));
        }
        if skipped > 0 {
            rows.push(StoryRow::Skipped(skipped as u64));
        }
        rows.push(StoryRow::Moment(moment(names, notes[index])));
        next = Some(index + 1);
    }
    rows.extend(gap.map(|gap| StoryRow::Gap(gap.clone())));
    rows
}

/// Whether a record has to do with the question: of its thread, about it, or of the CPU that it waited for then.
fn is_near(names: &StoryNames<'_>, stretches: &[Segment], note: &Note) -> bool {
    let question = &names.scene.question;
    if matches!(note.event, Some(Event::Dumped { .. })) {
        return false;
    }
    let Some(tid) = question.thread() else { return question.cpu.is_none() || note.head.cpu == question.cpu };
    if note.head.tid == Some(tid) || names_thread(note, tid) {
        return true;
    }
    let at = stretches.partition_point(|stretch| stretch.to <= note.head.time);
    let here = stretches.get(at).or(stretches.last());
    here.is_some_and(|stretch| stretch.cpu.is_some() && stretch.cpu == note.head.cpu)
}

fn names_thread(note: &Note, wanted: i32) -> bool {
    match note.event {
        Some(Event::Wake { tid, .. } | Event::Migrate { tid, .. } | Event::Priority { tid, .. }) => tid == wanted,
        Some(Event::Switch { prev, next, .. }) => prev == wanted || next == wanted,
        Some(Event::Fork { child, .. }) => child == wanted,
        _ => false,
    }
}

/// How much each record matters.
fn weigh(names: &StoryNames<'_>, notes: &[&Note], stretches: &[Segment], gap: Option<&Gap>) -> Vec<u32> {
    let question = &names.scene.question;
    let mut weights: Vec<u32> = notes.iter().map(|note| by_kind(names, note)).collect();
    let mut at_least = |index: Option<usize>, weight: u32| {
        if let Some(known) = index.and_then(|index| weights.get_mut(index)) {
            *known = (*known).max(weight);
        }
    };
    let begin = notes.partition_point(|note| note.head.time < question.from);
    let end = notes.partition_point(|note| note.head.time <= question.to);
    at_least(Some(begin), 100);
    at_least(end.checked_sub(1), 100);
    for near in 1..=NEIGHBOURS {
        at_least(begin.checked_sub(near), 90);
        at_least(Some(end + near - 1), 90);
    }
    if let Some(gap) = gap {
        let opens = notes.partition_point(|note| note.head.time <= gap.from);
        at_least(opens.checked_sub(1), 99);
        at_least(Some(notes.partition_point(|note| note.head.time < gap.to)), 98);
    }
    let mut longest: Vec<&Segment> = stretches.iter().collect();
    longest.sort_by_key(|stretch| std::cmp::Reverse(stretch.ns()));
    for (rank, stretch) in longest.iter().take(6).enumerate() {
        let opens = notes.partition_point(|note| note.head.time <= stretch.from);
        at_least(opens.checked_sub(1), 80 - rank as u32);
    }
    weights
}

fn by_kind(names: &StoryNames<'_>, note: &Note) -> u32 {
    let tid = names.scene.question.thread();
    let is_own = tid.is_some() && note.head.tid == tid;
    match note.event {
        Some(Event::Wake { .. }) if tid.is_some_and(|tid| names_thread(note, tid)) => 75,
        Some(Event::Fault { .. }) if is_own => 68,
        Some(Event::Switch { .. }) => 60,
        Some(Event::Call { .. } | Event::Return { .. }) if is_own => 65,
        Some(Event::Switchable { .. } | Event::Idle { .. }) => 45,
        Some(Event::Enter { .. } | Event::Leave { .. } | Event::TimerExpire { .. }) => 40,
        // What the user's own programs say is why a trace was made; a kernel's records have flags.
        None if is_own && note.flags.is_none() => 70,
        _ => 20,
    }
}

fn moment(names: &StoryNames<'_>, note: &Note) -> Moment {
    let question = &names.scene.question;
    let time = note.head.time;
    let place = match time {
        _ if time < question.from => StretchSide::Before,
        _ if time > question.to => StretchSide::After,
        _ => StretchSide::Inside,
    };
    let mut text = sentence(names, note);
    if let Some((flags, count)) = note.flags {
        let flags = Flags::new(flags, count).text();
        if !flags.is_empty() {
            text += &format!("  [{flags}]");
        }
    }
    Moment {
        time,
        cpu: note.head.cpu,
        tid: note.head.tid,
        // A switch names both threads itself.
        who: match note.event {
            Some(Event::Switch { .. }) => String::new(),
            _ => note.head.tid.map_or(String::new(), |tid| names.thread_at(tid, time)),
        },
        text,
        event: names.classes[note.class].name.clone(),
        place,
        stack: decode::stack(names, note),
    }
}

/// What a record says.
fn sentence(names: &StoryNames<'_>, note: &Note) -> String {
    let Some(event) = note.event else { return plain(names, note) };
    let at = note.head.time;
    match event {
        Event::Switch { prev, prev_prio, leaves, next, next_prio, .. } => {
            let why = if prev == 0 { String::new() } else { left(leaves) };
            let (prev, next) = (named(names, prev, prev_prio, at), named(names, next, next_prio, at));
            format!("switch from {prev}{why} to {next}")
        }
        Event::Wake { step, tid, cpu, prio, .. } => {
            let what = match step {
                Wake::Waking => "wakes",
                Wake::Wakeup => "has woken",
                Wake::New => "starts",
            };
            let on = cpu.map_or(String::new(), |cpu| format!(" for cpu {cpu}"));
            format!("{what} {}{on}", named(names, tid, prio, at))
        }
        Event::Migrate { tid, cpu } => format!("moves {} to cpu {cpu}", names.thread_at(tid, at)),
        Event::Priority { tid, prio } => format!("{} gets priority {}", names.thread_at(tid, at), priority(prio)),
        Event::Enter { interrupt, name } => match (interrupt, name.is_empty()) {
            (crate::Interrupt::Irq(_), false) => format!("{interrupt} {name} begins"),
            _ => format!("{} begins", names.interrupt(interrupt)),
        },
        Event::TimerExpire { function, now, .. } => {
            format!("hrtimer calls {} (its clock: {now})", names.kernel(function))
        }
        Event::Leave { interrupt: crate::Interrupt::Hrtimer(_) } => "hrtimer call ends".to_owned(),
        Event::Leave { interrupt: crate::Interrupt::Timer(_) } => "timer call ends".to_owned(),
        Event::Leave { interrupt } => format!("{} ends", names.interrupt(interrupt)),
        Event::Raise { vec } => {
            let name = SOFTIRQS.get(usize::from(vec)).map_or(vec.to_string(), |name| (*name).to_owned());
            format!("raises softirq {name}")
        }
        Event::Call { call, .. } => format!("enters {}({})", names.call(call), decode::fields(names, note)),
        Event::Return { call, value } => {
            let call = call.map_or("the system call".to_owned(), |call| names.call(call));
            format!("{call} returns {}", decode::returned(value))
        }
        Event::Switchable { what, off } => {
            let what = if what == Off::Irqs { "interrupts" } else { "preemption" };
            let fields = decode::fields(names, note);
            format!("{what} {} {fields}", if off { "off" } else { "on" }).trim_end().to_owned()
        }
        Event::Idle { state: Some(state), .. } => format!("the CPU goes idle, state {state}"),
        Event::Idle { state: None, .. } => "the CPU comes out of idle".to_owned(),
        Event::Fault { user, .. } => {
            let whose = if user { "user" } else { "kernel" };
            format!("page fault ({whose}) {}", decode::fields(names, note))
        }
        Event::Noise { kind, duration: ns, .. } => format!("{kind} noise of {}", duration(ns.max(0) as u64)),
        _ => plain(names, note),
    }
}

/// In which state a thread left its CPU.
fn left(leaves: Leaves) -> String {
    match leaves {
        Leaves::Preempted => " (preempted, can go on)".to_owned(),
        // It yielded, or was preempted on its way to user space.
        Leaves::GaveWay => " (can go on)".to_owned(),
        Leaves::Ended => " (ends)".to_owned(),
        Leaves::Asleep(letter) => format!(" ({})", decode::state(letter)),
    }
}

fn plain(names: &StoryNames<'_>, note: &Note) -> String {
    let name = &names.classes[note.class].name;
    format!("{name} {}", decode::fields(names, note)).trim_end().to_owned()
}

fn named(names: &StoryNames<'_>, tid: i32, prio: Option<i16>, at: i64) -> String {
    match prio.filter(|_| tid != 0) {
        Some(prio) => format!("{} ({})", names.thread_at(tid, at), priority(prio)),
        None => names.thread_at(tid, at),
    }
}

/// The longest piece of the cause that most of the time went to; none where the thread had it itself.
pub(super) fn gap(names: &StoryNames<'_>, segments: &[Segment], largest: Option<&Slice>) -> Option<Gap> {
    let slice = largest.filter(|slice| slice.cause != Cause::Own)?;
    let longest = segments.iter().filter(|segment| segment.cause == slice.cause).max_by_key(|segment| segment.ns())?;
    let text = names.scene.evidence.sum(&[*longest]).first().map(|part| names.cause(part))?;
    Some(Gap { from: longest.from, to: longest.to, cpu: longest.cpu, text })
}

/// The longest time without a record on the CPU of the question: of all records, also those that no row tells.
pub(super) fn silence(names: &StoryNames<'_>) -> Option<Gap> {
    let question = &names.scene.question;
    let cpu = question.cpu?;
    let (from, to) = names.scene.evidence.times.longest_silence(cpu, question.from, question.to)?;
    Some(Gap { from, to, cpu: Some(cpu), text: format!("no record on cpu {cpu}") })
}
