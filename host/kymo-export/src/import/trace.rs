// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace that an import makes: the kernel's stream class [spec/trace.md 8], a stream for each CPU.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use kymo_abi::record_head;
use kymo_ctf::write::{
    ClockMeta, EnvValue, EventClass, Field, FieldClass, Number, PacketHead, StreamClass, StreamKind, TraceMeta,
    metadata_ctf18,
};

use crate::Error;
use crate::export::NewDirectory;
use crate::uuid::uuid_of;

/// Records of a packet, bytes; more than a record of this is a packet of its own.
const PACKET_BYTES: usize = 1 << 18;

/// A record keeps the low 48 bits of its time; a reader knows the rest as long as no gap is longer than this.
const GAP_MAX: u64 = 1 << 47;

/// Id of the event that names a thread; ids of files' own events are below [`OWN_IDS`].
const THREAD_NAME: u16 = 65_000;
pub const OWN_IDS: u16 = THREAD_NAME;

/// Streams at most: CPUs times buffers.
const STREAMS_MAX: usize = 16_384;

/// The clock of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// As the file calls it.
    pub name: String,
    pub frequency_hz: u64,
    /// Nanoseconds from the origin to cycle 0.
    pub offset_ns: i64,
    /// The origin is 1970.
    pub absolute: bool,
}

/// Which stream: the buffer's position, and the CPU.
pub type StreamKey = (u32, u32);

/// A trace that is being written. It appears when it is finished.
pub struct TraceWriter {
    dir: NewDirectory,
    uuid: [u8; 16],
    streams: BTreeMap<StreamKey, Stream>,
    pub events: Vec<EventClass>,
    pub records: u64,
    pub lost: u64,
    pub begin: Option<u64>,
}

struct Stream {
    path: PathBuf,
    file: File,
    instance: u64,
    cpu: u32,
    seq: u64,
    discarded: u64,
    bytes: Vec<u8>,
    begin: u64,
    end: u64,
}

impl TraceWriter {
    /// In a directory that is empty or not there. `seed`: bytes that decide the trace's UUID, the same for the same
    /// file.
    pub fn create(dir: &std::path::Path, seed: &[u8]) -> Result<TraceWriter, Error> {
        Ok(TraceWriter {
            dir: NewDirectory::create(dir)?,
            uuid: uuid_of(seed),
            streams: BTreeMap::new(),
            events: Vec::new(),
            records: 0,
            lost: 0,
            begin: None,
        })
    }

