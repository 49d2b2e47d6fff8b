//! A dump without privileges: everyone's threads, and a count of those whose details are hidden. A test binary of its own, because
//! it gives up its thread's identity.

mod support;

use kymo_state::Options;
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

/// The number in the caveat that holds `what`.
fn counted(caveats: &[String], what: &str) -> u64 {
    let caveat = caveats.iter().find(|caveat| caveat.contains(what));
    let number = caveat.and_then(|caveat| caveat.strip_prefix("State dump: ")?.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no count of {what} in {caveats:?}"))
}

#[test]
fn what_is_hidden_is_counted_once_per_process() {
    let all = Options { files: true, maps: true, ..Options::default() };
    let report = std::thread::spawn(move || {
        become_nobody();
        rows(&all).1
    });
    let report = report.join().expect("ends");
    assert!(report.threads >= 2, "threads of others are seen: {report:?}");
    for what in ["hide their open files", "hide their memory maps"] {
        let count = counted(&report.caveats, what);
        assert!(count >= 1 && count <= report.processes, "{what}: {report:?}");
    }
    assert!(!report.caveats.iter().any(|caveat| caveat.contains("could not be read")), "{report:?}");
}
