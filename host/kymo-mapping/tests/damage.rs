// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are cut short while they are mapped.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use kymo_mapping::Mapping;

const PAGE: usize = 4096;

fn file(pages: usize) -> File {
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, &vec![7; pages * PAGE]).unwrap();
    file
}

fn byte(mapping: &Mapping, at: usize) -> u8 {
    assert!(at < mapping.bytes());
    // SAFETY: the byte lies in the mapping.
    unsafe { mapping.base().as_ptr().add(at).read_volatile() }
}

#[test]
fn a_file_that_is_cut_short_reads_as_zeros_and_says_so() {
    let read = |file: &File, bytes| Mapping::to_read(file, bytes);
    let write = |file: &File, bytes| Mapping::to_write(file, bytes);
    for access in [&read as &dyn Fn(&File, usize) -> std::io::Result<Mapping>, &write] {
        let (one, other) = (file(8), file(8));
        let (mapping, untouched) = (access(&one, 8 * PAGE).unwrap(), access(&other, 8 * PAGE).unwrap());
        assert_eq!((byte(&mapping, 8 * PAGE - 1), mapping.is_damaged()), (7, false));
        one.set_len(3 * PAGE as u64).unwrap();
        assert_eq!((byte(&mapping, 0), byte(&mapping, 3 * PAGE - 1), mapping.is_damaged()), (7, 7, false));
        assert_eq!((byte(&mapping, 5 * PAGE + 9), mapping.is_damaged()), (0, true));
        // What is in front of the place stays that of the file, and what is cut off there is replaced in its turn.
        assert_eq!((byte(&mapping, 0), byte(&mapping, 3 * PAGE), byte(&mapping, 7 * PAGE)), (7, 0, 0));
        assert_eq!((byte(&untouched, 5 * PAGE), untouched.is_damaged()), (7, false));
        drop(mapping);
        // The place in the table is that of another one now.
        assert!(!access(&other, 8 * PAGE).unwrap().is_damaged());
    }
}

#[test]
fn pages_that_were_given_back_come_again() {
    let file = file(8);
    let mapping = Mapping::to_read(&file, 8 * PAGE).unwrap();
    assert_eq!(byte(&mapping, 5 * PAGE), 7);
    mapping.forget(100, 8 * PAGE);
    assert_eq!((byte(&mapping, 5 * PAGE), mapping.is_damaged()), (7, false));
}

#[test]
fn many_threads_meet_the_end_of_their_files_at_once() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let file = file(4);
                    let mapping = Mapping::to_write(&file, 4 * PAGE).unwrap();
                    file.set_len(0).unwrap();
                    assert_eq!((byte(&mapping, 3 * PAGE), byte(&mapping, 0), mapping.is_damaged()), (0, 0, true));
                }
            });
        }
    });
}

/// Not a test of its own: what the next one runs in a process that is to die.
#[test]
fn dies_elsewhere() {
    if std::env::var_os("DIE_OF_SIGBUS").is_none() {
        return;
    }
    let guarded = file(1);
    let _mapping = Mapping::to_read(&guarded, PAGE).unwrap();
    let cut = file(2);
    // SAFETY: a mapping of our own that is read inside of its bounds.
    unsafe {
        let base = rustix::mm::mmap(
            std::ptr::null_mut(),
            2 * PAGE,
            rustix::mm::ProtFlags::READ,
            rustix::mm::MapFlags::SHARED,
            &cut,
            0,
        )
        .unwrap();
        cut.set_len(0).unwrap();
        base.cast::<u8>().read_volatile();
    }
}

#[test]
fn a_sigbus_elsewhere_still_ends_the_process() {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).args(["--exact", "dies_elsewhere"]).env("DIE_OF_SIGBUS", "1").output().unwrap();
    assert_eq!(output.status.signal(), Some(7), "{output:?}");
}
