// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts of records [spec/context.md], each against the truth, through the whole pipe.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_tests::{Build, Lab, Read, Record, Recorded, Ring, babeltrace, skip, trace};
use rustix::process::Signal;

/// All that a test of the whole asks for.
const ALL: &str = "prio,cgroup,perf:page-faults,perf:task-clock,callstack";

/// contexts.c, with frame pointers.
fn program(lab: &Lab) -> PathBuf {
    let build = Build::new(&["contexts.c"]).flag("-fno-omit-frame-pointer").flag("-fno-optimize-sibling-calls");
    lab.build(&build, "contexts")
}

/// Records contexts.c in a mode. babeltrace2 agrees with what is read.
fn record(lab: &Lab, contexts: &str, command: &[&str]) -> (Recorded, Read) {
    let program = program(lab);
    let command: Vec<&str> = [program.to_str().unwrap()].iter().chain(command).copied().collect();
    let args = ["--context", contexts, "--overwrite", "--ring-size", "16M", "--memory", "4G"];
    let recorded = lab.record("trace").args(&args).run(&command).expect(0);
    let read = recorded.read(lab);
    // 65,000 bytes a record, one by one, take babeltrace2's bindings a minute.
    if command[1] != "lengths" {
        babeltrace::agrees(lab, &recorded.dir, &read);
    }
    (recorded, read)
}

#[test]
fn ids_are_those_of_the_process_that_wrote_and_contexts_come_along() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("contexts_pids");
        lab.ring(ring);
        let (_, read) = record(&lab, ALL, &["pids"]);
        assert_eq!(read.records.len(), 5, "{read:?}");
        for record in &read.records {
            assert_eq!(record.tid, record.number("tid"), "{record:?}");
            assert_eq!(record.contexts.len(), 5, "{record:?}");
        }
    }
}

/// What the context says of programs that have the nice value of this process.
fn own_prio() -> i64 {
    20 + i64::from(rustix::process::getpriority_process(None).expect("this process has one"))
}

#[test]
fn a_priority_is_that_of_the_first_record_or_of_now() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("contexts_prio");
        lab.ring(ring);
        let (_, read) = record(&lab, "prio", &["prio"]);
        assert!(read.of("ctx:level").all(|record| record.context("prio") == 20), "{read:?}");
        let (_, read) = record(&lab, "prio:now", &["prio"]);
        let levels: Vec<i64> = read.of("ctx:level").map(|record| record.context("prio")).collect();
        assert_eq!(levels, [20, 25, 27]);
    }
}

#[test]
fn a_realtime_priority_is_the_schedulers_number() {
    let lab = Lab::new("contexts_realtime");
    let program = program(&lab);
    let program = program.to_str().unwrap();
    for (chrt, prio) in [("-f", -51), ("-r", -51), ("-o", own_prio()), ("-b", own_prio())] {
        let level = if prio < 0 { "50" } else { "0" };
        let args = ["--context", "prio", "--overwrite"];
        let recorded = lab.record("trace").args(&args).run(&["chrt", chrt, level, program, "many", "3"]);
        if recorded.outcome.stderr.contains("failed to set") {
            return skip("contexts_realtime", "no right to a real-time class here");
        }
        let read = recorded.expect(0).read(&lab);
        assert_eq!(read.records.len(), 6);
        assert!(read.records.iter().all(|record| record.context("prio") == prio), "chrt {chrt}: {read:?}");
    }
}

/// Removed at its end; whoever was in it is gone then.
struct Group(PathBuf);

