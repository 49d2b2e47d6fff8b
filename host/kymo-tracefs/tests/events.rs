// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events on a real tracefs: listed, filtered, enabled, limited to processes, counted.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use kymo_tracefs::{Chosen, Error, EventName, Instance, Settings, Tracefs, Wanted};
use support::{drain, knob, settings, trace, tracefs};

fn choose(tracefs: &Tracefs, args: &[&str]) -> Vec<Chosen> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Wanted::parse(&args).unwrap().choose(&tracefs.events().unwrap()).unwrap()
}

/// Something that wakes, switches, and makes system calls.
fn work() {
    assert!(Command::new("true").status().unwrap().success());
}

fn total(instance: &Instance, of: fn(kymo_tracefs::Stats) -> u64) -> u64 {
    instance.cpus().iter().map(|&cpu| of(instance.reader(cpu).unwrap().stats().unwrap())).sum()
}

#[test]
fn events_have_names_and_formats() {
    let Some(tracefs) = tracefs() else { return };
    let events = tracefs.events().unwrap();
    let switch = EventName::new("sched", "sched_switch");
    assert!(events.contains(&switch) && events.is_sorted());
    assert!(tracefs.format(&switch).unwrap().contains("prev_pid"));
    let error = tracefs.format(&EventName::new("sched", "sched_nothing")).unwrap_err();
    assert!(matches!(error, Error::Feature { .. }), "{error}");
}

#[test]
fn pages_come_out_and_the_counts_agree() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&Settings { ring_bytes_per_cpu: 1 << 20, ..settings() }).unwrap();
    instance.enable(&choose(&tracefs, &["sched"])).unwrap();
    instance.start().unwrap();
    (0..20).for_each(|_| work());
    instance.stop().unwrap();
    instance.disable().unwrap();
    let entries = total(&instance, |stats| stats.entries);
    assert!(entries > 20, "{entries}");
    for cpu in instance.cpus() {
        let mut reader = instance.reader(cpu).unwrap();
        let before = reader.stats().unwrap();
        let (pages, bytes) = drain(&mut reader, instance.page_bytes());
        let after = reader.stats().unwrap();
        assert_eq!((after.entries, after.read), (0, before.entries), "CPU {cpu}");
        assert_eq!(bytes.len(), pages * instance.page_bytes());
    }
    instance.remove().unwrap();
}

#[test]
fn a_full_ring_overwrites_or_drops() {
    let Some(tracefs) = tracefs() else { return };
    for overwrite in [true, false] {
        let small = Settings { overwrite, ring_bytes_per_cpu: 8 * 1024, cpus: Some(vec![0]), ..settings() };
        let instance = tracefs.create(&small).unwrap();
        instance.start().unwrap();
        let mut marker = std::fs::OpenOptions::new().write(true).open(instance.marker()).unwrap();
        let mask = rustix::thread::sched_getaffinity(None).unwrap();
        let mut first = rustix::thread::CpuSet::new();
        first.set(0);
        rustix::thread::sched_setaffinity(None, &first).unwrap();
        for _ in 0..1000 {
            // A mark that finds no room is dropped, with EBADF.
            let _ = marker.write_all(b"a mark that takes some room in the ring of a CPU");
        }
        rustix::thread::sched_setaffinity(None, &mask).unwrap();
        drop(marker);
        let stats = instance.reader(0).unwrap().stats().unwrap();
        let (lost, other) = if overwrite { (stats.overrun, stats.dropped) } else { (stats.dropped, stats.overrun) };
        assert!(lost > 500 && other == 0, "{stats:?}");
        assert_eq!(stats.entries + lost, 1000, "{stats:?}");
        instance.remove().unwrap();
    }
}

#[test]
fn filters_are_the_kernels() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    instance.enable(&choose(&tracefs, &["sched_switch[prev_prio < 50]", "sched_waking"])).unwrap();
    assert_eq!(knob(&instance, "events/sched/sched_switch/filter"), "prev_prio < 50");
    assert_eq!(knob(&instance, "events/sched/sched_waking/enable"), "1");
    instance.disable().unwrap();
    assert_eq!(knob(&instance, "events/sched/sched_waking/enable"), "0");
    // Without a filter it records all again.
    instance.enable(&choose(&tracefs, &["sched_switch"])).unwrap();
    assert_eq!(knob(&instance, "events/sched/sched_switch/filter"), "none");
    instance.remove().unwrap();
}

