// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up ELF files of both sizes and byte orders, whole and damaged.

use proptest::prelude::*;

use super::*;

const ID: [u8; 20] = *b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14";

fn number(out: &mut [u8], at: usize, size: usize, value: u64, big: bool) {
    let mut bytes = value.to_le_bytes()[..size].to_vec();
    if big {
        bytes.reverse();
    }
    out[at..at + size].copy_from_slice(&bytes);
}

fn note(name: &[u8], kind: u64, desc: &[u8], big: bool) -> Vec<u8> {
    let mut out = vec![0; 12];
    number(&mut out, 0, 4, name.len() as u64, big);
    number(&mut out, 4, 4, desc.len() as u64, big);
    number(&mut out, 8, 4, kind, big);
    for part in [name, desc] {
        out.extend_from_slice(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

/// A file with a loaded segment, and a segment of two notes of which the second is the build id.
fn elf(shape: &ElfLayout, big: bool, id: &[u8]) -> Vec<u8> {
    let notes = [note(b"stapsdt\0", 3, b"odd", big), note(b"GNU\0", 3, id, big)].concat();
    let (table, entry) = (64, shape.entry_bytes as usize);
    let notes_at = table + 2 * entry;
    let mut out = vec![0; notes_at];
    out[..4].copy_from_slice(b"\x7fELF");
    out[4] = if shape.word == 4 { 1 } else { 2 };
    out[5] = if big { 2 } else { 1 };
    number(&mut out, shape.table_offset_at, shape.word, table as u64, big);
    number(&mut out, shape.entry_bytes_at, 2, entry as u64, big);
    number(&mut out, shape.entry_bytes_at + 2, 2, 2, big);
    number(&mut out, table, 4, 1, big);
    number(&mut out, table + entry, 4, PT_NOTE, big);
    number(&mut out, table + entry + shape.offset_at, shape.word, notes_at as u64, big);
    number(&mut out, table + entry + shape.file_size_at, shape.word, notes.len() as u64, big);
    number(&mut out, table + entry + shape.align_at, shape.word, 4, big);
    out.extend_from_slice(&notes);
    out
}

fn id_of(file: &[u8]) -> Option<Vec<u8>> {
    let mut read = |offset: u64, buffer: &mut [u8]| {
        assert!(buffer.len() <= 64 << 10, "a read of {} bytes", buffer.len());
        let start = usize::try_from(offset).ok();
        let part = start.and_then(|start| file.get(start..start.checked_add(buffer.len())?));
        part.map(|part| buffer.copy_from_slice(part)).is_some()
    };
    of_elf(&mut read).map(|id| id.bytes().to_vec())
}

#[test]
fn both_sizes_and_orders() {
    for shape in [&ELF32, &ELF64] {
        for big in [false, true] {
            assert_eq!(id_of(&elf(shape, big, &ID)), Some(ID.to_vec()), "word {} big {big}", shape.word);
        }
    }
}

#[test]
fn lengths() {
    assert_eq!(id_of(&elf(&ELF64, false, &[7; 64])), Some(vec![7; 64]));
    assert_eq!(id_of(&elf(&ELF64, false, &[7; 65])), None);
    assert_eq!(id_of(&elf(&ELF64, false, &[])), None);
}

#[test]
fn every_cut_has_no_id() {
    let whole = elf(&ELF64, false, &ID);
    for end in 0..whole.len() {
        assert_eq!(id_of(&whole[..end]), None, "{end}");
    }
}

#[test]
fn huge_sizes_and_offsets() {
    for at in [64 + 56 + 8, 64 + 56 + 32, 32] {
        let mut file = elf(&ELF64, false, &ID);
        number(&mut file, at, 8, u64::MAX, false);
        assert_eq!(id_of(&file), None, "{at}");
    }
    let mut file = elf(&ELF64, false, &ID);
    let notes_at = 64 + 2 * 56;
    number(&mut file, notes_at, 4, u64::from(u32::MAX), false);
    assert_eq!(id_of(&file), None);
}

#[test]
fn notes_of_the_kernel() {
    let big = cfg!(target_endian = "big");
    let notes = [note(b"Xen\0", 6, b"linux\0", big), note(b"GNU\0", 3, &ID, big)].concat();
    assert_eq!(of_kernel(&notes).map(|id| id.bytes().to_vec()), Some(ID.to_vec()));
    assert_eq!(of_kernel(b""), None);
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0usize..260, value: u8, at2 in 0usize..260, value2: u8, narrow: bool, big: bool) {
        let mut file = elf(if narrow { &ELF32 } else { &ELF64 }, big, &ID);
        for (at, value) in [(at, value), (at2, value2)] {
            if let Some(byte) = file.get_mut(at) {
                *byte = value;
            }
        }
        id_of(&file);
    }
}
