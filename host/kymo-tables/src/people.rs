// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables `threads` and `processes`: who wrote records, and who else is known.

use std::collections::{BTreeMap, HashMap};

use kymo_ctf::read::{Item, Range, Reader, Record};
use kymo_export::export::ThreadNames;
use kymo_feed::clamp;
use kymo_query::Learn;
use kymo_query::learn::is_state;

use crate::emit::{Emit, Ended};
use crate::known::{Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const THREADS: Known = Known {
    name: "threads",
    about: "Threads: those that wrote records or ran while the kernel did, and those that the kernel's records or a state \
            dump tell of",
    columns: columns! {
        "tid" Id "Number of the thread, 0 for the idle ones";
        "pid" Id "Its process";
        "name" Words "Its name, the newest that the trace tells";
        "process" Words "Name of its process";
        "time" Time "Its first record";
        "end_time" Time "Its last record";
        "records" Count "Its records, without those of a state dump";
        "host" Words "Machine that the trace is of";
    },
};

pub(crate) const PROCESSES: Known = Known {
    name: "processes",
    about: "Processes of the threads of the table threads",
    columns: columns! {
        "pid" Id "Number of the process";
        "name" Words "Its name";
        "threads" Count "Its threads that are known";
        "time" Time "First record of one of its threads";
        "end_time" Time "Last record of one of its threads";
        "records" Count "Records of its threads, without those of a state dump";
        "host" Words "Machine that the trace is of";
    },
};

/// Items between two questions whether somebody wants more.
const ASK_EVERY: u32 = 4096;

/// One thread.
#[derive(Clone, Debug, Default)]
struct Person {
    tid: u32,
    pid: Option<u32>,
    name: String,
    process: String,
    first: Option<i64>,
    last: Option<i64>,
    records: u64,
}

/// All threads, in the order in which they were met.
#[derive(Default)]
struct People {
    list: Vec<Person>,
    /// The newest thread with a number.
    by_tid: HashMap<u32, usize>,
    /// The newest one of a process.
    by_id: HashMap<(u32, u32), usize>,
    /// The last thread that was asked for: mostly it is the next one too.
    last: usize,
}

impl People {
    /// The thread with this number and process: in each process that has one of this number it is another thread.
    fn at(&mut self, tid: u32, pid: Option<u32>) -> &mut Person {
        let is_same = |person: &Person| person.tid == tid && (pid.is_none() || person.pid == pid);
        if !self.list.get(self.last).is_some_and(is_same) {
            let of_process = pid.and_then(|pid| self.by_id.get(&(tid, pid)).copied());
            let newest = self.by_tid.get(&tid).copied();
            let fits = |at: &usize| pid.is_none() || self.list[*at].pid.is_none();
            self.last = of_process.or_else(|| newest.filter(fits)).unwrap_or_else(|| {
                self.list.push(Person { tid, ..Person::default() });
                self.list.len() - 1
            });
            self.by_tid.insert(tid, self.last);
        }
        let person = &mut self.list[self.last];
        if let (None, Some(pid)) = (person.pid, pid) {
            person.pid = Some(pid);
            self.by_id.insert((tid, pid), self.last);
        }
        person
    }

    fn record(&mut self, record: &Record<'_>, names: Option<&(String, String)>) {
        let Some(tid) = record.vtid else { return };
        let is_kernel = record.packet_context.get("vpid").is_none();
        let own = ThreadNames::of(record, is_kernel);
        let (thread, process) = names.map_or((own.thread, own.process), |(thread, process)| (thread, process));
        let at = clamp(record.ns);
        let person = self.at(tid, record.vpid);
        person.first = Some(person.first.map_or(at, |first| first.min(at)));
        person.last = Some(person.last.map_or(at, |last| last.max(at)));
        person.records += 1;
        set(&mut person.name, thread);
        set(&mut person.process, process);
    }
}

/// Takes a name, where there is one.
fn set(name: &mut String, new: &str) {
    if !new.is_empty() && name != new {
        name.clear();
        name.push_str(new);
    }
}

/// Goes through all records of a group.
fn people(group: &Group, emit: &Emit) -> Result<Vec<Person>, Ended> {
    let mut learn = Learn::new(&group.traces);
    let mut people = People::default();
    let Some(mut reader) = Reader::between(&group.traces, Range::default(), &[]) else { return Ok(Vec::new()) };
    let mut passed = 0u32;
    while let Some(item) = reader.next() {
        passed = passed.wrapping_add(1);
        if passed % ASK_EVERY == 0 {
            emit.check()?;
        }
        match item {
            Item::Record(mut record) => {
                let names = learn.as_mut().and_then(|learn| learn.named_record(&mut record));
                if !is_state(&record.event.name) {
                    people.record(&record, names.as_ref());
                }
            }
            Item::Loss(loss) => learn.iter_mut().for_each(|learn| learn.loss(&loss)),
        }
    }
    for (tid, who) in learn.iter().flat_map(|learn| learn.all()) {
        let person = people.at(tid, who.pid);
        set(&mut person.name, who.name);
    }
    let first: HashMap<u32, String> =
        people.list.iter().filter(|of| of.pid == Some(of.tid)).map(|of| (of.tid, of.name.clone())).collect();
    for person in people.list.iter_mut().filter(|person| person.process.is_empty()) {
        let name = person.pid.and_then(|pid| first.get(&pid));
        name.into_iter().for_each(|name| person.process.push_str(name));
    }
    people.list.sort_by_key(|person| (person.tid, person.pid));
    Ok(people.list)
}

/// Sends the threads of a group.
pub(crate) fn threads(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    for person in people(group, emit)? {
        if !scan.wants_tid(Some(person.tid.into())) || !scan.wants_time(person.first) || !scan.wants_end(person.last) {
            continue;
        }
        rows.push(&[
            person.tid.into(),
            person.pid.into(),
            person.name.as_str().into(),
            person.process.as_str().into(),
            person.first.into(),
            person.last.into(),
            person.records.into(),
            group.host.as_str().into(),
        ]);
        if rows.is_full() {
            rows.send(emit)?;
        }
    }
    rows.send(emit)
}

/// Sends the processes of a group.
pub(crate) fn processes(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let mut all: BTreeMap<u32, (Person, u64)> = BTreeMap::new();
    for person in people(group, emit)? {
        let Some(pid) = person.pid else { continue };
        let (process, threads) = all.entry(pid).or_default();
        set(&mut process.name, &person.process);
        process.first = [process.first, person.first].into_iter().flatten().min();
        process.last = process.last.max(person.last);
        process.records += person.records;
        *threads += 1;
    }
    for (pid, (process, threads)) in all {
        if !scan.wants_time(process.first) || !scan.wants_end(process.last) {
            continue;
        }
        rows.push(&[
            pid.into(),
            process.name.as_str().into(),
            threads.into(),
            process.first.into(),
            process.last.into(),
            process.records.into(),
            group.host.as_str().into(),
        ]);
        if rows.is_full() {
            rows.send(emit)?;
        }
    }
    rows.send(emit)
}
