// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log as a CTF 1.8 trace: metadata made from the head and the names, and one stream file whose packets are the log's
//! blocks, byte for byte.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Log;
use crate::chunk::u16_at;
use crate::head::{CLOCK_MONOTONIC, RECORD_BYTES, record_at};

const PACKET_MAGIC: u32 = 0xC1FC_1FC1;
const PACKET_HEAD_BYTES: usize = 72;

const TYPES: &str = "/* CTF 1.8 */

typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := xint64_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 8; align = 8; signed = true; encoding = UTF8; } := char_t;
typealias integer { size = 8; align = 8; signed = false; base = 16; } := xint8_t;

";

const STREAM: &str = "stream {
	id = 0;
	packet.context := struct {
		uint64_clock_t timestamp_begin;
		uint64_clock_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
	};
	event.header := struct {
		uint16_t id;
		integer { size = 48; align = 1; signed = false; map = clock.posix.value; } timestamp;
	};
	event.context := struct {
		uint32_t _vpid;
	};
};

";

const FIELDS: &str = "	fields := struct {
		xint64_t _thread;
		xint64_t _address;
		uint16_t __data_length;
		enum : uint16_t { \"whole\" = 0, \"truncated\" = 1 } _truncation;
";

const DATA: &str = "		xint8_t _data[__data_length];\n";
const FIELDS_END: &str = "	};\n};\n\n";

/// The data of an event of the kernel [spec/posix.md 10.1]: its type's id and name, how many bytes, and the fields.
struct Kernel {
    id: u16,
    name: &'static str,
    bytes: usize,
    fields: &'static str,
}

const LOCK_WAIT: &str =
    "		xint64_t _lock;\n		int32_t _cpu;\n		uint32_t _flags;\n		int32_t _result;\n		uint32_t _unused;\n";

const KERNEL: [Kernel; 5] = [
    Kernel {
        id: 9,
        name: "posix_trace_context_switch",
        bytes: 24,
        fields: "		int32_t _cpu;\n		int32_t _from;\n		int32_t _to;\n		int32_t _from_priority;\n\
                 		int32_t _to_priority;\n		char_t _from_state[4];\n",
    },
    Kernel {
        id: 10,
        name: "posix_trace_system_call_entry",
        bytes: 56,
        fields: "		int32_t _cpu;\n		int32_t _number;\n		xint64_t _arguments[6];\n",
    },
    Kernel {
        id: 11,
        name: "posix_trace_system_call_exit",
        bytes: 16,
        fields: "		int32_t _cpu;\n		int32_t _number;\n		int64_t _result;\n",
    },
    Kernel { id: 12, name: "posix_trace_lock_wait_begin", bytes: 24, fields: LOCK_WAIT },
    Kernel { id: 13, name: "posix_trace_lock_wait_end", bytes: 24, fields: LOCK_WAIT },
];

/// Text that may stand between double quotes.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", c as u32 & 0xff);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex = |range: std::ops::Range<usize>| uuid[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}

impl Log<'_> {
    /// The file `metadata`.
    pub fn metadata(&self) -> String {
        let uuid = uuid_text(&self.head.uuid);
        let mut out = TYPES.to_owned();
        let _ = write!(
            out,
            "trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = le;\n\tpacket.header := struct {{\n\
             \t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\t}};\n}};\n\n"
        );
        self.environment(&mut out);
        self.clock(&mut out);
        out.push_str(STREAM);
        for (id, bytes) in self.ids() {
            let name = self.names.get(&id).cloned().unwrap_or_else(|| format!("posix_trace_event_{id}"));
            let _ = write!(out, "event {{\n\tname = {};\n\tid = {id};\n\tstream_id = 0;\n", quoted(&name));
            let kernel = KERNEL.iter().find(|kernel| kernel.id == id && kernel.name == name);
            let kernel = kernel.filter(|kernel| bytes.is_none_or(|bytes| bytes == Some(kernel.bytes)));
            out.push_str(FIELDS);
            out.push_str(kernel.map_or(DATA, |kernel| kernel.fields));
            out.push_str(FIELDS_END);
        }
        out
    }

    fn environment(&self, out: &mut String) {
        let _ = write!(
            out,
            "env {{\n\tdomain = \"ust\";\n\ttracer_name = \"kymo-posix\";\n\ttracer_major = {};\n\ttracer_minor = 0;\n\
             \ttrace_name = {};\n\tgeneration_version = {};\n\ttarget = {};\n\tcreated_ns = {};\n}};\n\n",
            crate::head::VERSION,
            quoted(&self.head.name),
            quoted(&self.head.version_text),
            self.head.target,
            self.head.created_ns.min(i64::MAX as u64),
        );
    }

    /// Time is CLOCK_REALTIME at the stream's creation, and goes on with the clock's cycles.
    fn clock(&self, out: &mut String) {
        let frequency = self.frequency().unwrap_or(1_000_000_000);
        let name = if self.head.clock == CLOCK_MONOTONIC { "CLOCK_MONOTONIC" } else { "TSC" };
        let cycles = u128::from(self.head.real_ns) * u128::from(frequency) / 1_000_000_000;
        let offset = cycles.saturating_sub(u128::from(self.head.stamp));
        let (seconds, rest) = (offset / u128::from(frequency), offset % u128::from(frequency));
        let _ = write!(
            out,
            "clock {{\n\tname = \"posix\";\n\tdescription = \"{name}, from CLOCK_REALTIME on\";\n\tfreq = {frequency};\n\
             \toffset_s = {};\n\toffset = {rest};\n}};\n\n\
             typealias integer {{ size = 64; align = 8; signed = false; map = clock.posix.value; }} := uint64_clock_t;\n\n",
            seconds.min(i64::MAX as u128),
        );
    }

    /// Of all events that have a name, or records: the size of their data, if all of them have the same; `None` if
    /// there are no records.
    fn ids(&self) -> BTreeMap<u16, Option<Option<usize>>> {
        let mut ids: BTreeMap<u16, Option<Option<usize>>> = self.names.keys().map(|id| (*id, None)).collect();
        for block in &self.blocks {
            let content = &self.bytes[block.content.clone()];
            let mut at = 0;
            while let Some(record) = record_at(content, at) {
                let bytes = Some(record.bytes - RECORD_BYTES);
                let known = ids.entry(u16_at(content, at)).or_insert(None);
                *known = Some(known.map_or(bytes, |known| known.filter(|&known| Some(known) == bytes)));
                at += record.bytes;
            }
        }
        ids
    }

    /// The stream file: a packet for each block. Where blocks are missing, the next packet tells how many records were
    /// in them; if the log does not say, a number is left out between two packets. What is missing at the end has a
    /// packet without records.
    pub fn stream(&self) -> Vec<u8> {
        let content: usize = self.blocks.iter().map(|block| block.content.len() + PACKET_HEAD_BYTES).sum();
        let mut out = Vec::with_capacity(content + PACKET_HEAD_BYTES);
        let (mut last, mut number, mut discarded) = (self.head.stamp, 0, 0_u64);
        for index in 0..=self.blocks.len() {
            let block = self.blocks.get(index);
            match (self.lost_at(index), self.missing_at(index)) {
                (Some(lost), _) => discarded = discarded.saturating_add(lost),
                (None, missing) => number += missing.map_or(0, |(_, count, _)| count),
            }
            if block.is_none() && self.missing_at(index).is_none() {
                break;
            }
            // The first packet is the begin of the count: what is missing before it has one of its own.
            if index == 0 && discarded + number > 0 {
                self.packet(&mut out, [last, last, 0, 0], &[]);
                number += 1;
            }
            // Blocks of a damaged log may overlap in time; packets of a file may not.
            let begin = block.map_or(last, |block| block.begin.max(last));
            last = block.map_or(begin, |block| block.end.max(begin));
            let content = block.map_or(&[][..], |block| &self.bytes[block.content.clone()]);
            self.packet(&mut out, [begin, last, number, discarded], content);
            number += 1;
        }
        out
    }

    fn packet(&self, out: &mut Vec<u8>, [begin, end, number, discarded]: [u64; 4], content: &[u8]) {
        let bits = (content.len() + PACKET_HEAD_BYTES) as u64 * 8;
        out.extend_from_slice(&PACKET_MAGIC.to_le_bytes());
        out.extend_from_slice(&self.head.uuid);
        out.extend_from_slice(&0_u32.to_le_bytes());
        for word in [begin, end, bits, bits, number, discarded] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(content);
    }
}