impl Group {
    fn make(name: &str) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (place, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2" && place.starts_with("/sys/fs/cgroup")).then(|| PathBuf::from(place))
        })?;
        let dir = root.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).ok().map(|()| Group(dir))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_group_is_the_one_that_the_program_started_in() {
    let Some(group) = Group::make("kymo-test") else {
        return skip("contexts_cgroup", "no control group can be made here (cgroup2, root)");
    };
    let inode = std::fs::metadata(&group.0).unwrap().ino();
    for ring in Ring::BOTH {
        let mut lab = Lab::new("contexts_cgroup");
        lab.ring(ring);
        let program = program(&lab);
        let script =
            format!("echo $$ >{}/cgroup.procs && exec {} many 1", group.0.display(), program.to_str().unwrap());
        let args = ["--context", "cgroup", "--overwrite"];
        let recorded = lab.record("trace").args(&args).run(&["sh", "-c", &script]).expect(0);
        let read = recorded.read(&lab);
        assert_eq!(read.records.len(), 2);
        assert!(read.records.iter().all(|record| record.context("cgroup") == inode as i64), "{inode}: {read:?}");
        let filter = format!("$cgroup == {inode} && event_is_mark == 1");
        let wrong = lab.kymo(&["read", "--filter", &filter, recorded.dir.to_str().unwrap()]);
        assert_eq!(wrong.code, 2);
        let filter = format!("$cgroup == {inode}");
        assert_eq!(trace::read(&lab, &recorded.dir, &["--filter", &filter]).records.len(), 2);
        assert_eq!(trace::read(&lab, &recorded.dir, &["--filter", "$cgroup == 1"]).records.len(), 0);
    }
}

#[test]
fn page_faults_grow_by_the_pages_that_were_touched() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("contexts_faults");
        lab.ring(ring);
        let (_, read) = record(&lab, "perf:page-faults,perf:task-clock", &["faults"]);
        let mut tids: Vec<u64> = read.records.iter().map(|record| record.tid).collect();
        tids.sort_unstable();
        tids.dedup();
        assert_eq!(tids.len(), 2, "{tids:?}");
        for tid in tids {
            let of_it: Vec<&Record> = read.of("ctx:mark").filter(|record| record.tid == tid).collect();
            assert_eq!(of_it.len(), 6);
            for pair in of_it.chunks(2) {
                let grown = |name: &str| pair[1].context(name) - pair[0].context(name);
                // 37 pages, and at most what the code and stack of program and libkymo cost on the way.
                assert!((37..37 + 8).contains(&grown("perf_page_faults")), "{pair:?}");
                assert!(grown("perf_task_clock") > 0, "{pair:?}");
            }
            // A counter is the thread's own, and counts from its first record on.
            assert!(of_it[0].context("perf_page_faults") < 10, "{of_it:?}");
        }
    }
}

/// Functions of a program by their addresses in the file, with the bytes that each has.
fn functions(program: &Path) -> Vec<(u64, u64, String)> {
    let output = Command::new("nm").args(["-S", "--defined-only"]).arg(program).output().expect("nm runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [at, bytes, kind, name] = words[..] else { return None };
            "tT".contains(kind).then_some((hex(at)?, hex(bytes)?, name.to_owned()))
        })
        .collect()
}

/// The functions of a record's call stack, those of the program by name, others as `?`, without kymo's own.
fn stack(record: &Record, functions: &[(u64, u64, String)]) -> Vec<String> {
    let inner = functions.iter().find(|(.., name)| name == "inner").expect("contexts.c has inner").0;
    let base = record.number("address") - inner;
    let addresses = record.contexts["callstack"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap());
    let name = |address: u64| {
        let at = address.wrapping_sub(base);
        let found = functions.iter().find(|(begin, bytes, _)| (begin + 1..=begin + bytes).contains(&at));
        found.map_or_else(|| "?".to_owned(), |(.., name)| name.split('.').next().unwrap_or(name).to_owned())
    };
    addresses.map(name).filter(|name| !name.starts_with("kymo__")).collect()
}

#[test]
fn call_stacks_are_those_of_the_program() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("contexts_stacks");
        lab.ring(ring);
        let (_, read) = record(&lab, "callstack", &["stacks"]);
        let functions = functions(&lab.path("contexts"));
        let stacks = |place: &str| -> Vec<Vec<String>> {
            let of_it = |record: &&Record| record.fields["where"] == place;
            read.of("ctx:place").filter(of_it).map(|record| stack(record, &functions)).collect()
        };
        let begins = |stack: &[String], expect: &[&str]| {
            assert!(stack.iter().map(String::as_str).take(expect.len()).eq(expect.iter().copied()), "{stack:?}");
        };
        let main = stacks("main");
        assert_eq!(main.len(), 2);
        // The second one after the signal stack.
        main.iter().for_each(|stack| begins(stack, &["inner", "middle", "outer", "stacks", "main", "?"]));
        begins(&stacks("thread")[0], &["inner", "middle", "outer", "stack_thread", "?"]);
        // The kernel called the handler: behind it comes where it returns to, which ends or leaves the signal stack.
        begins(&stacks("signal stack")[0], &["inner", "middle", "outer", "on_signal"]);
        let deep = read.of("ctx:place").find(|record| record.fields["where"] == "deep").unwrap();
        assert_eq!(deep.contexts["callstack"].as_array().unwrap().len(), 32, "it is bounded");
        begins(&stacks("deep")[0], &["inner", "deep", "deep", "deep", "deep"]);
        let astray = stacks("astray");
        assert_eq!(astray.len(), 10, "the program lives");
        for stack in astray {
            begins(&stack, &["inner", "astray", "astray"]);
            assert!(stack.len() <= 5, "{stack:?}");
        }
    }
}

