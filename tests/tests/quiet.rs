// SPDX-License-Identifier: MIT OR Apache-2.0
//! When nothing listens: nothing is printed, nothing is left behind, and the exit status is the program's own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kymo_tests::{Build, Kernel, Lab, Ring};

fn files(below: &Path) -> BTreeSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(below) else { return BTreeSet::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { BTreeSet::from([path]) }).collect()
}

#[test]
fn a_program_that_nobody_records_is_as_without_kymo() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("quiet");
        lab.ring(ring);
        let source = lab.write("status.c", "#include \"common.h\"\nKYMO_EVENT(status, rec, (u32, n))\n\
            int main(int argc, char **argv) { (void)argv; for (uint32_t n = 0; n < 1000; n++) { kymo_trace(status, rec, n); } errno = 0;\n\
            if (kymo_trace_enabled(status, rec)) { return 99; } return argc == 1 ? 42 : (raise(SIGTERM), 0); }\n");
        for (name, build) in [
            ("shared", Build::new(&[source.to_str().unwrap()])),
            ("archive", Build::new(&[source.to_str().unwrap()]).archive()),
            ("static", Build::new(&[source.to_str().unwrap()]).fully_static()),
        ] {
            let program = lab.build(&build, name);
            let before = files(&lab.path(""));
            for (args, code) in [(&[][..], 42), (&["die"], 143)] {
                let outcome = lab.run(&program, args).expect(code);
                assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""), "{name}");
                // A program that is killed cannot remove its socket. One that comes later does, and need not be the
                // next: it may be gone before it has looked.
                if code == 42 {
                    let left: Vec<_> = files(&lab.path("")).difference(&before).cloned().collect();
                    assert!(left.is_empty(), "{name}: {left:?}");
                }
            }
            lab.run(&program, &[]).expect(42);
        }
    }
}

/// A runtime directory that cannot be used is no reason to say or to do anything.
#[test]
fn a_runtime_directory_that_cannot_be_used() {
    let mut lab = Lab::new("no_runtime_dir");
    let program = lab.cc("produce.c");
    lab.write("file", "");
    let long = format!("/tmp/{}", "x".repeat(300));
    for dir in ["/no/such/place", lab.path("file").to_str().unwrap(), "/proc", "", &*long] {
        lab.env("KYMO_RUNTIME_DIR", dir);
        lab.env("XDG_RUNTIME_DIR", "/no/such/place/either");
        // Root's default directory is not the test's business.
        if dir.is_empty() {
            continue;
        }
        let outcome = lab.run(&program, &["2", "100"]).expect(0);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("produced=200\n", ""), "{dir}");
    }
}

/// Descriptors that a program closes or counts are its own business, too.
#[test]
fn programs_that_close_all_descriptors_live_on() {
    let lab = Lab::new("closes_all");
    let program = lab.cc_text("closer", "#include \"common.h\"\nKYMO_EVENT(closer, rec, (u32, n))\n\
        int main(void) { live_shortly(); for (int fd = 3; fd < 1024; fd++) close(fd);\n\
        for (uint32_t n = 0; n < 1000; n++) { kymo_trace(closer, rec, n); }\n\
        int fds[2]; if (pipe(fds)) return 1; if (write(fds[1], \"x\", 1) != 1) return 2; char c; if (read(fds[0], &c, 1) != 1 || c != 'x') return 3;\n\
        if (!fork()) { kymo_trace(closer, rec, 5000); exit(0); } int s; wait(&s); return s ? 4 : 0; }\n");
    lab.run(&program, &[]).expect(0);
    let recorded = lab.record("trace").run(&[program.to_str().unwrap()]).expect(0);
    assert!(recorded.outcome.stdout.is_empty());
}

/// A process with threads waits for a grace period of RCU, 4 to 15 ms, where its table of descriptors grows and where
/// it registers for membarrier. Both are done before the helper thread is there [spec/session.md 3].
#[test]
fn what_the_kernel_makes_a_program_with_threads_wait_for_is_done_before() {
    const TEST: &str = "what_the_kernel_makes_a_program_with_threads_wait_for_is_done_before";
    if Kernel::find(TEST).is_none() {
        return;
    }
    let lab = Lab::alone(TEST);
    let program = lab.cc("produce.c");
    let recording = lab.record("trace").args(&["-u", "*", "-k", "syscalls"]);
    recording.run(&[program.to_str().unwrap(), "1", "100"]).expect(0);
    let read = lab.kymo(&["read", "trace", "--filter", "$event ~ \"syscall_entry_*\""]).expect(0).stdout;
    // A line has `name[process/thread] syscall_entry_NAME: ...`.
    let clone = read.lines().position(|line| line.contains("produce[") && line.contains("syscall_entry_clone"));
    let clone = clone.unwrap_or_else(|| panic!("no thread was made: {read}"));
    let process = read.lines().nth(clone).and_then(|line| line.split(['[', '/']).nth(1)).unwrap();
    let waits = |line: &&str| {
        let is_high = || line.split("arg=0x").nth(1).and_then(|arg| u64::from_str_radix(arg, 16).ok()) >= Some(256);
        line.contains("syscall_entry_membarrier")
            || line.contains("syscall_entry_fcntl") && line.contains("cmd=1030") && is_high()
    };
    let of_program = |line: &&str| line.contains(&format!("[{process}/"));
    let all: Vec<&str> = read.lines().filter(of_program).filter(waits).collect();
    assert!(all.iter().any(|line| line.contains("membarrier")), "{all:?}");
    let behind: Vec<&str> = read.lines().skip(clone).filter(of_program).filter(waits).collect();
    assert!(behind.iter().all(|line| line.contains("membarrier") && !is_registration(line)), "{behind:?}");
}

/// Commands of membarrier(2) that register.
fn is_registration(line: &str) -> bool {
    let command = line.split("cmd=").nth(1).and_then(|rest| rest.split(',').next());
    ["4", "16", "64", "256", "0x4", "0x10", "0x40", "0x100"].iter().any(|of| command == Some(*of))
}
