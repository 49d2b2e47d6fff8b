// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rust side against the C compiler: sizes, offsets and constants of `emit/include/kymo/abi`.

use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use kymo_abi::desc::{Desc, EnumDesc, EventDesc, Field, FieldType, Scalar};
use kymo_abi::ring::{self, Layout, MemHeader, RingBlock};
use kymo_abi::wire::{self, Attached, ByeReason, DescEntry, Filter, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, RingKind};

/// Compiles a C program that prints `expressions` as unsigned numbers, one a line, and runs it.
fn in_c(expressions: &[&str]) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("layout.c");
    let mut text = String::from(
        "#include <stdio.h>\n#include <kymo/abi/desc.h>\n#include <kymo/abi/filter.h>\n#include <kymo/abi/ring.h>\n#include <kymo/abi/wire.h>\nint main(void) {\n",
    );
    for expression in expressions {
        text += &format!("printf(\"%llu\\n\", (unsigned long long)({expression}));\n");
    }
    text += "return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../emit/include");
    let program = dir.path().join("layout");
    let compiled =
        Command::new("cc").arg("-I").arg(include).arg("-o").arg(&program).arg(&source).output().expect("cc must run");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    printed.lines().map(|line| line.parse().unwrap()).collect()
}

#[track_caller]
fn check(pairs: &[(&str, u64)]) {
    let expressions: Vec<_> = pairs.iter().map(|(expression, _)| *expression).collect();
    let got = in_c(&expressions);
    assert_eq!(got.len(), pairs.len());
    for ((expression, rust), c) in pairs.iter().zip(got) {
        assert_eq!(*rust, c, "{expression}: Rust {rust}, C {c}");
    }
}

macro_rules! offsets {
    ($c:literal, $rust:ty: $($field:ident),*) => {
        [
            (concat!("sizeof(struct ", $c, ")"), size_of::<$rust>() as u64),
            $((concat!("offsetof(struct ", $c, ", ", stringify!($field), ")"), offset_of!($rust, $field) as u64)),*
        ]
    };
}

#[test]
fn shared_memory_is_laid_out_alike() {
    check(
        &offsets!("kymo_mem", MemHeader: magic, abi, kind, clock, lane_count, ring_bytes, rings_offset, data_offset, mem_bytes, serial, lost_lane, lanes_used, marks_offset, flags, contexts, perf_count, perf, block_ns, block_waits, block_agreed),
    );
    check(
        &offsets!("kymo_ring", RingBlock: head, last, tail, lost_full, lost_size, lost_restart, reserve, unused_word, owner, told, told_before, told_at, state, cut),
    );
}

