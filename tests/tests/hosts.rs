// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of several hosts: two network namespaces whose programs send each other messages, each recorded by a session
//! of its own. One machine has one clock, so one trace's metadata is given another offset and another rate; what is
//! true is known by cycles.

use std::path::{Path, PathBuf};

use kymo_tests::{Lab, paths, skip, trace};
use serde_json::Value;

/// Two network namespaces with a cable between them; gone when dropped.
struct Cable<'l> {
    lab: &'l Lab,
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

impl<'l> Cable<'l> {
    /// `None`, with a visible skip, where that is not allowed.
    fn new(lab: &'l Lab) -> Option<Self> {
        let names = ["a", "b"].map(|end| format!("kymo-{}-{end}", std::process::id()));
        let cable = Self { lab, names };
        let [a, b] = [0, 1].map(|end| cable.names[end].as_str());
        let add = |name: &str| cable.ip(&["netns", "add", name]);
        let made =
            add(a) && add(b) && cable.ip(&["-n", a, "link", "add", "veth", "type", "veth", "peer", "veth", "netns", b]);
        let up = |end: usize, name: &str| {
            let address = format!("{}/24", ADDRESSES[end]);
            cable.ip(&["-n", name, "addr", "add", &address, "dev", "veth"])
                && cable.ip(&["-n", name, "link", "set", "veth", "up"])
        };
        if !made || !up(0, a) || !up(1, b) {
            skip(lab.name(), "no network namespaces here (needs root, and `ip` of iproute2)");
            return None;
        }
        Some(cable)
    }

    fn ip(&self, args: &[&str]) -> bool {
        has_ip() && self.lab.run("ip", args).code == 0
    }

    /// Starts a program in one of the namespaces, recorded into `dir`.
    fn record(&self, end: usize, dir: &Path, program: &[&str]) -> kymo_tests::Proc {
        let mut command = self.lab.command(paths::kymo());
        // Neither session sees the other one's program.
        command.env("KYMO_RUNTIME_DIR", dir.with_extension("rt"));
        command.arg("record").arg("-o").arg(dir).args(["--", "ip", "netns", "exec", &self.names[end]]).args(program);
        self.lab.start(command)
    }
}

/// `ip` has no `--version`.
fn has_ip() -> bool {
    std::process::Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success())
}

impl Drop for Cable<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            if Path::new("/run/netns").join(name).exists() {
                self.ip(&["netns", "del", name]);
            }
        }
    }
}

const MESSAGES: u64 = 300;

/// Traces of both hosts.
fn recorded(lab: &Lab) -> Option<[PathBuf; 2]> {
    let cable = Cable::new(lab)?;
    let program = lab.cc("messages.c");
    let program = program.to_str().unwrap();
    let dirs = ["host-a", "host-b"].map(|name| lab.path(name));
    let count = MESSAGES.to_string();
    let listener = cable.record(0, &dirs[0], &[program, "listen", ADDRESSES[0], "7007", &count]);
    listener.until("ready");
    let talker = cable.record(1, &dirs[1], &[program, "talk", ADDRESSES[0], "7007", &count]);
    talker.wait().expect(0);
    listener.wait().expect(0);
    Some(dirs)
}

/// Changes the number behind `name = ` in the clock of a trace.
fn change(dir: &Path, name: &str, by: impl Fn(i128) -> i128) {
    let path = dir.join("metadata");
    let text = std::fs::read_to_string(&path).unwrap();
    let clock = text.find("clock {").expect("a clock");
    let key = format!("{name} = ");
    let from = clock + text[clock..].find(&key).unwrap_or_else(|| panic!("no {name} in {text}")) + key.len();
    let to = from + text[from..].find(';').expect("an end");
    let number = by(text[from..to].trim().parse().expect("a number"));
    std::fs::write(&path, format!("{}{number}{}", &text[..from], &text[to..])).unwrap();
}

/// The time that the clock of `of` gives to a number of cycles, ns behind its first record.
fn clock_of(of: &trace::Read) -> impl Fn(u64) -> f64 {
    let (first, last) = (of.records.first().expect("records").clone(), of.records.last().expect("records").clone());
    let rate = (last.time - first.time) as f64 / (last.cycles - first.cycles) as f64;
    move |cycles| (cycles as i64 - first.cycles as i64) as f64 * rate
}

