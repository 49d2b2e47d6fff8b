//! What lines have in common, made once: the fields that are shown of each event with their names, and the part of a line that
//! says where a record was written.

use kymo_ctf::read::{Base, FieldInfo, FieldKind, Lens, Record, RecordPart, Trace};

use super::line::Label;
use super::select::Selection;

/// A field that is shown: payload, then contexts (`$prio`).
pub struct Column {
    /// Where it is.
    pub lens: Lens,
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
            label.extend_from_slice(if part == RecordPart::CommonContext { b"$" } else { b"" });
            write(&mut label, field.name);
            let base = if let FieldKind::Int { base, .. } = field.kind { base } else { Base::Decimal };
            let lens = trace.lens(event, part, field.position);
            Column { lens, base, first: Label::new(&label[2..]), later: Label::new(&label) }
        };
        let of_event = |trace: &Trace, event: usize| {
            let metadata = &trace.metadata;
            let payload = metadata.fields(&metadata.events[event]).into_iter();
            let payload = payload.filter(|field| !field.is_length && selection.has_field(field.name));
            let contexts = metadata.contexts(event).into_iter();
            let contexts = contexts.filter(|field| !field.is_length && selection.has_context(field.name));
            let payload = payload.map(|field| column(trace, event, RecordPart::Payload, field));
            payload.chain(contexts.map(|field| column(trace, event, RecordPart::CommonContext, field))).collect()
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

/// Parts of lines that records have in common which were written in the same thread, on the same CPU, and are of the same event.
#[derive(Default)]
pub struct Heads([Head; HEADS]);

/// Of so many threads that take turns the parts are remembered.
const HEADS: usize = 32;

#[derive(Default)]
struct Head {
    /// Trace, event, CPU, process, thread.
    of: Option<(usize, usize, [Option<u32>; 3])>,
    procname: String,
    bytes: Vec<u8>,
}

impl Heads {
    /// The record's head, which `make` makes where it is not remembered.
    #[inline]
    pub fn of(&mut self, record: &Record<'_>, make: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let threads = [record.cpu, record.vpid, record.vtid];
        let of = Some((record.trace, record.event_position, threads));
        let mixed = record.event_position ^ record.vtid.unwrap_or(0) as usize ^ (record.cpu.unwrap_or(0) as usize) << 2;
        let head = &mut self.0[mixed % HEADS];
        // Byte by byte: names are short, and mostly there are none.
        let is_same = head.procname.len() == record.procname.len() && head.procname.bytes().eq(record.procname.bytes());
        if head.of != of || !is_same {
            (head.of, head.procname) = (of, record.procname.to_owned());
            head.bytes.clear();
            make(&mut head.bytes);
        }
        &head.bytes
    }
}
