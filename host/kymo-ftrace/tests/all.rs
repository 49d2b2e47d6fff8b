// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of this crate in one program: each program takes seconds to link.

mod hostile;
mod mapped;
mod recorded;
mod reports;
mod support;
