// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of this crate in one program: each program takes seconds to link.

mod cases;
mod causes;
mod common;
mod faults;
mod growth;
mod identity;
mod properties;
mod rules;
mod stretch;
