// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of this crate in one program: each program takes seconds to link.

mod contexts;
mod errors;
mod hostile;
mod properties;
mod support;
mod table;
mod vectors;
mod wakeups;
