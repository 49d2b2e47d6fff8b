// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session wrote into one directory.

/// What went into one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub files: u64,
    pub packets: u64,
    pub bytes: u64,
    /// Records that packets say were lost.
    pub lost: u64,
    /// Why writing ended, if it did.
    pub error: Option<String>,
}

impl Written {
    pub(crate) fn add(&mut self, other: &Written) {
        self.files += other.files;
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.error = self.error.take().or(other.error.clone());
    }
}
