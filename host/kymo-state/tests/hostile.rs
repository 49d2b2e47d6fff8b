// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes in any file: the dump ends, and every record of it decodes by its class. Programs choose their names, the
//! names of their files and what is mapped; kernels to come choose the rest.

use crate::support;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use support::machine::{FILES, machine};
use support::{of, rows, thread};

/// Bytes that mean something in one of the texts.
const TELLING: &[&[u8]] = &[
    b"(",
    b")",
    b"\n",
    b"\n\n",
    b" ",
    b"\t",
    b":",
    b"::",
    b"-",
    b",",
    b"\0",
    b"\xff",
    b"0",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"99999999",
    b"0-4294967295",
    b"\\012",
    b"[",
    b"]",
    b"CPU",
    b"fffffffff",
];

#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Insert(Index, &'static [u8]),
    Remove(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Change::Set(at, value)),
        (any::<Index>(), select(TELLING)).prop_map(|(at, text)| Change::Insert(at, text)),
        (any::<Index>(), any::<Index>()).prop_map(|(at, count)| Change::Remove(at, count)),
    ]
}

fn apply(text: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Set(at, value) if !text.is_empty() => {
            let at = at.index(text.len());
            text[at] = *value;
        }
        Change::Set(..) => {}
        Change::Insert(at, new) => {
            let at = at.index(text.len() + 1);
            text.splice(at..at, new.iter().copied());
        }
        Change::Remove(at, count) => {
            let at = at.index(text.len() + 1);
            let end = at + count.index(text.len() - at + 1);
            text.drain(at..end);
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(Index, Vec<Change>)>> {
    prop::collection::vec((any::<Index>(), prop::collection::vec(change(), 1..4)), 1..6)
}

#[test]
fn any_bytes() {
    let tree = machine();
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&changes(), |changes| {
        let mut changed = Vec::new();
        for (file, changes) in changes {
            let (path, whole) = FILES[file.index(FILES.len())];
            let mut content = whole.to_vec();
            changes.iter().for_each(|change| apply(&mut content, change));
            tree.write(path, &content);
            changed.push((path, whole));
        }
        let (rows, report) = rows(&tree.options());
        changed.iter().for_each(|(path, whole)| tree.write(path, whole));
        prop_assert_eq!(of(&rows, "kymo_statedump_kernel").len(), 1);
        let states = of(&rows, "lttng_statedump_process_state");
        let threads = states.iter().filter(|row| row.tid != 0).count();
        prop_assert_eq!(threads as u64, report.threads);
        prop_assert_eq!(of(&rows, "lttng_statedump_vm_map").len() as u64, report.maps);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_name_does_not_pass_for_other_fields() {
    let tree = machine();
    let stat = FILES[0].1.strip_prefix(b"1 (a) b (c)").expect("is the first program");
    tree.write("proc/1/task/1/stat", &[b"1 (x) Z 77 \n8)", stat].concat());
    tree.write(
        "proc/1/task/1/status",
        b"Name:\tx\\nNSpid:\\t5\nNStgid:\t1\nNSpid:\t1\t72\nCpus_allowed_list:\t0\nNSpid:\t6\n",
    );
    let (rows, _) = rows(&tree.options());
    let row = thread(&rows, 1).expect("is dumped");
    assert_eq!((row.text("name"), row.int("status"), row.int("ppid"), row.int("vtid")), ("x) Z 77 \n8", 5, 0, 72));
}

#[test]
fn files_that_are_something_else() {
    let tree = machine();
    std::fs::remove_file(tree.path().join("proc/1/task/9/stat")).expect("was there");
    let fifo = tree.path().join("proc/1/task/9/stat");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    std::fs::remove_file(tree.path().join("proc/1/maps")).expect("was there");
    std::fs::create_dir(tree.path().join("proc/1/maps")).expect("a folder");
    let (rows, report) = rows(&tree.options());
    assert!(thread(&rows, 9).is_none() && thread(&rows, 1).is_some());
    let failed = |caveat: &String| caveat.contains("the first /proc/1/maps");
    assert!(report.caveats.iter().any(failed), "{:?}", report.caveats);
}

#[test]
fn paths_that_are_not_utf8() {
    let tree = machine();
    tree.write("proc/1/maps", b"2000-3000 r-xp 0 00:00 0    /a\\012b\xff (deleted)\n");
    let (rows, _) = rows(&tree.options());
    let map = of(&rows, "lttng_statedump_vm_map")[0];
    assert_eq!(map.get("path"), &support::Value::Text("/a\nb\u{fffd} (deleted)".to_owned()));
}
