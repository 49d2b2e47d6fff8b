// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stretch of time in which all streams have data: by the heads of packets, no record is decoded [spec/read.md 6].

use std::collections::BTreeMap;

use kymo_ctf::read::Trace;
use kymo_ctf::write::EnvValue;
use kymo_feed::clamp;

use crate::open::{Indexes, Named};

/// From when to when one stream has data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStretch {
    /// The trace and the file, or the first of its files.
    pub name: String,
    /// Begin of its first packet, ns.
    pub from: i64,
    /// End of its last packet, ns, and with it.
    pub to: i64,
}

/// The stretch that streams have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intersection {
    /// The stream that begins last: there the stretch begins.
    pub begins_last: StreamStretch,
    /// The stream that ends first: there it ends.
    pub ends_first: StreamStretch,
    /// From the first begin of a stream to the last end, ns.
    pub whole: (i64, i64),
    /// How many streams have a packet.
    pub streams: usize,
}

impl Intersection {
    /// The first ns of the stretch, and the first one behind it; `None` where streams have no time in common.
    pub fn stretch(&self) -> Option<(i64, i64)> {
        let (from, to) = (self.begins_last.from, self.ends_first.to);
        (from <= to).then_some((from, to.saturating_add(1)))
    }
}

/// Files of one stream: those of one directory as it was named, of one class and with one number; else one file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Numbered(usize, usize, u64),
    File(usize, String),
}

/// Whether a stream of a kymo session says what there was, or what people remarked: it has data now and then.
fn is_about_others(trace: &Trace, file: &str) -> bool {
    let is_ours = |(key, value): &(String, EnvValue)| {
        key == "recorded_by" && matches!(value, EnvValue::Text(name) if name.starts_with("kymo"))
    };
    ["state_", "marks_"].iter().any(|begin| file.starts_with(begin)) && trace.metadata.env.iter().any(is_ours)
}

/// Of all streams of all traces, as `named`; state dumps, marks, and streams without a packet do not count. `None`
/// where none has one.
pub fn intersection(traces: &[Trace], named: &[Named], indexes: &Indexes) -> Option<Intersection> {
    let mut streams: BTreeMap<Key, StreamStretch> = BTreeMap::new();
    let dirs = named.iter().enumerate().flat_map(|(dir, named)| named.parts.iter().map(move |_| dir));
    for ((index, trace), dir) in traces.iter().enumerate().zip(dirs) {
        let known = indexes.traces.get(index).and_then(Option::as_ref);
        for (stream, (file, _)) in trace.streams().enumerate() {
            if is_about_others(trace, file) {
                continue;
            }
            let entries = known.and_then(|known| known.entries(stream));
            let near_end = entries.as_ref().and_then(|entries| entries.last()).map(|entry| &entry.mark);
            let Some(span) = trace.stream_span(stream, near_end) else { continue };
            let (from, to) = (clamp(span.from_ns), clamp(span.to_ns));
            let key = span
                .instance
                .map_or_else(|| Key::File(dir, file.to_owned()), |number| Key::Numbered(dir, span.class, number));
            let name = format!("{}/{file}", trace.label);
            let of = streams.entry(key).or_insert(StreamStretch { name, from, to });
            (of.from, of.to) = (of.from.min(from), of.to.max(to));
        }
    }
    let begins_last = streams.values().max_by_key(|of| of.from)?.clone();
    let ends_first = streams.values().min_by_key(|of| of.to)?.clone();
    let whole = (streams.values().map(|of| of.from).min()?, streams.values().map(|of| of.to).max()?);
    Some(Intersection { begins_last, ends_first, whole, streams: streams.len() })
}
