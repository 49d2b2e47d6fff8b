// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perfetto's protobuf, decoded by the tests' own reader: the numbers of messages and fields are those of Perfetto's
//! public `.proto` files (protos/perfetto/trace).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use kymo_testing::protobuf::{Fields, Wire};
use kymo_tests::Lab;

use super::{Names, Nesting, export, of_lttng, recorded};

const SCHED_SWITCH: u32 = 4;
const TASK_NEWTASK: u32 = 235;
const TASK_RENAME: u32 = 236;
const PROCESS_EXEC: u32 = 237;
const PROCESS_EXIT: u32 = 238;
const PROCESS_FORK: u32 = 239;
const GENERIC: u32 = 327;
const SYS_ENTER: u32 = 329;
const SYS_EXIT: u32 = 330;

/// Messages that must have these fields: which are texts, which are integers.
const SHAPES: &[(u32, &[u32], &[u32])] = &[
    (SCHED_SWITCH, &[1, 5], &[2, 3, 4, 6, 7]),
    (17, &[1], &[2, 3, 5]),
    (20, &[1], &[2, 3, 5]),
    (114, &[1], &[2, 3, 5]),
    (24, &[], &[1]),
    (25, &[], &[1]),
    (26, &[], &[1]),
    (36, &[2], &[1]),
    (37, &[], &[1, 2]),
    (TASK_NEWTASK, &[2], &[1, 3]),
    (TASK_RENAME, &[3], &[1]),
    (PROCESS_EXEC, &[1], &[2]),
    (PROCESS_EXIT, &[1], &[2, 4]),
    (PROCESS_FORK, &[1, 3], &[2, 4]),
    (240, &[1], &[2]),
    (SYS_ENTER, &[], &[1]),
    (SYS_EXIT, &[], &[1, 2]),
];

/// What a file holds.
#[derive(Default)]
pub struct Checked<'a> {
    /// By field of FtraceEvent.
    pub ftrace: BTreeMap<u32, Vec<Fields<'a>>>,
    /// Names of events that are generic.
    pub generic: BTreeMap<&'a str, usize>,
    /// Of trees and of tracks, by process and thread.
    pub names: Names,
    pub processes: HashSet<i64>,
    pub machine: Option<&'a str>,
    tracks: HashMap<i64, (i64, i64)>,
    track_events: Vec<(i64, Fields<'a>)>,
    /// In trees and descriptors alike.
    last_names: HashMap<(i64, i64), String>,
}

impl<'a> Checked<'a> {
    pub fn count(&self, number: u32) -> usize {
        self.ftrace.get(&number).map_or(0, Vec::len)
    }

    fn packet(&mut self, packet: &Fields<'a>) {
        for bundle in packet.messages(1) {
            assert!(bundle.int(1).is_some(), "a bundle is of a CPU");
            bundle.messages(2).for_each(|event| self.event(&event));
        }
        for tree in packet.messages(2) {
            self.processes.extend(tree.messages(1).filter_map(|process| process.int(1)));
            for thread in tree.messages(2) {
                let (tid, pid) = (thread.int(1).expect("a tid"), thread.int(3).expect("its process"));
                self.named((pid, tid), thread.text(2));
            }
        }
        for descriptor in packet.messages(60) {
            let uuid = descriptor.int(1).expect("a track's number");
            if let Some(thread) = descriptor.message(4) {
                let place = (thread.int(1).expect("a process"), thread.int(2).expect("a thread"));
                assert_eq!(*self.tracks.entry(uuid).or_insert(place), place, "a track is of one thread");
                self.named(place, thread.text(5));
            } else if descriptor.message(3).is_none() {
                self.tracks.insert(uuid, (0, 0));
            } else {
                self.processes.extend(descriptor.message(3).and_then(|process| process.int(1)));
            }
        }
        for event in packet.messages(11) {
            self.track_events.push((packet.int(8).expect("a time"), event));
        }
        for system in packet.messages(45) {
            self.machine = system.message(1).and_then(|utsname| utsname.text(4)).or(self.machine);
        }
    }

    /// The same name twice is no other name.
    fn named(&mut self, thread: (i64, i64), name: Option<&str>) {
        let Some(name) = name else { return };
        if self.last_names.insert(thread, name.to_owned()).as_deref() != Some(name) {
            self.names.named(thread, name);
        }
    }

    fn event(&mut self, event: &Fields<'a>) {
        assert!(event.int(1).is_some() && event.int(2).is_some(), "time and thread: {event:?}");
        let own: Vec<u32> = event.0.iter().map(|(number, _)| *number).filter(|number| *number > 2).collect();
        let [number] = own[..] else { panic!("one message in each event: {event:?}") };
        let body = event.message(number).expect("a message");
        if let Some((_, texts, integers)) = SHAPES.iter().find(|(known, _, _)| *known == number) {
            texts.iter().for_each(|text| assert!(body.text(*text).is_some(), "{number}: {text} of {body:?}"));
            integers.iter().for_each(|int| assert!(body.int(*int).is_some(), "{number}: {int} of {body:?}"));
        }
        if number == GENERIC {
            *self.generic.entry(body.text(1).expect("its name")).or_default() += 1;
        }
        self.ftrace.entry(number).or_default().push(body);
    }