fn stats(lab: &Lab, dirs: &[PathBuf], args: &[&str]) -> Value {
    let dirs: Vec<&str> = dirs.iter().map(|dir| dir.to_str().unwrap()).collect();
    let outcome = lab.kymo(&[&["stats", "--json"], &dirs[..], args].concat()).expect(0);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn messages_bring_clocks_together() {
    let lab = Lab::new("hosts");
    let Some(dirs) = recorded(&lab) else { return };
    let [a, b] = [0, 1].map(|end| trace::read(&lab, &dirs[end], &[]).whole());
    assert_eq!([a.records.len(), b.records.len()], [2 * MESSAGES as usize; 2]);
    let truth = clock_of(&a);
    // Three seconds and a bit behind, and 20 ppm slow.
    change(&dirs[1], "offset_s", |seconds| seconds - 3);
    change(&dirs[1], "freq", |hz| hz + hz / 50_000);
    let align = ["--align", "msg:send, msg:receive, by=id"];
    let found = stats(&lab, &dirs, &align);
    let host = &found["hosts"][0];
    assert_eq!(host["pairs"], serde_json::json!([MESSAGES, MESSAGES]), "{host}");
    let uncertain = host["uncertain_ns"].as_f64().unwrap();
    assert!(uncertain > 0.0 && uncertain < 3e9, "{host}");
    let drift: Vec<f64> = host["drift_ppb"].as_array().unwrap().iter().map(|part| part.as_f64().unwrap()).collect();
    // The other clock's own rate was measured anew by its session; both agree to some hundred ppb.
    assert!(drift[0] - 1000.0 <= 20_000.0 && 20_000.0 <= drift[2] + 1000.0, "{host}");
    let merged = trace::read(&lab, &dirs[1], &[]);
    assert!(merged.records[0].time < a.records[0].time, "the test's own shift does nothing");
    // Both as one trace: the first is as it was, the second as the first one's clock has it.
    let outcome =
        lab.kymo(&[&["read", "--json"], &[dirs[0].to_str().unwrap(), dirs[1].to_str().unwrap()][..], &align].concat());
    let merged = trace::parse(outcome.code, &outcome.stdout, outcome.stderr.clone());
    assert_eq!(merged.records.len(), 4 * MESSAGES as usize);
    for record in &merged.records {
        let off = (record.time as i64 - a.records[0].time as i64) as f64 - truth(record.cycles);
        assert!(off.abs() <= uncertain + 5.0, "{off} ns off, {uncertain} ns are said: {record:?}\n{}", outcome.stderr);
    }
    assert!(
        outcome.stderr.contains("is shifted by +") && outcome.stderr.contains("300 messages there"),
        "{}",
        outcome.stderr
    );
    refusals(&lab, &dirs);
}

/// What cannot be aligned says why.
#[track_caller]
fn refusals(lab: &Lab, dirs: &[PathBuf; 2]) {
    let [a, b] = dirs.each_ref().map(|dir| dir.to_str().unwrap());
    let said = |args: &[&str]| lab.kymo(&[&["read", a, b][..], args].concat()).expect(2).stderr;
    let nothing = said(&["--align", "msg:send, msg:none, by=id"]);
    assert!(nothing.contains("none of the traces has a record of \"msg:none\""), "{nothing}");
    let field = said(&["--align", "msg:send, msg:receive, by=number"]);
    assert!(field.contains("has no field \"number\"; it has id"), "{field}");
    let form = said(&["--align", "msg:send"]);
    assert!(form.contains("SEND, RECEIVE, by=FIELD"), "{form}");
    // The other way round each message is received before it was sent.
    let crossed = said(&["--align", "msg:receive, msg:send, by=id"]);
    assert!(crossed.contains("cannot both be received after they were sent"), "{crossed}");
    let both = said(&["--align", "msg:send, msg:receive, by=id", "--shift", "host-b=1s"]);
    assert!(both.contains("cannot be used with"), "{both}");
    let unknown = said(&["--shift", "host-c=1s"]);
    assert!(unknown.contains("host-c is none of the traces"), "{unknown}");
    let unit = said(&["--shift", "host-b=5"]);
    assert!(unit.contains("is no time"), "{unit}");
}

#[test]
fn a_known_relation_shifts_one_trace() {
    let lab = Lab::new("shift");
    let program = lab.cc("produce.c");
    lab.record("one").run(&[program.to_str().unwrap(), "1", "20"]).expect(0);
    let one = lab.path("one");
    let before = trace::read(&lab, &one, &[]).whole();
    let copy = lab.path("two");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&one).unwrap().flatten() {
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let dirs = [one.to_str().unwrap(), copy.to_str().unwrap()];
    let outcome = lab.kymo(&[&["read", "--json", "--shift", "two=-1.5ms"], &dirs[..]].concat()).expect(0);
    let merged = trace::parse(outcome.code, &outcome.stdout, outcome.stderr);
    let mut expect: Vec<u64> =
        before.records.iter().flat_map(|record| [record.time, record.time - 1_500_000]).collect();
    expect.sort_unstable();
    assert_eq!(merged.records.iter().map(|record| record.time).collect::<Vec<_>>(), expect);
    let count = lab.kymo(&[&["read", "--count", "--shift", "two=-1.5ms"], &dirs[..]].concat()).expect(0).stdout;
    assert!(count.contains("40 records"), "{count}");
    // Events that both saw at once: copies of one trace.
    let common = lab.kymo(&[&["stats", "--json", "--align", "common:produce:rec, by=n"], &dirs[..]].concat()).expect(0);
    let found: Value = serde_json::from_str(&common.stdout).unwrap();
    assert_eq!((&found["hosts"][0]["shift_ns"], &found["hosts"][0]["pairs"]), (&0.into(), &serde_json::json!([20, 0])));
}

/// A copy of a kernel trace of LTTng, as if another machine of this name had made it. The new text has the bytes of the
/// old one.
fn kernel_trace(lab: &Lab, name: &str) -> PathBuf {
    let (from, to) = (paths::repository().join("tests/traces/lttng-kernel"), lab.path(name));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let mut bytes = std::fs::read(entry.path()).unwrap();
        if entry.file_name() == "metadata" {
            for (old, new) in
                [("kymo-vm", name), ("a7718e4b-235f-4c03", &format!("{:08x}-235f-4c03", name.as_bytes()[0]))]
            {
                assert_eq!(old.len(), new.len());
                let at = bytes.windows(old.len()).position(|part| part == old.as_bytes()).expect(old);
                bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
            }
        }
        std::fs::write(to.join(entry.file_name()), bytes).unwrap();
    }
    to
}

