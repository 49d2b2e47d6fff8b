// SPDX-License-Identifier: MIT OR Apache-2.0
//! The collector: user rings to packets of a trace [spec/session.md, spec/trace.md].
//!
//! A [`Session`] finds programs, gives them ring memory, switches the wanted events on, and writes ring bytes behind
//! packet heads into stream files. It trusts nothing that a program can write, and no program waits for it. It never
//! decodes a record. [`running`] asks programs for their events without a session.
//!
//! Threads: *control* (module [`control`]) talks, *drain* (module [`drain`]) copies; a channel leads from one to the
//! other. With the kernel as a source (module [`kernel`]) a third one turns its pages into packets.

mod channel;
mod chunks;
mod clock;
mod compact;
mod condition_fields;
mod context;
mod control;
mod cpus;
mod drain;
mod error;
mod filters;
mod flight;
mod ids;
mod kernel;
mod lane;
mod mark_pipe;
mod marks;
mod memory;
mod metadata;
mod pace;
mod pattern;
mod peer;
mod priority;
mod private;
mod query;
mod reach;
mod ready_rings;
mod recover;
mod remote;
mod report;
mod running;
mod runtime;
mod samples;
mod scope;
mod session;
#[cfg(test)]
mod simulation;
mod snapshot;
mod socket;
mod spares;
mod stream;
mod summary;
mod texts;
mod trace_dir;
mod trigger;
mod triggers;
mod unknown;
mod uuid;
mod watch;
mod watched;
mod written;

pub use chunks::{Chunk, Rotation, chunk_dirs, is_chunk_dir};
pub use context::Contexts;
pub use control::{Changed, Offered, ProgramView, View};
pub use drain::RingUse;
pub use error::Error;
pub use filters::check_filters;
pub use kernel::{
    ChildFiles, KernelCause, KernelChanged, KernelConfig, KernelLoss, KernelLost, KernelSummary, KernelView, Only,
    StateSummary, kernel_ring_bytes,
};
pub use marks::{MARK_BYTES_MAX, Sent, send_mark};
pub use pattern::{Patterns, near};
pub use private::make_private_dir;
pub use query::{RunningProgram, running};
pub use reach::{Elsewhere, elsewhere, why_not_found};
pub use recover::{Recovered, recover};
pub use remote::{Answer, AskError, Call, Remote, Request, Server, remotes};
pub use runtime::{RuntimeDir, SESSION_NAME_MAX, is_session_name, other_users_dirs};
pub use samples::SampleSummary;
pub use scope::Scope;
pub use session::{Config, Format, Progress, Session, Taker};
pub use snapshot::{SnapshotDone, SnapshotRequest, TriggerSeen};
pub use stream::is_stream_file;
pub use summary::{
    Blocking, Cause, ClockSummary, Damage, EventSeen, Loss, Lost, Outcome, ProcessSummary, SUMMARY_FILE, Summary,
    Unfiltered,
};
pub use trigger::{Acted, Action, Triggers};
pub use unknown::{Missing, Unknown};
pub use watched::Watched;
