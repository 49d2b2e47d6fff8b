// SPDX-License-Identifier: MIT OR Apache-2.0
//! What pictures must hold: the golden one, well-formed, nothing from outside, hostile texts harmless.

use super::*;
use crate::causes::{Budget, BudgetPart};
use crate::{CompareOptions, EVAL_SCHEMA, Ended, Evaluation, Overflow, Planned, Record, Run, Series, Worst, compare};

fn record(shift: u64) -> Record {
    let mut record = Record::new("cyclictest", "wakeup");
    record.duration_s = Some(2.0);
    for cpu in 0..2 {
        let mut series = Series::new("wakeup");
        (series.cpu, series.lost) = (Some(cpu), 3);
        (0..200u64).for_each(|value| series.histogram.record(1_000 + shift + value * value));
        series.overflow = Some(Overflow { count: 4, beyond_ns: 400_000, computed: true });
        (series.count, series.max) = (207, Some(2_000_000));
        series.worst.push(Worst { value_ns: 2_000_000, cycles: None, sample: Some(100), tid: None, budget: None });
        record.series.push(series);
    }
    record
}

/// Elements that begin and end in order, attributes quoted; no more of XML than the pages use.
fn well_formed(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        if rest[..at].contains('>') {
            return Err(format!("a > outside of an element: {}", &rest[..at]));
        }
        rest = &rest[at + 1..];
        let end = rest.find('>').ok_or("an element without an end")?;
        let element = &rest[..end];
        rest = &rest[end + 1..];
        if element.contains('<') || element.matches('"').count() % 2 == 1 {
            return Err(format!("<{element}>"));
        }
        let name = element.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or("");
        match element {
            _ if element.starts_with('!') || element.ends_with('/') => {}
            _ if element.starts_with('/') => {
                let last = open.pop();
                if last != Some(name) {
                    return Err(format!("</{name}> ends {last:?}"));
                }
            }
            _ => open.push(name),
        }
        // Rules of a style are no elements.
        if open.last() == Some(&"style") {
            rest = &rest[rest.find("</style>").ok_or("a style without an end")?..];
        }
    }
    if rest.contains('>') {
        return Err(format!("a > outside of an element: {rest}"));
    }
    if open.is_empty() { Ok(()) } else { Err(format!("not ended: {open:?}")) }
}

fn check(text: &str) {
    well_formed(text).unwrap();
    let outside = text.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "//", "src=", "href", "@import", "url("] {
        assert!(!outside.contains(word), "{word} in the page");
    }
}

