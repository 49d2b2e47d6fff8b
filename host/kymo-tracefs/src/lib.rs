// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of tracefs: finding it, instances, choosing events, rings, probes [spec/kernel.md 1, 2, 3, 8].
//!
//! [`Tracefs::find`] gives tracefs, [`Tracefs::create`] an [`Instance`] of our own, [`Wanted`] says which events,
//! [`Instance::add_probes`] adds events in programs,
//! [`Instance::reader`] gives the ring of one CPU as the kernel's pages, by copies or mapped. No page is looked into
//! here and no thread is started; the top-level buffer and its knobs are never touched.

mod chosen;
mod error;
mod event;
mod file;
mod find;
mod guard;
mod instance;
mod leftovers;
mod mapped;
mod meta;
mod near;
mod probe;
mod reader;
mod refused;
mod settings;
mod wanted;

pub use chosen::Chosen;
pub use error::Error;
pub use event::EventName;
pub use find::Tracefs;
pub use guard::guard_instances;
pub use instance::Instance;
pub use mapped::{MappedPage, MappedRing};
pub use probe::{Places, Probe, ProbeError, ProbeSpec, UsdtPlace, parse_probe, places};
pub use reader::{CpuReader, Stats};
pub use settings::Settings;
pub use wanted::Wanted;