    /// Writes a file beside the streams; its name begins with a dot.
    pub fn beside(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).map_err(Error::io(&path))
    }

    /// Appends records that lie behind each other, from the time of the first to that of the last.
    pub fn records(&mut self, key: StreamKey, bytes: &[u8], count: u64, begin: u64, end: u64) -> Result<(), Error> {
        self.records += count;
        self.begin = Some(self.begin.map_or(begin, |first| first.min(begin)));
        let uuid = self.uuid;
        let stream = self.stream(key)?;
        let is_far = end.saturating_sub(stream.begin) > GAP_MAX || begin < stream.end;
        if !stream.bytes.is_empty() && (stream.bytes.len() + bytes.len() > PACKET_BYTES || is_far) {
            stream.flush(uuid)?;
        }
        if stream.bytes.is_empty() {
            stream.begin = begin;
        }
        stream.bytes.extend_from_slice(bytes);
        stream.end = end.max(begin);
        Ok(())
    }

    /// Records that were lost before what comes next on that stream, which begins at `until`.
    pub fn lost(&mut self, key: StreamKey, count: u64, until: u64) -> Result<(), Error> {
        self.lost = self.lost.saturating_add(count);
        let uuid = self.uuid;
        let stream = self.stream(key)?;
        stream.flush(uuid)?;
        if stream.seq == 0 {
            // Readers date a loss by the packet before.
            (stream.begin, stream.end) = (until, until);
            stream.packet(uuid)?;
        }
        stream.discarded = stream.discarded.saturating_add(count);
        (stream.begin, stream.end) = (stream.end.min(until), until.max(stream.end));
        stream.packet(uuid)
    }

    /// Names of threads, known from the begin on.
    pub fn thread_names<'n>(&mut self, names: impl Iterator<Item = (u32, &'n str)>) -> Result<(), Error> {
        let time = self.begin.unwrap_or(0);
        let mut bytes = Vec::new();
        let mut count = 0;
        for (tid, name) in names.filter(|(tid, _)| *tid != 0) {
            push_head(&mut bytes, THREAD_NAME, time, -1, 0, 0);
            bytes.extend_from_slice(&tid.to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        let field = |name: &str, class| Field { name: name.to_owned(), class };
        let fields = vec![field("tid", FieldClass::Number(Number::signed(32))), field("name", FieldClass::CString)];
        let name = "kymo_statedump_thread_name".to_owned();
        self.events.push(EventClass { id: THREAD_NAME, name, file: String::new(), line: 0, fields });
        let path = self.dir.path().join("state_0");
        let mut stream = Stream::create(path, u32::MAX, 0)?;
        (stream.bytes, stream.begin, stream.end) = (bytes, time, time);
        stream.packet(self.uuid)
    }

    fn stream(&mut self, key: StreamKey) -> Result<&mut Stream, Error> {
        let instance = self.streams.len() as u64 + 1;
        if !self.streams.contains_key(&key) {
            if self.streams.len() >= STREAMS_MAX {
                let what = format!("more than {STREAMS_MAX} CPUs; is the file damaged?");
                return Err(Error::Malformed { format: "import", place: format!("CPU {}", key.1), what });
            }
            let (buffer, cpu) = key;
            let path = self.dir.path().join(format!("kernel_{cpu}_{buffer}"));
            self.streams.insert(key, Stream::create(path, cpu, instance)?);
        }
        self.streams.get_mut(&key).ok_or_else(|| Error::Nothing("no stream".to_owned()))
    }

    /// Writes the metadata; the trace is whole then.
    pub fn finish(
        mut self,
        clock: &Clock,
        env: Vec<(String, EnvValue)>,
        about: &serde_json::Value,
    ) -> Result<(), Error> {
        for stream in self.streams.values_mut() {
            stream.flush(self.uuid)?;
        }
        let offset = clock.offset_ns;
        let meta = TraceMeta {
            uuid: self.uuid,
            env,
            clock: ClockMeta {
                name: clock.name.clone(),
                uuid: self.uuid,
                description: "as the imported file has it".to_owned(),
                frequency_hz: clock.frequency_hz,
                offset_s: offset.div_euclid(1_000_000_000),
                offset_cycles: cycles(offset.rem_euclid(1_000_000_000), clock.frequency_hz),
                precision_cycles: 0,
                absolute: clock.absolute,
            },
            streams: vec![StreamClass {
                kind: StreamKind::Kernel,
                contexts: Vec::new(),
                events: std::mem::take(&mut self.events),
            }],
        };
        self.beside("metadata", metadata_ctf18(&meta).as_bytes())?;
        self.beside(".import.json", about.to_string().as_bytes())?;
        self.dir.keep();
        Ok(())
    }
}

fn cycles(ns: i64, frequency_hz: u64) -> u64 {
    (i128::from(ns) * i128::from(frequency_hz) / 1_000_000_000) as u64
}

impl Stream {
    fn create(path: PathBuf, cpu: u32, instance: u64) -> Result<Stream, Error> {
        let file = File::create(&path).map_err(Error::io(&path))?;
        Ok(Stream { path, file, instance, cpu, seq: 0, discarded: 0, bytes: Vec::new(), begin: 0, end: 0 })
    }

    fn flush(&mut self, uuid: [u8; 16]) -> Result<(), Error> {
        if self.bytes.is_empty() { Ok(()) } else { self.packet(uuid) }
    }

    fn packet(&mut self, uuid: [u8; 16]) -> Result<(), Error> {
        let head = PacketHead {
            uuid,
            stream_instance: self.instance,
            begin: self.begin,
            end: self.end,
            content_bytes: self.bytes.len() as u64,
            seq: self.seq,
            discarded: self.discarded,
            cpu: self.cpu,
            program: None,
        };
        self.file.write_all(&head.encode()).map_err(Error::io(&self.path))?;
        self.file.write_all(&self.bytes).map_err(Error::io(&self.path))?;
        self.bytes.clear();
        self.seq += 1;
        Ok(())
    }
}

/// Whose layout of names the trace has, for viewers [spec/trace.md 5].
pub fn tracer_env() -> Vec<(String, EnvValue)> {
    let number = |key: &str, value| (key.to_owned(), EnvValue::Int(value));
    vec![
        ("tracer_name".to_owned(), EnvValue::Text("lttng-modules".to_owned())),
        number("tracer_major", 2),
        number("tracer_minor", 13),
        number("tracer_patchlevel", 9),
        ("imported_by".to_owned(), EnvValue::Text(format!("kymo {}", env!("CARGO_PKG_VERSION")))),
    ]
}

/// What stands in front of a payload.
pub fn push_head(out: &mut Vec<u8>, id: u16, time: u64, tid: i32, flags: u8, preempt_count: u8) {
    out.extend_from_slice(&record_head(id, time));
    out.extend_from_slice(&tid.to_le_bytes());
    out.extend_from_slice(&[flags, preempt_count]);
}
