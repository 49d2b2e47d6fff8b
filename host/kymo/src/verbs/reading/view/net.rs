// SPDX-License-Identifier: MIT OR Apache-2.0
//! A live session of LTTng for `kymo view`: what arrives from the relay daemon goes into files without a name, and is
//! opened again whenever there is more [spec/view.md 7.1]. How a session is read is for `read::live`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kymo_ctf::read::{Content, Decoded, Error, Files, ReadyMetadata, Trace, unite_clocks};
use kymo_index::GrowingIndex;
use kymo_live::Url;
use kymo_mapping::Mapping;
use kymo_query::Opened;
use kymo_serve::{Look, Source};

use super::super::read::live::{Arrived, Live, connect};

/// Between two questions to a relay daemon that had nothing.
const PAUSE: Duration = Duration::from_millis(50);
/// The first metadata come within this time, or are given up.
const FIRST_TIME: Duration = Duration::from_secs(10);

/// Packets of a stream, in a file that nobody else finds and that goes with us.
struct SpooledStream {
    file: File,
    bytes: u64,
}

/// A trace, as far as it has arrived.
struct SpooledTrace {
    label: String,
    metadata: Vec<u8>,
    /// Understood, of so many bytes.
    ready: Option<(usize, ReadyMetadata)>,
    streams: BTreeMap<String, SpooledStream>,
}

/// All traces of a session.
#[derive(Default)]
struct Spool {
    traces: Vec<SpooledTrace>,
    /// Why something could not be kept: then nothing more is shown.
    problem: Option<io::Error>,
    /// Packets came, or metadata.
    has_more: bool,
}

/// A file in the temporary directory that has no name.
fn nameless() -> io::Result<File> {
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(std::env::temp_dir())
}

impl Spool {
    fn try_append(&mut self, trace: usize, stream: &str, packet: &[u8]) -> io::Result<()> {
        let streams = &mut self.traces[trace].streams;
        if !streams.contains_key(stream) {
            streams.insert(stream.to_owned(), SpooledStream { file: nameless()?, bytes: 0 });
        }
        if let Some(to) = streams.get_mut(stream) {
            to.file.write_all(packet)?;
            to.bytes += packet.len() as u64;
        }
        Ok(())
    }
}

impl Arrived for Spool {
    fn add(&mut self, label: String) -> usize {
        self.traces.push(SpooledTrace { label, metadata: Vec::new(), ready: None, streams: BTreeMap::new() });
        self.traces.len() - 1
    }

    fn set_metadata(&mut self, trace: usize, metadata: Vec<u8>) {
        self.has_more |= self.traces[trace].metadata.len() != metadata.len();
        self.traces[trace].metadata = metadata;
    }

    fn append(&mut self, trace: usize, stream: &str, packet: &[u8]) {
        self.has_more = true;
        // A part of a packet must not be in front of a whole one.
        if self.problem.is_none() {
            self.problem = self.try_append(trace, stream, packet).err();
        }
    }

    fn held(&self, _: usize, _: &str) -> u64 {
        0
    }
}

impl SpooledTrace {
    fn open_again(&mut self) -> Result<Decoded<Trace>, Error> {
        let known = self.ready.as_ref().filter(|(bytes, _)| *bytes == self.metadata.len());
        let ready = match known {
            Some((_, ready)) => ready.clone(),
            None => ReadyMetadata::of(&*self)?,
        };
        self.ready = Some((self.metadata.len(), ready.clone()));
        ready.open(&*self)
    }
}

impl Files for SpooledTrace {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn metadata(&self) -> Result<Content, Error> {
        Ok(Content::Owned(self.metadata.clone()))
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        Ok(self.streams.iter().filter(|(_, stream)| stream.bytes > 0).map(|(name, _)| name.clone()).collect())
    }

    fn open(&self, name: &str) -> Result<Content, Error> {
        let Some(stream) = self.streams.get(name) else { return Ok(Content::Owned(Vec::new())) };
        let bytes = usize::try_from(stream.bytes).map_err(io::Error::other);
        let mapping = bytes.and_then(|bytes| Mapping::to_read(&stream.file, bytes));
        let io = |source| Error::Io { path: format!("{}/{name}", self.label), source };
        mapping.map(Content::Mapped).map_err(io)
    }
}

/// A session of a relay daemon, as it is viewed.
pub struct NetTrace {
    live: Live<Spool>,
    index: GrowingIndex,
    name: String,
    /// Up to where everything had arrived when it was opened last.
    until: BTreeMap<usize, u64>,
}

impl NetTrace {
    /// Attaches to a session.
    ///
    /// # Errors
    /// The address names none, or it cannot be had.
    pub fn attach(url: &str) -> anyhow::Result<NetTrace> {
        let url = Url::parse(url).map_err(anyhow::Error::msg)?;
        ensure!(url.session.is_some(), "{url} names no session: kymo read {url} lists those that there are");
        let (viewer, sessions) = connect(&url)?;
        let name = url.to_string();
        let live = Live::attach(url, viewer, &sessions, Spool::default())?;
        Ok(NetTrace { live, index: GrowingIndex::default(), name, until: BTreeMap::new() })
    }