    /// Slices are nested, and end; each event is on a track that is described. The number of slices.
    #[track_caller]
    fn nested(&mut self) -> usize {
        self.track_events.sort_by_key(|(ns, _)| *ns);
        let mut nesting = Nesting::default();
        for (_, event) in &self.track_events {
            let uuid = event.int(11).expect("a track");
            assert!(self.tracks.contains_key(&uuid), "track {uuid} is described");
            let (kind, name) = (event.int(9).expect("a kind"), event.text(23).expect("a name"));
            match kind {
                1 => nesting.begin((0, uuid), name),
                2 => nesting.end((0, uuid), name),
                kind => assert_eq!(kind, 3, "an instant"),
            }
        }
        nesting.finish()
    }
}

/// Fails unless a file keeps to the rules.
#[track_caller]
pub fn check(bytes: &[u8]) -> (Checked<'_>, usize) {
    let mut checked = Checked::default();
    for (number, packet) in Fields::of(bytes).0 {
        let (1, Wire::Bytes(packet)) = (number, packet) else { panic!("a trace is packets") };
        checked.packet(&Fields::of(packet));
    }
    let slices = checked.nested();
    (checked, slices)
}

#[track_caller]
fn exported(lab: &Lab, trace: &Path) -> (Vec<u8>, String) {
    let file = lab.path("t.pftrace");
    let told = export(lab, trace, "perfetto", &file).stderr;
    (std::fs::read(file).unwrap(), told)
}

#[test]
fn kernel_events_are_ftraces_own_messages() {
    let lab = Lab::new("viewers_perfetto");
    let Some((trace, read)) = recorded(&lab) else { return };
    let (bytes, told) = exported(&lab, &trace);
    let (checked, slices) = check(&bytes);
    assert!(slices >= 43, "{slices} slices of the program");
    let records = |start: &str| read.records.iter().filter(|record| record.event.starts_with(start)).count();
    // Not one of the events that Perfetto understands is generic.
    for (number, event) in [
        (SCHED_SWITCH, "sched_switch"),
        (TASK_NEWTASK, "task_newtask"),
        (TASK_RENAME, "task_rename"),
        (PROCESS_EXEC, "sched_process_exec"),
        (PROCESS_EXIT, "sched_process_exit"),
        (PROCESS_FORK, "sched_process_fork"),
        (SYS_ENTER, "syscall_entry_"),
        (SYS_EXIT, "syscall_exit_"),
    ] {
        assert_eq!((checked.count(number), checked.count(number) > 0), (records(event), true), "{event}: {told}");
    }
    assert!(checked.generic.keys().all(|name| !name.contains("syscall_")), "{:?}", checked.generic);
    // Calls have their machine's numbers, and its name stands for them.
    let machine = checked.machine.expect("the machine");
    let nanosleep = match machine {
        "x86_64" => 230,
        "aarch64" => 115,
        other => panic!("{other}"),
    };
    let sleeps = checked.ftrace[&SYS_ENTER].iter().filter(|call| call.int(1) == Some(nanosleep)).count();
    assert_eq!(sleeps, records("syscall_entry_clock_nanosleep"));
    // Values are the kernel's: its priorities, its thread ids.
    for switch in &checked.ftrace[&SCHED_SWITCH] {
        let priorities = [switch.int(3), switch.int(7)];
        assert!(priorities.iter().all(|prio| prio.is_some_and(|prio| (0..=139).contains(&prio))), "{switch:?}");
    }
    let renames: Vec<_> = checked.ftrace[&TASK_RENAME].iter().filter_map(|rename| rename.text(3)).collect();
    assert!(["painter", "drawer", "leafling"].iter().all(|name| renames.contains(name)), "{renames:?}");
    // Without --state: processes are there, and threads have their own names.
    let mark = |name: &str| read.of("viewers:mark").find(|mark| mark.fields["name"] == name).expect("a mark");
    let (main, painter) = (mark("main"), mark("painter"));
    assert!(checked.processes.contains(&(main.pid as i64)), "{:?}", checked.processes);
    let names = &checked.names.0;
    let of = |record: &kymo_tests::Record| names[&(record.pid as i64, record.tid as i64)].clone();
    let last = |record| of(record).last().cloned().unwrap_or_default();
    assert_eq!((last(main).as_str(), last(painter).as_str()), ("viewers", "drawer"), "{names:?}");
}

#[test]
fn traces_of_lttng_are_told_without_what_they_never_had() {
    let lab = Lab::new("viewers_perfetto_lttng");
    let (bytes, told) = exported(&lab, &of_lttng());
    let (checked, _) = check(&bytes);
    assert_eq!((checked.count(SCHED_SWITCH), checked.count(20)), (375, 192), "{told}");
    assert!(!told.contains("irq_flags") && !told.contains("preempt_count"), "{told}");
    assert!(checked.count(SYS_ENTER) > 0 || checked.generic.keys().all(|name| !name.contains("syscall_")), "{told}");
}
