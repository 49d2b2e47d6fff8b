// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where addresses lie; and what records of memory have in common.

use kymo_ctf::read::{Fields, Record, Value};

/// Where an address lies. Equal for the same place of a file in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressPlace {
    /// In a mapping ([`super::memory::Memory::mapping`]), at an address of the process that had it first.
    Mapped {
        /// Which.
        mapping: u32,
        /// The address there.
        address: u64,
    },
    /// In a file ([`super::memory::Memory::module`]), at this address as the file counts them.
    Module {
        /// Which.
        module: u32,
        /// Virtual, in the file.
        address: u64,
    },
    /// In no file that is known.
    Nowhere {
        /// The process.
        process: u32,
        /// The address.
        address: u64,
        /// There were two files, one after the other.
        is_remapped: bool,
    },
}

/// When a record was written, ns.
pub fn time_of(record: &Record<'_>) -> i64 {
    kymo_feed::clamp(record.ns)
}

/// A field without a sign.
pub fn unsigned(payload: Fields<'_>, name: &str) -> Option<u64> {
    match payload.get(name)? {
        Value::Int(number, _) | Value::Enum(number, _) => u64::try_from(i128::from(number)).ok(),
        _ => None,
    }
}
