// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo export` and `kymo import`, held against other tools: trace-cmd's own report, perf, and readers of Perfetto,
//! Parquet and CSV.

use std::path::Path;

use kymo_tests::{Kernel, Lab, Outcome, has, skip};
use serde_json::Value;

/// A trace of programs with a known number of records, each with its number in `n`.
fn produced(lab: &Lab) -> String {
    let program = lab.cc("produce.c");
    let command = [program.to_str().unwrap(), "2", "300", "8", "200"];
    let recorded = lab.record("trace").args(&["--memory", "16G"]).run(&command).expect(0).lossless();
    recorded.dir.to_str().unwrap().to_owned()
}

fn export(lab: &Lab, trace: &str, format: &str, to: &str, more: &[&str]) -> Outcome {
    let to = lab.path(to);
    let args = [&["export", trace, "--to", format, "-o", to.to_str().unwrap()], more].concat();
    lab.kymo(&args)
}

/// A Python that has these modules.
fn python(test: &str, modules: &str) -> bool {
    let import = format!("import {modules}");
    let found =
        std::process::Command::new("python3").args(["-c", &import]).output().is_ok_and(|out| out.status.success());
    if !found {
        skip(test, &format!("python3 has no {modules} (pip install {modules})"));
    }
    found
}

/// What Python says, as JSON.
#[track_caller]
fn ask_python(lab: &Lab, args: &[&str]) -> Value {
    let outcome = lab.run("python3", args).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

#[test]
fn csv_is_what_python_reads() {
    let lab = Lab::new("export_csv");
    let trace = produced(&lab);
    let outcome = export(&lab, &trace, "csv", "t.csv", &[]).expect(0);
    assert!(outcome.stderr.contains("600 records, 1 file"), "{}", outcome.stderr);
    let script = "import csv, json, sys\nrows = list(csv.DictReader(open(sys.argv[1], newline='')))\n\
        json.dump([[r['time_ns'], r['event'], json.loads(r['fields'])] for r in rows], sys.stdout)";
    let rows = ask_python(&lab, &["-c", script, lab.path("t.csv").to_str().unwrap()]);
    let read = kymo_tests::trace::read(&lab, Path::new(&trace), &[]).whole();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), read.records.len());
    for (row, record) in rows.iter().zip(&read.records) {
        assert_eq!(row[1], record.event.as_str());
        assert_eq!(row[2], Value::Object(record.fields.clone().into_iter().collect()));
    }
    // What is there is not replaced.
    let again = export(&lab, &trace, "csv", "t.csv", &[]);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    // A file for each event, and a choice of records.
    export(&lab, &trace, "csv", "by_event", &["--filter", "n < 10"]).expect(0);
    let files: Vec<_> = std::fs::read_dir(lab.path("by_event")).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(std::fs::read_to_string(files[0].path()).unwrap().lines().count(), 1 + 20);
}

#[test]
fn parquet_is_what_pyarrow_reads() {
    if !python("parquet_is_what_pyarrow_reads", "pyarrow") {
        return;
    }
    let lab = Lab::new("export_parquet");
    let trace = produced(&lab);
    export(&lab, &trace, "parquet", "tables", &[]).expect(0);
    let event = std::fs::read_dir(lab.path("tables")).unwrap().flatten().next().expect("a data set").path();
    let script = "import json, sys, pyarrow.dataset as d\nt = d.dataset(sys.argv[1], partitioning='hive').to_table()\n\
        json.dump([t.num_rows, t.column_names, sorted(t['n'].to_pylist()), str(t.schema.field('time').type)], sys.stdout)";
    let found = ask_python(&lab, &["-c", script, event.to_str().unwrap()]);
    assert_eq!(found[0], 600);
    assert!(found[1].as_array().unwrap().iter().any(|name| name == "host"), "{found}");
    let numbers: Vec<u64> = (0..300).flat_map(|n| [n, n]).collect();
    assert_eq!(found[2], serde_json::json!(numbers));
    assert_eq!(found[3], "timestamp[ns, tz=UTC]");
}