#[test]
fn traces_of_two_kernels_are_told_by_host() {
    let lab = Lab::new("hosts_kernels");
    let traces = ["a-host1", "b-host2"].map(|name| kernel_trace(&lab, name));
    let [one, other] = traces.each_ref().map(|dir| dir.to_str().unwrap());
    let json = |args: &[&str]| -> Value { serde_json::from_str(&lab.kymo(args).expect(0).stdout).unwrap() };
    for (verb, schema) in [("latency", "kymo-latency-hosts-1"), ("stats", "kymo-stats-hosts-1")] {
        let both = json(&[verb, one, other, "--json"]);
        assert_eq!(both["schema"], schema);
        let by_host = both["by_host"].as_array().unwrap();
        let names: Vec<_> = by_host.iter().map(|host| host["host"].as_str().unwrap()).collect();
        assert_eq!(names, ["a-host1", "b-host2"]);
        for (host, dir) in by_host.iter().zip([one, other]) {
            // What each alone tells: neither's threads and CPUs are mixed with the other's.
            assert_eq!(host["found"], json(&[verb, dir, "--json"]), "{verb} {dir}");
            assert_eq!(host["traces"], serde_json::json!([dir]));
        }
        let text = lab.kymo(&[verb, one, other]).expect(0).stdout;
        assert!(text.starts_with("=== host a-host1 ===\n") && text.contains("\n=== host b-host2 ===\n"), "{text}");
        // A time from the begin of all, where one begins an hour later.
        let shift = format!("{other}=+1h");
        let late = lab.kymo(&[verb, one, other, "--shift", &shift, "--from", "+2h"]).expect(2).stderr;
        assert!(late.contains("host a-host1"), "{late}");
    }
    // What follows one machine takes one.
    let refused = lab.kymo(&["critical", one, other, "--worst", "syscall"]).expect(2).stderr;
    assert!(refused.contains("kymo stats, kymo latency and kymo view take several"), "{refused}");
    // The page shows both; what is one file, or speaks of one trace, is of one.
    let page = lab.path("page.html");
    let page = page.to_str().unwrap();
    for more in [&["--save", page][..], &["--tsp", "--no-open"], &["--beside", one, "--no-open"]] {
        let refused = lab.kymo(&[&["view", one, other], more].concat()).expect(2).stderr;
        assert!(refused.contains(more[0]) && refused.contains("a-host1 and b-host2"), "{refused}");
    }
    assert!(!lab.path("page.html").exists());
}