#[test]
fn constants_are_alike() {
    check(&[
        ("KYMO_ABI_VERSION", ABI_VERSION.into()),
        ("KYMO_MEM_MAGIC", ring::MEM_MAGIC),
        ("KYMO_RECORD_MAX", ring::RECORD_MAX.into()),
        ("KYMO_RECORD_HEADER", ring::RECORD_HEADER.into()),
        ("KYMO_RING_BYTES_MIN", ring::RING_BYTES_MIN.into()),
        ("KYMO_RING_BYTES_MAX", ring::RING_BYTES_MAX.into()),
        ("KYMO_SLOTS", ring::SLOTS.into()),
        ("KYMO_STORE_PAST", ring::STORE_PAST.into()),
        ("KYMO_MEM_HEADER_BYTES", ring::MEM_HEADER_BYTES.into()),
        ("KYMO_ONE_RECORD", ring::ONE_RECORD),
        ("KYMO_CHUNKS", ring::CHUNKS.into()),
        ("KYMO_MARKS", ring::MARKS as u64),
        ("sizeof(struct kymo_perf)", size_of::<ring::PerfCounter>() as u64),
        ("KYMO_PERF_MAX", ring::PERF_MAX as u64),
        ("KYMO_MEM_BLOCK", ring::mem_flags::BLOCK.into()),
        ("KYMO_MEM_SHARED", ring::mem_flags::SHARED.into()),
        ("KYMO_CONTEXT_VPID", ring::context::VPID.into()),
        ("KYMO_CONTEXT_PRIO", ring::context::PRIO.into()),
        ("KYMO_CONTEXT_PRIO_NOW", ring::context::PRIO_NOW.into()),
        ("KYMO_CONTEXT_CGROUP", ring::context::CGROUP.into()),
        ("KYMO_CONTEXT_PROCNAME", ring::context::PROCNAME.into()),
        ("KYMO_CONTEXT_PERF", ring::context::PERF.into()),
        ("KYMO_CONTEXT_CALLSTACK", ring::context::CALLSTACK.into()),
        ("KYMO_CONTEXT_COMPACT", ring::context::COMPACT.into()),
        ("sizeof(struct kymo_marks)", size_of::<ring::Marks>() as u64),
        ("sizeof(struct kymo_places)", size_of::<ring::Places>() as u64),
        ("KYMO_THREAD_ID", kymo_abi::THREAD_RECORD_ID.into()),
        ("KYMO_EXTENDED_BYTES", kymo_abi::COMPACT_HEAD_MAX as u64),
        ("KYMO_COMPACT_BYTES", ring::COMPACT_RECORD_MIN.into()),
        ("KYMO_KIND_RSEQ", RingKind::Rseq.code().into()),
        ("KYMO_KIND_PORTABLE", RingKind::Portable.code().into()),
        ("KYMO_CLOCK_TSC", Clock::Tsc.code().into()),
        ("KYMO_CLOCK_MONOTONIC", Clock::Monotonic.code().into()),
        ("KYMO_CLOCK_CNTVCT", Clock::Cntvct.code().into()),
        ("KYMO_DESC_BYTES_MAX", kymo_abi::desc::BYTES_MAX as u64),
        ("KYMO_MSG_BYTES_MAX", wire::BYTES_MAX as u64),
        ("KYMO_NO_INDEX", wire::NO_INDEX.into()),
        ("sizeof(struct kymo_filter_insn)", wire::FILTER_INSN_BYTES as u64),
        ("KYMO_FILTER_INSNS_MAX", wire::FILTER_INSNS_MAX as u64),
        ("KYMO_FILTER_POOL_MAX", wire::FILTER_POOL_MAX as u64),
        ("KYMO_BYE_END", ByeReason::End.code().into()),
        ("KYMO_BYE_SCOPE", ByeReason::Scope.code().into()),
        ("KYMO_BYE_VERSION", ByeReason::Version.code().into()),
        ("KYMO_BYE_MEMORY", ByeReason::Memory.code().into()),
        ("KYMO_BYE_PROTOCOL", ByeReason::Protocol.code().into()),
    ]);
}

/// Writes `packet` as a C array of a known alignment, and asks C for the fields.
fn check_packet(packet: &[u8], structure: &str, fields: &[(&str, u64)]) {
    let bytes: Vec<_> = packet.iter().map(u8::to_string).collect();
    let expressions: Vec<_> = fields
        .iter()
        .map(|(field, _)| {
            format!("((const struct {structure} *)(_Alignas(8) const unsigned char[]){{{}}})->{field}", bytes.join(","))
        })
        .collect();
    let texts: Vec<_> = expressions.iter().map(String::as_str).collect();
    for ((field, rust), c) in fields.iter().zip(in_c(&texts)) {
        assert_eq!(*rust, c, "{structure}.{field}");
    }
}

