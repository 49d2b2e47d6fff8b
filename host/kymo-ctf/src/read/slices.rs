// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutting traces by time, so that several threads can read them: each slice with a reader of its own, and the slices
//! one behind the other give what one reader of all gives.
//!
//! A cut is a place in the order of a merge. In each stream it lies in front of the first item that stands at that
//! place or behind it, whatever comes later. A merging reader gives all items in front of a cut, of all streams, before
//! it gives one behind it. So nothing is given twice, left out, or in another order, however odd the times are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use super::merge::{Cuts, Reader};
use super::stream::{HeadStep, Heads, SliceBegin, Stream};
use super::trace::{Trace, is_one_clock};
use super::watch::Watch;

/// Makes slices, one behind the other.
pub struct Slices<'t> {
    /// Is told of the pass.
    watch: Option<&'t dyn Watch>,
    /// By stream, of the first trace first.
    heads: Vec<Heads<'t>>,
    /// Streams whose heads are not all known, the one of which least is known first.
    behind: BinaryHeap<Reverse<(u64, usize)>>,
    /// Of the next slice: where each stream begins, and the cut.
    starts: Vec<Option<SliceBegin>>,
    from: Option<u64>,
    slice_bytes: u64,
    /// Bytes of heads that no slice has yet, and of all that no slice has.
    ahead: u64,
    left: u64,
    is_over: bool,
}

/// A part of traces, of all their streams, between two cuts. [`Reader::of_slice`] reads it.
pub struct Slice {
    /// By stream; `None` where it has nothing left.
    pub(super) streams: Vec<Option<SliceOfStream>>,
    /// The cut in front; `None` at the first item.
    pub(super) from: Option<u64>,
    /// The cut behind; `None` at the end of all streams.
    pub(super) to: Option<u64>,
    bytes: u64,
}

/// The part of one stream.
pub(super) struct SliceOfStream {
    pub begin: SliceBegin,
    /// Number of the packet at which, or inside of which, the next slice begins.
    pub next_packet: u64,
}

impl Slice {
    /// Bytes of the streams' files that belong to it, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Of what lies between two places at which a reader may begin, half is read in vain by the mean slice, in each stream:
/// so many of them should be in the part that a slice has of a stream.
const PIECES_OF_SLICE: u64 = 4;
/// Pieces of large packets have so many bytes.
const PIECE_BYTES: RangeInclusive<u64> = 16 << 10..=256 << 10;

impl<'t> Slices<'t> {
    /// Slices of at least `slice_bytes` of `traces`. `None` where they cannot be cut: with several clocks, where the
    /// first packets do not say their whole time, or where there are so many streams that each slice would read most
    /// packets in vain.
    pub fn new(traces: &'t [Trace], slice_bytes: u64) -> Option<Self> {
        let streams: usize = traces.iter().map(|trace| trace.streams.len()).sum();
        let piece_bytes = slice_bytes / (PIECES_OF_SLICE * streams.max(1) as u64);
        Self::of_pieces(traces, slice_bytes, piece_bytes.clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end()))
    }

    /// The same, with pieces of another size.
    pub(super) fn of_pieces(traces: &'t [Trace], slice_bytes: u64, piece_bytes: u64) -> Option<Self> {
        if !is_one_clock(traces) {
            return None;
        }
        let mut all = Self {
            watch: None,
            heads: Vec::new(),
            behind: BinaryHeap::new(),
            starts: Vec::new(),
            from: None,
            slice_bytes,
            ahead: 0,
            left: 0,
            is_over: false,
        };
        for trace in traces {
            for (name, content) in &trace.streams {
                let stream = Stream::new(&trace.metadata, &trace.layout, name, content);
                all.starts.push(Some(SliceBegin { packet: stream.start(), inside: None }));
                all.left += content.len() as u64;
                let mut heads = Heads::new(stream, piece_bytes);
                match heads.step() {
                    HeadStep::Bytes(bytes) => all.ahead += bytes,
                    HeadStep::Blind => return None,
                }
                all.heads.push(heads);
            }
        }
        all.behind.extend((0..all.heads.len()).map(|stream| Reverse((0, stream))));
        if all.ahead > slice_bytes.saturating_mul(2) {
            return None;
        }
        all.watch = traces.iter().find_map(Trace::watcher);
        all.watch.iter().for_each(|watch| watch.begin(Some(all.left)));
        Some(all)
    }

