// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kinds of events a trace does not have, as far as one of them could be, or change, the cause of a part of an
//! answer [spec/analyze.md 6.1].

use serde::{Serialize, Serializer};

use super::{Cause, CausePart, Ground};
use crate::doubt::Doubt;
use crate::event::Interrupt;
use crate::names::Facts;
use crate::span::{Context, Waker};

/// A kind of events that causes rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// `sched_switch`.
    Switches,
    /// `sched_waking`, `sched_wakeup`.
    Wakeups,
    /// Entries and exits of interrupts.
    Interrupts,
    /// Entries and exits of softirqs.
    Softirqs,
    /// When high-resolution timers are due.
    TimerStarts,
    /// Calls of high-resolution timers, such as the one that gives CPU quotas anew.
    TimerExpiries,
    /// Interrupts and preemption off and on.
    IrqsOff,
    /// Page faults.
    PageFaults,
    /// System calls.
    SystemCalls,
    /// Requests to block devices.
    BlockRequests,
    /// Signals.
    Signals,
    /// Moves of threads between CPUs.
    Migrations,
    /// Idle states of processors.
    IdleStates,
    /// Frequencies of processors.
    Frequencies,
}

impl EventKind {
    /// All of them, the most important first.
    pub const ALL: [EventKind; 14] = [
        EventKind::Switches,
        EventKind::Wakeups,
        EventKind::Interrupts,
        EventKind::Softirqs,
        EventKind::TimerStarts,
        EventKind::TimerExpiries,
        EventKind::IrqsOff,
        EventKind::PageFaults,
        EventKind::SystemCalls,
        EventKind::BlockRequests,
        EventKind::Signals,
        EventKind::Migrations,
        EventKind::IdleStates,
        EventKind::Frequencies,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::Switches => "switches",
            EventKind::Wakeups => "wakeups",
            EventKind::Interrupts => "interrupts",
            EventKind::Softirqs => "softirqs",
            EventKind::TimerStarts => "timer_starts",
            EventKind::TimerExpiries => "timer_expiries",
            EventKind::IrqsOff => "irqs_off",
            EventKind::PageFaults => "page_faults",
            EventKind::SystemCalls => "system_calls",
            EventKind::BlockRequests => "block_requests",
            EventKind::Signals => "signals",
            EventKind::Migrations => "migrations",
            EventKind::IdleStates => "idle_states",
            EventKind::Frequencies => "frequencies",
        }
    }

    /// What it is called, and what is not known without it.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            EventKind::Switches => ("sched_switch", "who ran is not known"),
            EventKind::Wakeups => ("wake-ups", "who woke whom is not known"),
            EventKind::Interrupts => ("interrupts", "their time counts as that of what they interrupt"),
            EventKind::Softirqs => ("softirqs", "their time counts as that of what they interrupt"),
            EventKind::TimerStarts => {
                ("starts of timers", "when a timer was due, and so how late it was, is not known")
            }
            EventKind::TimerExpiries => ("calls of timers", "a CPU quota of a control group looks the same"),
            EventKind::IrqsOff => {
                ("times with interrupts or preemption off", "whether they were off is inferred or not known")
            }
            EventKind::PageFaults => ("page faults", "their time counts as the thread's own, or as a sleep"),
            EventKind::SystemCalls => ("system calls", "in which one a thread was blocked is not known"),
            EventKind::BlockRequests => ("block requests", "whether it waited for a device is not known"),
            EventKind::Signals => ("signals", "who stopped a thread is not known"),
            EventKind::Migrations => ("moves between CPUs", "for which CPU it waited is not known"),
            EventKind::IdleStates => ("idle states", "a limit of the thread's group looks the same"),
            EventKind::Frequencies => ("CPU frequencies", "the time that a change takes looks the same"),
        }
    }

    /// What `kymo record` is asked with.
    fn option(self) -> &'static str {
        match self {
            EventKind::Switches | EventKind::Wakeups | EventKind::Migrations => "sched",
            EventKind::Interrupts | EventKind::Softirqs => "irq",
            EventKind::TimerStarts | EventKind::TimerExpiries => "timer",
            EventKind::IrqsOff => "'preemptirq:*'",
            EventKind::PageFaults => "faults",
            EventKind::SystemCalls => "syscalls",
            EventKind::BlockRequests => "block",
            EventKind::Signals => "'signal:signal_generate'",
            EventKind::IdleStates | EventKind::Frequencies => "power",
        }
    }

    fn is_in(self, facts: &Facts) -> bool {
        match self {
            EventKind::Switches => facts.switches,
            // Without switches nobody asks who woke whom.
            EventKind::Wakeups => facts.waking || facts.wakeup || !facts.switches,
            EventKind::Interrupts => facts.hard_interrupts,
            EventKind::Softirqs => facts.softirqs,
            EventKind::TimerStarts => facts.timers,
            EventKind::TimerExpiries => facts.timer_calls,
            EventKind::IrqsOff => facts.off,
            EventKind::PageFaults => facts.faults,
            EventKind::SystemCalls => facts.calls,
            EventKind::BlockRequests => facts.requests,
            EventKind::Signals => facts.signals,
            EventKind::Migrations => facts.migrations,
            EventKind::IdleStates => facts.idle_states,
            EventKind::Frequencies => facts.frequencies,
        }
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}

