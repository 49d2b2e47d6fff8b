//! CTF 1.8 metadata (TSDL): text to tokens to a tree to field classes.
//!
//! The tree says what was written; only `resolve` knows what it means. What is not supported is an error with its line
//! and column, never a guess.

mod ast;
mod blocks;
mod lex;
mod parse;
mod resolve;

use super::class::Metadata;

/// A place in the text and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub pos: Pos,
    pub what: String,
    /// The text ended where more was expected.
    pub torn: bool,
}

/// Line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pos {
    pub line: u32,
    pub column: u32,
}

impl Pos {
    fn fault(self, what: impl Into<String>) -> Fault {
        Fault { pos: self, what: what.into(), torn: false }
    }
}

/// Understands the text of a `metadata` file.
pub(super) fn metadata(text: &str) -> Result<Metadata, Fault> {
    let tokens = lex::tokens(text)?;
    let document = parse::document(&tokens)?;
    blocks::resolve(&document, text.len())
}
