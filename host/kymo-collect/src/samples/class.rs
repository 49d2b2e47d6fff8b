// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classes of samples and of the maps that come with them, and records of these.

use kymo_abi::record_head;
use kymo_ctf::write::{EventClass, Field, FieldClass, Number};

use super::parse::{Map, Sample};
use crate::kernel::STATE_FIRST_ID;

/// The id of a sample: above those of the state dump.
const SAMPLE_ID: u16 = 65_400;
/// The class of the state dump that says what is mapped where.
const MAP_CLASS: &str = "lttng_statedump_vm_map";
/// A map can be executed, and read: the flags that the state dump has for it.
const EXECUTABLE: u64 = 5;

/// The classes that samples need and that `known` does not have.
pub(crate) fn classes(known: &[EventClass]) -> Vec<EventClass> {
    let field = |(name, class): (&str, FieldClass)| Field { name: name.to_owned(), class };
    let fields = [
        ("pid", FieldClass::Number(Number::signed(32))),
        ("ip", FieldClass::Number(Number::hex(64))),
        ("period", FieldClass::Number(Number::unsigned(64))),
        ("callstack", FieldClass::Seq { element: Number::hex(64) }),
    ];
    let sample = EventClass {
        id: SAMPLE_ID,
        name: "perf:cpu-clock".to_owned(),
        file: String::new(),
        line: 0,
        fields: fields.map(field).to_vec(),
    };
    let map = kymo_state::classes(STATE_FIRST_ID).into_iter().filter(|class| class.name == MAP_CLASS);
    let new = map.filter(|class| !known.iter().any(|known| known.id == class.id));
    new.chain([sample]).collect()
}

/// Adds the record of a sample.
pub(super) fn push_sample(out: &mut Vec<u8>, cycles: u64, sample: &Sample<'_>) {
    push_head(out, SAMPLE_ID, cycles, sample.tid);
    out.extend_from_slice(&sample.pid.to_le_bytes());
    out.extend_from_slice(&sample.ip.to_le_bytes());
    out.extend_from_slice(&sample.period.to_le_bytes());
    let begin = out.len();
    out.extend_from_slice(&[0, 0]);
    let mut count = 0u16;
    for address in sample.addresses() {
        out.extend_from_slice(&address.to_le_bytes());
        count += 1;
    }
    if count == 0 {
        out.extend_from_slice(&sample.ip.to_le_bytes());
        count = 1;
    }
    out[begin..begin + 2].copy_from_slice(&count.to_le_bytes());
}

/// Adds the record of a map.
pub(super) fn push_map(out: &mut Vec<u8>, cycles: u64, map: &Map<'_>) {
    let classes = kymo_state::classes(STATE_FIRST_ID);
    let Some(class) = classes.iter().find(|class| class.name == MAP_CLASS) else { return };
    push_head(out, class.id, cycles, map.pid);
    out.extend_from_slice(&map.pid.to_le_bytes());
    let end = map.start.saturating_add(map.bytes);
    for number in [map.start, end, EXECUTABLE, map.inode, map.offset] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let path = String::from_utf8_lossy(map.path);
    push_blob(out, path.as_bytes());
    push_blob(out, map.build_id);
}

fn push_head(out: &mut Vec<u8>, id: u16, cycles: u64, tid: i32) {
    out.extend_from_slice(&record_head(id, cycles));
    out.extend_from_slice(&tid.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
}

fn push_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&bytes[..usize::from(length)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map's record has the fields of its class, in its order.
    #[test]
    fn maps_are_those_of_the_state_dump() {
        let class = kymo_state::classes(STATE_FIRST_ID).into_iter().find(|class| class.name == MAP_CLASS).unwrap();
        let names: Vec<&str> = class.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["pid", "start", "end", "flags", "inode", "pgoff", "path", "build_id"]);
        let mut out = Vec::new();
        let map = Map { pid: 7, start: 0x1000, bytes: 0x500, offset: 3, inode: 9, path: b"/x", build_id: &[1, 2, 3] };
        push_map(&mut out, 5, &map);
        assert_eq!(out.len(), 8 + 6 + 4 + 5 * 8 + 2 + 2 + 2 + 3);
        assert_eq!(out[14..18], 7i32.to_le_bytes());
        assert_eq!(out[26..34], 0x1500u64.to_le_bytes());
    }

    #[test]
    fn a_sample_counts_its_addresses() {
        let chain: Vec<u8> = [u64::MAX - 511, 0x10, 0x20].iter().flat_map(|word| word.to_le_bytes()).collect();
        let sample = Sample { pid: 7, tid: 8, ip: 0x10, time_ns: 1, period: 1000, chain: &chain };
        let mut out = Vec::new();
        push_sample(&mut out, 5, &sample);
        assert_eq!(out.len(), 8 + 6 + 4 + 8 + 8 + 2 + 16);
        assert_eq!(out[34..36], 2u16.to_le_bytes());
        assert_eq!(out[8..12], 8i32.to_le_bytes());
    }

    #[test]
    fn a_class_that_is_there_is_not_described_again() {
        let all = classes(&[]);
        assert_eq!(all.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), [MAP_CLASS, "perf:cpu-clock"]);
        assert_eq!(classes(&kymo_state::classes(STATE_FIRST_ID)).len(), 1);
    }
}
