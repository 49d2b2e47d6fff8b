// SPDX-License-Identifier: MIT OR Apache-2.0
//! CTF: packets to a trace, and a trace back to records [spec/trace.md].
//!
//! [`write`] makes metadata text and packet heads as bytes; putting them into files is the collector's work.
//! [`read`] opens a trace directory and gives its records in the order of time, its losses, and its damage.
//! [`transcode`] writes records that were read as ones that every reader of CTF 1.8 reads.
//! There is no clock in this crate and no socket.

pub mod read;
pub mod transcode;
pub mod write;