#[test]
fn parquet_is_written_by_kymo_sql() {
    let lab = Lab::new("export_by_kymo_sql");
    let trace = produced(&lab);
    // What is asked for, what is printed and the exit status are those of any export.
    let written = export(&lab, &trace, "parquet", "tables", &["--filter", "n < 10", "--json"]).expect(0);
    let document: Value = serde_json::from_str(&written.stdout).unwrap();
    let told = [&document["format"], &document["records"], &document["files"]];
    assert_eq!(told, [&Value::from("parquet"), &Value::from(20), &Value::from(1)], "{document}");
    let again = export(&lab, &trace, "parquet", "tables", &[]).expect(2);
    assert!(again.stderr.starts_with("kymo: ") && again.stderr.contains("is there already"), "{}", again.stderr);
    // By `cp`: a file that this process has open for writing could not be run while another test starts something.
    let copy = |from: &Path, to: &str| {
        let to = lab.path(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        lab.run("cp", &[from.to_str().unwrap(), to.to_str().unwrap()]).expect(0);
        to
    };
    let alone = copy(kymo_tests::paths::kymo(), "alone/bin/kymo");
    let export_by = |path: &Path, to: &str| {
        let mut command = lab.command(&alone);
        command.env("PATH", path).args(["export", &trace, "--format", "parquet", "-o"]).arg(lab.path(to));
        lab.start(command).wait()
    };
    let nowhere = lab.path("nowhere");
    let missing = export_by(&nowhere, "missing").expect(2);
    for part in ["kymo-sql", "alone/bin", "alone/lib/kymo", "make sql", "make install"] {
        assert!(missing.stderr.contains(part), "{part} in {}", missing.stderr);
    }
    assert!(!lab.path("missing").exists());
    let sql = copy(&kymo_tests::paths::kymo_sql(), "path/kymo-sql");
    export_by(sql.parent().unwrap(), "by_path").expect(0);
    copy(&sql, "alone/lib/kymo/kymo-sql");
    export_by(&nowhere, "installed").expect(0);
    for made in ["by_path", "installed"] {
        assert_eq!(std::fs::read_dir(lab.path(made)).unwrap().count(), 1, "{made}");
    }
}

#[test]
fn perfetto_is_what_its_own_classes_read() {
    if !python("perfetto_is_what_its_own_classes_read", "perfetto") {
        return;
    }
    let lab = Lab::new("export_perfetto");
    let trace = produced(&lab);
    export(&lab, &trace, "perfetto", "t.pftrace", &[]).expect(0);
    let script = kymo_tests::paths::repository().join("tests/tools/read_perfetto.py");
    let found = ask_python(&lab, &[script.to_str().unwrap(), lab.path("t.pftrace").to_str().unwrap()]);
    let read = kymo_tests::trace::read(&lab, Path::new(&trace), &[]).whole();
    let user = found["user"].as_array().unwrap();
    assert_eq!(user.len(), read.records.len());
    for (event, record) in user.iter().zip(&read.records) {
        assert_eq!(event[4]["n"], record.number("n"), "{event}");
        assert_eq!(event[1], record.tid, "{event}");
    }
    assert_eq!(found["clocks"].as_array().unwrap().len(), 2);
}

#[test]
fn chrome_json_keeps_to_its_rules() {
    let lab = Lab::new("export_chrome");
    let trace = produced(&lab);
    export(&lab, &trace, "chrome", "t.json", &[]).expect(0);
    let text = std::fs::read_to_string(lab.path("t.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["ph"] != "M").count(), 600);
    for event in events {
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        match event["ph"].as_str().unwrap() {
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "i" => assert!(event["ts"].is_number() && event["s"] == "t", "{event}"),
            "B" | "E" => assert!(event["ts"].is_number(), "{event}"),
            "X" => assert!(event["dur"].is_number(), "{event}"),
            other => panic!("phase {other}"),
        }
    }
}

/// What `trace-cmd report -R -t` prints, as `TIME CPU event key=value ...`.
fn reported(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (head, body) = line.split_once("] ")?;
        let cpu: u32 = head.rsplit_once('[')?.1.parse().ok()?;
        let (time, rest) = body.trim().split_once(": ")?;
        let (event, fields) = rest.split_once(':')?;
        let (s, ns) = time.split_once('.')?;
        let time = s.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
        // The kernel's own format has three digits for this one.
        let fields = match fields.trim().rsplit_once("target_cpu=") {
            Some((before, target)) => format!("{before}target_cpu={}", target.parse::<u32>().ok()?),
            None => fields.trim().to_owned(),
        };
        Some(format!("{time} {cpu} {event} {fields}"))
    };
    let mut lines: Vec<String> = text.lines().filter_map(line).collect();
    lines.sort();
    lines
}

/// Fields of the events that are compared, in the order of the kernel's: JSON objects have none.
const ORDER: [&str; 12] = [
    "prev_comm",
    "prev_tid",
    "prev_prio",
    "prev_state",
    "next_comm",
    "next_tid",
    "next_prio",
    "comm",
    "tid",
    "prio",
    "target_cpu",
    "vec",
];

/// Records of an import under the kernel's own names and values.
fn as_reported(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let Some(event) = record["event"].as_str() else { continue };
        let is_sched = event.starts_with("sched_");
        let event = event.strip_prefix("irq_").filter(|name| name.starts_with("softirq")).unwrap_or(event);
        let all = record["fields"].as_object().unwrap();
        let known = ORDER.iter().filter_map(|name| all.get(*name).map(|value| (*name, value)));
        assert_eq!(known.clone().count(), all.len(), "a field that is not expected: {line}");
        let fields = known.map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            value if is_sched && name.ends_with("prio") => format!("{name}={}", value.as_i64().unwrap() + 100),
            value if is_sched => format!("{}={value}", name.replace("tid", "pid")),
            value => format!("{name}={value}"),
        });
        let fields: Vec<String> = fields.collect();
        lines.push(format!("{} {} {event} {}", record["time"], record["cpu"], fields.join(" ")));
    }
    lines.sort();
    lines
}

