// SPDX-License-Identifier: MIT OR Apache-2.0
//! Harness of the tests that go through the whole pipe: C macros, libkymo, `kymo record`, `kymo read` and babeltrace2.
//!
//! A test makes a [`Lab`]: its own directory, runtime directory and deadline. In it, C programs are compiled
//! ([`Lab::cc`]), processes run ([`Lab::start`]), sessions are recorded ([`Lab::record`]) and traces read
//! ([`trace::read`]). Everything that a lab started ends with it. Nothing here knows a layout of kymo's memory or
//! files.
//!
//! Environment: `KYMO` the command to test, `KYMO_LIB` the folder with libkymo, `KYMO_STRESS=1` for long variants,
//! `KYMO_SEED` for random ones, `KYMO_KEEP=1` keeps the directories of the labs.

#![allow(clippy::missing_panics_doc, reason = "a harness says what is wrong by panicking")]

pub mod babeltrace;
pub mod compile;
pub mod container;
pub mod disk;
pub mod kernel;
pub mod lab;
pub mod paths;
pub mod process;
pub mod record;
pub mod session;
pub mod small_trace;
pub mod socket;
pub mod trace;
pub mod turn;

pub use compile::Build;
pub use disk::SmallDisk;
pub use kernel::Kernel;
pub use kymo_testing::{Random, skip, skip_this};
pub use lab::{Lab, Ring};
pub use process::{Outcome, Proc};
pub use record::Recorded;
pub use trace::{Read, Record};

/// Whether the long variants are wanted.
pub fn stress() -> bool {
    std::env::var_os("KYMO_STRESS").is_some_and(|value| value == "1")
}

/// `usual`, or `long` when the long variants are wanted.
pub fn times(usual: usize, long: usize) -> usize {
    if stress() { long } else { usual }
}

/// Whether a command can be started, by asking its version.
pub fn has(command: &str) -> bool {
    let mut version = std::process::Command::new(command);
    version.arg("--version").stdin(std::process::Stdio::null());
    version.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
