// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever comes, in whatever order: time lines have no gap and no overlap, a checkpoint is as good as the whole
//! trace, budgets and critical
//! paths cover their stretch, and nothing panics.

use std::collections::HashMap;

use kymo_analyze::cause::{Asked, Evidence, Machine, Moment};
use kymo_analyze::usage::{Usage, UsageScope};
use kymo_analyze::{
    CallId, CpuSpan, Event, Head, History, Interrupt, Io, Latency, Leaves, Name, Off, Options, Sink, State, Thread,
    ThreadSpan, Vocabulary, Wake,
};
use proptest::prelude::*;

/// One thing that comes.
#[derive(Clone, Debug)]
enum Item {
    Record(Head, Event),
    Lost(Option<u32>, i64, i64),
    Pass(Head),
}

fn tid() -> impl Strategy<Value = i32> {
    0..6i32
}

fn interrupt() -> impl Strategy<Value = Interrupt> {
    prop_oneof![
        (0..3i32).prop_map(Interrupt::Irq),
        any::<u8>().prop_map(|vec| Interrupt::Softirq(vec % 12)),
        (0..3u8).prop_map(Interrupt::Vector),
        (0..2u64).prop_map(Interrupt::Hrtimer),
        (0..2u64).prop_map(Interrupt::Timer),
    ]
}

fn leaves() -> impl Strategy<Value = Leaves> {
    prop_oneof![Just(Leaves::Preempted), Just(Leaves::GaveWay), Just(Leaves::Asleep(b'S')), Just(Leaves::Ended)]
}

fn switch() -> impl Strategy<Value = Event> {
    (tid(), leaves(), tid()).prop_map(|(prev, leaves, next)| Event::Switch {
        prev,
        prev_prio: Some(120),
        leaves,
        next,
        next_name: Name::new("n"),
        prev_name: Name::new("n"),
        next_prio: None,
    })
}

fn wake() -> impl Strategy<Value = Event> {
    let step = prop_oneof![Just(Wake::Waking), Just(Wake::Wakeup), Just(Wake::New)];
    (step, tid(), proptest::option::of(0..3u32)).prop_map(|(step, tid, cpu)| Event::Wake {
        step,
        tid,
        name: Name::default(),
        prio: None,
        cpu,
        within: (tid == 2).then_some(Interrupt::Hard),
    })
}

fn life() -> impl Strategy<Value = Event> {
    prop_oneof![
        (tid(), tid()).prop_map(|(parent, child)| Event::Fork { parent, child, name: Name::new("c"), process: None }),
        (tid(), any::<bool>()).prop_map(|(child, same_process)| Event::Create {
            child,
            name: Name::new("c"),
            same_process
        }),
        (tid(), tid()).prop_map(|(tid, old_tid)| Event::Exec { tid, old_tid, name: Name::new("x") }),
        tid().prop_map(|tid| Event::Exit { tid }),
        tid().prop_map(|tid| Event::Free { tid }),
        (tid(), 0..4u32).prop_map(|(tid, cpu)| Event::Migrate { tid, cpu }),
        (tid(), any::<bool>()).prop_map(|(tid, asleep)| Event::Dumped {
            tid,
            process: tid,
            name: Name::new("d"),
            prio: None,
            asleep,
        }),
    ]
}

