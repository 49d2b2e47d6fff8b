// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each `cases/NAME.case` is a trace and questions (`? QUESTION`); `cases/NAME.expect` is what must be found. The
//! name is the assertion.
//! `KYMO_BLESS=1` writes the expectations anew.

use crate::common;

use std::fmt::Write as _;
use std::path::Path;

use common::{Item, Trace, parse};
use kymo_analyze::cause::{Asked, Cause, EventKind, Evidence, Explained, Ground, Group, GroupFound, Machine, Moment};
use kymo_analyze::explain::{Note, Question, Scene, Story, StoryRow, StoryStyle, Symbols};
use kymo_analyze::{
    Act, BudgetPart, CallId, Context, CpuSpan, Distribution, Doing, Doubt, Head, History, Key, Latency, Level, Number,
    Of, Options, Ready, Sample, Sink, State, Stats, Thread, ThreadSpan, Until, Vocabulary, Waker, What, Writer,
};

#[test]
fn cases() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "case"));
    names.sort();
    assert!(names.len() > 15, "cases in {}", dir.display());
    let mut wrong = Vec::new();
    for path in names {
        let found = answer(&std::fs::read_to_string(&path).unwrap());
        let expect = path.with_extension("expect");
        if std::env::var_os("KYMO_BLESS").is_some() {
            std::fs::write(&expect, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expect).unwrap_or_default();
        if found != expected {
            wrong.push(format!("{}\n--- expected\n{expected}--- found\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// More records in a stretch than a story keeps at its begin and end together.
const RECORDS: u64 = 50_000;
/// Up to the last of them, one each us.
const WHOLE_NS: u64 = (RECORDS - 1) * 1000;

fn story_of(text: &str) -> Story {
    let trace = parse(text);
    let question = Question::stretch(7, 0, WHOLE_NS as i64);
    let scene = scene(&trace, question, Machine::of_uname("6.18.44", "#1 SMP PREEMPT_DYNAMIC"));
    scene.story(&trace.classes, &trace.vocabulary, &Functions, 12)
}

#[test]
fn what_a_story_says_of_a_stretch_is_of_all_its_records_and_not_of_those_that_it_keeps() {
    let switch = "0 0:0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=work \
                  next_tid=7 next_prio=20\n";
    let fault = |at: u64| format!("{} 0:7 page_fault_user address={:#x} ip=0x1000\n", at * 1000, 0x10_0000 + at * 4096);
    let story = story_of(&(switch.to_owned() + &(1..RECORDS).map(fault).collect::<String>()));
    // The last one is where the stretch ends.
    assert_eq!(story.faults, RECORDS - 2);
    // Faults of many addresses are one cause, and no time without a record is told of a CPU that wrote one each us.
    let budget: Vec<_> = story.budget.iter().map(|slice| (slice.kind, slice.ns)).collect();
    assert_eq!(budget, [("page_fault", WHOLE_NS - 1000), ("own", 1000)]);
    let silence = story.silence.as_ref().map_or(0, |gap| gap.to.abs_diff(gap.from));
    assert!(silence <= 1000, "{:?}", story.silence);
    assert!(story.rows.iter().any(|row| matches!(row, StoryRow::Skipped(_))), "{:#?}", story.rows);
    assert!(!missing(&story).contains(&EventKind::PageFaults), "{:?}", story.missing_events);

    // The same time without events of faults: the story says that they are missing.
    let event = |at: u64| format!("{} 0:7 app:step number={at}\n", at * 1000);
    let story = story_of(&(switch.to_owned() + &(1..RECORDS).map(event).collect::<String>()));
    let budget: Vec<_> = story.budget.iter().map(|slice| (slice.kind, slice.ns)).collect();
    assert_eq!((budget, story.faults), (vec![("own", WHOLE_NS)], 0));
    assert!(missing(&story).contains(&EventKind::PageFaults), "{:?}", story.missing_events);
}

fn missing(story: &Story) -> Vec<EventKind> {
    story.missing_events.iter().map(|missing| missing.kind).collect()
}

#[test]
fn no_step_of_a_latency_is_forgotten() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let spec = std::fs::read_to_string(root.join("../../spec/analyze.md")).unwrap();
    let table = spec.split("\n## ").find(|section| section.starts_with("5. Latencies")).unwrap();
    let files = std::fs::read_dir(root.join("tests/cases")).unwrap().map(|entry| entry.unwrap().path());
    let expects = files.filter(|path| path.extension().is_some_and(|extension| extension == "expect"));
    let answers: String = expects.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut missing = Vec::new();
    // Spans are the user's; they are tested with their parser.
    for (_, name) in What::ALL.iter().filter(|(what, _)| *what != What::Span) {
        let mut step =
            |number, what| missing.push(format!("{name}: docs/extending.md, a latency, step {number}: {what}"));
        let cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        if !cells.flat_map(|cell| cell.split('`')).any(|word| word == *name) {
            step(3, "the table in spec/analyze.md 5 has no row of it");
        }
        let is_answer = |line: &str| {
            let of = line.strip_prefix(name).and_then(|rest| rest.split_once(':'));
            of.is_some_and(|(of, rest)| (of.is_empty() || of.starts_with(' ')) && rest.contains(" samples, "))
        };
        if !answers.lines().any(is_answer) {
            step(4, "no case in host/kymo-analyze/tests/cases has a sample of it");
        }
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

fn answer(text: &str) -> String {
    let (questions, records): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("? "));
    let trace = parse(&records.join("\n"));
    let mut out = String::new();
    for question in questions {
        writeln!(out, "{question}").unwrap();
        let words: Vec<&str> = question[2..].split_whitespace().collect();
        let numbers: Vec<i64> = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
        match words[0] {
            "threads" | "cpus" => spans(&trace, words[0] == "cpus", &mut out),
            "latency" => latency(&trace, &words[1..], &mut out),
            "budget" => budget(&trace, &numbers, &mut out),
            "cause" => cause(&trace, &words[1..], &numbers, &mut out),
            "critical" => critical(&trace, &numbers, &mut out),
            "stats" => stats(&trace, words[1], &mut out),
            "thread" => thread(&trace, numbers[0] as i32, &mut out),
            "usage" => out.push_str(&common::usage::text(&trace, &words[1..])),
            "explain" => explain(&trace, &words[1..], &numbers, &mut out),
            other => panic!("no such question: {other}"),
        }
    }
    out
}

fn whole(trace: &Trace, sink: &mut impl Sink) -> State {
    let mut state = State::new(&trace.vocabulary);
    trace.play(&mut state, 0..trace.items.len(), sink);
    state.finish(None, sink);
    state
}

struct Show<'a> {
    vocabulary: &'a Vocabulary,
    is_cpus: bool,
    lines: Vec<(i64, String)>,
}

impl Sink for Show<'_> {
    fn thread(&mut self, span: &ThreadSpan, _: &Thread) {
        if !self.is_cpus {
            let until = match span.until {
                Until::Woken(by) => format!(" until woken by {}", waker(&by)),
                Until::Runs { cpu } => format!(" until it runs on {cpu}"),
                Until::Next => String::new(),
                Until::End => " at the end".into(),
            };
            let ready =
                if span.ready_from != span.from { format!(" ready from {}", span.ready_from) } else { "".into() };
            let what = doing(span.doing, self.vocabulary);
            let line = format!("{} {}..{} {what}{ready}{until}{}", span.tid, span.from, span.to, marks(span.doubt));
            self.lines.push((span.tid.into(), line));
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        if self.is_cpus {
            let line =
                format!("cpu {} {}..{} {}{}", span.cpu, span.from, span.to, context(span.context), marks(span.doubt));
            self.lines.push((span.cpu.into(), line));
        }
    }
}

fn spans(trace: &Trace, is_cpus: bool, out: &mut String) {
    let mut show = Show { vocabulary: &trace.vocabulary, is_cpus, lines: Vec::new() };
    whole(trace, &mut show);
    show.lines.sort_by_key(|(key, _)| *key);
    show.lines.iter().for_each(|(_, line)| writeln!(out, "{line}").unwrap());
}

fn latency(trace: &Trace, words: &[&str], out: &mut String) {
    let what = What::ALL.iter().filter(|(_, name)| words.contains(name)).map(|(what, _)| *what).collect();
    let mut latency = Latency::new(Options { what, ..Options::default() });
    let state = whole(trace, &mut latency);
    latency.finish(&state);
    for (key, series) in latency.series() {
        let idle = if series.idle > 0 { format!(", {} while idle", series.idle) } else { String::new() };
        writeln!(out, "{}: {} samples, {} doubtful{idle}", label(key, trace), series.count(), series.doubtful).unwrap();
        series.worst.iter().for_each(|sample| writeln!(out, "  {}", one(sample, &latency)).unwrap());
    }
    let left = latency.left();
    left.unmatched.iter().for_each(|(of, count)| writeln!(out, "unmatched {of:?}: {count}").unwrap());
    if left.open > 0 {
        writeln!(out, "open: {}", left.open).unwrap();
    }
}

fn label(key: &Key, trace: &Trace) -> String {
    let of = match key.of {
        Of::All => String::new(),
        Of::Interrupt(interrupt, name) => format!(" {interrupt} {name}").trim_end().to_owned(),
        Of::Call(call) => format!(" {}", trace.vocabulary.call_name(call)),
        Of::Interface(name) => format!(" {name}"),
        of => format!(" {of:x?}"),
    };
    format!("{}{of}", key.what.name())
}

fn one(sample: &Sample, latency: &Latency) -> String {
    let mut text = format!("{} ns, {}..{}", sample.value_ns, sample.from, sample.to);
    if let Some(tid) = sample.tid {
        write!(text, ", {}[{tid}]", sample.name).unwrap();
    }
    if let Some(prio) = sample.prio {
        write!(text, " prio {prio}").unwrap();
    }
    if let Some(cpu) = sample.cpu {
        write!(text, ", cpu {cpu}").unwrap();
    }
    if let Some(by) = sample.waker {
        let name = if let Context::Thread(tid) = by.context { latency.name_of(tid).to_string() } else { "".into() };
        write!(text, ", woken by {} {name}", waker(&by)).unwrap();
    }
    if let Some(owner) = sample.owner {
        write!(text, ", owner {}[{owner}]", latency.name_of(owner)).unwrap();
    }
    text + &marks(sample.doubt)
}

fn history(trace: &Trace, from: i64, to: i64) -> History {
    let mut history = History::new(from, to, 1000);
    whole(trace, &mut history);
    history
}

/// `cause timer|woken|busy|lock TID CPU FROM TO [guest]`.
fn cause(trace: &Trace, words: &[&str], numbers: &[i64], out: &mut String) {
    let &[tid, cpu, from, to] = numbers else { panic!("cause ASKED TID CPU FROM TO") };
    let asked = match words[0] {
        "timer" => Asked::Timer,
        "woken" => Asked::Woken,
        "busy" => Asked::Busy,
        "lock" => Asked::Lock,
        "stretch" => Asked::Stretch,
        other => panic!("no such kind of sample: {other}"),
    };
    let is_guest = words.last() == Some(&"guest");
    let machine = Machine { is_guest, quota_timer: Some(QUOTA_TIMER), ..Machine::default() };
    let mut evidence = Evidence::new(from, to, 100_000, machine);
    whole(trace, &mut evidence);
    let moment = Moment { tid: tid as i32, cpu: u32::try_from(cpu).ok(), from, to, asked };
    let explained = evidence.explain(&moment);
    for part in &explained.parts {
        let what = match part.cause {
            Cause::Interrupt(interrupt) => interrupt.to_string(),
            Cause::LockOwnerWaits { by: Some(by), .. } => format!("while {by} runs"),
            Cause::LockOwnerWaits { by: None, .. } => "while its CPU comes".into(),
            Cause::LockOwnerSleeps { .. } => "while it sleeps".into(),
            Cause::Throttled { limit, .. } => format!("{limit:?}"),
            Cause::Frequency { khz } => format!("to {khz} kHz"),
            _ => String::new(),
        };
        let who = part.cause.tid().map_or(String::new(), |tid| format!(" {tid} {} {:?}", part.name, part.prio));
        let ground = if part.ground == Ground::Inferred { ", inferred" } else { "" };
        let word = part.cause.word();
        writeln!(out, "{} {word}{who} {what}, {} pieces{ground}", part.ns, part.pieces).unwrap();
    }
    writeln!(out, "faults {}{}", explained.faults, marks(explained.doubt)).unwrap();
    assert_explain_agrees(trace, &moment, &explained, machine);
    assert_eq!(explained.parts.iter().map(|part| part.ns).sum::<u64>(), to.abs_diff(from), "a budget sums up");
}

/// `kymo explain` of the same stretch has the same causes as the laboratory's `--explain`.
fn assert_explain_agrees(trace: &Trace, moment: &Moment, explained: &Explained, machine: Machine) {
    let Moment { tid, cpu, from, to, asked } = *moment;
    let scene = scene(trace, Question { asked, cpu, ..Question::stretch(tid, from, to) }, machine);
    let story = scene.story(&trace.classes, &trace.vocabulary, &Functions, 12);
    let told: Vec<_> = story.budget.iter().map(|slice| (slice.kind, slice.tid, slice.seen, slice.ns)).collect();
    let parts = explained.parts.iter();
    let found: Vec<_> =
        parts.map(|part| (part.cause.word(), part.cause.tid(), part.ground == Ground::Seen, part.ns)).collect();
    assert_eq!(told, found, "kymo explain and the laboratory, {from} to {to}");
}

fn budget(trace: &Trace, numbers: &[i64], out: &mut String) {
    let &[tid, from, to] = numbers else { panic!("budget TID FROM TO") };
    let mut sum = 0;
    for share in history(trace, from, to).budget(tid as i32, from, to) {
        let part = match share.part {
            BudgetPart::Running => "running".into(),
            BudgetPart::Interrupt(interrupt) => format!("interrupted by {interrupt}"),
            BudgetPart::Preempted { by: Some(by) } => format!("preempted by {by}"),
            BudgetPart::Preempted { by: None } => "preempted".into(),
            BudgetPart::WaitInterrupt(interrupt) => format!("waiting for {interrupt}"),
            BudgetPart::IdleExit => "idle exit".into(),
            BudgetPart::Switching => "switching".into(),
            BudgetPart::Blocked { call, waker: by, .. } => blocked(call, by, &trace.vocabulary),
            BudgetPart::Unknown => "unknown".into(),
        };
        writeln!(out, "{} {part}, {} pieces{}", share.ns, share.pieces, marks(share.doubt)).unwrap();
        sum += share.ns;
    }
    assert_eq!(sum, to.abs_diff(from), "a budget sums up to its stretch");
}

fn critical(trace: &Trace, numbers: &[i64], out: &mut String) {
    let &[tid, from, to] = numbers else { panic!("critical TID FROM TO") };
    for step in history(trace, from, to).critical(tid as i32, from, to).steps {
        let act = match step.act {
            Act::Runs { cpu } => format!("runs on {cpu}"),
            Act::Waits { why, .. } => format!("waits, {}", ready(why)),
            Act::Blocked { call, waker: by, .. } => blocked(call, by, &trace.vocabulary),
            Act::Unknown => "unknown".into(),
        };
        writeln!(out, "{}{}..{} {} {act}{}", "  ".repeat(step.depth), step.from, step.to, step.tid, marks(step.doubt))
            .unwrap();
    }
}

/// `explain KIND`: the worst of a kind; `explain stretch TID FROM TO`; `explain at TIME`. `rt`: of a PREEMPT_RT kernel;
/// `old`: of one before Linux 6.12; `group=PATH`: the state dump has the thread in this control group.
fn explain(trace: &Trace, words: &[&str], numbers: &[i64], out: &mut String) {
    let question = match (words[0], numbers) {
        ("stretch", &[tid, from, to]) => Question::stretch(tid as i32, from, to),
        ("at", &[at]) => Question::moment(None, at, at),
        _ => worst(trace, words[0]),
    };
    let release = if words.contains(&"old") { "6.1.0-28-amd64" } else { "6.18.44" };
    let version = if words.contains(&"rt") { "#1 SMP PREEMPT_RT" } else { "#1 SMP PREEMPT_DYNAMIC" };
    let machine = Machine { quota_timer: Some(QUOTA_TIMER), ..Machine::of_uname(release, version) };
    let mut scene = scene(trace, question, machine);
    if let (Some(path), &[tid, ..]) = (words.iter().find_map(|word| word.strip_prefix("group=")), numbers) {
        scene.group(tid as i32, Group { path: path.to_owned(), found: GroupFound::StateDump });
    }
    let story = scene.story(&trace.classes, &trace.vocabulary, &Functions, 12);
    for slice in &story.budget {
        assert_eq!(slice.limit.is_some(), slice.kind == "throttled", "{slice:?}");
        let is_told =
            slice.group.as_ref().is_none_or(|group| slice.text.contains(&format!("control group {group} (at")));
        assert!(is_told && slice.group.is_some() == slice.group_found.is_some(), "{slice:?}");
    }
    let sum: u64 = story.budget.iter().map(|slice| slice.ns).sum();
    assert!(story.budget.is_empty() || sum == story.to.abs_diff(story.from), "a budget sums up to its stretch");
    out.push_str(&story.text(&StoryStyle { time: &|ns| ns.to_string() }));
}

pub fn scene(trace: &Trace, question: Question, machine: Machine) -> Scene {
    let mut scene = Scene::new(question, 1_000_000, machine);
    let mut state = State::new(&trace.vocabulary);
    for (index, item) in trace.items.iter().enumerate() {
        if let Item::Record(line) = item {
            let current = line.head.cpu.and_then(|cpu| state.cpu(cpu)).and_then(|cpu| cpu.thread());
            let head = Head { tid: line.head.tid.or(current), ..line.head };
            let class = (line.class, &trace.classes[line.class]);
            scene.note(Note::new(head, class, trace.event(line), line));
        }
        trace.play(&mut state, index..index + 1, &mut scene);
    }
    state.finish(None, &mut scene);
    scene
}

fn worst(trace: &Trace, name: &str) -> Question {
    let what = What::ALL.iter().find(|(_, known)| *known == name).expect("a kind").0;
    let mut latency = Latency::new(Options { what: vec![what], ..Options::default() });
    whole(trace, &mut latency);
    let all = latency.series();
    let worst = all.iter().filter_map(|(key, series)| Some((*key, series.worst.first()?)));
    let (key, sample) = worst.max_by_key(|(_, sample)| sample.value_ns).expect("a sample");
    let of = label(key, trace).trim_start_matches(what.name()).trim().to_owned();
    Question::of_sample(what, of, sample)
}

/// Where `sched_cfs_period_timer` is in these cases.
const QUOTA_TIMER: u64 = 0xffff_ffff_8100_2000;

/// Functions of the kernel and of programs in these cases.
pub struct Functions;

impl Symbols for Functions {
    fn kernel(&self, address: u64) -> Option<String> {
        (address == 0xffff_ffff_8100_1000).then(|| "hrtimer_wakeup".to_owned())
    }

    fn user(&self, process: i32, address: u64, _: i64) -> Option<String> {
        (address == 0x5555_0000_1234).then(|| format!("control_step at loop.c:41 of {process}"))
    }
}

fn stats(trace: &Trace, levels: &str, out: &mut String) {
    let levels = levels.split(',').map(|level| match level {
        "event" => Level::Event,
        "thread" => Level::Thread,
        "cpu" => Level::Cpu,
        _ => Level::Process,
    });
    let levels: Vec<Level> = levels.collect();
    let mut stats = Stats::new(&levels, true, &trace.classes);
    let mut state = State::new(&trace.vocabulary);
    for (index, item) in trace.items.iter().enumerate() {
        if let Item::Record(line) = item {
            let tid = line.head.tid;
            let known = tid.and_then(|tid| state.thread(tid));
            let name = known.map(|thread| thread.name).unwrap_or_default();
            let writer = Writer {
                tid,
                process: known.and_then(|thread| thread.process),
                name,
                cpu: line.head.cpu,
                ..Writer::default()
            };
            stats.add(line.class, (line.head.time, 64), &writer, line);
        }
        trace.play(&mut state, index..index + 1, &mut ());
    }
    for (index, row) in stats.rows() {
        let key: Vec<String> = row.key.iter().map(|part| part.map_or("-".into(), |part| part.to_string())).collect();
        writeln!(out, "{} {}: {} records, {}..{}", key.join(","), row.name, row.count, row.first, row.last).unwrap();
        for (class, field, values) in stats.fields(index) {
            let class = &trace.classes[class];
            writeln!(out, "  {}.{}: {}", class.name, class.fields[field].name, values_text(values)).unwrap();
        }
    }
}

fn values_text(values: &Distribution) -> String {
    let number = |number| match number {
        Some(Number::Integer(value)) => value.to_string(),
        Some(Number::Float(value)) => value.to_string(),
        None => "-".into(),
    };
    let float = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    format!(
        "{} values, min {} mean {} max {} deviation {} median {}",
        values.count(),
        number(values.min()),
        float(values.mean()),
        number(values.max()),
        float(values.deviation()),
        float(values.quantile(0.5))
    )
}

fn thread(trace: &Trace, tid: i32, out: &mut String) {
    let state = whole(trace, &mut ());
    let thread = state.thread(tid).expect("a known thread");
    writeln!(out, "{} process {:?} name {:?} prio {:?}", tid, thread.process, thread.name, thread.prio).unwrap();
}

fn blocked(call: Option<CallId>, by: Option<Waker>, vocabulary: &Vocabulary) -> String {
    let call = call.map_or(String::new(), |call| format!(" in {}", vocabulary.call_name(call)));
    let by = by.map_or(String::new(), |by| format!(", woken by {}", waker(&by)));
    format!("blocked{call}{by}")
}

fn doing(doing: Doing, vocabulary: &Vocabulary) -> String {
    match doing {
        Doing::Unknown => "unknown".into(),
        Doing::Forked => "forked".into(),
        Doing::Running { cpu } => format!("running on {cpu}"),
        Doing::Runnable { why, cpu } => {
            format!("runnable on {}, {}", cpu.map_or("?".into(), |cpu| cpu.to_string()), ready(why))
        }
        Doing::Blocked { state, call, in_fault } => {
            let fault = if in_fault { " in a page fault" } else { "" };
            format!("{} {}{fault}", blocked(call, None, vocabulary), state as char)
        }
        Doing::Ended => "ended".into(),
    }
}

fn ready(why: Ready) -> String {
    match why {
        Ready::Woken(by) => format!("woken by {}", waker(&by)),
        Ready::New(by) => format!("new by {}", waker(&by)),
        Ready::Preempted { by } => format!("preempted by {by}"),
        Ready::GaveWay { to } => format!("gave way to {to}"),
    }
}

fn waker(waker: &Waker) -> String {
    format!("{} on {}", context(waker.context), waker.cpu)
}

fn context(context: Context) -> String {
    match context {
        Context::Unknown => "unknown".into(),
        Context::Idle => "idle".into(),
        Context::Thread(tid) => tid.to_string(),
        Context::Interrupt(interrupt) => interrupt.to_string(),
    }
}

fn marks(doubt: Doubt) -> String {
    if doubt.is_none() { String::new() } else { format!(" [{doubt}]") }
}
