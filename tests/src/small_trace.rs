// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of a few packets, as a foreign tracer of one process writes it (CTF 1.8): for tests that choose packets,
//! times, losses and contexts.

use std::path::Path;

/// The metadata of each such trace.
pub const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace {
    major = 1; minor = 8; byte_order = le;
    packet.header := struct { u32 magic; u32 stream_id; };
};
env { domain = \"ust\"; tracer_name = \"small\"; vpid = 77; procname = \"small\"; };
clock { name = c; freq = 1000000000; offset = 0; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;
stream {
    id = 0;
    packet.context := struct {
        stamp timestamp_begin; stamp timestamp_end; u64 content_size; u64 packet_size;
        u64 packet_seq_num; u64 events_discarded; u32 cpu_id;
    };
    event.header := struct { u32 id; stamp timestamp; };
    event.context := struct { u32 _vtid; u32 _ppid; };
};
event { id = 0; stream_id = 0; name = \"function:entry\"; fields := struct { string function; }; };
event { id = 1; stream_id = 0; name = \"function:exit\"; fields := struct { string function; }; };
event { id = 2; stream_id = 0; name = \"small:tick\"; context := struct { u32 _depth; }; fields := struct { u32 n; }; };
";

/// The process.
pub const PID: u32 = 77;
/// Its parent.
pub const PPID: u32 = 3;

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// `function:entry` of this function.
    Enter(&'static str),
    /// `function:exit`.
    Leave(&'static str),
    /// `small:tick` with `n`, and the context `depth`, which is ten times that.
    Tick(u32),
}

/// A packet: its times, its number, how many records were discarded up to its end, and its records.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// ns.
    pub begin: u64,
    /// ns.
    pub end: u64,
    /// As the tracer counts packets of a stream.
    pub number: u64,
    /// Since the begin of the stream.
    pub discarded: u64,
    /// Times, threads and what was said.
    pub records: Vec<(u64, u32, Said)>,
}

impl Packet {
    /// With a tick of thread 7 at each of these times.
    #[must_use]
    pub fn of_ticks(number: u64, (begin, end): (u64, u64), times: &[u64]) -> Packet {
        let records = times.iter().map(|time| (*time, 7, Said::Tick(*time as u32))).collect();
        Packet { begin, end, number, discarded: 0, records }
    }

    /// Its bytes, as of a CPU.
    pub fn encode(&self, cpu: u32) -> Vec<u8> {
        let mut content = Vec::new();
        for (time, tid, said) in &self.records {
            let (id, context, payload) = match said {
                Said::Enter(name) => (0u32, Vec::new(), [name.as_bytes(), b"\0"].concat()),
                Said::Leave(name) => (1, Vec::new(), [name.as_bytes(), b"\0"].concat()),
                Said::Tick(n) => (2, (n * 10).to_le_bytes().to_vec(), n.to_le_bytes().to_vec()),
            };
            content
                .extend([&id.to_le_bytes()[..], &time.to_le_bytes(), &tid.to_le_bytes(), &PPID.to_le_bytes()].concat());
            content.extend([context, payload].concat());
        }
        let head_bytes = 8 + 6 * 8 + 4;
        let bits = (head_bytes + content.len() as u64) * 8;
        let words = [self.begin, self.end, bits, bits, self.number, self.discarded];
        let mut bytes = [0xC1FC_1FC1u32.to_le_bytes(), [0; 4]].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(cpu.to_le_bytes());
        bytes.extend(content);
        bytes
    }
}

/// Writes a trace into a new directory: a stream file for each list of packets, as of one CPU after the other.
pub fn write(dir: &Path, streams: &[Vec<Packet>]) {
    std::fs::create_dir_all(dir).expect("a directory");
    std::fs::write(dir.join("metadata"), METADATA).expect("metadata");
    for (cpu, packets) in streams.iter().enumerate() {
        let bytes: Vec<u8> = packets.iter().flat_map(|packet| packet.encode(cpu as u32)).collect();
        std::fs::write(dir.join(format!("channel_{cpu}")), bytes).expect("a stream");
    }
}