fn device() -> impl Strategy<Value = Event> {
    let step = prop_oneof![Just(Io::BlockIssue), Just(Io::BlockComplete), Just(Io::NetQueue), Just(Io::NetXmit)];
    prop_oneof![
        interrupt().prop_map(|interrupt| Event::Enter { interrupt, name: Name::default() }),
        interrupt().prop_map(|interrupt| Event::Leave { interrupt }),
        any::<u8>().prop_map(|vec| Event::Raise { vec: vec % 12 }),
        (0..2u64, any::<i64>()).prop_map(|(timer, expires)| Event::TimerStart { timer, expires }),
        (0..2u64, any::<i64>()).prop_map(|(timer, now)| Event::TimerExpire { timer, function: 1, now }),
        (0..2u16, 0..2u64).prop_map(|(call, op)| Event::Call { call: CallId(call), args: [0x10, op] }),
        proptest::option::of(0..2u16).prop_map(|call| Event::Return { call: call.map(CallId), value: 0 }),
        (any::<bool>(), any::<bool>())
            .prop_map(|(irqs, off)| Event::Switchable { what: if irqs { Off::Irqs } else { Off::Preemption }, off }),
        proptest::option::of(0..3u32).prop_map(|state| Event::Idle { cpu: Some(0), state }),
        any::<bool>().prop_map(|user| Event::Fault { address: 1, user }),
        (proptest::option::of(0..3u32), any::<u32>()).prop_map(|(cpu, khz)| Event::Frequency { cpu, khz }),
        (any::<i64>(), any::<i64>()).prop_map(|(start, duration)| Event::Noise { kind: "nmi", start, duration }),
        (step, 0..3u64).prop_map(|(step, key)| Event::Io {
            step,
            device: 1,
            key,
            name: Name::default(),
            bytes: 4096,
            writes: Some(true)
        }),
    ]
}

fn head(wild: bool) -> impl Strategy<Value = (i64, Option<u32>, Option<i32>)> {
    let step = if wild { prop_oneof![-50..200i64, any::<i64>()].boxed() } else { (0..50i64).boxed() };
    (step, proptest::option::weighted(0.95, prop_oneof![0..3u32, Just(90_000)]), proptest::option::weighted(0.2, tid()))
}

/// Step of time, CPU, and thread of a head.
type Place = (i64, Option<u32>, Option<i32>);

/// Items whose times follow each other; where `wild`, they jump.
fn items(wild: bool) -> impl Strategy<Value = Vec<Item>> {
    let event = prop_oneof![4 => switch(), 3 => wake(), 2 => life(), 4 => device()];
    let one = (head(wild), event, 0..20u8, any::<bool>());
    proptest::collection::vec(one, 1..150).prop_map(|list| {
        let mut time = 1000i64;
        let item = |((step, cpu, tid), event, kind, all): (Place, Event, u8, bool)| {
            time = time.saturating_add(step);
            let head = Head { time, cpu, tid };
            match kind {
                0 => Item::Lost(cpu.filter(|_| !all), time, time.saturating_add(30)),
                1 => Item::Pass(head),
                _ => Item::Record(head, event),
            }
        };
        list.into_iter().map(item).collect()
    })
}

fn play(state: &mut State, items: &[Item], sink: &mut impl Sink) {
    for item in items {
        match item {
            Item::Record(head, event) => state.apply(head, event, sink),
            Item::Lost(cpu, from, to) => state.lost(*cpu, *from, *to, sink),
            Item::Pass(head) => state.pass(head, sink),
        }
    }
}

/// Everything that is handed on, in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct All {
    threads: Vec<(ThreadSpan, Thread)>,
    cpus: Vec<CpuSpan>,
    others: Vec<String>,
}

impl Sink for All {
    fn thread(&mut self, span: &ThreadSpan, thread: &Thread) {
        self.threads.push((*span, thread.clone()));
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.cpus.push(*span);
    }

    fn interrupt(&mut self, span: &kymo_analyze::InterruptSpan, _: kymo_analyze::Threads<'_>) {
        assert!(span.from <= span.to && span.away_ns <= span.to.saturating_sub(span.from), "{span:?}");
        self.others.push(format!("{span:?}"));
    }

    fn call(&mut self, span: &kymo_analyze::CallSpan, _: &Thread) {
        self.others.push(format!("{span:?}"));
    }

    fn off(&mut self, span: &kymo_analyze::OffSpan, _: kymo_analyze::Threads<'_>) {
        self.others.push(format!("{span:?}"));
    }
}

/// Spans of each key follow each other; `fresh`: those that begin a new time line.
fn contiguous(spans: impl Iterator<Item = (i64, i64, i64)>, may_begin_anew: impl Fn(i64) -> bool) {
    let mut ends: HashMap<i64, i64> = HashMap::new();
    for (key, from, to) in spans {
        assert!(from <= to, "a span of {key} from {from} to {to}");
        match ends.insert(key, to) {
            Some(end) if may_begin_anew(key) => assert!(end <= from, "{key}: {from} lies before {end}"),
            Some(end) => assert_eq!(end, from, "time line of {key}"),
            None => {}
        }
    }
}

