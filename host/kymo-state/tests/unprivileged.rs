// SPDX-License-Identifier: MIT OR Apache-2.0
//! A dump without privileges: everyone's threads, and a count of those whose details are hidden. A test binary of its
//! own, because it gives up its thread's identity.

use crate::support;

use kymo_state::Options;
use rustix::thread::{CapabilitySet, CapabilitySets};
use support::rows;

const NOBODY: libc::uid_t = 65534;

/// Makes the calling thread, and only it, one of a user without rights; what it was it cannot become again.
fn become_nobody() {
    // SAFETY: no memory is passed. The bare call, unlike the C library's function, changes this thread alone.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
    if result != 0 {
        eprintln!("stays the user that it is: {}", std::io::Error::last_os_error());
    }
}

/// Takes all capabilities from the calling thread. Where it was root, it may still open folders of other processes of
/// root, but not look at what is in them.
fn drop_capabilities() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).expect("is permitted to all");
}

/// The number in the caveat that holds `what`.
fn counted(caveats: &[String], what: &str) -> u64 {
    let caveat = caveats.iter().find(|caveat| caveat.contains(what));
    let number = caveat.and_then(|caveat| caveat.strip_prefix("State dump: ")?.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no count of {what} in {caveats:?}"))
}

#[test]
fn what_is_hidden_is_counted_once_per_process() {
    for lose in [drop_capabilities, become_nobody] {
        let all = Options { files: true, maps: true, ..Options::default() };
        let dump = move || {
            lose();
            rows(&all).1
        };
        let report = std::thread::spawn(dump).join().expect("ends");
        assert!(report.threads >= 2, "threads of others are seen: {report:?}");
        for what in ["hide their open files", "hide their memory maps"] {
            let count = counted(&report.caveats, what);
            assert!(count >= 1 && count <= report.processes, "{what}: {report:?}");
        }
        assert!(!report.caveats.iter().any(|caveat| caveat.contains("could not be read")), "{report:?}");
    }
}
