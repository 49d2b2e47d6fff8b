// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo compare` and `kymo report`: what they say of groups of which the truth is known, their exit statuses, and bad
//! files.

use std::path::PathBuf;

use kymo_tests::{Lab, Random};
use serde_json::{Value, json};

/// A run as the probe measures it: a log-normal body of this median and rare spikes, on two CPUs.
fn run(random: &mut Random, median: f64, number: u64) -> Value {
    let series: Vec<Value> = (0..2).map(|cpu| series(random, median, cpu)).collect();
    json!({
        "schema": "kymo-lab-1", "tool": "kymo", "version": "0.1.0", "test": "wakeup", "method": "by chance",
        "options": { "interval_ns": 1_000_000 }, "started_ns": 1_700_000_000_000_000_000u64 + number, "duration_s": 4.0,
        "ended": "count", "series": series, "counts": {}, "floor": { "clock_read_ns": 20.0, "loop_ns": 25.0 },
        "environment": { "kernel": "6.1" }, "caveats": [], "source": null
    })
}

fn series(random: &mut Random, median: f64, cpu: u32) -> Value {
    let mut uniform = || (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30);
    let mut values: Vec<u64> = (0..4000)
        .map(|_| {
            let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
            let spike = if uniform() < 1e-3 { -10.0 * median * uniform().ln() } else { 0.0 };
            (median * (0.2 * normal).exp() + spike) as u64
        })
        .collect();
    let buckets: Vec<[u64; 2]> = values.iter().map(|value| [index(*value), 1]).collect();
    let mean = values.iter().sum::<u64>() as f64 / 4000.0;
    let std = (values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / 3999.0).sqrt();
    values.sort_unstable();
    json!({
        "name": "wakeup", "cpu": cpu, "thread": null, "count": 4000, "lost": 0, "overflow": null, "min": values[0],
        "max": values[3999], "mean": mean, "std": std, "bucket_ns": null, "histogram": buckets,
        "worst": [{ "value_ns": values[3999], "cycles": null, "sample": 7 }]
    })
}

/// Of a value's bucket [spec/lab.md 4].
fn index(value: u64) -> u64 {
    let exponent = u64::from(63 - value.max(256).leading_zeros());
    if value < 256 { value } else { 256 + (exponent - 8) * 128 + (value >> (exponent - 7)) - 128 }
}

/// Directories `a` and `b` with so many runs of these medians, made alternately.
fn groups(lab: &Lab, name: &str, runs: u64, medians: [f64; 2], random: &mut Random) -> [PathBuf; 2] {
    let dirs = ["a", "b"].map(|side| lab.path(&format!("{name}-{side}")));
    for (at, dir) in dirs.iter().enumerate() {
        std::fs::create_dir(dir).unwrap();
        for number in 0..runs {
            let run = run(random, medians[at], 2 * number + (number + at as u64) % 2);
            std::fs::write(dir.join(format!("{number}.json")), run.to_string()).unwrap();
        }
    }
    dirs
}

fn compare(lab: &Lab, dirs: &[PathBuf; 2], options: &[&str]) -> kymo_tests::Outcome {
    let [a, b] = dirs.each_ref().map(|dir| dir.to_str().unwrap());
    lab.kymo(&[&["compare"], options, &[a, "--", b]].concat())
}

#[test]
fn the_same_is_no_difference_and_another_median_is_one() {
    let lab = Lab::new("lab_compare");
    let mut random = Random::new("lab_compare", 1);
    let same = groups(&lab, "same", 6, [5_000.0, 5_000.0], &mut random);
    let text = compare(&lab, &same, &["--deadline", "30us"]).expect(0).stdout;
    assert!(text.starts_with("No difference") && text.contains("would have been seen"), "{text}");
    assert!(text.contains("misses: samples above 30.0 us"), "{text}");
    // One value a series and six runs are not enough to speak of what may come.
    let text = compare(&lab, &same, &["--extreme"]).expect(0).stdout;
    assert_eq!(text.matches("no estimate by").count(), 4, "{text}");
    assert!(text.contains("no estimate by maxima of runs: 6 values; it takes 30"), "{text}");
    let slower = groups(&lab, "slower", 6, [5_000.0, 6_500.0], &mut random);
    let text = compare(&lab, &slower, &[]).expect(1).stdout;
    assert!(text.starts_with("B is worse than A. A: 6 runs, B: 6 runs"), "{text}");
    let [a, b] = &slower;
    assert!(compare(&lab, &[b.clone(), a.clone()], &[]).expect(1).stdout.starts_with("B is better"));
    let html = lab.path("compared.html");
    let outcome = compare(&lab, &slower, &["--json", "--per-cpu", "--html", html.to_str().unwrap()]).expect(1);
    let json: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((&json["schema"], &json["outcome"]), (&"kymo-compare-1".into(), &"worse".into()));
    let cpus: Vec<&Value> = json["series"].as_array().unwrap().iter().map(|series| &series["cpu"]).collect();
    assert_eq!(cpus, [0, 1]);
    let median = json["series"][0]["metrics"].as_array().unwrap().iter().find(|metric| metric["metric"] == "median");
    let relative = median.unwrap()["relative"].as_f64().unwrap();
    assert!((0.2..0.4).contains(&relative), "{relative}");
    page(&html);
}

