// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces while they come to be: sessions, what can be recorded, and what was left behind.

pub mod collect;
pub mod list;
pub mod mark;
pub mod record;
pub mod recover;
pub mod session;
