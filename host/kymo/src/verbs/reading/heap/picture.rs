// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flame graph: the outermost caller below, widths by bytes.

use std::collections::BTreeMap;

use kymo_export::flame::{FlamePart, svg as draw};

use super::args::Bytes;
use super::found::HeapReport;
use crate::verbs::analyze::show::size;

/// A function below its callers.
#[derive(Default)]
struct Node {
    bytes: u64,
    blocks: u64,
    called: BTreeMap<String, Node>,
}

/// The picture.
pub fn svg(found: &mut HeapReport<'_>) -> String {
    let mut root = Node::default();
    for (number, amount) in found.stacks() {
        let frames = found.pass.stacks.frames(number).to_vec();
        let mut names: Vec<String> = frames.into_iter().rev().map(|place| found.function(place)).collect();
        if names.is_empty() {
            names.push(HeapReport::nameless(number).to_owned());
        }
        root.add(&names, amount.bytes, amount.blocks);
    }
    let what = match found.args.what {
        Bytes::Peak => "live when the heap was largest",
        Bytes::Live => "live at the end",
        Bytes::Leaked => "never freed",
        Bytes::Allocated => "allocated",
    };
    let marks = if found.caveats.is_empty() { "" } else { " (not exact)" };
    let title = format!("kymo heap: bytes {what}{marks}; the callers below, the width is bytes");
    draw(&title, "bytes", &root.part("all".to_owned(), !found.caveats.is_empty()))
}

impl Node {
    fn add(&mut self, names: &[String], bytes: u64, blocks: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.blocks = self.blocks.saturating_add(blocks);
        if let Some((name, rest)) = names.split_first() {
            self.called.entry(name.clone()).or_default().add(rest, bytes, blocks);
        }
    }

    fn part(self, name: String, is_doubtful: bool) -> FlamePart {
        let note = format!(", {}, {} blocks", size(self.bytes), self.blocks);
        let below = self.called.into_iter().map(|(name, node)| node.part(name, is_doubtful)).collect();
        FlamePart { name, weight: self.bytes, note, is_doubtful, below }
    }
}