#[test]
fn twenty_comparisons_of_the_same_find_next_to_nothing() {
    let lab = Lab::new("lab_compare_same");
    let mut random = Random::new("lab_compare_same", 1);
    let different = (0..20)
        .filter(|at| {
            let same = groups(&lab, &format!("same{at}"), 5, [5_000.0, 5_000.0], &mut random);
            let outcome = compare(&lab, &same, &[]);
            assert!(outcome.code == 0 || outcome.code == 1, "{}", outcome.stderr);
            outcome.code == 1
        })
        .count();
    // With a rate of one in twenty, five or more would come once in 400 times.
    assert!(different <= 4, "{different} of 20");
}

#[test]
fn too_few_runs_and_bad_files_are_told_apart() {
    let lab = Lab::new("lab_compare_bad");
    let mut random = Random::new("lab_compare_bad", 1);
    let few = groups(&lab, "few", 4, [5_000.0, 9_000.0], &mut random);
    let text = compare(&lab, &few, &[]).expect(3).stdout;
    assert!(text.starts_with("Not enough data") && text.contains("it takes 5 of each"), "{text}");
    let one = few[0].join("0.json");
    let one = one.to_str().unwrap();
    lab.kymo(&["compare", one, "--", one]).expect(3);
    let whole = std::fs::read_to_string(one).unwrap();
    let rows = [
        ("cut.json", whole[..whole.len() / 2].to_owned(), ""),
        ("schema.json", whole.replace("kymo-lab-1", "kymo-lab-9"), "kymo-lab-9"),
        ("sum.json", whole.replacen("\"count\":4000", "\"count\":4001", 1), "4001"),
        ("empty.json", String::new(), ""),
    ];
    for (name, text, cause) in rows {
        let path = lab.path(name);
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        for args in [vec!["compare", path, "--", one], vec!["report", path]] {
            let outcome = lab.kymo(&args).expect(2);
            assert!(outcome.stderr.contains(name) && outcome.stderr.contains(cause), "{}", outcome.stderr);
        }
    }
    let dir = lab.path("nothing");
    std::fs::create_dir(&dir).unwrap();
    let outcome = lab.kymo(&["compare", one, "--", dir.to_str().unwrap()]).expect(2);
    assert!(outcome.stderr.contains("no *.json"), "{}", outcome.stderr);
    assert!(lab.kymo(&["compare", one, "--", "/no/such"]).expect(2).stderr.contains("cannot read /no/such"));
    assert!(lab.kymo(&["compare", one, "--", one, "--json"]).expect(2).stderr.contains("options come first"));
    lab.kymo(&["compare", one]).expect(2);
}

#[test]
fn reports_are_text_svg_and_one_page() {
    let lab = Lab::new("lab_report");
    let mut random = Random::new("lab_report", 1);
    let [dir, _] = groups(&lab, "runs", 3, [5_000.0, 5_000.0], &mut random);
    let text = lab.kymo(&["report", dir.to_str().unwrap()]).expect(0).stdout;
    assert_eq!((text.matches("wakeup: 8,000 samples").count(), text.contains('\u{2588}')), (3, true), "{text}");
    let (html, svg) = (lab.path("all.html"), lab.path("all.svg"));
    let paths = [&html, &svg].map(|path| path.to_str().unwrap());
    lab.kymo(&["report", "--html", paths[0], "--svg", paths[1], dir.to_str().unwrap()]).expect(0);
    page(&html);
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("24,000 samples in all"), "{}", &svg[..500]);
}

/// A page is all in itself.
fn page(path: &std::path::Path) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.trim_end().ends_with("</html>"));
    for outside in ["http", "src=", "href", "url(", "<script"] {
        assert!(!text.contains(outside), "{outside} in {}", path.display());
    }
    assert!(text.contains("<svg"));
}