#[test]
fn code_without_frame_pointers_and_tables_ends_a_stack_early_and_breaks_nothing() {
    let mut lab = Lab::new("contexts_no_frames");
    lab.env("KYMO_NO_THREAD", "1");
    let build = Build::new(&["contexts.c"]).flag("-fomit-frame-pointer").flag("-O3");
    let program = lab.build(&build, "contexts");
    let recorded = lab.record("trace").args(&["--context", "callstack"]).run(&[program.to_str().unwrap(), "stacks"]);
    let read = recorded.expect(0).lossless().read(&lab);
    assert_eq!(read.of("ctx:place").count(), 15);
    for record in &read.records {
        assert!(!record.contexts["callstack"].as_array().unwrap().is_empty(), "{record:?}");
    }
}

#[test]
fn what_contexts_make_too_long_is_counted() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("contexts_lengths");
        lab.ring(ring);
        // A record of 65,536 bytes is the longest: 41 blobs end at -40 .. 0 bytes of it, without contexts.
        for (contexts, bytes) in
            [("vpid", 0), ("prio", 4), ("prio,cgroup", 12), ("prio,cgroup,perf:cs,perf:faults", 28)]
        {
            let (recorded, read) = record(&lab, contexts, &["lengths"]);
            assert_eq!(recorded.lost_by("size"), bytes, "{contexts}");
            assert_eq!(read.records.len() as u64, 41 - bytes, "{contexts}");
            assert_eq!(read.lost(), bytes, "{contexts}");
        }
    }
}

#[test]
fn several_sessions_each_have_their_own_contexts() {
    let lab = Lab::new("contexts_sessions");
    let program = program(&lab);
    let lists = ["prio", "", "cgroup,callstack", "perf:page-faults"];
    let attached: Vec<_> = (lists.iter().enumerate())
        .map(|(at, list)| {
            let args: &[&str] = if list.is_empty() { &[] } else { &["--context", list] };
            lab.record(&format!("trace_{at}")).args(args).attach()
        })
        .collect();
    lab.run(&program, &["many", "2000"]).expect(0);
    for (one, list) in attached.into_iter().zip(lists) {
        let recorded = one.end(Signal::INT).expect(0).lossless();
        let read = recorded.read(&lab);
        babeltrace::agrees(&lab, &recorded.dir, &read);
        assert_eq!(read.records.len(), 4000, "{list}");
        let names = list.split(',').filter(|name| !name.is_empty()).map(|name| name.replace("perf:", "perf_"));
        let names: BTreeSet<String> = names.map(|name| name.replace('-', "_")).collect();
        for record in &read.records {
            assert!(record.contexts.keys().eq(&names), "{record:?}");
        }
    }
}