/// A part of an answer, as far as missing events depend on it.
#[derive(Clone, Copy, Debug)]
pub struct AnswerPart {
    /// What it went to.
    pub cause: Cause,
    /// How that is known.
    pub ground: Ground,
    /// How long it is.
    pub ns: u64,
    /// What is doubtful about it.
    pub doubt: Doubt,
}

impl From<&CausePart> for AnswerPart {
    fn from(part: &CausePart) -> AnswerPart {
        AnswerPart { cause: part.cause, ground: part.ground, ns: part.ns, doubt: part.doubt }
    }
}

/// Parts below this share of an answer's time do not ask for more events.
const SHARE_MIN: u64 = 20;

/// A quota's period begins anew after so long at the earliest, ns: shorter waits are none for a quota.
const QUOTA_NS_MIN: u64 = 10_000_000;

impl AnswerPart {
    /// Whether an event of this kind, had it been recorded, could have been the cause, or a part of it.
    fn could_be(&self, kind: EventKind) -> bool {
        let is_inferred = self.ground == Ground::Inferred;
        match kind {
            EventKind::Switches => true,
            EventKind::Wakeups => !matches!(
                self.cause,
                Cause::Own | Cause::Interrupt(_) | Cause::Nmi | Cause::Fault | Cause::Ran { .. } | Cause::Idle
            ),
            EventKind::Interrupts => self.is_running() || is_inferred || self.cause == Cause::Remainder,
            EventKind::Softirqs => self.is_running() || self.cause == Cause::Remainder,
            EventKind::TimerStarts => match self.cause {
                Cause::Blocked { waker: Some(waker), .. } => is_by_timer(waker),
                _ => false,
            },
            EventKind::TimerExpiries => match self.cause {
                Cause::RunQueue { .. } => self.ns >= QUOTA_NS_MIN,
                Cause::IdleExit => is_inferred,
                _ => false,
            },
            EventKind::IrqsOff => match self.cause {
                Cause::Thread { .. } | Cause::RunQueue { .. } | Cause::Ran { .. } => true,
                Cause::IrqsOff { .. } | Cause::PreemptionOff { .. } | Cause::Steal => is_inferred,
                _ => false,
            },
            EventKind::PageFaults => matches!(self.cause, Cause::Own | Cause::Blocked { state: b'D', .. }),
            EventKind::SystemCalls => matches!(
                self.cause,
                Cause::Blocked { call: None, .. }
                    | Cause::WakerSleeps { call: None, .. }
                    | Cause::LockOwnerSleeps { call: None, .. }
            ),
            EventKind::BlockRequests => matches!(self.cause, Cause::Blocked { state: b'D', .. }),
            EventKind::Signals => {
                matches!(self.cause, Cause::Stopped { by, traced: false } if by.is_none() || is_inferred)
            }
            EventKind::Migrations => self.doubt.has(Doubt::MISSED) && self.is_wait_for_cpu(),
            EventKind::IdleStates => self.cause == Cause::IdleExit && is_inferred,
            EventKind::Frequencies => match self.cause {
                Cause::IrqsOff { .. } | Cause::PreemptionOff { .. } => is_inferred,
                Cause::Steal | Cause::Remainder => true,
                _ => false,
            },
        }
    }

    /// A thread ran, or is said to have.
    fn is_running(&self) -> bool {
        matches!(
            self.cause,
            Cause::Own
                | Cause::Ran { .. }
                | Cause::Thread { .. }
                | Cause::RunQueue { .. }
                | Cause::Waker { .. }
                | Cause::LockOwner { .. }
        )
    }

