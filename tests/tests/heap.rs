// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo heap`: a program whose heap is known to the byte, beside what massif and heaptrack say of it.

use std::path::{Path, PathBuf};

use kymo_tests::{Lab, Recorded, Ring, has, paths, skip};
use serde_json::Value;

/// Compiled as anybody's program: without anything of kymo.
fn program(lab: &Lab) -> String {
    compiled(lab, &paths::programs().join("heap.c"), "heap")
}

fn compiled(lab: &Lab, source: &Path, name: &str) -> String {
    let to = lab.path(name).to_str().unwrap().to_owned();
    let flags = ["-O2", "-g", "-fno-omit-frame-pointer", "-fno-builtin", "-Wl,--build-id", "-pthread"];
    lab.run("cc", &[&flags[..], &["-o", &to, source.to_str().unwrap()]].concat()).expect(0);
    to
}

fn recorded(lab: &Lab, command: &[&str], args: &[&str]) -> Recorded {
    let args = [&["--with", "malloc", "--memory", "16G"], args].concat();
    lab.record("trace").args(&args).run(command).expect(0)
}

#[track_caller]
fn heap(lab: &Lab, recorded: &Recorded, args: &[&str]) -> Value {
    let trace = recorded.dir.to_str().unwrap();
    let outcome = lab.kymo(&[&["heap", trace, "--json", "--limit", "100000"], args].concat()).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

fn pair(amount: &Value) -> (u64, u64) {
    (amount["bytes"].as_u64().unwrap(), amount["blocks"].as_u64().unwrap())
}

/// Whether the block was allocated by this function itself.
fn is_by(stack: &Value, function: &str) -> bool {
    stack["frames"][0]["name"].as_str().is_some_and(|name| name.starts_with(&format!("{function} at heap.c:")))
}

/// Of all stacks that begin in a function: (bytes, blocks).
#[track_caller]
fn of(found: &Value, function: &str, what: &str) -> (u64, u64) {
    let stacks = found["stacks"].as_array().unwrap().iter().filter(|stack| is_by(stack, function));
    stacks.map(|stack| pair(&stack[what])).fold((0, 0), |(bytes, blocks), (b, n)| (bytes + b, blocks + n))
}

/// Of all stacks.
fn of_all(found: &Value, what: &str) -> (u64, u64) {
    let stacks = found["stacks"].as_array().unwrap().iter().map(|stack| pair(&stack[what]));
    stacks.fold((0, 0), |(bytes, blocks), (b, n)| (bytes + b, blocks + n))
}

#[test]
fn a_heap_that_is_known_to_the_byte() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("heap_known");
        lab.ring(ring);
        let recorded = recorded(&lab, &[&program(&lab), "known"], &[]).lossless();
        let found = heap(&lab, &recorded, &["--what", "allocated"]);
        for (function, peak, leaked, allocated) in [
            ("grows", (1_000_000, 10), (100_000, 1), (1_000_000, 10)),
            ("peaks", (1_500_000, 2), (0, 0), (1_500_000, 2)),
            ("resizes", (0, 0), (200_000, 1), (251_000, 3)),
            ("leaks", (0, 0), (21_000, 7), (21_000, 7)),
        ] {
            let is = ["peak", "leaked", "allocated"].map(|what| of(&found, function, what));
            assert_eq!(is, [peak, leaked, allocated], "{function} with the {} ring: {found}", ring.name());
        }
        for what in ["peak", "leaked", "allocated"] {
            assert_eq!(of_all(&found, what), pair(&found[what]), "stacks add up to all of it: {what} {found}");
        }
        // What the C library itself has at that time is little.
        let peak = pair(&found["peak"]).0;
        assert!((2_500_000..2_520_000).contains(&peak), "{found}");
        let in_steps =
            found["growth"].as_array().unwrap().iter().map(|step| step["peak_bytes"].as_u64().unwrap()).max();
        assert_eq!((found["growth"].as_array().unwrap().len(), in_steps), (20, Some(peak)));
        assert_eq!((&found["is_exact"], &found["caveats"]), (&true.into(), &serde_json::json!([])));
        assert_eq!(pair(&found["live"]), (0, 0), "the program has ended: {found}");
        let (allocated, freed) = (pair(&found["allocated"]), pair(&found["freed"]));
        assert_eq!(allocated.1 - freed.1, pair(&found["leaked"]).1, "{found}");
    }
}

