// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans of a window as a flame graph [spec/view.md 4.18]: spans that lie within the same ones are summed up.

use std::collections::{BTreeMap, HashMap};

use super::slices::{Slice, SliceAnswer, find};
use crate::columns::{Answer, Table};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::pixels::Pixels;
use crate::walk::Stop;

/// Frames that an answer has at most.
const FRAMES_MAX: usize = 8192;

/// Spans within each other that are kept apart.
const DEPTH_MAX: u16 = 128;

/// Spans of one kind, within the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlameFrame {
    parent: Option<u32>,
    span: u16,
    depth: u16,
    /// In the window, with what lies within.
    total_ns: u64,
    /// Of that, what lies within others.
    within_ns: u64,
    count: u64,
    /// The longest, whole.
    longest: (i64, i64),
    longest_tid: Option<i32>,
}

/// The frames, parents before what lies within them.
#[derive(Default)]
struct Frames {
    list: Vec<FlameFrame>,
    index: HashMap<(Option<u32>, u16), u32>,
    /// Spans that had no place.
    left_out: u64,
}

impl Frames {
    /// The spans of one thread.
    fn thread(&mut self, mut own: Vec<Slice>, pixels: &Pixels) {
        own.sort_by_key(|slice| (slice.from, std::cmp::Reverse(slice.to)));
        // Those that are open, and their frames.
        let mut open: Vec<(i64, u32)> = Vec::new();
        for slice in own {
            open.retain(|(to, _)| *to > slice.from);
            // One that ends later than what it began in lies in none of these.
            let parent = open.iter().rev().find(|(to, _)| *to >= slice.to).map(|(_, frame)| *frame);
            let Some((from, to)) = pixels.cut(slice.from, slice.to) else { continue };
            match self.frame(parent, &slice, to.abs_diff(from)) {
                Some(frame) => open.push((slice.to, frame)),
                None => self.left_out += 1,
            }
        }
    }

    /// Adds a span; its frame.
    fn frame(&mut self, parent: Option<u32>, slice: &Slice, ns: u64) -> Option<u32> {
        let depth = parent.map_or(0, |parent| self.list[parent as usize].depth + 1);
        let known = self.index.get(&(parent, slice.span)).copied();
        let at = match known {
            Some(at) => at,
            None if self.list.len() >= FRAMES_MAX || depth >= DEPTH_MAX => return None,
            None => {
                let at = self.list.len() as u32;
                self.index.insert((parent, slice.span), at);
                let longest = (slice.from, slice.to);
                let (span, longest_tid) = (slice.span, slice.tid);
                self.list.push(FlameFrame {
                    parent,
                    span,
                    depth,
                    total_ns: 0,
                    within_ns: 0,
                    count: 0,
                    longest,
                    longest_tid,
                });
                at
            }
        };
        let frame = &mut self.list[at as usize];
        frame.total_ns += ns;
        frame.count += 1;
        if slice.to.abs_diff(slice.from) > frame.longest.1.abs_diff(frame.longest.0) {
            (frame.longest, frame.longest_tid) = ((slice.from, slice.to), slice.tid);
        }
        if let Some(parent) = parent {
            self.list[parent as usize].within_ns += ns;
        }
        Some(at)
    }
}

/// Answers `flame`.
///
/// # Errors
/// As `slices`.
pub fn flame(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let pixels = Pixels::new(window, 1);
    let SliceAnswer { mut answer, list, walked, .. } = find("flame", of, parameters, pixels, stop)?;
    let mut by_thread: BTreeMap<Option<i32>, Vec<Slice>> = BTreeMap::new();
    // How long an open one is, is not known.
    let ended = list.into_iter().filter(|slice| !slice.open);
    ended.for_each(|slice| by_thread.entry(slice.tid).or_default().push(slice));
    let mut frames = Frames::default();
    by_thread.into_values().for_each(|own| frames.thread(own, &pixels));
    answer.set("frames_left_out", frames.left_out);
    let all = || frames.list.iter();
    let table = Table::new("frames")
        .column("parent", all().map(|frame| frame.parent))
        .column("span", all().map(|frame| frame.span))
        .column("depth", all().map(|frame| frame.depth))
        .column("total_ns", all().map(|frame| frame.total_ns))
        .column("self_ns", all().map(|frame| frame.total_ns.saturating_sub(frame.within_ns)))
        .column("count", all().map(|frame| frame.count))
        .column("longest_from", all().map(|frame| answer.time(frame.longest.0)))
        .column("longest_to", all().map(|frame| answer.time(frame.longest.1)))
        .column("longest_tid", all().map(|frame| frame.longest_tid));
    answer.push(table);
    walked.tell(&mut answer);
    Ok(answer)
}
