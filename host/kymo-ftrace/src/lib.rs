//! Kernel events as the kernel writes them [spec/kernel.md 4]: format texts, ring-buffer pages, and the way from both to CTF records.
//!
//! [`format`] reads the texts, [`page`] walks a page. Nothing here opens a file or reads a clock.

pub mod format;
pub mod page;
