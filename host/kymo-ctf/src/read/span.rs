// SPDX-License-Identifier: MIT OR Apache-2.0
//! From when to when streams have data, without a look at their records.

use super::stream::{Moment, PacketMark, Stream};
use super::trace::Trace;

/// From when to when a stream has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSpan {
    /// Position of its stream class, as of its first packet.
    pub class: usize,
    /// The number that its first packet has for the stream: files of one class with one number are one stream.
    pub instance: Option<u64>,
    /// Begin of its first packet, ns as [`super::Record::ns`]; of its first record where packets have no such time.
    pub from_ns: i128,
    /// End of its last packet, and with it; of its last record where that packet has no such time.
    pub to_ns: i128,
}

impl Trace {
    /// Of the stream at position `index` of [`Trace::streams`]. Reads the heads of its packets; with `near_end`, a
    /// packet near its end, only those behind it. `None` where the stream has no packet, or there is no such stream.
    pub fn stream_span(&self, index: usize, near_end: Option<&PacketMark>) -> Option<StreamSpan> {
        let (name, content) = self.streams.get(index)?;
        let ends = Stream::new(&self.metadata, &self.layout, name, content).ends(near_end)?;
        let ns = |(class, cycles): Moment| {
            let clock = self.metadata.streams.get(class)?.clock;
            Some(self.metadata.clocks.get(clock)?.nanoseconds(cycles))
        };
        let (class, instance) = (ends.begin.0, ends.instance);
        Some(StreamSpan { class, instance, from_ns: ns(ends.begin)?, to_ns: ns(ends.end)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Memory, Trace};
    use super::*;

    const HEAD: &str = "typealias integer { size = 8; } := u8;
        clock { name = c; freq = 1000; };";

    fn trace(context: &str, stream: Vec<u8>) -> Trace {
        let metadata = format!(
            "{HEAD} stream {{ packet.context := struct {{ u8 packet_size; u8 content_size; {context} }};
                event.header := struct {{ u8 id; integer {{ size = 8; map = clock.c.value; }} timestamp; }}; }};
            event {{ id = 7; name = \"one\"; fields := struct {{ u8 n; }}; }};"
        );
        let files = Memory { metadata: metadata.into(), streams: vec![("a".into(), stream)] };
        Trace::from_files(&files).unwrap().value
    }

    fn span(trace: &Trace) -> Option<(i128, i128)> {
        trace.stream_span(0, None).map(|span| (span.from_ns / 1_000_000, span.to_ns / 1_000_000))
    }

    const TIMES: &str = "integer { size = 8; map = clock.c.value; } timestamp_begin;
        integer { size = 8; map = clock.c.value; } timestamp_end;";

    /// A packet of eight bytes: begin, end, a record at `time`.
    fn packet(begin: u8, end: u8, time: u8) -> [u8; 8] {
        [64, 56, begin, end, 7, time, 1, 0]
    }

    #[test]
    fn packets_tell_when_a_stream_begins_and_ends() {
        let whole = [packet(10, 20, 15), packet(20, 30, 25), packet(40, 50, 45)].concat();
        assert_eq!(span(&trace(TIMES, whole.clone())), Some((10, 50)));
        // One packet near the end is enough to find the last one.
        let of = trace(TIMES, whole.clone());
        let mark = PacketMark { offset: 8, number: 1, ..PacketMark::default() };
        assert_eq!(of.stream_span(0, Some(&mark)), of.stream_span(0, None));
        // No such place in this file: the heads of all packets are read.
        let mark = PacketMark { offset: 800, number: 1, ..PacketMark::default() };
        assert_eq!(of.stream_span(0, Some(&mark)), of.stream_span(0, None));
        // A packet that the tracer did not end has that of its last record.
        let killed = [packet(10, 20, 15), packet(20, 0, 25)].concat();
        assert_eq!(span(&trace(TIMES, killed)), Some((10, 25)));
        // What is cut off at the end still says when it ends.
        assert_eq!(span(&trace(TIMES, whole[..20].to_vec())), Some((10, 50)));
        assert_eq!(span(&trace(TIMES, Vec::new())), None);
        assert_eq!(trace(TIMES, Vec::new()).stream_span(1, None), None);
    }

    /// Times of 8 bits wrap: in a packet, between packets, and several times in one packet.
    #[test]
    fn short_times_of_packets_go_on_from_records() {
        let wraps = [packet(250, 20, 252), packet(30, 40, 33)].concat();
        assert_eq!(span(&trace(TIMES, wraps)), Some((250, 296)));
        let long = [128, 128, 10, 100, 7, 50, 1, 7, 200, 1, 7, 40, 1, 7, 10, 1];
        let of = trace(TIMES, long.to_vec());
        // The record at 40 is the one at 296, that at 10 the one at 522: the end of 100 is the first behind it.
        assert_eq!(span(&of), Some((10, 612)));
    }

    #[test]
    fn records_tell_where_packets_have_no_times() {
        let packets = [[40, 40, 7, 12, 1], [40, 40, 7, 33, 1]].concat();
        assert_eq!(span(&trace("", packets)), Some((12, 33)));
        assert_eq!(span(&trace("", vec![16, 16])), None);
    }
}
