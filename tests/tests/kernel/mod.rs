// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel as a source, through the whole pipe [spec/kernel.md, spec/trace.md 8]. One binary of several themes, so
//! that a virtual machine can run it: `machines` does. Where tracefs cannot be had, each test is skipped and says why.

mod access;
mod formats;
mod guard;
mod loss;
mod machines;
mod mapped;
mod marks;
mod only;
mod order;
mod probe_names;
mod probes;
mod select;
mod sessions;
mod state;
mod switching;
mod triggers;

/// Fails unless `text` has all of `parts`.
#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

/// How often the programs do what they do, where the number decides how long a test takes: fewer in emulated machines.
fn calls(usual: usize, long: usize) -> usize {
    let given = std::env::var("KYMO_TEST_CALLS").ok().and_then(|text| text.parse().ok());
    given.map_or(kymo_tests::times(usual, long), |most: usize| most.min(usual))
}