#[test]
fn messages_are_what_c_reads() {
    let hello = Hello { abi: 1, pid: 2, kind: 3, clock: 4, cpu_count: 5, nonce: 6, comm: "c".into(), exe: "/e".into() };
    let packet = FromProgram::Hello(hello).encode();
    check_packet(
        &packet,
        "kymo_msg_hello",
        &[
            ("msg.type", 1),
            ("msg.bytes", packet.len() as u64),
            ("abi", 1),
            ("pid", 2),
            ("kind", 3),
            ("clock", 4),
            ("cpu_count", 5),
            ("nonce", 6),
            ("comm[0]", b'c'.into()),
            ("comm[1]", 0),
        ],
    );
    let layout = Layout::new(RingKind::Portable, Clock::Monotonic, 3, 65_536, 4096).unwrap();
    let packet = FromCollector::Attach { layout, serial: 1 << 40, session: "s".into() }.encode();
    check_packet(
        &packet,
        "kymo_msg_attach",
        &[
            ("msg.type", 16),
            ("msg.bytes", 120),
            ("abi", kymo_abi::ABI_VERSION.into()),
            ("kind", 2),
            ("clock", 2),
            ("lane_count", 3),
            ("ring_bytes", 65_536),
            ("rings_offset", 4096),
            ("data_offset", layout.data_offset),
            ("mem_bytes", layout.mem_bytes),
            ("serial", 1 << 40),
            ("session[0]", b's'.into()),
        ],
    );
    let attached = Attached { serial: 1 << 33, error: 12, locked: true, late: true, touched_bytes: 1 << 34 };
    check_packet(
        &FromProgram::Attached(attached).encode(),
        "kymo_msg_attached",
        &[
            ("msg.type", 5),
            ("msg.bytes", 32),
            ("serial", 1 << 33),
            ("error", 12),
            ("flags", 3),
            ("touched_bytes", 1 << 34),
        ],
    );
    check_packet(
        &FromProgram::DescsEnd { generation: 9 }.encode(),
        "kymo_msg_generation",
        &[("msg.type", 3), ("msg.bytes", 16), ("generation", 9)],
    );
    check_packet(
        &FromCollector::Go { generation: 9 }.encode(),
        "kymo_msg_generation",
        &[("msg.type", 19), ("msg.bytes", 16), ("generation", 9)],
    );
    let bye = FromCollector::Bye { reason: ByeReason::Memory, text: "t".into() }.encode();
    check_packet(&bye, "kymo_msg_bye", &[("msg.type", 20), ("msg.bytes", 18), ("reason", 4)]);
    let enable = FromCollector::Enable(vec![(7, 8)]).encode();
    check_packet(&enable[8..], "kymo_msg_enable", &[("index", 7), ("id", 8)]);
    check_packet(&enable, "kymo_msg", &[("type", 17), ("bytes", 16)]);
    let filter = Filter { index: 7, insns: vec![[9; 16]; 2], pool: vec![1, 2, 3], payload_min_bytes: 300 };
    let filter = FromCollector::Filter(filter).encode();
    let fields = [
        ("msg.type", 21),
        ("msg.bytes", 24 + 32 + 3),
        ("index", 7),
        ("insn_count", 2),
        ("pool_bytes", 3),
        ("payload_min_bytes", 300),
    ];
    check_packet(&filter, "kymo_msg_filter", &fields);
    assert_eq!(filter.len(), 24 + 32 + 3);
    let descs = FromProgram::Descs(vec![DescEntry { index: None, desc: vec![1, 2, 3] }]).encode();
    check_packet(&descs[8..], "kymo_msg_desc", &[("index", wire::NO_INDEX.into()), ("bytes", 3)]);
    assert_eq!(descs.len(), 8 + 8 + 8);
}

#[test]
fn descriptions_are_what_c_reads() {
    let mut types: Vec<(&str, FieldType)> =
        Scalar::ALL.iter().map(|scalar| (scalar.name(), FieldType::Scalar(*scalar))).collect();
    types.push(("STR", FieldType::Str));
    types.push(("BYTES", FieldType::Bytes));
    types.push(("ARRAY", FieldType::Array { element: Scalar::U16, count: 77 }));
    types.push(("SEQ", FieldType::Seq { element: Scalar::U16 }));
    let codes = types.iter().map(|(name, _)| format!("KYMO_T_{}", name.to_uppercase())).collect::<Vec<_>>();
    let codes = in_c(&codes.iter().map(String::as_str).collect::<Vec<_>>());
    let fields = types.iter().map(|(c, ty)| Field { name: (*c).into(), ty: ty.clone() }).collect();
    let event = EventDesc { provider: "p".into(), name: "n".into(), file: "f".into(), line: 5, fields };
    let bytes = kymo_abi::desc::encode(&Desc::Event(event));
    let (magic, kinds) = (in_c(&["KYMO_DESC_MAGIC"])[0], in_c(&["KYMO_DESC_EVENT", "KYMO_DESC_ENUM"]));
    check_packet(
        &bytes,
        "kymo_desc",
        &[
            ("magic", magic),
            ("bytes", bytes.len() as u64),
            ("kind", kinds[0]),
            ("count", types.len() as u64),
            ("line", 5),
            ("text_bytes", (bytes.len() - 24 - (types.len() + 1) * 8) as u64),
            ("type", 0),
        ],
    );
    for (number, code) in codes.iter().enumerate() {
        assert_eq!(u64::from(bytes[24 + number * 8]), *code, "{}", types[number].0);
    }
    let array = 24 + (types.len() - 2) * 8;
    check_packet(&bytes[array..array + 8], "kymo_field", &[("element", codes[1]), ("is_enum", 0), ("count", 77)]);
    let labels = vec![("one".into(), -1)];
    let labelled =
        EnumDesc { provider: "p".into(), name: "e".into(), file: "".into(), line: 0, scalar: Scalar::I32, labels };
    let bytes = kymo_abi::desc::encode(&Desc::Enum(labelled));
    check_packet(&bytes, "kymo_desc", &[("kind", kinds[1]), ("count", 1), ("type", codes[6])]);
    assert_eq!(bytes[24..32], (-1i64).to_ne_bytes());
}