fn vocabulary() -> Vocabulary {
    let mut vocabulary = Vocabulary::new();
    for name in ["sched_waking", "sched_wakeup"] {
        let field = kymo_analyze::Field { name: "tid".into(), kind: kymo_analyze::ValueKind::Integer, position: 0 };
        vocabulary.learn(&kymo_analyze::Class { name: name.into(), fields: vec![field] }).unwrap();
    }
    vocabulary.learn(&kymo_analyze::Class { name: "syscall_entry_futex".into(), fields: Vec::new() }).unwrap();
    vocabulary
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn time_lines_have_no_gap_and_no_overlap(items in prop_oneof![items(false), items(true)]) {
        let mut state = State::new(&vocabulary());
        let mut all = All::default();
        play(&mut state, &items, &mut all);
        state.finish(None, &mut all);
        let threads = all.threads.iter().map(|(span, _)| (i64::from(span.tid), span.from, span.to));
        // A thread that the kernel has freed may come again later.
        let is_freed = |tid: i64| {
            let of_tid = |freed: i32| i64::from(freed) == tid;
            items.iter().any(|item| matches!(item, Item::Record(_, Event::Free { tid }) if of_tid(*tid)))
        };
        contiguous(threads, is_freed);
        contiguous(all.cpus.iter().map(|span| (i64::from(span.cpu), span.from, span.to)), |_| false);
        for cpu in state.cpus() {
            let last = all.cpus.iter().rfind(|span| span.cpu == cpu.number);
            prop_assert!(last.is_none_or(|last| Some(last.to) == state.now()));
        }
    }

    #[test]
    fn a_thread_runs_on_one_cpu_and_a_cpu_runs_the_thread_that_says_so(items in items(true)) {
        let mut state = State::new(&vocabulary());
        for item in &items {
            play(&mut state, std::slice::from_ref(item), &mut ());
            for cpu in state.cpus() {
                if let Some(tid) = cpu.thread() {
                    let doing = state.thread(tid).map(|thread| thread.doing);
                    prop_assert_eq!(doing, Some(kymo_analyze::Doing::Running { cpu: cpu.number }), "after {:?}", item);
                }
            }
            for thread in state.threads() {
                if let kymo_analyze::Doing::Running { cpu } = thread.doing {
                    prop_assert_eq!(state.cpu(cpu).and_then(|cpu| cpu.thread()), Some(thread.tid), "after {:?}", item);
                }
            }
        }
    }

    #[test]
    fn a_checkpoint_and_what_follows_is_the_whole(items in items(true), at in any::<prop::sample::Index>()) {
        let at = at.index(items.len());
        let mut whole = (State::new(&vocabulary()), All::default());
        play(&mut whole.0, &items, &mut whole.1);
        let mut first = (State::new(&vocabulary()), All::default());
        play(&mut first.0, &items[..at], &mut first.1);
        let mut second = first.0.clone();
        play(&mut second, &items[at..], &mut first.1);
        prop_assert_eq!(&second, &whole.0);
        prop_assert_eq!(first.1, whole.1);
    }

    #[test]
    fn bytes_of_a_state_are_the_state(
        items in prop_oneof![items(false), items(true)],
        cut in any::<prop::sample::Index>(),
    ) {
        let vocabulary = vocabulary();
        let mut state = State::new(&vocabulary);
        play(&mut state, &items, &mut ());
        let bytes = state.encode();
        let again = State::decode(&bytes, &vocabulary);
        prop_assert_eq!(again.as_ref(), Some(&state));
        let cut = State::decode(&bytes[..cut.index(bytes.len())], &vocabulary);
        prop_assert_eq!(cut, None);
    }

    /// A state of any bytes goes on without panic.
    #[test]
    fn bytes_of_anyone_are_a_state_or_none(
        items in items(true),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let vocabulary = vocabulary();
        let (before, behind) = items.split_at(items.len() / 2);
        let mut state = State::new(&vocabulary);
        play(&mut state, before, &mut ());
        let mut bytes = state.encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(mut state) = State::decode(&bytes, &vocabulary) {
            play(&mut state, behind, &mut ());
            state.finish(None, &mut ());
        }
    }

    #[test]
    fn budgets_and_critical_paths_cover_their_stretch(
        items in items(false),
        tid in tid(),
        from in 900..2000i64,
        ns in 0..3000i64,
    ) {
        let to = from + ns;
        let mut history = History::new(from, to, 10_000);
        let mut state = State::new(&vocabulary());
        play(&mut state, &items, &mut history);
        state.finish(None, &mut history);
        let mut at = from;
        for piece in history.pieces(tid, from, to) {
            prop_assert_eq!(piece.from, at);
            prop_assert!(piece.to > piece.from);
            at = piece.to;
        }
        prop_assert_eq!(at, to);
        at = from;
        for step in history.critical(tid, from, to).steps {
            prop_assert_eq!(step.from, at);
            at = step.to;
        }
        prop_assert_eq!(at, to);
    }

    #[test]
    fn causes_sum_to_their_sample(
        items in items(true),
        asked in prop_oneof![Just(Asked::Timer), Just(Asked::Woken), Just(Asked::Busy), Just(Asked::Lock), Just(Asked::Stretch)],
        tid in tid(),
        cpu in proptest::option::of(0..3u32),
        from in prop_oneof![900..4000i64, any::<i64>()],
        ns in prop_oneof![0..3000i64, 0..10_000_000i64],
        is_guest in any::<bool>(),
    ) {
        let to = from.saturating_add(ns);
        let mut evidence = Evidence::new(from, to, 10_000, Machine { is_guest, ..Machine::default() });
        let mut state = State::new(&vocabulary());
        play(&mut state, &items, &mut evidence);
        state.finish(None, &mut evidence);
        let explained = evidence.explain(&Moment { tid, cpu, from, to, asked });
        prop_assert_eq!(explained.parts.iter().map(|part| part.ns).sum::<u64>(), to.abs_diff(from));
        prop_assert!(explained.parts.is_sorted_by_key(|part| std::cmp::Reverse(part.ns)));
    }

    #[test]
    fn what_was_used_sums_up_to_the_stretch(
        items in prop_oneof![items(false), items(true)],
        from in prop_oneof![Just(i64::MIN), 900..3000i64],
        ns in prop_oneof![0..3000i64, Just(i64::MAX)],
    ) {
        let scope = UsageScope { from, to: from.max(0).saturating_add(ns), ..UsageScope::default() };
        let (mut state, mut usage) = (State::new(&vocabulary()), Usage::new(scope, &vocabulary()));
        for item in &items {
            if let Item::Pass(head) = item {
                usage.check(head, &state);
            }
            play(&mut state, std::slice::from_ref(item), &mut usage);
        }
        state.finish(None, &mut usage);
        usage.finish(&state);
        let Some((begin, end)) = usage.stretch() else { return Ok(()) };
        for (number, used) in usage.cpus() {
            let parts = [used.thread_ns, used.interrupt_ns, used.other_ns, used.idle_ns, used.unknown_ns];
            let sum: u128 = parts.into_iter().map(u128::from).sum();
            prop_assert_eq!(sum, u128::from(end.abs_diff(begin)), "cpu {}", number);
        }
        let own: u128 = usage.threads().map(|(_, used)| u128::from(used.cpu.ns - used.cpu.interrupted_ns)).sum();
        let of_cpus = usage.cpus().map(|(_, used)| u128::from(used.thread_ns)).sum::<u128>();
        // A thread that ran for 2^63 ns on each of two CPUs has as much as a number holds.
        let is_bounded = usage.threads().any(|(_, used)| used.cpu.ns == u64::MAX);
        prop_assert!(own == of_cpus || is_bounded, "threads {own}, CPUs {of_cpus}");
    }

    #[test]
    fn latencies_take_anything(items in items(true)) {
        let mut latency = Latency::new(Options::default());
        let mut state = State::new(&vocabulary());
        play(&mut state, &items, &mut latency);
        state.finish(None, &mut latency);
        latency.finish(&state);
        for (_, series) in latency.series() {
            prop_assert!(series.worst.len() <= 10 && series.doubtful <= series.count());
            prop_assert!(series.worst.is_sorted_by_key(|sample| std::cmp::Reverse(sample.value_ns)));
        }
    }
}
