// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks at single programs: what is told when they begin, later, and at their end.

use crate::support;

use std::process::{Command, Stdio};

use kymo_state::{Maps, Phase, Program, Root};
use support::{Tree, look};

const STAT: &[u8] =
    b"8 (x) S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 2 0 15 4096 1 9 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0\n";
const FIRST: &str = "2000-3000 r-xp 00001000 fe:01 55    /bin/a\n2000-3000 r--p 00001000 fe:01 55    /bin/a\n";
const PROGRAM: Program = Program { pid: 8, vpid: 8, parent: 7 };

fn tree() -> (Tree, Maps) {
    let tree = Tree::new(&[("proc/8/stat", STAT), ("proc/8/maps", FIRST.as_bytes())]);
    let maps = Maps::new(Root { proc: tree.path().join("proc"), sys: tree.path().join("sys") });
    (tree, maps)
}

#[test]
fn each_map_is_told_once_and_when_the_look_before_was() {
    let (tree, mut maps) = tree();
    let begin = look(&mut maps, &PROGRAM, Phase::Begin);
    assert_eq!(
        begin,
        [
            "kymo_statedump_program 8: pid=8 ppid=7 phase=begin since_ns=0",
            "lttng_statedump_vm_map 8: pid=8 start=0x2000 end=0x3000 flags=0x5 inode=55 pgoff=4096 path=\"/bin/a\" build_id=",
        ]
    );
    let again = Phase::Look { since_ns: 50 };
    assert!(look(&mut maps, &PROGRAM, again).is_empty(), "nothing is new");
    let more = format!("{FIRST}5000-6000 r-xp 00000000 fe:01 66    /lib/b\n");
    tree.write("proc/8/maps", more.as_bytes());
    let second = look(&mut maps, &PROGRAM, again);
    assert_eq!(second[0], "kymo_statedump_program 8: pid=8 ppid=0 phase=look since_ns=50");
    assert!(second.len() == 2 && second[1].contains("/lib/b"), "{second:?}");
    // Another program in the same process: all is told again.
    assert_eq!(look(&mut maps, &PROGRAM, Phase::Begin).len(), 3);
    let end = look(&mut maps, &PROGRAM, Phase::End);
    assert_eq!(end, ["kymo_statedump_program 8: pid=8 ppid=7 phase=end since_ns=0"]);
}

#[test]
fn a_program_in_a_container_is_told_by_both_numbers() {
    let (_tree, mut maps) = tree();
    let rows = look(&mut maps, &Program { vpid: 1, ..PROGRAM }, Phase::Begin);
    let of = |number: &str| rows.iter().filter(|row| row.contains(&format!(" pid={number} "))).count();
    assert_eq!((rows.len(), of("8"), of("1")), (4, 2, 2), "{rows:?}");
}

#[test]
fn parents_and_ends() {
    let (tree, maps) = tree();
    assert_eq!((maps.parent_of(8), maps.parent_of(9)), (7, 0));
    assert_eq!((maps.is_over(8), maps.is_over(9)), (false, true));
    let text = std::str::from_utf8(STAT).expect("text").replace(") S ", ") Z ");
    tree.write("proc/8/stat", text.as_bytes());
    assert!(maps.is_over(8));
    // The first thread has ended, others have not.
    tree.write("proc/8/task/8/stat", b"");
    tree.write("proc/8/task/9/stat", b"");
    assert!(!maps.is_over(8));
}

#[test]
fn processes_of_this_machine() {
    let maps = Maps::new(Root::default());
    let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep");
    assert_eq!(maps.parent_of(child.id()), std::process::id());
    assert!(!maps.is_over(child.id()) && !maps.is_over(std::process::id()));
    child.kill().expect("is ours");
    // Dead before it is waited for, soon.
    while !maps.is_over(child.id()) {
        std::thread::yield_now();
    }
    child.wait().expect("is ours");
    assert!(maps.is_over(child.id()));
}
