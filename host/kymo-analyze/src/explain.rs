// SPDX-License-Identifier: MIT OR Apache-2.0
//! The story of one worst case, stretch of a thread, or moment [spec/analyze.md 10].
//!
//! A [`Question`] says what is asked about. A [`Scene`] is a sink beside the state: it keeps spans and records around
//! it, bounded. [`Scene::story`] makes a [`Story`] of that: typed, for `--json` and for those who build on it;
//! [`Story::text`] is the screenful.

mod advice;
mod chain;
mod decode;
mod errno;
mod evidence;
mod headline;
mod names;
mod note;
mod pieces;
mod question;
mod rows;
mod scene;
mod story;
mod symbols;
mod tell;
mod text;
mod together;

pub use decode::Flags;
pub use errno::{errno, signal};
pub use note::{AROUND_MAX, Note, Value};
pub use pieces::{Referent, TextPiece};
pub use question::Question;
pub use scene::Scene;
pub use story::{Advice, Gap, Link, Moment, Slice, Story, StoryRow, StretchSide};
pub use symbols::{NoSymbols, Symbols};
pub use text::StoryStyle;
pub use together::{INFERRED, WholeCause, together};
