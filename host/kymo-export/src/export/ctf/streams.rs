// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stream files of one trace: records to packets. A packet that tells of a loss ends where it did in the source,
//! and the one before it, too; so the loss has the same count and the same two times. Other packets end with their
//! last record.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use kymo_ctf::read::{Fields, Loss, Record};
use kymo_ctf::transcode::{Packet, Transcoder};

use crate::Error;

/// Bytes of records that make a packet, unless it tells of a loss.
const PACKET_BYTES: usize = 1 << 18;

/// All stream files of a trace.
pub struct Streams {
    dir: PathBuf,
    files: Vec<StreamFile>,
    /// By the source's file: positions in `files`, one of each stream class that it has.
    by_source: HashMap<String, Vec<usize>>,
    /// Names of files.
    taken: HashSet<String>,
}

/// One file.
struct StreamFile {
    path: PathBuf,
    /// Position of its stream class.
    class: usize,
    instance: u64,
    /// Of the next packet.
    seq: u64,
    /// Records lost so far.
    discarded: u64,
    /// Of the source's packet, as it is written.
    context: Vec<u8>,
    /// The packet that is being filled: from the first item on there is one.
    pending: Option<Pending>,
}

/// A packet that is being filled.
struct Pending {
    /// Number of the source's packet.
    source: u64,
    /// It tells of a loss, and so ends where the source's does.
    tells: bool,
    context: Vec<u8>,
    content: Vec<u8>,
    /// The first record's time.
    begin: Option<u64>,
    end: u64,
}

impl Streams {
    pub fn new(dir: PathBuf) -> Streams {
        let taken = HashSet::from(["metadata".to_owned()]);
        Streams { dir, files: Vec::new(), by_source: HashMap::new(), taken }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.files.len() as u64
    }

    pub fn record(
        &mut self,
        uuid: &[u8; 16],
        transcoder: &mut Transcoder<'_>,
        record: &Record<'_>,
    ) -> Result<(), Error> {
        let file = self.file(record.stream, transcoder.stream_of(record.event_position));
        file.make_room(uuid, transcoder, record)?;
        let Some(pending) = &mut file.pending else { return Ok(()) };
        transcoder.record(record, &mut pending.content).map_err(unfit(record.stream))?;
        pending.begin = Some(pending.begin.map_or(record.cycles, |begin| begin.min(record.cycles)));
        pending.end = pending.end.max(record.cycles);
        Ok(())
    }

    pub fn loss(&mut self, uuid: &[u8; 16], transcoder: &mut Transcoder<'_>, loss: &Loss<'_>) -> Result<(), Error> {
        let file = self.file(loss.stream, transcoder.stream_of_loss(loss));
        file.take_context(transcoder, loss.stream, &loss.packet_context)?;
        // Readers date a loss by the end of the packet before: a file does not begin with one.
        let before = file.pending.get_or_insert_with(|| Pending::new(loss.packet, file.context.clone()));
        before.end = before.end.max(loss.from_cycles);
        file.flush(uuid)?;
        file.seq = file.seq.saturating_add(loss.packets);
        file.discarded = file.discarded.saturating_add(loss.records);
        let context = file.context.clone();
        file.pending = Some(Pending { tells: true, end: loss.to_cycles, ..Pending::new(loss.packet, context) });
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(&mut self, uuid: &[u8; 16]) -> Result<(), Error> {
        self.files.iter_mut().try_for_each(|file| file.flush(uuid))
    }

    fn file(&mut self, source: &str, class: usize) -> &mut StreamFile {
        let known = self.by_source.get(source).into_iter().flatten();
        let position = known.copied().find(|position| self.files[*position].class == class);
        let position = position.unwrap_or_else(|| {
            let path = self.dir.join(file_name(&mut self.taken, source));
            let instance = self.files.len() as u64;
            self.by_source.entry(source.to_owned()).or_default().push(self.files.len());
            let (context, pending) = (Vec::new(), None);
            self.files.push(StreamFile { path, class, instance, seq: 0, discarded: 0, context, pending });
            self.files.len() - 1
        });
        &mut self.files[position]
    }
}

impl Pending {
    fn new(source: u64, context: Vec<u8>) -> Pending {
        Pending { source, tells: false, context, content: Vec::new(), begin: None, end: 0 }
    }
}

impl StreamFile {
    /// Sees to it that the pending packet can take the record.
    fn make_room(
        &mut self,
        uuid: &[u8; 16],
        transcoder: &mut Transcoder<'_>,
        record: &Record<'_>,
    ) -> Result<(), Error> {
        let is_same = self.pending.as_ref().is_some_and(|pending| pending.source == record.packet);
        if !is_same {
            self.take_context(transcoder, record.stream, &record.packet_context)?;
        }
        if let Some(pending) = &mut self.pending {
            let has_room = pending.content.len() < PACKET_BYTES;
            if is_same && (pending.tells || has_room) {
                return Ok(());
            }
            if !pending.tells && has_room && pending.context == self.context {
                pending.source = record.packet;
                return Ok(());
            }
        }
        self.flush(uuid)?;
        self.pending = Some(Pending::new(record.packet, self.context.clone()));
        Ok(())
    }

    fn take_context(
        &mut self,
        transcoder: &mut Transcoder<'_>,
        stream: &str,
        fields: &Fields<'_>,
    ) -> Result<(), Error> {
        self.context.clear();
        transcoder.packet_context(self.class, fields, &mut self.context).map_err(unfit(stream))
    }

    /// Writes the pending packet.
    fn flush(&mut self, uuid: &[u8; 16]) -> Result<(), Error> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let packet = Packet {
            uuid: *uuid,
            stream: self.class,
            instance: self.instance,
            begin: pending.begin.map_or(pending.end, |begin| begin.min(pending.end)),
            end: pending.end,
            seq: self.seq,
            discarded: self.discarded,
        };
        self.seq = self.seq.saturating_add(1);
        let head = packet.encode(&pending.context, pending.content.len());
        append(&self.path, &[&head, &pending.content]).map_err(Error::io(&self.path))
    }
}

/// Opened each time: there may be more files than a process may have open.
fn append(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// A name that no other file has: mostly the source's.
fn file_name(taken: &mut HashSet<String>, source: &str) -> String {
    let mut name: String = source.chars().map(|c| if matches!(c, '/' | '\0') { '_' } else { c }).collect();
    if name.is_empty() || name.starts_with('.') {
        name.insert_str(0, "stream");
    }
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

fn unfit(stream: &str) -> impl FnOnce(kymo_ctf::transcode::Unfit) -> Error + '_ {
    move |source| Error::Unfit { stream: stream.to_owned(), source }
}