#[test]
fn a_refused_filter_has_the_kernels_words_and_enables_nothing() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let check = |filter: &str, words: &str| {
        let chosen = choose(&tracefs, &["sched_waking[prio == 1]", &format!("sched_wakeup[{filter}]")]);
        match instance.enable(&chosen) {
            Err(Error::Filter { event, filter: told, words: said }) => {
                assert_eq!((event.name.as_str(), told.as_str()), ("sched_wakeup", filter));
                assert!(said.contains(words) && said.contains('^'), "{filter}: {said}");
            }
            other => panic!("{filter}: {other:?}"),
        }
        for event in ["sched_waking", "sched_wakeup"] {
            assert_eq!(knob(&instance, &format!("events/sched/{event}/enable")), "0");
            assert_eq!(knob(&instance, &format!("events/sched/{event}/filter")), "none");
        }
    };
    check("no_such_field == 1", "Field not found");
    check("prio ==", "");
    check("no_such_field == 1", "Field not found");
    instance.remove().unwrap();
}

#[test]
fn an_event_that_is_not_there_is_named() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let mut chosen = choose(&tracefs, &["sched_switch"]);
    chosen.push(Chosen::whole(EventName::new("sched", "sched_nothing")));
    let error = instance.enable(&chosen).unwrap_err().to_string();
    assert!(error.contains("sched_nothing"), "{error}");
    assert_eq!(knob(&instance, "events/enable"), "0");
    instance.remove().unwrap();
}

#[test]
fn one_process_and_its_children_only() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&Settings { ring_bytes_per_cpu: 1 << 20, ..settings() }).unwrap();
    instance.enable(&choose(&tracefs, &["raw_syscalls:sys_enter"])).unwrap();
    // The shell waits for its input, is listed meanwhile, then forks.
    let script = "read go; /bin/true; /bin/echo $$ >/dev/null; exit 0";
    let mut shell = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    instance.only(&[shell.id()]).unwrap();
    assert_eq!(knob(&instance, "set_event_pid"), shell.id().to_string());
    instance.start().unwrap();
    work();
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    shell.wait().unwrap();
    instance.stop().unwrap();
    let pids = pids_of(&trace(&instance));
    assert!(pids.contains(&shell.id()), "{pids:?}");
    assert!(pids.len() >= 2, "its children: {pids:?}");
    assert!(!pids.contains(&std::process::id()), "{pids:?}");
    instance.remove().unwrap();
}

#[test]
fn a_child_lists_itself_before_exec() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&Settings { ring_bytes_per_cpu: 1 << 20, ..settings() }).unwrap();
    instance.enable(&choose(&tracefs, &["raw_syscalls:sys_enter"])).unwrap();
    let pid_file = instance.pid_file().unwrap();
    instance.start().unwrap();
    work();
    // Stopped, as reading makes system calls too.
    instance.stop().unwrap();
    assert_eq!(trace(&instance), "", "nobody is listed yet");
    instance.start().unwrap();
    // A shell stands for the process between fork and exec: it writes its own id and becomes the program.
    let status = Command::new("sh").args(["-c", "echo $$ >&0; exec /bin/true"]).stdin(pid_file).status().unwrap();
    assert!(status.success());
    instance.stop().unwrap();
    let pids = pids_of(&trace(&instance));
    assert_eq!(pids.len(), 1, "{pids:?}");
    instance.only(&[]).unwrap();
    assert_eq!(knob(&instance, "set_event_pid"), "");
    instance.remove().unwrap();
}

#[test]
fn process_ids_that_cannot_be_are_refused() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let error = instance.only(&[u32::MAX]).unwrap_err();
    assert!(matches!(error, Error::Pid { pid: u32::MAX, .. }), "{error}");
    instance.remove().unwrap();
}

#[test]
fn masked_cpus_record_nothing() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&Settings { cpus: Some(vec![0]), ..settings() }).unwrap();
    instance.enable(&choose(&tracefs, &["sched", "raw_syscalls", "timer", "irq_vectors"])).unwrap();
    instance.start().unwrap();
    (0..20).for_each(|_| work());
    instance.stop().unwrap();
    let text = trace(&instance);
    assert!(text.contains("[000]") && !text.contains("[001]"), "{text}");
    instance.remove().unwrap();
}

/// Process ids in the kernel's text: `  sh-1234  [000] ...`.
fn pids_of(text: &str) -> std::collections::BTreeSet<u32> {
    text.lines().filter_map(|line| line.split('[').next()?.trim_end().rsplit('-').next()?.parse().ok()).collect()
}