    /// What there is at first.
    ///
    /// # Errors
    /// Nothing comes.
    pub fn first(&mut self) -> anyhow::Result<Opened> {
        let begin = Instant::now();
        loop {
            let came = self.live.go_on().with_context(|| self.name.clone())?;
            if !self.live.growing.traces.is_empty() {
                return self.open();
            }
            ensure!(!self.live.is_closed, "{}: the session has ended, and nothing of it has come", self.name);
            ensure!(begin.elapsed() < FIRST_TIME, "{}: no metadata have come: has it recorded anything?", self.name);
            if !came {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn open(&mut self) -> anyhow::Result<Opened> {
        let spool = &mut self.live.growing;
        spool.has_more = false;
        if let Some(error) = &spool.problem {
            anyhow::bail!("what arrives cannot be kept in {}: {error}", std::env::temp_dir().display());
        }
        let (mut traces, mut caveats) = (Vec::new(), Vec::new());
        for trace in &mut spool.traces {
            let opened = trace.open_again()?;
            caveats.extend(opened.caveats.iter().map(ToString::to_string));
            traces.push(opened.value);
        }
        unite_clocks(&mut traces);
        let arrived = self.live.arrived_until();
        let until = if self.index.is_over() { i64::MAX } else { until_ns(arrived.as_ref(), &traces) };
        self.until = arrived.unwrap_or_default();
        caveats.extend(self.live.failed.iter().cloned());
        Ok(Opened::growing(traces, &mut self.index, until, self.name.clone(), caveats))
    }

    fn try_look(&mut self) -> anyhow::Result<Look> {
        self.live.go_on().with_context(|| self.name.clone())?;
        if self.live.is_closed {
            self.index.end();
            return self.open().map(Look::Ended);
        }
        // A stream without events has come further in time.
        let is_further = self.live.arrived_until().is_some_and(|until| until != self.until);
        let is_new = self.live.growing.has_more || is_further && self.index.held().is_some();
        Ok(if is_new { Look::Grown(self.open()?) } else { Look::Same })
    }
}

/// The time up to which everything has arrived in all traces, ns.
fn until_ns(arrived: Option<&BTreeMap<usize, u64>>, traces: &[Trace]) -> i64 {
    let Some(arrived) = arrived else { return i64::MIN };
    let of = |(trace, cycles): (&usize, &u64)| Some(traces.get(*trace)?.metadata.clocks.first()?.nanoseconds(*cycles));
    let oldest = arrived.iter().filter_map(of).min();
    oldest.map_or(i64::MAX, |ns| i64::try_from(ns).unwrap_or(i64::MAX))
}

impl Source for NetTrace {
    fn look(&mut self) -> Look {
        self.try_look().unwrap_or_else(|error| Look::Failed(format!("{error:#}")))
    }

    fn wait(&mut self, most: Duration) {
        std::thread::sleep(most.min(PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "/* CTF 1.8 */ typealias integer { size = 8; } := u8;
        clock { name = c; freq = 1000000000; };
        stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
        event { id = 7; name = \"motor:step\"; fields := struct { u8 axis; }; };";

    #[test]
    fn what_arrives_is_a_trace_that_grows() {
        let mut spool = Spool::default();
        let trace = spool.add("trace 1".to_owned());
        spool.set_metadata(trace, METADATA.into());
        let mut index = GrowingIndex::default();
        let mut open = |spool: &mut Spool, until: u64| {
            assert!(std::mem::take(&mut spool.has_more) && spool.problem.is_none());
            let traces = vec![spool.traces[trace].open_again().unwrap().value];
            let until = until_ns(Some(&BTreeMap::from([(trace, until)])), &traces);
            let opened = Opened::growing(traces, &mut index, until, "t".into(), Vec::new());
            let index = opened.indexes.growing().unwrap();
            (index.records(), index.held().is_some())
        };
        assert_eq!(open(&mut spool, 0), (0, false));
        spool.append(trace, "channel0_0", &[7, 1, 2, 7, 5, 3]);
        // Another stream has come to 1 only: what is newer waits.
        assert_eq!(open(&mut spool, 1), (1, true));
        spool.append(trace, "channel0_1", &[7, 3, 2]);
        assert_eq!(open(&mut spool, 200), (3, false));
        // Nothing has arrived of some stream: nothing is shown.
        assert_eq!(until_ns(None, &[]), i64::MIN);
    }

    #[test]
    fn what_cannot_be_kept_is_told_and_nothing_comes_behind_it() {
        let mut spool = Spool::default();
        let trace = spool.add("trace 1".to_owned());
        spool.append(trace, "s", &[1, 2, 3]);
        spool.problem = Some(io::Error::from(io::ErrorKind::StorageFull));
        spool.append(trace, "s", &[4]);
        assert_eq!(spool.traces[trace].streams["s"].bytes, 3);
    }
}
