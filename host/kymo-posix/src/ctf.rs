//! A log as a CTF 1.8 trace: metadata made from the head and the names, and one stream file whose packets are the log's
//! blocks, byte for byte.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::Log;
use crate::chunk::u16_at;
use crate::head::{CLOCK_MONOTONIC, record_at};

const PACKET_MAGIC: u32 = 0xC1FC_1FC1;
const PACKET_HEAD_BYTES: usize = 72;

const TYPES: &str = "/* CTF 1.8 */

typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := xint64_t;
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
		integer { size = 48; align = 8; signed = false; map = clock.posix.value; } timestamp;
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
		xint8_t _data[__data_length];
	};
};

";

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
        for id in self.ids() {
            let name = self.names.get(&id).cloned().unwrap_or_else(|| format!("posix_trace_event_{id}"));
            let _ = write!(out, "event {{\n\tname = {};\n\tid = {id};\n\tstream_id = 0;\n", quoted(&name));
            out.push_str(FIELDS);
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

    /// Of all events that have a name, or records.
    fn ids(&self) -> BTreeSet<u16> {
        let mut ids: BTreeSet<u16> = self.names.keys().copied().collect();
        for block in &self.blocks {
            let content = &self.bytes[block.content.clone()];
            let mut at = 0;
            while let Some(record) = record_at(content, at) {
                ids.insert(u16_at(content, at));
                at += record.bytes;
            }
        }
        ids
    }

    /// The stream file: a packet for each block. Blocks that are missing are seen by the packets' numbers.
    pub fn stream(&self) -> Vec<u8> {
        let content: usize = self.blocks.iter().map(|block| block.content.len() + PACKET_HEAD_BYTES).sum();
        let mut out = Vec::with_capacity(content);
        let mut last = 0;
        for block in &self.blocks {
            let bits = (block.content.len() + PACKET_HEAD_BYTES) as u64 * 8;
            // Blocks of a damaged log may overlap in time; packets of a file may not.
            let begin = block.begin.max(last);
            last = block.end.max(begin);
            out.extend_from_slice(&PACKET_MAGIC.to_le_bytes());
            out.extend_from_slice(&self.head.uuid);
            out.extend_from_slice(&0_u32.to_le_bytes());
            for word in [begin, last, bits, bits, block.sequence, 0] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&self.bytes[block.content.clone()]);
        }
        out
    }
}
