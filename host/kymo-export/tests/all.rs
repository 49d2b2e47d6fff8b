// SPDX-License-Identifier: MIT OR Apache-2.0
//! All tests of this crate in one program: each program takes seconds to link.

#[path = "support/contexts.rs"]
mod contexts;
mod ctf;
mod dat;
mod formats;
mod own_contexts;
mod round_trip;
#[path = "support/rows.rs"]
mod rows;
mod support;
mod text;
mod viewers;