#[test]
fn the_checker_finds_faults() {
    for bad in ["<a>", "<a></b>", "</a>", "<a \"></a>", "a > b", "<a <b></a>"] {
        assert!(well_formed(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_small_record_gives_the_golden_picture() {
    let text = svg(&[("one".to_owned(), &record(0))]);
    check(&text);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/small.svg");
    if std::env::var_os("KYMO_BLESS").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    let expect = std::fs::read_to_string(golden).unwrap_or_default();
    let different = text.lines().zip(expect.lines()).find(|(now, then)| now != then);
    assert!(text == expect, "differs (KYMO_BLESS=1 writes it anew): {different:?}");
    // Lost samples and those beyond the histogram are in it.
    assert!(text.contains("6 LOST") && text.contains("8 samples above 400 us"), "{text}");
}

#[test]
fn pages_are_whole_and_need_nothing_else() {
    let (a, b) = (record(0), record(500));
    let page = html(&[("a.json".to_owned(), &a), ("b.json".to_owned(), &b)]);
    check(&page);
    assert_eq!(page.matches("<figure>").count(), 4, "histogram, by CPU, tail, over time");
    assert!(page.contains("Extreme values, of 2 runs") && page.contains("no estimate by maxima of runs"));
    let runs = |shift: u64| (0..6).map(|run| record(shift + run)).collect::<Vec<_>>();
    let (a, b) = (runs(0), runs(500));
    let compared = compare(&a, &b, CompareOptions { deadline_ns: Some(30_000), ..CompareOptions::default() });
    let page = comparison_html(&compared, &a, &b);
    check(&page);
    assert!(page.contains("samples a run; it takes"), "reasons are in the page");
}

#[test]
fn texts_of_a_record_are_only_texts() {
    let mut hostile = record(0);
    let text = "</title><script>alert(1)</script>\"'&\x1b[2J";
    (hostile.test, hostile.tool, hostile.method) = (text.into(), text.into(), text.into());
    hostile.series.iter_mut().for_each(|series| series.name = text.into());
    hostile.environment.insert(text.into(), text.into());
    hostile.options.insert(text.into(), serde_json::json!({ text: [text] }));
    let page = html(&[(text.to_owned(), &hostile)]);
    check(&page);
    check(&svg(&[(text.to_owned(), &hostile)]));
    let runs = vec![hostile; 2];
    let compared = compare(&runs, &runs, CompareOptions::default());
    check(&comparison_html(&compared, &runs, &runs));
    assert!(!page.contains("<script") && !page.contains('\x1b'));
    assert!(comparison(&compared).iter().all(|line| !line.contains('\x1b')));
}

#[test]
fn many_runs_and_empty_ones_are_drawn() {
    let runs: Vec<Record> = (0..60).map(record).collect();
    let named: Vec<Named> = runs.iter().enumerate().map(|(at, run)| (at.to_string(), run)).collect();
    let page = html(&named);
    check(&page);
    assert!(page.contains("all others"));
    let mut empty = Record::new("kymo", "npt");
    empty.series.push(Series::new("loop"));
    check(&html(&[("e".to_owned(), &empty)]));
    check(&svg(&[("e".to_owned(), &empty)]));
}

/// Of one test without a load and under one, twice each, with a long sample of a known cause in the last run.
fn evaluated() -> Evaluation {
    const BEGIN: u64 = 1_795_264_315_000_000_000;
    let mut runs = Vec::new();
    for (at, load) in ["none", "net", "none", "net"].into_iter().enumerate() {
        let mut record = record(at as u64 * 100);
        record.test = "wakeup".to_owned();
        record.started_ns = Some(BEGIN + at as u64 * 10_000_000_000);
        let planned = Planned { round: at / 2 + 1, test: "wakeup".to_owned(), load: load.to_owned() };
        runs.push(Run { planned, file: None, did: serde_json::json!([]), trouble: None, record: Some(record) });
    }
    let part = BudgetPart {
        cause: "higher_priority".to_owned(),
        name: "h<g".to_owned(),
        tid: Some(7),
        priority: Some("rt 95".to_owned()),
        behind: None,
        limit: None,
        group: None,
        by: None,
        ns: 3_000_000,
        pieces: 1,
        seen: true,
    };
    let budget = Budget {
        at_ns: Some((BEGIN + 31_500_000_000) as i64),
        signature: "higher_priority h<g".to_owned(),
        parts: vec![part],
        faults: 0,
        doubt: Vec::new(),
    };
    let worst = Worst { value_ns: 3_000_000, cycles: None, sample: Some(3), tid: None, budget: Some(budget) };
    runs[3].record.as_mut().unwrap().series[1].worst.insert(0, worst);
    let environment = [("host", "board"), ("cpu.model", "A Processor"), ("kernel.release", "6.12.1")];
    let mut evaluation = Evaluation {
        schema: EVAL_SCHEMA,
        started_ns: Some(BEGIN),
        duration_s: 40.0,
        ended: Ended::Time,
        seed: 7,
        explain: 3,
        planned: 4,
        limit_ns: None,
        environment: environment.map(|(key, value)| (key.to_owned(), value.into())).into(),
        problems: Vec::new(),
        not_looked: Vec::new(),
        runs,
        cpus: Vec::new(),
        worst: Vec::new(),
        comparisons: Vec::new(),
        caveats: Vec::new(),
    };
    evaluation.conclude();
    evaluation
}

#[test]
fn an_evaluation_says_when_where_and_why() {
    let of = evaluated();
    let text = evaluation(&of).join("\n");
    for part in [
        "Begun 2026-11-21 12:31:55 UTC, order of runs from seed 7",
        "Machine: board, A Processor, Linux 6.12.1",
        "worst samples of wakeup, in the order of time:",
        "+31.500 s   3.00 ms  net, round 2, CPU 1: higher_priority h<g (rt 95) 3.00 ms",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    // All CPUs together, and each.
    let cpus: Vec<_> = of.cpus.iter().map(|one| (one.load.as_str(), one.cpu, one.runs, one.samples)).collect();
    let row = |load, cpu, samples| (load, cpu, 2, samples);
    assert_eq!(cpus[..3], [row("none", None, 828), row("none", Some(0), 414), row("none", Some(1), 414)]);
    assert_eq!((cpus.len(), of.cpus[3].load.as_str(), of.cpus[3].max_ns), (6, "net", Some(2_000_000)));
    let longest = &of.worst[0];
    assert_eq!((longest.value_ns, longest.into_s, &longest.why), (3_000_000, Some(31.5), &None));
    // By its number: the 100th of 207, in a run of two seconds.
    let other = of.worst.iter().find(|one| one.round == 1 && one.load == "net").unwrap();
    assert!(other.into_s.is_some_and(|seconds| (10.9..11.0).contains(&seconds)), "{other:?}");
    assert_eq!(other.why.as_deref(), Some("it was not asked for"));
    let page = evaluation_html(&of);
    check(&page);
    for part in ["2026-11-21", "seed 7", "wakeup, over time", "h&lt;g (rt 95)", "A Processor"] {
        assert!(page.contains(part), "no {part:?}");
    }
}
