// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that other tools make on the spot, read by `kymo read` and by babeltrace2: the same records.

use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_tests::{Lab, babeltrace, paths, skip};

fn program(name: &str) -> PathBuf {
    paths::programs().join("foreign").join(name)
}

/// A C program of `programs/foreign`. `None`, with a visible skip, where it cannot be built here.
fn built(lab: &Lab, sources: &[&Path], include: &Path, libraries: &[&str], why_not: &str) -> Option<PathBuf> {
    let out = lab.path("program");
    let mut command = lab.command("cc");
    command.arg("-I").arg(include).arg("-I").arg(program("")).args(sources).arg("-o").arg(&out).args(libraries);
    let outcome = lab.start(command).wait();
    if outcome.code != 0 {
        skip(lab.name(), why_not);
        return None;
    }
    Some(out)
}

/// A trace of LTTng-UST. `None`, with a visible skip, where LTTng is not installed.
fn lttng(lab: &Lab, options: &[&str]) -> Option<PathBuf> {
    if !kymo_tests::has("lttng") || !kymo_tests::has("lttng-sessiond") {
        skip(lab.name(), "no lttng-tools");
        return None;
    }
    let source = program("lttng.c");
    let writer = built(lab, &[&source], &program(""), &["-llttng-ust"], "no liblttng-ust-dev")?;
    let out = lab.path("lttng");
    let is_root = rustix::process::geteuid().is_root();
    // A root daemon has fixed places in /run: it gets one of its own.
    let mut command = if is_root {
        let mut command = lab.command("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.args(["mount -t tmpfs tmpfs /run && exec \"$@\"", "sh"]).arg(program("lttng.sh"));
        command
    } else {
        lab.command(program("lttng.sh"))
    };
    command.env("LTTNG_HOME", lab.path("home")).env("HOME", lab.path("home"));
    command.arg(&writer).arg("3000").arg(&out).args(options);
    let outcome = lab.start(command).wait();
    if is_root && outcome.code != 0 && outcome.stderr.contains("unshare") {
        skip(lab.name(), "no mount namespaces here");
        return None;
    }
    assert_eq!(outcome.expect(0).number("records"), 3000);
    Some(trace_below(&out).expect("a trace of LTTng"))
}

/// The first directory at or below `dir` that is a trace.
fn trace_below(dir: &Path) -> Option<PathBuf> {
    if dir.join("metadata").is_file() {
        return Some(dir.to_owned());
    }
    let mut entries: Vec<_> = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().filter(|path| path.is_dir()).find_map(|path| trace_below(path))
}

#[test]
fn lttng_ust_by_user_and_by_process() {
    let lab = Lab::new("lttng");
    // Small buffers, so that there are many packets; enough of them that nothing is lost.
    let Some(trace) = lttng(&lab, &["--subbuf-size=4k", "--num-subbuf=128"]) else { return };
    if let Some(records) = babeltrace::agrees_on_events(&lab, &trace) {
        assert_eq!(records, 3000);
    }
    let text = lab.kymo(&["read", trace.to_str().unwrap(), "--limit", "2", "--utc"]).expect(0).stdout;
    assert!(text.contains("foreign:numbers: i8=-77, u16=65459") && text.contains("hex=0xffffffb3"), "{text}");
    let count = lab.kymo(&["read", trace.to_str().unwrap(), "--count", "--event", "foreign:nothing"]).expect(0).stdout;
    assert!(count.contains("1000 foreign:nothing"), "{count}");
}

#[test]
fn what_babeltrace2_writes() {
    let lab = Lab::new("sink");
    if !kymo_tests::has("babeltrace2") {
        skip(lab.name(), "no babeltrace2");
        return;
    }
    let program = lab.cc("produce.c");
    lab.record("trace").run(&[program.to_str().unwrap(), "2", "500"]).expect(0);
    converted(&lab, &lab.path("trace"), "from-kymo", 1000);
    if let Some(trace) = lttng(&lab, &["--subbuf-size=64k", "--num-subbuf=16"]) {
        converted(&lab, &trace, "from-lttng", 3000);
    }
}