    fn is_wait_for_cpu(&self) -> bool {
        matches!(
            self.cause,
            Cause::Thread { .. }
                | Cause::RunQueue { .. }
                | Cause::IdleExit
                | Cause::IrqsOff { .. }
                | Cause::PreemptionOff { .. }
                | Cause::Throttled { .. }
                | Cause::Remainder
        )
    }
}

/// Whether a timer may have woken: by its call, by the timer's interrupt, or by an interrupt that is not told.
pub(crate) fn is_by_timer(waker: Waker) -> bool {
    let Context::Interrupt(interrupt) = waker.context else { return false };
    match interrupt {
        Interrupt::Hrtimer(_) | Interrupt::Timer(_) | Interrupt::Hard | Interrupt::Soft => true,
        Interrupt::Vector(vector) => vector == 0,
        Interrupt::Irq(_) | Interrupt::Softirq(_) => false,
    }
}

/// A kind that is missing, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingEvent {
    /// Which.
    pub kind: EventKind,
    /// What is not known without it, and what to record.
    pub text: String,
}

/// The kinds that a trace does not have and that could have changed an answer, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingEvents(Vec<EventKind>);

impl MissingEvents {
    /// Of an answer's parts. `is_timed`: it is a wake-up by a timer, measured from when that was due, as far as it is
    /// known.
    pub fn of(facts: &Facts, parts: &[AnswerPart], is_timed: bool) -> MissingEvents {
        let whole: u64 = parts.iter().map(|part| part.ns).sum();
        let matter = || parts.iter().filter(|part| part.ns > 0 && part.ns >= whole / SHARE_MIN);
        let could_be =
            |kind: EventKind| is_timed && kind == EventKind::TimerStarts || matter().any(|part| part.could_be(kind));
        let missing = EventKind::ALL.into_iter().filter(|kind| !kind.is_in(facts) && could_be(*kind));
        MissingEvents(missing.collect())
    }