    /// The next slice.
    #[expect(clippy::should_implement_trait, reason = "the same form as Reader")]
    pub fn next(&mut self) -> Option<Slice> {
        if self.is_over {
            return None;
        }
        let (to, bytes) = self.cut();
        self.left -= bytes;
        self.is_over = to.is_none();
        let next: Vec<Option<SliceBegin>> = match to {
            Some(cut) => self.heads.iter_mut().map(|heads| heads.go_to(cut)).collect(),
            None => vec![None; self.heads.len()],
        };
        let streams = self.starts.iter().zip(&next).map(|(begin, next)| {
            let next_packet = next.map_or(u64::MAX, |next| next.packet.packet);
            begin.map(|begin| SliceOfStream { begin, next_packet })
        });
        let slice = Slice { streams: streams.collect(), from: self.from, to, bytes };
        (self.starts, self.from) = (next, to);
        Some(slice)
    }

    /// Goes on from head to head, or from piece to piece, until enough lies in front of a place that all streams have
    /// reached: that place, and how much. `None` where the rest is one slice.
    fn cut(&mut self) -> (Option<u64>, u64) {
        let mut bytes = std::mem::take(&mut self.ahead);
        while let Some(Reverse((reached, stream))) = self.behind.pop() {
            if bytes >= self.slice_bytes && reached >= self.from.unwrap_or(0) && reached < u64::MAX {
                self.behind.push(Reverse((reached, stream)));
                return (Some(reached + 1), bytes);
            }
            match self.heads[stream].step() {
                HeadStep::Bytes(more) => bytes += more,
                HeadStep::Blind => break,
            }
            if !self.heads[stream].is_over() {
                self.behind.push(Reverse((self.heads[stream].reached(), stream)));
            }
        }
        (None, self.left)
    }

    /// Tells who watches the traces that a slice of so many bytes lies behind its reader.
    pub fn tell(&self, bytes: u64) {
        self.watch.iter().for_each(|watch| watch.passed(bytes));
    }
}

impl Drop for Slices<'_> {
    fn drop(&mut self) {
        self.watch.iter().for_each(|watch| watch.end());
    }
}

