// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of traces, as kymo-analyze takes them: classes described, times as i64, losses told. Everything that moves a
//! state by a trace goes through [`Walker`], so that a checkpoint is the state that a reader from the start would have.
//!
//! Opens no file: who walks brings a reader. What is done with the state is for the visitor.

mod classes;
mod devices;
mod environment;
mod fields;
mod follow;
mod missing;
mod moves;
mod walk;

pub use classes::{Classes, SAMPLE, clamp, is_by_writer, is_of_samples};
pub use devices::{DEVICES, device_of};
pub use environment::{architecture, recorders};
pub use fields::Payload;
pub use missing::Missing;
pub use moves::LossAt;
pub use walk::{Choose, Seen, Totals, Visit, Walker, own_writer, walk};