#[test]
fn text_flame_graph_and_sums_of_statistics() {
    let lab = Lab::new("heap_text");
    let path = program(&lab);
    let recorded = recorded(&lab, &[&path, "known"], &[]);
    let trace = recorded.dir.to_str().unwrap();
    let picture = lab.path("heap.svg");
    let args = ["heap", trace, "--what", "leaked", "--limit", "2", "--steps", "4", "--svg", picture.to_str().unwrap()];
    let text = lab.kymo(&args).expect(0).stdout;
    for part in
        ["by stack, leaked", "200000", "resizes at heap.c:", "grows at heap.c:", "more stacks", "--context callstack"]
    {
        // 195K is 200,000 bytes.
        let part = part.replace("200000", "195K (");
        assert!(text.contains(&part), "{part:?}: {text}");
    }
    assert!(!text.contains("leaks at"), "--limit 2: {text}");
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("resizes 200000 bytes") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(!svg.contains("script") && !svg.contains("href"), "{svg}");
    // The same by `kymo stats`: functions, and the largest sums first; --top is the old spelling.
    for limit in ["--limit", "--top"] {
        let args = ["stats", trace, "--by", "caller", "--sum", "size", limit, "1", "--json"];
        let found: Value = serde_json::from_str(&lab.kymo(&args).expect(0).stdout).unwrap();
        let rows = found["rows"].as_array().unwrap();
        assert_eq!((rows.len(), &rows[0]["sum"]), (1, &1_000_000.into()), "{found}");
        assert!(rows[0]["caller"].as_str().unwrap().starts_with("grows at heap.c:"), "{found}");
    }
    let text = lab.kymo(&["stats", trace, "--by", "caller", "--sum", "size"]).expect(0).stdout;
    assert!(text.contains("sum of size") && text.contains("caller=leaks at heap.c:"), "{text}");
    // The same as the keys of spans: functions; and addresses of data in base 16.
    let keys_of = |field: &str| {
        let span = format!("libc:malloc, libc:malloc, by={field}");
        let found = lab.kymo(&["latency", trace, "--span", &span, "--by", "key", "--json"]);
        let found: Value = serde_json::from_str(&found.expect(0).stdout).unwrap();
        let series = found["series"].as_array().unwrap().iter();
        let of = series.filter_map(|series| Some(series["of"].as_str()?.strip_prefix(&*span)?.trim_start().to_owned()));
        of.collect::<Vec<_>>()
    };
    let (callers, sizes) = (keys_of("caller"), keys_of("size"));
    assert!(callers.iter().any(|key| key.starts_with("grows at heap.c:")), "{callers:?}");
    assert!(sizes.iter().all(|key| key.parse::<u64>().is_ok()), "{sizes:?}");
    // Without the file: numbers in base 16, and why.
    std::fs::remove_file(&path).unwrap();
    assert!(keys_of("caller").iter().any(|key| key.starts_with("0x")), "{:?}", keys_of("caller"));
    let outcome = lab.kymo(&["stats", trace, "--by", "caller", "--sum", "size", "--limit", "1"]).expect(0);
    assert!(outcome.stdout.contains("caller=0x"), "{}", outcome.stdout);
    assert_eq!(outcome.stderr.matches("is not on this machine").count(), 1, "{}", outcome.stderr);
}

#[test]
fn a_forked_child_frees_what_its_parent_has_allocated() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("heap_fork");
        lab.ring(ring);
        let args = ["--with", "malloc", "--memory", "16G"];
        let mut recording = lab.record("trace").args(&args).start(&[&program(&lab), "fork"]);
        recording.proc().until("child");
        let trace = lab.path("trace").to_str().unwrap().to_owned();
        let begins = || {
            let seen = lab.kymo(&["read", &trace, "--event", "kymo_statedump_program", "--json"]);
            (seen.stdout.matches("\"begin\"").count() >= 2).then_some(())
        };
        lab.wait_for("the child in the trace", begins);
        recording.proc().say("go");
        let recorded = recording.wait().expect(0).lossless();
        let found = heap(&lab, &recorded, &["--what", "allocated"]);
        let processes = found["processes"].as_array().unwrap();
        assert_eq!(processes.len(), 2, "{found}");
        let child = processes.iter().find(|process| process["inherited"]["blocks"] != 0);
        let child = child.unwrap_or_else(|| panic!("no child in {found}"));
        let inherited = pair(&child["inherited"]);
        assert!(inherited.0 >= 100_000 && inherited.1 >= 1000, "{child}");
        assert_eq!((pair(&child["inherited_freed"]), &child["unknown_frees"]), ((1000, 10), &0.into()), "{child}");
        assert_eq!(of(&found, "of_child", "leaked"), (2 * 5 * 777, 10), "{found}");
        assert_eq!(pair(&child["leaked"]), (2 * 5 * 777, 10), "{child}");
        // What the child freed is still the parent's, who frees it, too.
        assert_eq!(of(&found, "of_parent", "leaked"), (0, 0), "{found}");
        assert_eq!(of(&found, "of_parent", "peak"), (100_000, 1000), "{found}");
        assert_eq!((&found["unknown_frees"], &found["is_exact"]), (&0.into(), &true.into()), "{found}");
    }
}

