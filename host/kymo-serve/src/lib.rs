// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers of kymo-query and the built page of the viewer, over HTTP on the loopback interface [spec/view.md].
//!
//! Decides who may ask, and nothing else: [`route`] is pure, [`Server`] owns the socket. Questions run on threads of
//! their own, and are stopped when the connection that waits for them is closed.

mod bookmarks;
mod integrity;
mod keeping;
mod lake;
mod live;
mod memory;
mod page;
#[doc(hidden)]
pub mod probe;
mod route;
mod saved;
mod server;
mod site;
mod tsp;

pub use lake::{LakeAnswer, LakeError, LakeSource, LakeTrace};
pub use live::{Look, Source};
pub use saved::{SaveError, SaveLimits, Saved, save};
pub use server::{Server, Stopper};
pub use site::{Others, Relation};