impl<'t> Reader<'t> {
    /// At the first item of a slice of `traces`, the ones that were cut. It does not tell who watches them.
    pub fn of_slice(traces: &'t [Trace], slice: &Slice) -> Self {
        let mut reader = Self::of_nothing(true);
        let mut parts = slice.streams.iter();
        for (index, trace) in traces.iter().enumerate() {
            for (name, content) in &trace.streams {
                let mut stream = Stream::new(&trace.metadata, &trace.layout, name, content);
                let part = parts.next().and_then(Option::as_ref);
                if let Some(part) = part {
                    stream.begin_slice(&part.begin);
                    stream.held.from_packet = part.next_packet;
                }
                let cuts = Cuts { is_inside: slice.from.is_none(), from: slice.from.unwrap_or(0), to: slice.to };
                reader.add_between_cuts((trace, index), stream, part.map(|_| cuts));
            }
        }
        reader
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::{Memory, Passed};
    use super::*;

    const METADATA: &str = "typealias integer { size = 8; } := u8; typealias integer { size = 64; align = 8; } := u64;
        typealias integer { size = 16; align = 8; } := u16;
        clock { name = c; freq = 1000; };
        typealias integer { size = 8; map = clock.c.value; } := t8;
        stream { packet.context := struct { u16 packet_size; u16 content_size; u64 timestamp_begin; u64 timestamp_end;
                u8 events_discarded; };
            event.header := struct { u8 id; t8 timestamp; }; };
        event { id = 7; name = \"one\"; fields := struct { u8 n; }; };";

    /// Bytes in front of a packet's first record.
    const HEAD_BYTES: usize = 21;

    /// A packet with records at `times`, and a byte that belongs to none.
    fn packet(begin: u64, end: u64, discarded: u8, times: &[u8]) -> Vec<u8> {
        let content = HEAD_BYTES + 3 * times.len();
        let bits = |bytes: usize| (8 * bytes as u16).to_le_bytes();
        let mut packet = [bits(content + 1), bits(content)].concat();
        packet.extend(begin.to_le_bytes());
        packet.extend(end.to_le_bytes());
        packet.push(discarded);
        times.iter().for_each(|&time| packet.extend([7, time, time]));
        packet.push(0);
        packet
    }

    fn opened(streams: Vec<Vec<u8>>) -> Vec<Trace> {
        let named = streams.into_iter().enumerate().map(|(number, bytes)| (format!("s{number}"), bytes));
        let files = Memory { metadata: METADATA.into(), streams: named.collect() };
        vec![Trace::from_files(&files).unwrap().value]
    }

    /// Items with their streams, and caveats by their file.
    type Content = (Vec<(Option<usize>, Passed)>, Vec<(String, String)>);

    /// All that a reader gives.
    fn read(reader: &mut Reader<'_>) -> Content {
        let mut items = Vec::new();
        while let Some(passed) = reader.pass() {
            items.push((reader.stream(), passed));
        }
        let caveats = reader.caveats().map(|(_, caveat)| (caveat.file.clone(), caveat.to_string())).collect();
        (items, caveats)
    }

    /// Checks that slices give what one reader gives. How many there were.
    fn check(traces: &[Trace], slice_bytes: u64) -> usize {
        check_pieces(traces, slice_bytes, *PIECE_BYTES.start())
    }

    /// The same, with pieces of another size.
    fn check_pieces(traces: &[Trace], slice_bytes: u64, piece_bytes: u64) -> usize {
        let whole = read(&mut Reader::new(traces));
        let mut slices = Slices::of_pieces(traces, slice_bytes, piece_bytes).unwrap();
        let (mut items, mut caveats, mut count) = (Vec::new(), Vec::new(), 0);
        while let Some(slice) = slices.next() {
            let (more, wrong) = read(&mut Reader::of_slice(traces, &slice));
            items.extend(more);
            caveats.extend(wrong);
            count += 1;
        }
        caveats.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!((items, caveats), whole, "slices of {slice_bytes} bytes, pieces of {piece_bytes}");
        assert_eq!(slices.left, 0, "all bytes are told of");
        count
    }

    #[test]
    fn slices_are_the_whole() {
        let a = [packet(1, 9, 0, &[1, 5, 9]), packet(10, 20, 3, &[10, 20]), packet(30, 40, 3, &[31])].concat();
        let b = [packet(2, 12, 0, &[2, 2, 12]), packet(12, 12, 0, &[12]), packet(39, 50, 9, &[39, 50])].concat();
        let traces = opened(vec![a, b, Vec::new(), packet(200, 210, 0, &[205])]);
        assert!(check(&traces, 140) > 1);
        assert_eq!(check(&traces, 1 << 20), 1);
    }

    #[test]
    fn odd_times_and_damage_are_told_once() {
        // A record behind its packet's end, one that goes back, an overlap, no end, and bytes that are no packet.
        let a = [packet(1, 9, 0, &[1, 30, 9]), packet(20, 28, 0, &[25, 21]), packet(27, 60, 1, &[27, 60])].concat();
        let b =
            [packet(1, 0, 0, &[1, 3]), packet(10, 70, 0, &[80, 90, 12]), vec![255; 30], packet(5, 9, 0, &[6])].concat();
        for bytes in [70, 90, 120, 200] {
            let traces = opened(vec![a.clone(), b.clone()]);
            check(&traces, bytes);
        }
    }

    /// Times that go up, by steps of 0 and more.
    fn rising(from: u8, to: u8, count: usize) -> Vec<u8> {
        let span = usize::from(to - from);
        (0..count).map(|index| from + (index * span / count) as u8).collect()
    }

    #[test]
    fn large_packets_are_cut_between_their_records() {
        // 4 records are 12 bytes; a packet of 70 has 18 pieces of 12 bytes.
        let large =
            |begin: u8, end: u8, discarded: u8| packet(begin.into(), end.into(), discarded, &rising(begin, end, 70));
        let a = [large(1, 60, 0), packet(60, 61, 0, &[60, 61]), large(62, 120, 3), large(130, 250, 9)].concat();
        let b = [large(2, 100, 1), large(100, 101, 1), large(101, 200, 4)].concat();
        let traces = opened(vec![a, b, packet(5, 90, 0, &[7, 90])]);
        for (slice, piece) in [(80, 12), (100, 12), (250, 12), (80, 3), (90, 1), (200, 40), (5000, 12)] {
            let slices = check_pieces(&traces, slice, piece);
            assert_eq!(slices > 1, slice < 5000, "{slice} {piece}");
        }
        // Without pieces the same has fewer slices: the largest packets are not cut.
        assert!(check_pieces(&traces, 100, 12) > check_pieces(&traces, 700, 1 << 20));
    }

    #[test]
    fn odd_records_of_large_packets_are_told_once() {
        let mut seed = 1u32;
        let mut random = move |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        for _ in 0..400 {
            let streams: Vec<Vec<u8>> = (0..1 + random(3))
                .map(|_| {
                    let mut stream = Vec::new();
                    let mut begin = u64::from(random(20));
                    for _ in 0..1 + random(4) {
                        let end = begin + u64::from(random(60));
                        let mut times = rising(begin.min(255) as u8, end.min(255) as u8, 1 + random(70) as usize);
                        for _ in 0..random(4) {
                            let at = random(times.len() as u32) as usize;
                            times[at] = random(256) as u8;
                        }
                        let mut bytes = packet(begin, if random(6) == 0 { 0 } else { end }, random(4) as u8, &times);
                        match random(12) {
                            // An event that there is not, and a packet without its last bytes.
                            0 => bytes[HEAD_BYTES + 3 * (times.len() / 2)] = 9,
                            1 => bytes.truncate(bytes.len() / 2),
                            _ => {}
                        }
                        stream.extend(bytes);
                        begin = (end + u64::from(random(9))).saturating_sub(u64::from(random(6)));
                    }
                    stream
                })
                .collect();
            let traces = opened(streams);
            let whole = check_pieces(&traces, u64::MAX, 1);
            assert_eq!(whole, 1);
            for (slice, piece) in [(64, 1), (90, 6), (150, 12)] {
                // The first packets may be too long for slices that are not cut within them.
                if Slices::of_pieces(&traces, slice, piece).is_some() {
                    check_pieces(&traces, slice, piece);
                }
            }
        }
    }

    /// A trace in files, of one stream with `packets` packets of 2000 records.
    fn in_files(packets: u8) -> (tempfile::TempDir, Vec<Trace>) {
        let dir = tempfile::tempdir().unwrap();
        let times = |number: u8| rising(8 * number, 8 * number + 7, 2000);
        let stream: Vec<u8> = (0..packets)
            .flat_map(|number| packet(u64::from(8 * number), u64::from(8 * number + 7), 0, &times(number)))
            .collect();
        std::fs::write(dir.path().join("metadata"), METADATA).unwrap();
        std::fs::write(dir.path().join("s"), stream).unwrap();
        let trace = Trace::open(dir.path()).unwrap().value;
        (dir, vec![trace])
    }

    #[test]
    fn a_file_that_is_cut_short_is_told_of_whenever_that_happens() {
        // Slices that are made, and those that are read, when the file is cut to its first page.
        let (dir, whole) = in_files(20);
        let mut slices = Slices::of_pieces(&whole, 8000, 600).unwrap();
        let count = std::iter::from_fn(|| slices.next()).count();
        assert!(count > 8, "{count} slices");
        drop(dir);
        for made in 0..=count {
            for read_first in 0..made.min(count - 1) {
                let (dir, traces) = in_files(20);
                let mut slices = Slices::of_pieces(&traces, 8000, 600).unwrap();
                let mut wrong = Vec::new();
                let mut waiting: VecDeque<Slice> = (0..made).map_while(|_| slices.next()).collect();
                for slice in waiting.drain(..read_first) {
                    wrong.extend(read(&mut Reader::of_slice(&traces, &slice)).1);
                }
                assert!(wrong.is_empty(), "{wrong:?}");
                let file = std::fs::File::options().write(true).open(dir.path().join("s")).unwrap();
                file.set_len(4096).unwrap();
                while let Some(slice) = waiting.pop_front().or_else(|| slices.next()) {
                    wrong.extend(read(&mut Reader::of_slice(&traces, &slice)).1);
                }
                let is_told = wrong.iter().any(|(_, text)| text.contains("the file was cut short"));
                assert!(is_told, "{made} made, {read_first} read: {wrong:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_cut_is_said() {
        let short = "typealias integer { size = 8; } := u8; clock { name = c; freq = 1000; };
            stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
            event { id = 7; name = \"one\"; fields := struct { u8 n; }; };";
        let files = Memory { metadata: short.into(), streams: vec![("s".into(), vec![7, 1, 1, 7, 2, 2])] };
        let traces = vec![Trace::from_files(&files).unwrap().value];
        assert!(Slices::new(&traces, 1).is_none());
        let traces = opened(vec![packet(1, 9, 0, &[1]), packet(1, 9, 0, &[1])]);
        assert!(Slices::new(&traces, 20).is_none());
    }
}