#[test]
fn trace_dat_of_a_real_trace_cmd_becomes_the_same_records() {
    const NAME: &str = "trace_dat_of_a_real_trace_cmd_becomes_the_same_records";
    if Kernel::find(NAME).is_none() {
        return;
    }
    // It has no --version.
    if std::process::Command::new("trace-cmd").output().is_err() || !has("unshare") {
        return skip(NAME, "no trace-cmd");
    }
    let lab = Lab::new("trace_dat");
    let (out, nothing) = (lab.path("trace.dat"), lab.write("nothing", "1"));
    let script = kymo_tests::paths::repository().join("tests/tools/trace_cmd.sh");
    let mut args = vec![nothing.to_str().unwrap(), out.to_str().unwrap()];
    for event in
        ["sched:sched_switch", "sched:sched_wakeup", "sched:sched_waking", "irq:softirq_entry", "irq:softirq_exit"]
    {
        args.extend(["-e", event]);
    }
    args.extend(["sleep", "0.3"]);
    let recorded = lab.run(&script, &args);
    if recorded.code != 0 {
        return skip(NAME, &format!("trace-cmd cannot record here: {}", recorded.stderr.lines().last().unwrap_or("")));
    }
    let report = lab.run("trace-cmd", &["report", "-R", "-t", out.to_str().unwrap()]).expect(0);
    let expect = reported(&report.stdout);
    assert!(expect.len() > 20, "{}", report.stdout);
    let import = |from: &Path, name: &str| {
        let dir = lab.path(name);
        lab.kymo(&["import", from.to_str().unwrap(), "-o", dir.to_str().unwrap()]).expect(0);
        as_reported(&lab.kymo(&["read", dir.to_str().unwrap(), "--json"]).expect(0).stdout)
    };
    compare(&import(&out, "seven"), &expect);
    // The older version of the format, made by trace-cmd itself.
    let six = lab.path("six.dat");
    let convert = [
        "convert",
        "-i",
        out.to_str().unwrap(),
        "-o",
        six.to_str().unwrap(),
        "--file-version",
        "6",
        "--compression",
        "none",
    ];
    lab.run("trace-cmd", &convert).expect(0);
    compare(&import(&six, "six"), &expect);
    // State and latency work on it, and agree with those of the text that trace-cmd prints.
    let wakeups = |name: &str| {
        let dir = lab.path(name);
        let found = lab.kymo(&["latency", dir.to_str().unwrap(), "--what", "wakeup", "--json"]).expect(0).stdout;
        let found: Value = serde_json::from_str(&found).unwrap();
        found["series"].as_array().unwrap().iter().map(|series| series["count"].as_u64().unwrap()).sum::<u64>()
    };
    let text = lab.run("trace-cmd", &["report", "-t", out.to_str().unwrap()]).expect(0).stdout;
    let text = lab.write("report.txt", &text);
    let dir = lab.path("text");
    lab.kymo(&["import", text.to_str().unwrap(), "-o", dir.to_str().unwrap()]).expect(0);
    assert!(wakeups("seven") > 0);
    assert_eq!(wakeups("seven"), wakeups("text"));
}