#[test]
fn the_heap_of_a_program_ends_with_exec() {
    let lab = Lab::new("heap_exec");
    let recorded = recorded(&lab, &[&program(&lab), "exec"], &[]).lossless();
    let found = heap(&lab, &recorded, &["--what", "allocated"]);
    let processes = found["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "{found}");
    assert_eq!(processes[0]["process"], processes[1]["process"], "{found}");
    assert!(pair(&processes[0]["at_exec"]).0 >= 500_000, "{found}");
    assert_eq!(of(&found, "before_exec", "leaked"), (0, 0), "{found}");
    assert_eq!(of(&found, "before_exec", "peak"), (500_000, 5), "{found}");
    assert_eq!(of(&found, "after_exec", "leaked"), (30_000, 3), "{found}");
}

#[test]
fn lost_records_make_live_and_leaked_estimates() {
    let lab = Lab::new("heap_lost");
    let recorded = recorded(&lab, &[&program(&lab), "many"], &["--ring-size", "64K"]);
    assert!(recorded.lost() > 0, "{}", recorded.outcome.stderr);
    let found = heap(&lab, &recorded, &[]);
    assert_eq!(found["is_exact"], false, "{found}");
    assert!(found["caveats"][0].as_str().unwrap().contains("records were lost"), "{found}");
    let text = lab.kymo(&["heap", recorded.dir.to_str().unwrap()]).expect(0).stdout;
    assert!(text.contains("not exact: "), "{text}");
}

#[test]
fn threads_that_get_each_others_blocks() {
    let lab = Lab::new("heap_churn");
    let source: PathBuf = paths::repository().join("tests/preload/churn.c");
    let churn = compiled(&lab, &source, "churn");
    let recorded = recorded(&lab, &[&churn, "2000"], &["--ring-size", "16M"]).lossless();
    let found = heap(&lab, &recorded, &["--what", "allocated"]);
    assert_eq!((&found["replaced"], &found["unknown_frees"]), (&0.into(), &0.into()), "{found}");
    assert!(pair(&found["allocated"]).1 >= 8000 && pair(&found["peak"]).0 >= 2000, "{found}");
    let leaked = found["stacks"].as_array().unwrap().iter().filter(|stack| {
        let is_own = stack["frames"][0]["name"].as_str().is_some_and(|name| name.contains("churn.c"));
        is_own && stack["leaked"]["blocks"] != 0
    });
    assert_eq!(leaked.count(), 0, "{found}");
}

#[test]
fn only_some_blocks_and_only_some_time() {
    let lab = Lab::new("heap_scope");
    let recorded = recorded(&lab, &[&program(&lab), "known"], &[]).lossless();
    let found = heap(&lab, &recorded, &["--filter", "size == 3000"]);
    assert_eq!(["peak", "leaked", "allocated"].map(|what| pair(&found[what])), [(21_000, 7); 3], "{found}");
    assert_eq!(found["unknown_frees"], 0, "{found}");
    // Half of the time: what is live at its end is what was allocated and not freed until then.
    let whole = heap(&lab, &recorded, &["--steps", "2"]);
    let (from, to) = (whole["from"].as_i64().unwrap(), whole["growth"][0]["to"].as_i64().unwrap());
    let half = heap(&lab, &recorded, &["--from", &from.to_string(), "--to", &to.to_string()]);
    assert_eq!(half["live"], whole["growth"][0]["live"], "{half}");
    let rest = heap(&lab, &recorded, &["--from", &to.to_string()]);
    let sum = pair(&half["allocated"]).1 + pair(&rest["allocated"]).1;
    assert_eq!(sum, pair(&whole["allocated"]).1, "{half} {rest}");
    let sum = pair(&half["leaked"]).0 + pair(&rest["leaked"]).0;
    assert_eq!(sum, pair(&whole["leaked"]).0, "{half} {rest}");
}

#[test]
fn a_trace_without_allocations_says_what_to_do() {
    let lab = Lab::new("heap_none");
    let program = lab.cc("produce.c");
    let recorded = lab.record("trace").run(&[program.to_str().unwrap(), "1", "10", "8"]).expect(0);
    let outcome = lab.kymo(&["heap", recorded.dir.to_str().unwrap()]).expect(2);
    assert!(outcome.stderr.contains("--with malloc"), "{}", outcome.stderr);
}

/// Whether two tools count the same, to a percent: each has a few blocks of its own in the program.
#[track_caller]
fn agree(what: &str, kymo: u64, other: u64) {
    assert!(kymo.abs_diff(other) * 100 <= other, "{what}: kymo {kymo} bytes, the other tool {other}");
}

#[test]
fn massif_finds_the_same_peak() {
    if !has("valgrind") {
        return skip("massif_finds_the_same_peak", "no valgrind");
    }
    let lab = Lab::new("heap_massif");
    let path = program(&lab);
    let recorded = recorded(&lab, &[&path, "known"], &[]).lossless();
    let out = lab.path("massif.out");
    let to = format!("--massif-out-file={}", out.display());
    lab.run("valgrind", &["--tool=massif", "--peak-inaccuracy=0.0", &to, &path, "known"]).expect(0);
    let text = std::fs::read_to_string(out).unwrap();
    let mut bytes = 0;
    let mut peak = None;
    for line in text.lines() {
        match line.split_once('=') {
            Some(("mem_heap_B", value)) => bytes = value.parse().unwrap(),
            Some(("heap_tree", "peak")) => peak = Some(bytes),
            _ => {}
        }
    }
    let found = heap(&lab, &recorded, &[]);
    agree("peak", pair(&found["peak"]).0, peak.unwrap_or_else(|| panic!("no peak in {text}")));
}

#[test]
fn heaptrack_finds_the_same_peak_and_the_same_leaks() {
    const NAME: &str = "heaptrack_finds_the_same_peak_and_the_same_leaks";
    if !has("heaptrack") || !has("heaptrack_print") {
        return skip(NAME, "no heaptrack");
    }
    let lab = Lab::new("heap_heaptrack");
    let path = program(&lab);
    let recorded = recorded(&lab, &[&path, "known"], &[]).lossless();
    let found = heap(&lab, &recorded, &[]);
    // It adds a C++ library to the program, which allocates something itself: so much as is too much in a program that
    // leaks 30,000 bytes.
    let (known, little) = (heaptrack(&lab, &path, "known"), heaptrack(&lab, &path, "after"));
    for (number, what) in ["peak", "leaked"].into_iter().enumerate() {
        let own = little[number].checked_sub(30_000).unwrap_or_else(|| panic!("{what}: {little:?}"));
        agree(what, pair(&found[what]).0, known[number] - own);
    }
}

/// Bytes at the peak, and bytes leaked.
fn heaptrack(lab: &Lab, path: &str, mode: &str) -> [u64; 2] {
    let out = lab.path(mode);
    lab.run("heaptrack", &["-o", out.to_str().unwrap(), path, mode]).expect(0);
    let data = ["zst", "gz"].map(|end| lab.path(&format!("{mode}.{end}"))).into_iter().find(|path| path.exists());
    let data = data.expect("heaptrack has written its data");
    let text = lab.run("heaptrack_print", &[data.to_str().unwrap()]).expect(0).stdout;
    ["peak heap memory consumption: ", "total memory leaked: "].map(|line| {
        let number = text.lines().find_map(|text| text.strip_prefix(line));
        bytes_of(number.unwrap_or_else(|| panic!("no {line:?} in {text}")))
    })
}

/// `2.50M`, `321.00K`, as heaptrack prints them.
fn bytes_of(text: &str) -> u64 {
    let text = text.trim().trim_end_matches('B');
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = match &text[unit..] {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        other => panic!("{other:?} in {text:?}"),
    };
    (text[..unit].parse::<f64>().unwrap() * scale).round() as u64
}
