// SPDX-License-Identifier: MIT OR Apache-2.0
//! CTF 1.8 metadata (TSDL): text to tokens to a tree to field classes.
//!
//! The tree says what was written; only `resolve` knows what it means. What is not supported is an error with its line
//! and column, never a guess.

mod ast;
mod blocks;
mod check;
mod fault;
mod lex;
mod parse;
mod resolve;

use super::class::Metadata;
pub(super) use fault::Fault;

/// Understands the text of a `metadata` file. The second part is what was passed over in it, the third the steps of
/// work that it took.
pub(super) fn metadata(text: &str) -> Result<(Metadata, Vec<Fault>, u64), Fault> {
    let tokens = lex::tokens(text)?;
    let document = parse::document(&tokens)?;
    blocks::resolve(&document, text.len())
}