#[test]
fn ctf2_snapshots_and_recovery_know_contexts() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("contexts_places");
        lab.ring(ring);
        let program = program(&lab);
        let program = program.to_str().unwrap();
        let ctf2 = lab.record("ctf2").args(&["--context", ALL, "--ctf2"]).run(&[program, "many", "100"]).expect(0);
        let read = ctf2.read(&lab);
        assert_eq!(read.records.len(), 200);
        assert!(read.records.iter().all(|record| record.contexts.len() == 5), "{:?}", read.records[0]);

        // A flight recorder whose rings were lapped, with a trigger that asks for a context and one for a field behind
        // contexts.
        let args =
            ["--context", ALL, "--flight", "--ring-size", "64K", "--trigger-pause", "1us", "--trigger-limit", "3"];
        let prio = own_prio();
        let condition = format!("ctx:mark: n == 19990 && $prio == {prio} && len($callstack) >= 1");
        let triggers = ["--trigger", &condition, "--after", "1ms"];
        let flight = lab.record("flight").args(&args).args(&triggers).run(&[program, "many", "20000"]).expect(0);
        let snapshots = flight.summary["flight"]["snapshots"].as_array().unwrap();
        assert_eq!(snapshots.iter().filter(|one| one["trigger"].is_object()).count(), 1, "one by the trigger");
        for snapshot in ["snapshot-0001", "snapshot-0002"] {
            let dir = flight.dir.join(snapshot);
            let read = trace::read(&lab, &dir, &[]).whole();
            babeltrace::agrees(&lab, &dir, &read);
            assert!(read.records.len() > 50 && read.records.len() < 40_000, "{}", read.records.len());
            assert!(
                read.records.iter().all(|record| record.contexts.len() == 5 && record.context("prio") == own_prio())
            );
        }

        let rings = lab.path("rings");
        let args =
            ["--context", ALL, "--ring-dir", rings.to_str().unwrap(), "--ring-size", "4M", "--poll-us", "1000000"];
        let mut recording = lab.record("recovered").args(&args).attach();
        lab.run(program, &["many", "500"]).expect(0);
        recording.proc().signal(Signal::KILL);
        recording.wait();
        let dir = lab.path("recovered");
        lab.kymo(&["recover", rings.to_str().unwrap(), dir.to_str().unwrap()]).expect(0);
        let read = trace::read(&lab, &dir, &[]).whole();
        babeltrace::agrees(&lab, &dir, &read);
        assert_eq!(read.records.len(), 1000);
        assert!(read.records.iter().all(|record| record.contexts.len() == 5));
    }
}

#[test]
fn mistakes_are_refused_with_the_next_step() {
    let lab = Lab::new("contexts_mistakes");
    let program = program(&lab);
    let program = program.to_str().unwrap();
    let check = |args: &[&str], parts: &[&str]| {
        let recorded = lab.record("trace").args(args).run(&[program, "many", "3"]).expect(2);
        for part in parts {
            assert!(recorded.outcome.stderr.contains(part), "{args:?}: {}", recorded.outcome.stderr);
        }
        assert!(!recorded.dir.exists(), "{args:?}: something is left");
    };
    check(&["--context", "prioo"], &["did you mean prio"]);
    check(&["--context", "perf:page-fault"], &["page-faults"]);
    check(&["--context", "prio", "--filter", "$prio < 0"], &["fields only", "kymo read --filter"]);
    check(&["--context", "callstack", "--filter", "ctx:mark: len($callstack) > 3"], &["fields only"]);
    let recorded = lab.record("plain").run(&[program, "many", "3"]).expect(0);
    let absent = lab.kymo(&["read", "--filter", "$perf_cs > 3", recorded.dir.to_str().unwrap()]).expect(2);
    assert!(absent.stderr.contains("kymo record --context perf:cs"), "{}", absent.stderr);
}

#[test]
fn a_session_with_contexts_is_saved_and_loaded() {
    let lab = Lab::new("contexts_session");
    let program = program(&lab);
    let dir = lab.path("first");
    let args = ["session", "start", "ctx", "--context", "prio,perf:cs", "--context", "cgroup", "-q", "-o"];
    lab.kymo(&[&args[..], &[dir.to_str().unwrap()]].concat()).expect(0);
    let file = lab.path("ctx.toml");
    lab.kymo(&["session", "save", "ctx", file.to_str().unwrap()]).expect(0);
    lab.kymo(&["session", "stop", "ctx"]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("context = [\"prio,perf:cs\", \"cgroup\"]"), "{text}");
    let again = lab.path("again");
    let load = ["session", "start", "--load", file.to_str().unwrap(), "-q", "-o", again.to_str().unwrap()];
    lab.kymo(&load).expect(0);
    lab.run(&program, &["many", "10"]).expect(0);
    lab.kymo(&["session", "stop", "ctx"]).expect(0);
    let read = trace::read(&lab, &again, &[]).whole();
    assert_eq!(read.records.len(), 20);
    assert!(read.records.iter().all(|record| record.contexts.len() == 3), "{:?}", read.records[0]);
}
