// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a session.

use std::path::PathBuf;
use std::time::Duration;

use kymo_filter::Filter;

use crate::chunks::Rotation;
use crate::context::Contexts;
use crate::kernel::KernelConfig;
use crate::pattern::Patterns;
use crate::scope::Scope;
use crate::trigger::Triggers;

/// Format of a trace's metadata; the packets are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text, read by everything.
    Ctf18,
    /// JSON fragments.
    Ctf2,
}

impl Format {
    /// The word in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Format::Ctf18 => "ctf-1.8",
            Format::Ctf2 => "ctf-2",
        }
    }
}

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name, for people; at most 40 bytes of it are told to programs.
    pub name: String,
    /// Directory of the trace. It is made if it does not exist, and must be empty.
    pub output: PathBuf,
    /// Which programs.
    pub scope: Scope,
    /// Which events.
    pub patterns: Patterns,
    /// Which records of them: those that all filters for their event select, decided in the program [spec/filter.md 6].
    pub filters: Vec<Filter>,
    /// The programs of one user share their rings [spec/session.md 13].
    pub shared_rings: bool,
    /// What records say besides thread and fields.
    pub contexts: Contexts,
    /// Records are compact [spec/ring.md 11].
    pub compact: bool,
    /// Bytes of one ring: a power of two between 4 KiB and 1 GiB.
    pub ring_bytes: u32,
    /// Bytes of all rings together.
    pub memory_bytes_max: u64,
    /// Time between two looks at the rings.
    pub poll: Duration,
    /// Flight recorder: rings are overwritten, and written out by [`Session::snapshot`] only.
    pub flight: bool,
    /// Writers whose program has agreed wait this long for room in a full ring [spec/session.md 12]; at most 10 s.
    pub block: Option<Duration>,
    /// Flight recorder: events with rings of their own, which are recorded and not overwritten.
    pub rare: Option<Patterns>,
    /// Rings are files in this directory, which survive the collector [`crate::recover`]; best on tmpfs or persistent
    /// memory.
    pub ring_dir: Option<PathBuf>,
    /// What a flight recorder watches for.
    pub triggers: Triggers,
    /// When the trace goes on in a new directory by itself: not for flight recorders.
    pub rotation: Rotation,
    /// The kernel's events, if they are wanted.
    pub kernel: Option<KernelConfig>,
    /// How the kernel's events are recorded where only triggers name some, or somebody switches some on later.
    pub kernel_base: KernelConfig,
    /// Go on without the kernel where it cannot be had.
    pub kernel_optional: bool,
    /// Format of the metadata.
    pub format: Format,
    /// The command that will be run, for the summary.
    pub command: Vec<String>,
    /// Other users' runtime directories to look into, see [`crate::other_users_dirs`].
    pub with_other_users: bool,
    /// The runtime directory, where it is not the usual one.
    pub runtime_dir: Option<PathBuf>,
}

impl Config {
    /// Everything, of all programs, with 4 MiB a ring and 1 GiB in all, into `output`.
    pub fn new(output: impl Into<PathBuf>) -> Config {
        Config {
            name: "kymo".to_owned(),
            output: output.into(),
            scope: Scope::All,
            patterns: Patterns::new(&[], &[]).unwrap_or_default(),
            filters: Vec::new(),
            shared_rings: false,
            contexts: Contexts::default(),
            compact: false,
            ring_bytes: 4 << 20,
            memory_bytes_max: 1 << 30,
            poll: Duration::from_millis(1),
            flight: false,
            rare: None,
            triggers: Triggers::default(),
            block: None,
            ring_dir: None,
            rotation: Rotation::default(),
            kernel: None,
            kernel_base: KernelConfig::default(),
            kernel_optional: false,
            format: Format::Ctf18,
            command: Vec::new(),
            with_other_users: false,
            runtime_dir: None,
        }
    }
}
