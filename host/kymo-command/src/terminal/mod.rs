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

use std::io::IsTerminal as _;
use std::sync::OnceLock;

/// Whether standard output was a terminal when this was first asked: a pager replaces it by a pipe.
pub fn is_on_terminal() -> bool {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    *IS_TERMINAL.get_or_init(|| std::io::stdout().is_terminal())
}
