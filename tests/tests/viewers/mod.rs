// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo export` to Chrome's JSON and to Perfetto, of real recordings: what a viewer needs holds for the whole file,
//! and viewers read it. Each begin has its end on its track, tracks have one name at a time, ftrace's events are
//! Perfetto's own messages with the values that the trace has.

mod chrome;
mod consumers;
mod perfetto;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kymo_tests::{Kernel, Lab, Outcome, Read, paths, trace};

/// Begins and ends of one file: each end is of the innermost begin of its track, and none is left.
#[derive(Default)]
struct Nesting {
    open: HashMap<(i64, i64), Vec<String>>,
    slices: usize,
}

impl Nesting {
    fn begin(&mut self, track: (i64, i64), name: &str) {
        self.open.entry(track).or_default().push(name.to_owned());
    }

    #[track_caller]
    fn end(&mut self, track: (i64, i64), name: &str) {
        let innermost = self.open.get_mut(&track).and_then(Vec::pop);
        assert_eq!(innermost.as_deref(), Some(name), "the end of a slice on {track:?}");
        self.slices += 1;
    }

    /// The number of slices.
    #[track_caller]
    fn finish(self) -> usize {
        let open: Vec<_> = self.open.into_iter().filter(|(_, names)| !names.is_empty()).collect();
        assert!(open.is_empty(), "slices that never end: {open:?}");
        self.slices
    }
}

/// Names in the order of a file: a thread's name follows another one only.
#[derive(Default)]
struct Names(HashMap<(i64, i64), Vec<String>>);

impl Names {
    #[track_caller]
    fn named(&mut self, thread: (i64, i64), name: &str) {
        let names = self.0.entry(thread).or_default();
        assert_ne!(names.last().map(String::as_str), Some(name), "{thread:?} is named again");
        names.push(name.to_owned());
    }

    /// All names that threads called `name` at any time had.
    fn of(&self, name: &str) -> Vec<&Vec<String>> {
        self.0.values().filter(|names| names.iter().any(|known| known == name)).collect()
    }
}

/// The program of these tests, recorded with the kernel's events of it.
fn recorded(lab: &Lab) -> Option<(PathBuf, Read)> {
    let kernel = Kernel::find(lab.name())?;
    let program = lab.cc("viewers.c");
    let events = "sched,task,signal,syscalls";
    let recorded = lab
        .record("trace")
        .args(&["-k", events, "--only", "--kernel-ring", "16M"])
        .run(&[program.to_str().unwrap()])
        .expect(0)
        .lossless();
    lab.kernel_lossless(&recorded);
    kernel.assert_clean(recorded.pid);
    let read = trace::read(lab, &recorded.dir, &[]).whole();
    Some((recorded.dir, read))
}

/// The trace of LTTng's kernel tracer that is kept with the tests.
fn of_lttng() -> PathBuf {
    paths::repository().join("tests/traces/lttng-kernel")
}

#[track_caller]
fn export(lab: &Lab, trace: &Path, format: &str, to: &Path) -> Outcome {
    let (trace, to) = (trace.to_str().unwrap(), to.to_str().unwrap());
    lab.kymo(&["export", trace, "--format", format, "-o", to]).expect(0)
}
