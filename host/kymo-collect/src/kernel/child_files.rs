// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a command's first process writes to before it becomes the command.

use rustix::fd::OwnedFd;

/// Two files of a tracefs instance.
#[derive(Debug)]
pub struct ChildFiles {
    /// Takes process ids, in digits.
    pub pids: OwnedFd,
    /// Takes "1": recording begins.
    pub on: OwnedFd,
}
