// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lines have in common, made once: the fields that are shown of each event with their names, and the part of a
//! line that says where a record was written.

use kymo_ctf::read::{Base, Direct, FieldInfo, FieldKind, Lens, Record, RecordPart, Trace};

use super::line::Label;
use super::select::Selection;

/// A field that is shown: payload, then contexts (`$prio`): those of all events of its stream, then its own.
pub struct Column {
    /// Where it is, and the same if that is always the same place.
    pub lens: Lens,
    pub direct: Option<Direct>,
    /// An integer's base.
    pub base: Base,
    /// Its name, as it stands in a line in front of all others, and behind others.
    pub first: Label,
    pub later: Label,
}

/// The fields that are shown, by trace and event.
pub struct Columns(Vec<Vec<Vec<Column>>>);

impl Columns {
    /// `write` puts a name into a line.
    pub fn new(traces: &[Trace], selection: &Selection, write: impl Fn(&mut Vec<u8>, &str)) -> Self {
        let column = |trace: &Trace, event: usize, part: RecordPart, field: FieldInfo<'_>| {
            let mut label = b", ".to_vec();
            label.extend_from_slice(if part == RecordPart::Payload { b"" } else { b"$" });
            write(&mut label, field.name);
            let base = if let FieldKind::Int { base, .. } = field.kind { base } else { Base::Decimal };
            let lens = trace.lens(event, part, field.position);
            Column { lens, direct: lens.direct(), base, first: Label::new(&label[2..]), later: Label::new(&label) }
        };
        let of_event = |trace: &Trace, event: usize| {
            let metadata = &trace.metadata;
            let payload = metadata.fields(&metadata.events[event]).into_iter();
            let payload = payload.filter(|field| !field.is_length && selection.has_field(field.name));
            let contexts = metadata.contexts(event).into_iter().map(|field| (RecordPart::CommonContext, field));
            let own = metadata.own_contexts(event).into_iter().map(|field| (RecordPart::Context, field));
            let shown =
                |(_, field): &(RecordPart, FieldInfo<'_>)| !field.is_length && selection.has_context(field.name);
            let contexts = contexts.chain(own).filter(shown);
            let payload = payload.map(|field| (RecordPart::Payload, field));
            payload.chain(contexts).map(|(part, field)| column(trace, event, part, field)).collect()
        };
        let of_trace = |trace: &Trace| (0..trace.metadata.events.len()).map(|event| of_event(trace, event)).collect();
        Self(traces.iter().map(of_trace).collect())
    }

    /// Of the record's event.
    #[inline]
    pub fn of(&self, record: &Record<'_>) -> &[Column] {
        &self.0[record.trace][record.event_position]
    }
}

/// Parts of lines that records have in common which were written in the same thread, on the same CPU, and are of the
/// same event.
#[derive(Default)]
pub struct Heads([ColumnsHead; HEADS]);

/// Of so many threads that take turns the parts are remembered.
const HEADS: usize = 32;

#[derive(Default)]
struct ColumnsHead {
    /// Trace and event, CPU, process, thread.
    of: Option<[u64; 4]>,
    procname: String,
    bytes: Vec<u8>,
}

impl Heads {
    /// The record's head, which `make` makes where it is not remembered.
    #[inline]
    pub fn of(&mut self, record: &Record<'_>, make: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        const KNOWN: u64 = 1 << 32;
        let threads = [record.cpu, record.vpid, record.vtid].map(|number| number.map_or(0, |id| KNOWN | u64::from(id)));
        // Traces and events are counted in 32 bits.
        let of = [(record.trace as u64) << 32 | record.event_position as u64, threads[0], threads[1], threads[2]];
        let mixed = record.event_position ^ threads[2] as u32 as usize ^ (threads[0] as u32 as usize) << 2;
        let head = &mut self.0[mixed % HEADS];
        let is_same = head.of.is_some_and(|known| (0..4).fold(0, |differs, i| differs | (known[i] ^ of[i])) == 0);
        if !is_same || !is_same_name(head.procname.as_bytes(), record.procname.as_bytes()) {
            (head.of, head.procname) = (Some(of), record.procname.to_owned());
            head.bytes.clear();
            make(&mut head.bytes);
        }
        &head.bytes
    }
}

/// Names are short: by words, without a call.
#[inline]
fn is_same_name(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() || a.len() > 16 {
        return a == b;
    }
    match (a.first_chunk::<4>(), b.first_chunk::<4>(), a.last_chunk::<4>(), b.last_chunk::<4>()) {
        (Some(a_head), Some(b_head), Some(a_tail), Some(b_tail)) if a.len() <= 8 => {
            a_head == b_head && a_tail == b_tail
        }
        (Some(_), ..) => match (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>()) {
            (Some(a_head), Some(b_head), Some(a_tail), Some(b_tail)) => a_head == b_head && a_tail == b_tail,
            _ => a == b,
        },
        _ => a.iter().eq(b),
    }
}

#[cfg(test)]
mod tests {
    use super::is_same_name;

    #[test]
    fn names_are_compared_whole() {
        for len in 0..24 {
            let name: Vec<u8> = (0..len).map(|i| b'a' + i as u8).collect();
            assert!(is_same_name(&name, &name.clone()));
            assert!(!is_same_name(&name, b"another name that is longer"));
            for at in 0..len {
                let mut other = name.clone();
                other[at] ^= 1;
                assert!(!is_same_name(&name, &other), "{len} {at}");
            }
        }
    }
}
