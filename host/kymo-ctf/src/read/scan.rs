// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream for itself, from its first item to its last: times and events, and fields where somebody looks at them.

use super::error::Caveat;
use super::glance::{Glance, PacketWriter};
use super::lens::Lens;
use super::stream::{Next, PacketMark, Stream, Until};
use super::trace::Trace;
use super::value::Value;
use super::watch::Watch;

/// An item of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// A record.
    Record {
        /// Position of its type in [`super::Metadata::events`].
        event: usize,
        /// The full value of the clock.
        cycles: u64,
    },
    /// Records that are not there.
    Loss {
        /// How many.
        records: u64,
        /// Whole packets.
        packets: u64,
        /// Clock: not before.
        from_cycles: u64,
        /// Clock: not after.
        to_cycles: u64,
    },
}

/// Goes through one stream.
pub struct Scan<'t>(Stream<'t>);

impl Trace {
    /// Of the stream at position `index` of [`Trace::streams`].
    pub fn scan(&self, index: usize) -> Scan<'_> {
        let (name, content) = &self.streams[index];
        let mut stream = Stream::new(&self.metadata, &self.layout, name, content);
        stream.watch = self.watcher();
        Scan(stream)
    }
}

impl Scan<'_> {
    /// The next item.
    #[expect(clippy::should_implement_trait, reason = "the same form as Reader")]
    #[inline]
    pub fn next(&mut self) -> Option<Scanned> {
        Some(match self.0.advance() {
            Next::Record => Scanned::Record { event: self.0.event, cycles: self.0.time },
            Next::Lost(lost) => Scanned::Loss {
                records: lost.records,
                packets: lost.packets,
                from_cycles: lost.from,
                to_cycles: lost.to,
            },
            Next::End => return None,
        })
    }

    /// Passes over records behind the last item, in the same packet, as long as they are plain: faster than item by
    /// item. `note` gets of each the position of its event, and its cycles.
    #[inline]
    pub fn pass_plain(&mut self, note: impl FnMut(usize, u64)) {
        self.0.pass_plain(Until::END, note);
    }

    /// The same of records of chosen events whose fields begin with a byte. `note` also gets the bytes from the first
    /// field on, as [`Glance::fields`] has them.
    #[inline]
    pub fn pass_chosen(&mut self, is_chosen: impl Fn(usize) -> bool, mut note: impl FnMut(usize, u64, &[u8])) {
        let data = self.0.data;
        self.0.pass_chosen(Until { whole_bytes: true, ..Until::END }, is_chosen, |event, cycles, at| {
            note(event, cycles, data.get((at / 8) as usize..).unwrap_or_default());
        });
    }

    /// The field that a lens shows of the record that [`Scan::next`] gave last.
    pub fn value(&self, lens: &Lens) -> Option<Value<'_>> {
        let stream = &self.0;
        Glance::new(0, stream.event, 0, &stream.facts, &stream.decoder.frame).value(lens)
    }

    /// The packet of the last item.
    pub fn packet_mark(&self) -> &PacketMark {
        self.0.packet_mark()
    }

    /// The process that the packet of the last item names.
    pub fn vpid(&self) -> Option<u32> {
        self.0.facts.vpid
    }

    /// What the packet of the last item says of who wrote it.
    pub fn packet_writer(&self) -> PacketWriter<'_> {
        PacketWriter { pid: self.0.facts.vpid, tid: self.0.facts.vtid, name: &self.0.facts.procname }
    }

    /// The CPU of the packet of the last item.
    pub fn cpu(&self) -> Option<u32> {
        self.0.facts.cpu
    }

    /// What was wrong so far, and how much: more than are listed where a file has very many.
    pub fn caveats(&self) -> (&[Caveat], u64) {
        (&self.0.caveats.listed, self.0.caveats.count())
    }
}

/// A pass that scans streams one by one; it is over when this is dropped.
pub struct Scans<'t>(Option<&'t dyn Watch>);

impl<'t> Scans<'t> {
    /// Of these: each a trace and a position in [`Trace::streams`].
    pub fn of(streams: &[(&'t Trace, usize)]) -> Scans<'t> {
        let watch = streams.first().and_then(|(trace, _)| trace.watcher());
        if let Some(watch) = watch {
            let bytes =
                |(trace, stream): &(&Trace, usize)| trace.streams.get(*stream).map_or(0, |(_, of)| of.len() as u64);
            watch.begin(Some(streams.iter().map(bytes).sum()));
        }
        Scans(watch)
    }
}

impl Drop for Scans<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.0 {
            watch.end();
        }
    }
}