    /// Takes those of another answer.
    pub fn add(&mut self, other: &MissingEvents) {
        self.0.extend(&other.0);
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// Nothing that could have changed the answer is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds.
    pub fn kinds(&self) -> &[EventKind] {
        &self.0
    }

    /// The same for programs, and for people, in a sentence each.
    pub fn list(&self) -> Vec<MissingEvent> {
        let one = |kind: &EventKind| {
            let (name, unknown) = kind.words();
            let text = format!("no {name} in the trace: {unknown}; record with -k {}", kind.option());
            MissingEvent { kind: *kind, text }
        };
        self.0.iter().map(one).collect()
    }

    /// The same of a test of the laboratory, whose recorder chooses its events itself.
    pub fn beside_a_test(&self) -> Vec<MissingEvent> {
        let one = |kind: &EventKind| {
            let (name, unknown) = kind.words();
            let step =
                format!("kymo record -k {} beside the test records them, where the kernel has them", kind.option());
            MissingEvent { kind: *kind, text: format!("{name}, which were not recorded: {unknown}; {step}") }
        };
        self.0.iter().map(one).collect()
    }

    /// The same in one line; `None` where nothing is missing.
    pub fn line(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().map(|kind| kind.words().0).collect();
        let mut options: Vec<&str> = self.0.iter().map(|kind| kind.option()).collect();
        let mut seen = Vec::new();
        options.retain(|option| {
            !seen.contains(option) && {
                seen.push(*option);
                true
            }
        });
        (!names.is_empty()).then(|| {
            format!(
                "not in the trace, and it could have been part of this: {}; record with -k {}",
                names.join(", "),
                options.join(",")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_FACTS: Facts = Facts {
        switches: true,
        waking: true,
        wakeup: true,
        interrupts: true,
        hard_interrupts: true,
        softirqs: true,
        requests: true,
        calls: true,
        off: true,
        timers: true,
        faults: true,
        signals: true,
        migrations: true,
        timer_calls: true,
        idle_states: true,
        frequencies: true,
        creations: true,
        renames: true,
        mixed_clocks: false,
    };

    fn seen(cause: Cause) -> AnswerPart {
        AnswerPart { cause, ground: Ground::Seen, ns: 20_000_000, doubt: Doubt::NONE }
    }

    fn inferred(cause: Cause) -> AnswerPart {
        AnswerPart { ground: Ground::Inferred, ..seen(cause) }
    }

    fn blocked(state: u8, by: Interrupt) -> Cause {
        let waker = Some(Waker { cpu: 0, context: Context::Interrupt(by) });
        Cause::Blocked { state, call: Some(crate::CallId(1)), waker }
    }

    fn missing(facts: Facts, part: AnswerPart) -> Vec<EventKind> {
        MissingEvents::of(&facts, &[part], false).kinds().to_vec()
    }

    /// Without the events of this kind, and with all others.
    fn without(kind: EventKind) -> Facts {
        let mut facts = ALL_FACTS;
        match kind {
            EventKind::Switches => facts.switches = false,
            EventKind::Wakeups => (facts.waking, facts.wakeup) = (false, false),
            EventKind::Interrupts => facts.hard_interrupts = false,
            EventKind::Softirqs => facts.softirqs = false,
            EventKind::TimerStarts => facts.timers = false,
            EventKind::TimerExpiries => facts.timer_calls = false,
            EventKind::IrqsOff => facts.off = false,
            EventKind::PageFaults => facts.faults = false,
            EventKind::SystemCalls => facts.calls = false,
            EventKind::BlockRequests => facts.requests = false,
            EventKind::Signals => facts.signals = false,
            EventKind::Migrations => facts.migrations = false,
            EventKind::IdleStates => facts.idle_states = false,
            EventKind::Frequencies => facts.frequencies = false,
        }
        facts
    }

    /// `could` are parts that events of the kind could have been the cause of, `could_not` are none.
    #[track_caller]
    fn check(kind: EventKind, could: &[AnswerPart], could_not: &[AnswerPart]) {
        for part in could {
            assert_eq!(missing(without(kind), *part), [kind], "{part:?}");
            assert_eq!(missing(ALL_FACTS, *part), [], "{part:?}");
        }
        for part in could_not {
            assert_eq!(missing(without(kind), *part), [], "{part:?}");
        }
    }

    const OWN: Cause = Cause::Own;
    const HOG: Cause = Cause::Thread { by: 1 };
    const QUEUE: Cause = Cause::RunQueue { by: 1 };
    const IRQS_OFF: Cause = Cause::IrqsOff { by: 1 };
    const IRQ: Cause = Cause::Interrupt(Interrupt::Irq(1));
    const WAITS: Cause = Cause::Blocked { state: b'S', call: None, waker: None };
    const DISK: Cause = Cause::Blocked { state: b'D', call: Some(CALL), waker: None };
    const CALL: crate::CallId = crate::CallId(1);

    #[test]
    fn who_ran_and_who_woke_whom() {
        check(EventKind::Switches, &[seen(OWN), seen(IRQ)], &[]);
        check(EventKind::Wakeups, &[seen(HOG), seen(DISK)], &[seen(OWN), seen(IRQ)]);
        let nothing = Facts::default();
        assert!(!missing(nothing, seen(HOG)).contains(&EventKind::Wakeups), "without switches nobody asks");
    }

    #[test]
    fn what_takes_the_cpu_from_a_thread_that_is_said_to_run() {
        check(
            EventKind::Interrupts,
            &[seen(OWN), seen(HOG), inferred(IRQS_OFF)],
            &[seen(IRQ), seen(DISK), seen(IRQS_OFF)],
        );
        check(EventKind::Softirqs, &[seen(OWN), seen(QUEUE), seen(Cause::Remainder)], &[seen(IRQ), seen(DISK)]);
        check(EventKind::IrqsOff, &[seen(HOG), inferred(IRQS_OFF)], &[seen(IRQS_OFF), seen(OWN), seen(IRQ)]);
        check(EventKind::PageFaults, &[seen(OWN), seen(DISK)], &[seen(HOG), seen(IRQ), seen(Cause::Fault)]);
    }

    #[test]
    fn timers_that_were_due_and_quotas() {
        let by_timer = [Interrupt::Hard, Interrupt::Vector(0), Interrupt::Hrtimer(5)].map(|by| seen(blocked(b'S', by)));
        let by_device =
            [Interrupt::Irq(9), Interrupt::Softirq(3), Interrupt::Vector(1)].map(|by| seen(blocked(b'S', by)));
        check(EventKind::TimerStarts, &by_timer, &[&by_device[..], &[seen(OWN), seen(DISK)]].concat());
        let timed = MissingEvents::of(&without(EventKind::TimerStarts), &[seen(HOG)], true);
        assert_eq!(timed.kinds(), [EventKind::TimerStarts], "it is measured from the wake-up");
        let short = AnswerPart { ns: QUOTA_NS_MIN - 1, ..seen(QUEUE) };
        check(
            EventKind::TimerExpiries,
            &[seen(QUEUE), inferred(Cause::IdleExit)],
            &[short, seen(HOG), seen(Cause::IdleExit)],
        );
        check(EventKind::IdleStates, &[inferred(Cause::IdleExit)], &[seen(Cause::IdleExit), seen(HOG)]);
        check(EventKind::Frequencies, &[inferred(IRQS_OFF), seen(Cause::Remainder)], &[seen(IRQS_OFF), seen(OWN)]);
    }

    #[test]
    fn why_a_thread_slept_and_where_it_waited() {
        let owner = |call| seen(Cause::LockOwnerSleeps { owner: 1, call });
        check(EventKind::SystemCalls, &[seen(WAITS), owner(None)], &[seen(DISK), owner(Some(CALL)), seen(OWN)]);
        check(EventKind::BlockRequests, &[seen(DISK)], &[seen(WAITS), seen(OWN)]);
        let stopped = |by, traced| Cause::Stopped { by, traced };
        let known = [seen(stopped(Some(1), false)), seen(stopped(None, true)), seen(OWN)];
        check(EventKind::Signals, &[seen(stopped(None, false)), inferred(stopped(Some(1), false))], &known);
        let moved = AnswerPart { doubt: Doubt::MISSED, ..seen(HOG) };
        let slept = AnswerPart { doubt: Doubt::MISSED, ..seen(DISK) };
        check(EventKind::Migrations, &[moved], &[seen(HOG), slept]);
    }

    #[test]
    fn what_less_than_a_twentieth_of_the_time_went_to_does_not_ask() {
        let facts = without(EventKind::PageFaults);
        let of = |own_ns: u64| {
            let own = AnswerPart { ns: own_ns, ..seen(OWN) };
            MissingEvents::of(&facts, &[AnswerPart { ns: 1000 - own_ns, ..seen(HOG) }, own], false).is_empty()
        };
        assert_eq!([of(0), of(49), of(50)], [true, true, false]);
        assert!(MissingEvents::of(&Facts::default(), &[], false).is_empty(), "there is no answer");
    }

    #[test]
    fn several_answers_are_told_once_with_what_to_record() {
        let mut all = MissingEvents::of(&without(EventKind::PageFaults), &[seen(OWN)], false);
        assert_eq!(all.line().unwrap().lines().count(), 1);
        all.add(&MissingEvents::of(&without(EventKind::Softirqs), &[seen(OWN)], false));
        all.add(&MissingEvents::of(&without(EventKind::Interrupts), &[seen(OWN)], false));
        all.add(&MissingEvents::of(&without(EventKind::Softirqs), &[seen(OWN)], false));
        assert_eq!(all.kinds(), [EventKind::Interrupts, EventKind::Softirqs, EventKind::PageFaults]);
        assert_eq!(
            all.line().unwrap(),
            "not in the trace, and it could have been part of this: interrupts, softirqs, page faults; record with -k \
             irq,faults"
        );
        let list = serde_json::to_string(&all.list()[2]).unwrap();
        assert_eq!(
            list,
            r#"{"kind":"page_faults","text":"no page faults in the trace: their time counts as the thread's own, or as a sleep; record with -k faults"}"#
        );
        assert_eq!(MissingEvents::default().line(), None);
    }

    #[test]
    fn every_kind_is_a_word_of_the_schema_and_of_the_table() {
        let spec = |name: &str| {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(root.join("../../spec").join(name)).unwrap()
        };
        let schema: serde_json::Value = serde_json::from_str(&spec("lab-result.schema.json")).unwrap();
        let words = schema["$defs"]["missing_event"]["properties"]["kind"]["enum"].as_array().unwrap();
        let known: std::collections::BTreeSet<&str> = words.iter().filter_map(serde_json::Value::as_str).collect();
        let used: std::collections::BTreeSet<&str> = EventKind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(used, known);
        let table = spec("analyze.md");
        for word in used {
            assert!(table.contains(&format!("| `{word}` |")), "spec/analyze.md 6.1 has no row of {word}");
        }
    }
}