/// A trace that babeltrace2 has written anew has the same records, by its own reading and ours.
#[track_caller]
fn converted(lab: &Lab, from: &Path, to: &str, records: usize) {
    let out = lab.path(to);
    let mut command = lab.command("babeltrace2");
    command.arg(from).args(["--output-format=ctf", "--output"]).arg(&out);
    lab.start(command).wait().expect(0);
    let trace = trace_below(&out).expect("a trace of babeltrace2");
    if let Some(found) = babeltrace::agrees_on_events(lab, &trace) {
        assert_eq!(found, records, "{to}");
    }
}

/// barectf, in a virtual environment in the target directory; made once. `None`, with a visible skip, where it cannot
/// be had.
fn barectf(lab: &Lab) -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/barectf-3.1.2");
    let home = std::env::var_os("CARGO_TARGET_DIR").map_or(home, |target| PathBuf::from(target).join("barectf-3.1.2"));
    let command = home.join("bin/barectf");
    let works = || Command::new(&command).arg("--version").output().is_ok_and(|output| output.status.success());
    if works() {
        return Some(command);
    }
    // Its own wish for an older PyYAML cannot be built with today's Python; it works with this one.
    let script = "python3 -m venv \"$1\" && \"$1/bin/pip\" install -q --no-deps barectf==3.1.2 && \"$1/bin/pip\" install -q \
                  'jinja2>=3,<4' 'jsonschema>=3.2,<4' 'pyyaml>=6,<7' 'setuptools<81' 'termcolor<2'";
    let mut install = lab.command("sh");
    install.args(["-c", script, "sh"]).arg(&home);
    lab.start(install).wait();
    if !works() {
        skip(lab.name(), "barectf could not be installed from PyPI");
        return None;
    }
    Some(command)
}

#[test]
fn barectf_with_fields_of_odd_sizes() {
    let lab = Lab::new("barectf").within(std::time::Duration::from_secs(300));
    let Some(barectf) = barectf(&lab) else { return };
    let made = lab.path("made");
    std::fs::create_dir(&made).unwrap();
    let mut command = lab.command(&barectf);
    command
        .arg("generate")
        .args(["--code-dir".as_ref(), made.as_os_str()])
        .args(["--headers-dir".as_ref(), made.as_os_str()]);
    command.args(["--metadata-dir".as_ref(), made.as_os_str()]).arg(program("barectf.yaml"));
    lab.start(command).wait().expect(0);
    let (main, code) = (program("barectf.c"), made.join("barectf.c"));
    let Some(writer) = built(&lab, &[&main, &code], &made, &[], "barectf's code does not compile here") else { return };
    let trace = lab.path("trace");
    std::fs::create_dir(&trace).unwrap();
    std::fs::copy(made.join("metadata"), trace.join("metadata")).unwrap();
    lab.run(&writer, &["2000", trace.join("stream").to_str().unwrap()]).expect(0);
    if let Some(records) = babeltrace::agrees_on_events(&lab, &trace) {
        assert_eq!(records, 2000);
    }
    let count = lab.kymo(&["read", trace.to_str().unwrap(), "--count"]).expect(0).stdout;
    assert!(count.contains("1000 numbers") && count.contains("1000 texts"), "{count}");
}

#[test]
fn perf_converts_to_ctf() {
    let lab = Lab::new("perf");
    if !kymo_tests::has("perf") {
        skip(lab.name(), "no perf (Debian: linux-perf)");
        return;
    }
    let (data, out) = (lab.path("perf.data"), lab.path("ctf"));
    let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
    let mut record = lab.command("perf");
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "2000", "-o"]).arg(&data).args(["sh", "-c", spin]);
    if lab.start(record).wait().code != 0 {
        skip(lab.name(), "perf may not record here");
        return;
    }
    let mut convert = lab.command("perf");
    convert.args(["data", "convert", "--all", "-i"]).arg(&data).arg("--to-ctf").arg(&out);
    let converted = lab.start(convert).wait();
    if converted.code != 0 {
        skip(lab.name(), "this perf cannot convert to CTF");
        return;
    }
    let trace = trace_below(&out).expect("a trace of perf");
    if let Some(records) = babeltrace::agrees_on_events(&lab, &trace) {
        assert!(records > 0, "{}", converted.stderr);
    }
}