#[track_caller]
fn compare(seen: &[String], expect: &[String]) {
    for (seen, expect) in seen.iter().zip(expect) {
        assert_eq!(seen, expect);
    }
    assert_eq!(seen.len(), expect.len());
}

#[test]
fn perf_script_becomes_stacks() {
    const NAME: &str = "perf_script_becomes_stacks";
    if !has("perf") {
        return skip(NAME, "no perf");
    }
    let lab = Lab::new("perf_script");
    let program = lab.cc_text(
        "burn",
        "#include <time.h>\n__attribute__((noinline)) unsigned long burn_here(void) {\n\
        unsigned long sum = 0; clock_t until = clock() + CLOCKS_PER_SEC / 4;\n\
        while (clock() < until) for (int i = 0; i < 1000; i++) { sum += i; __asm__ volatile(\"\" : \"+r\"(sum)); }\n\
        return sum; }\nint main(void) { return burn_here() == 1; }\n",
    );
    let data = lab.path("perf.data");
    let record = ["record", "-q", "-e", "cpu-clock", "-g", "-o", data.to_str().unwrap(), program.to_str().unwrap()];
    let recorded = lab.run("perf", &record);
    let script = lab.run("perf", &["script", "-i", data.to_str().unwrap()]);
    if recorded.code != 0 || script.code != 0 || !script.stdout.contains("burn_here") {
        return skip(NAME, "perf cannot sample here");
    }
    let samples = script.stdout.lines().filter(|line| line.contains("cpu-clock")).count() as u64;
    let file = lab.write("script.txt", &script.stdout);
    let dir = lab.path("t");
    lab.kymo(&["import", file.to_str().unwrap(), "-o", dir.to_str().unwrap()]).expect(0);
    let counts = lab.kymo(&["read", dir.to_str().unwrap(), "--count", "--json"]).expect(0).stdout;
    assert!(counts.contains(&samples.to_string()), "{samples} samples: {counts}");
    let collapsed = export(&lab, dir.to_str().unwrap(), "collapsed", "stacks", &[]).expect(0);
    assert!(collapsed.stderr.contains("1 file"), "{}", collapsed.stderr);
    let text = std::fs::read_to_string(lab.path("stacks")).unwrap();
    assert!(text.lines().any(|line| line.contains("burn_here")), "{text}");
    export(&lab, dir.to_str().unwrap(), "speedscope", "speed.json", &[]).expect(0);
    let document: Value = serde_json::from_str(&std::fs::read_to_string(lab.path("speed.json")).unwrap()).unwrap();
    assert_eq!(document["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = document["shared"]["frames"].as_array().unwrap().len() as u64;
    for profile in document["profiles"].as_array().unwrap() {
        let (samples, weights) = (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len());
        assert!(
            samples.iter().flat_map(|stack| stack.as_array().unwrap()).all(|frame| frame.as_u64().unwrap() < frames)
        );
    }
}

#[test]
fn what_is_no_trace_is_refused_with_what_is_known() {
    let lab = Lab::new("import_other");
    let file = lab.write("x", "nothing of the kind\n");
    let outcome = lab.kymo(&["import", file.to_str().unwrap(), "-o", lab.path("t").to_str().unwrap()]).expect(2);
    for part in ["trace.dat", "perf script", "cyclictest"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    assert!(!lab.path("t").join("metadata").exists());
}

#[test]
fn what_was_written_and_taken_as_json() {
    let lab = Lab::new("exchange_json");
    let trace = produced(&lab);
    let document = |outcome: Outcome| -> Value { serde_json::from_str(&outcome.expect(0).stdout).unwrap() };
    let all = document(export(&lab, &trace, "csv", "all.csv", &["--json"]));
    assert_eq!((&all["schema"], &all["records"], &all["files"]), (&"kymo-export-1".into(), &600.into(), &1.into()));
    // Times from the end: the last record is at it, and no record is behind it.
    let last = document(export(&lab, &trace, "csv", "last.csv", &["--json", "--from", "-0s"]));
    assert_eq!(last["records"], 1, "{last}");
    let none = export(&lab, &trace, "csv", "none.csv", &["--from", "-0s", "--until", "+0s"]);
    assert!(none.code == 2 && none.stderr.contains("is behind --to"), "{}", none.stderr);
    let both = lab.kymo(&["export", &trace, "--to", "csv", "-o", "-", "--json"]).expect(2).stderr;
    assert!(both.contains("both want standard output"), "{both}");
    let text = lab.write("trace.txt", "  prog-7 [000] 1.000001: sched_wakeup: comm=a pid=7 prio=120\nno record\n");
    let wrong = lab.write("wrong.txt", "nothing that is known\n");
    let (text, wrong, to) = (text.to_str().unwrap(), wrong.to_str().unwrap(), lab.path("imported"));
    let outcome = lab.kymo(&["import", text, wrong, "-o", to.to_str().unwrap(), "--json"]).expect(1);
    let taken: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let [good, bad] = &taken["files"].as_array().unwrap()[..] else { panic!("{taken}") };
    assert_eq!((&good["records"], &good["format"]), (&1.into(), &"ftrace text".into()), "{taken}");
    assert_eq!(good["not_taken"]["lines that are no records"], 1, "{taken}");
    assert!(bad["error"].as_str().is_some_and(|error| error.contains("wrong.txt")), "{taken}");
}

#[test]
fn what_is_interrupted_leaves_nothing() {
    let lab = Lab::new("exchange_interrupted");
    let line = |n: u64| {
        format!("  prog-{} [000] {n}.000001: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000\n", n % 1000 + 1)
    };
    let text = lab.write("trace.txt", &(0..400_000).map(line).collect::<String>());
    let (text, trace) = (text.to_str().unwrap().to_owned(), lab.path("imported"));
    let trace = trace.to_str().unwrap().to_owned();
    // Interrupted when the first of its files is there: a second's work is left then.
    let interrupted = |args: &[&str], part: std::path::PathBuf| {
        let proc = lab.spawn(kymo_tests::paths::kymo(), args);
        lab.wait_for("the first file", || part.exists().then_some(()));
        proc.signal(rustix::process::Signal::INT);
        let outcome = proc.wait();
        assert!(outcome.code == 2 && outcome.stderr.contains("interrupted; nothing was left"), "{}", outcome.stderr);
        assert!(!part.exists(), "{}", part.display());
    };
    interrupted(&["import", &text, "-o", &trace], lab.path("imported"));
    lab.kymo(&["import", &text, "-o", &trace]).expect(0);
    let to = lab.path("t.json");
    interrupted(&["export", &trace, "--to", "chrome", "-o", to.to_str().unwrap()], lab.path(".t.json.part"));
    assert!(!to.exists());
    let to = lab.path("tables");
    interrupted(&["export", &trace, "--to", "parquet", "-o", to.to_str().unwrap()], to.clone());
}
