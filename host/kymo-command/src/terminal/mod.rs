// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done for a terminal alone: colours ([`paint`]), a pager ([`start_pager`]), and a line that shows how far a
//! verb is ([`Progress`], [`ReadingProgress`]). None of it where the output goes elsewhere.

mod pager;
mod paint;
mod progress;
mod reading;

pub use pager::{finish as finish_pager, start as start_pager};
pub use paint::{END, Style, has_color, paint, set_color};
pub use progress::Progress;
pub use reading::ReadingProgress;

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::OnceLock;

/// Whether standard output was a terminal when this was first asked: a pager replaces it by a pipe.
pub fn is_on_terminal() -> bool {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    *IS_TERMINAL.get_or_init(|| io::stdout().is_terminal())
}

/// Whether standard output is a file or a device that is no terminal. Only then can a line on standard error stay while
/// rows are printed: a pipe may lead to a program that has the same terminal, such as less.
pub fn is_output_elsewhere() -> bool {
    let stdout = io::stdout();
    let kind = stdout.as_fd().try_clone_to_owned().and_then(|stdout| File::from(stdout).metadata());
    kind.is_ok_and(|kind| kind.is_file() || kind.file_type().is_char_device() && !stdout.is_terminal())
}
