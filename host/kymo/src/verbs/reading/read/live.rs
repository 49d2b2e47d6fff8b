// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read net://HOST...`: sessions of a relay daemon of LTTng, listed, or printed while they are recorded.
//!
//! Ten times a second each stream is asked for what it has got. A stream without events sends the time up to which it
//! had none, so that the oldest of these times is the one up to which everything has arrived (`growing`).

mod again;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kymo_ctf::read::parse_metadata;
use kymo_live::{Attached, Error, Index, Metadata, NewStreams, PacketIndex, Session, Stream, Url, Viewer};
use kymo_names::{Containing, Near};

use super::args::ReadArgs;
use super::growing::{Growing, Horizon, check};
use crate::verbs::analyze::show::duration;

/// For a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two questions to a relay daemon that had nothing.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes that are taken from one stream before others are asked.
const TAKE_BYTES: u64 = 8 << 20;
/// Bytes that one stream holds back at most while another one is behind: the relay daemon keeps the rest.
const HELD_BYTES_MAX: u64 = 64 << 20;
/// Streams of one session that are taken.
const SESSION_STREAMS_MAX: usize = 1 << 16;
/// What counts as a mistyped name of a session.
const NEAR: Near = Near { edits_max: |characters| 1 + characters / 3, containing: Containing::AtLimit, count: 3 };

/// A trace of the session.
struct LiveTrace {
    /// The relay daemon's number.
    id: u64,
    /// The stream that has its metadata, while the relay daemon has it.
    metadata_stream: Option<u64>,
    metadata: Vec<u8>,
    /// There are more of them.
    wants_metadata: bool,
    /// Its position among those that are printed, once its metadata make sense.
    position: Option<usize>,
}

/// A stream of the session.
struct LiveStream {
    id: u64,
    /// Position of its trace.
    trace: usize,
    name: String,
    /// Nothing older comes, cycles; `None`: nothing is known yet.
    until: Option<u64>,
    is_over: bool,
    /// The packet that was taken last.
    last: Option<PacketKey>,
    /// After a new connection: packets up to this one were taken before.
    repeated_to: Option<PacketKey>,
    /// Packets that came before the metadata made sense.
    waiting: Vec<Vec<u8>>,
}

/// Tells packets of a stream apart, and which of two is later: begin, end, place in the relay daemon's file.
type PacketKey = (u64, u64, u64);

fn key(packet: &PacketIndex) -> PacketKey {
    (packet.begin, packet.end, packet.offset)
}

/// Who gets what arrives.
pub(in crate::verbs::reading) trait Arrived {
    /// One trace more. Its position.
    fn add(&mut self, label: String) -> usize;
    /// The metadata of a trace, all of them.
    fn set_metadata(&mut self, trace: usize, metadata: Vec<u8>);
    /// A whole packet, behind those that a stream has.
    fn append(&mut self, trace: usize, stream: &str, packet: &[u8]);
    /// Bytes of a stream that are kept in memory until others have come as far.
    fn held(&self, trace: usize, stream: &str) -> u64;
}

impl Arrived for Growing {
    fn add(&mut self, label: String) -> usize {
        Growing::add(self, label)
    }

    fn set_metadata(&mut self, trace: usize, metadata: Vec<u8>) {
        Growing::set_metadata(self, trace, metadata);
    }

    fn append(&mut self, trace: usize, stream: &str, packet: &[u8]) {
        Growing::append(self, trace, stream, packet);
    }

    fn held(&self, trace: usize, stream: &str) -> u64 {
        Growing::held(self, trace, stream)
    }
}

/// A session that is being read.
pub(in crate::verbs::reading) struct Live<T> {
    url: Url,
    viewer: Viewer<TcpStream>,
    session: u64,
    traces: Vec<LiveTrace>,
    streams: Vec<LiveStream>,
    /// Names of streams, by trace.
    names: BTreeSet<(usize, String)>,
    /// Has what arrived.
    pub growing: T,
    /// The session is over, and all of it was read.
    pub is_closed: bool,
    /// What could not be read.
    pub failed: Vec<String>,
    /// Connections that were lost since anything came.
    lost_in_a_row: u32,
}

/// Runs `kymo read net://...`.
pub(super) fn run(args: &ReadArgs, url: &str) -> anyhow::Result<ExitCode> {
    let url = Url::parse(url).map_err(anyhow::Error::msg)?;
    check_options(args)?;
    let (viewer, sessions) = connect(&url)?;
    if url.session.is_none() {
        args.output.print(&list(&url, &sessions, args.output.json()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut live = Live::attach(url.clone(), viewer, &sessions, Growing::default())?;
    let read = live.read(args);
    live.tell_waiting();
    let code = live.growing.conclude();
    live.failed.iter().for_each(|what| eprintln!("kymo: {url}: {what}"));
    match read {
        Ok(()) if live.failed.is_empty() => Ok(code),
        Ok(()) => Ok(ExitCode::from(1)),
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) if error.downcast_ref::<Error>().is_some() => {
            eprintln!("kymo: {url}: {error:#}; what has arrived was printed");
            Ok(ExitCode::from(1))
        }
        Err(error) => Err(error),
    }
}

/// A connection to a relay daemon, and the sessions that it has.
pub(in crate::verbs::reading) fn connect(url: &Url) -> anyhow::Result<(Viewer<TcpStream>, Vec<Session>)> {
    let mut viewer = Viewer::connect(connection(url)?).with_context(|| url.to_string())?;
    let sessions = viewer.sessions().with_context(|| url.to_string())?;
    Ok((viewer, sessions))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// # Errors
/// An option needs a trace that is there.
fn check_options(args: &ReadArgs) -> anyhow::Result<()> {
    let given = [
        ("--from", args.range.from.is_some()),
        ("--to", args.range.to.is_some()),
        ("--intersect", args.traces.intersect),
        ("--count", args.count),
        ("--symbols", args.symbols.is_some()),
        ("--to-ctf", args.to_ctf.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{option} needs a trace that is there: the relay daemon writes the session to a directory (its --output)"
        );
    }
    check(args)
}

fn connection(url: &Url) -> anyhow::Result<TcpStream> {
    let addresses = (url.host.as_str(), url.port).to_socket_addrs();
    let addresses = addresses.with_context(|| format!("{url}: no host {:?} is found", url.host))?;
    let mut why = None;
    for address in addresses.filter(|address| url.family.has(address)) {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(connection) => {
                connection.set_nodelay(true)?;
                connection.set_read_timeout(Some(PATIENCE))?;
                connection.set_write_timeout(Some(PATIENCE))?;
                return Ok(connection);
            }
            Err(error) => why = Some(error),
        }
    }
    let Some(why) = why else { bail!("{url}: the host {:?} has no such address", url.host) };
    let text = format!("{url}: no connection to port {} (does lttng-relayd run there?)", url.port);
    Err(anyhow::Error::new(why).context(text))
}

/// The number of the session that is asked for, of the newest where several have its name.
fn find(url: &Url, sessions: &[Session], host: &str, name: &str) -> anyhow::Result<u64> {
    let is_it = |session: &&Session| session.host == host && session.name == name;
    let found: Vec<&Session> = sessions.iter().filter(is_it).collect();
    if found.len() > 1 {
        eprintln!("kymo: {url}: {} sessions have this name; the newest is read", found.len());
    }
    if let Some(session) = found.iter().max_by_key(|session| session.id) {
        return Ok(session.id);
    }
    let near =
        NEAR.of(name, sessions.iter().map(|session| session.name.as_str()).enumerate().map(|(at, name)| (at, [name])));
    let others: Vec<usize> = if near.is_empty() { (0..sessions.len().min(5)).collect() } else { near };
    let others = others.iter().filter_map(|at| sessions.get(*at));
    let others: Vec<String> = others.map(|session| url.of(&session.host, &session.name).to_string()).collect();
    match others.is_empty() {
        true => bail!("{url}: the relay daemon has no sessions"),
        false => bail!("{url}: the relay daemon has no such session; there is {}", others.join(", ")),
    }
}

/// The sessions that there are.
fn list(url: &Url, sessions: &[Session], is_json: bool) -> String {
    let line = |session: &Session| {
        let of = url.of(&session.host, &session.name);
        if is_json {
            let line = serde_json::json!({
                "url": of.to_string(), "host": session.host, "session": session.name,
                "live_timer_us": session.timer_us, "streams": session.streams, "viewers": session.clients,
            });
            return format!("{line}\n");
        }
        let timer = duration(u64::from(session.timer_us) * 1000);
        let (streams, viewers) = (counted(session.streams, "stream"), counted(session.clients, "viewer"));
        format!("{of} (timer {timer}, {streams}, {viewers})\n")
    };
    if sessions.is_empty() && !is_json {
        eprintln!("kymo: {url}: the relay daemon has no sessions");
    }
    sessions.iter().map(line).collect()
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

impl Live<Growing> {
    /// Reads and prints until the session is over or --limit is reached. What has arrived is printed in any case.
    fn read(&mut self, args: &ReadArgs) -> anyhow::Result<()> {
        loop {
            let came = match self.go_on() {
                Ok(came) => came,
                Err(error) => {
                    self.growing.print(args, &Horizon::none())?;
                    return Err(error.into());
                }
            };
            let horizon = if self.is_closed { Some(Horizon::none()) } else { self.horizon() };
            if let Some(horizon) = horizon {
                if !self.growing.print(args, &horizon)? {
                    return Ok(());
                }
            }
            if self.is_closed {
                return Ok(());
            }
            if !came {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Up to where everything has arrived; `None` while a stream has told nothing.
    fn horizon(&self) -> Option<Horizon> {
        let of_traces = self.arrived_until()?.into_iter().collect();
        Some(Horizon { of_traces, ..Horizon::none() })
    }
}

impl<T: Arrived> Live<T> {
    /// Attaches to the session of an address that names one.
    ///
    /// # Errors
    /// There is no such session, or it cannot be had.
    pub fn attach(url: Url, viewer: Viewer<TcpStream>, sessions: &[Session], growing: T) -> anyhow::Result<Live<T>> {
        let (host, name) = url.session.as_ref().context("the address names no session")?;
        let session = find(&url, sessions, host, name)?;
        let (traces, streams, names, failed) = (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        let (is_closed, lost_in_a_row) = (false, 0);
        let mut live = Live { url, viewer, session, traces, streams, names, growing, is_closed, failed, lost_in_a_row };
        let url = live.url.to_string();
        match live.viewer.attach(session).with_context(|| url.clone())? {
            Attached::Streams(streams) => live.add(&streams).context(url)?,
            Attached::Unknown => bail!("{url}: the session has just ended"),
            Attached::NotLive => bail!("{url}: the session is not live: it is created with `lttng create --live`"),
            Attached::Busy => bail!("{url}: another viewer reads the session, and the relay daemon allows one"),
        }
        Ok(live)
    }

    /// Asks everybody once, over a new connection if the one before was lost. Whether anything came.
    ///
    /// # Errors
    /// Nothing more comes.
    pub fn go_on(&mut self) -> Result<bool, Error> {
        match self.round() {
            // A relay daemon that ends after the last stream has nothing to add.
            Err(Error::Closed) if self.are_over() && !self.streams.is_empty() => {
                self.is_closed = true;
                Ok(false)
            }
            Err(error) if self.go_on_after(&error) => Ok(true),
            other => other,
        }
    }

    /// Asks everybody once. Whether anything came.
    fn round(&mut self) -> Result<bool, Error> {
        let mut came = false;
        for stream in 0..self.streams.len() {
            came |= !self.streams[stream].is_over && self.take(stream)?;
        }
        self.metadata_of_all()?;
        match self.viewer.new_streams(self.session)? {
            NewStreams::Some(streams) => {
                came |= !streams.is_empty();
                self.add(&streams)?;
            }
            NewStreams::Closed => self.is_closed = true,
            NewStreams::Failed if self.are_over() => self.is_closed = true,
            NewStreams::Failed => {
                let command = "GET_NEW_STREAMS";
                return Err(Error::Answer { command, what: "the session is not known any more".to_owned() });
            }
        }
        Ok(came)
    }

    fn are_over(&self) -> bool {
        self.streams.iter().all(|stream| stream.is_over)
    }

    /// Takes streams that are new.
    fn add(&mut self, streams: &[Stream]) -> Result<(), Error> {
        if self.streams.len() + self.traces.len() + streams.len() > SESSION_STREAMS_MAX {
            let what = format!("more than {SESSION_STREAMS_MAX} streams");
            return Err(Error::Answer { command: "GET_NEW_STREAMS", what });
        }
        for stream in streams {
            let known = self.traces.iter().position(|trace| trace.id == stream.trace);
            let trace = known.unwrap_or_else(|| {
                let (metadata_stream, metadata) = (None, Vec::new());
                let id = stream.trace;
                self.traces.push(LiveTrace { id, metadata_stream, metadata, wants_metadata: true, position: None });
                self.traces.len() - 1
            });
            if stream.is_metadata {
                self.traces[trace].metadata_stream = Some(stream.id);
                self.traces[trace].wants_metadata = true;
                continue;
            }
            // Files of one name lie in different directories of the relay daemon.
            let is_free = self.names.insert((trace, stream.channel.clone()));
            let name = if is_free { stream.channel.clone() } else { format!("{}#{}", stream.channel, stream.id) };
            let (until, is_over, last, repeated_to, waiting) = (None, false, None, None, Vec::new());
            let id = stream.id;
            self.streams.push(LiveStream { id, trace, name, until, is_over, last, repeated_to, waiting });
        }
        Ok(())
    }

    /// Takes what a stream has got. Whether that was anything.
    fn take(&mut self, at: usize) -> Result<bool, Error> {
        let (id, trace, mut taken) = (self.streams[at].id, self.streams[at].trace, 0);
        while taken < TAKE_BYTES && self.held(at) < HELD_BYTES_MAX {
            let (index, flags) = self.viewer.next_index(id)?;
            self.traces[trace].wants_metadata |= flags.metadata;
            let packet = match index {
                Index::Packet(packet) => packet,
                Index::Retry => break,
                Index::Inactive(until) => {
                    self.streams[at].until = self.streams[at].until.max(Some(until));
                    break;
                }
                Index::Over => {
                    self.streams[at].is_over = true;
                    break;
                }
                Index::Failed => {
                    self.streams[at].is_over = true;
                    self.failed.push(format!("the relay daemon has lost the stream {}", self.streams[at].name));
                    break;
                }
            };
            if self.streams[at].is_repeated(&packet) {
                continue;
            }
            // Metadata that a packet needs are there before it is.
            self.metadata(trace)?;
            let fetched = self.viewer.packet(id, &packet)?;
            (self.streams[at].last, self.lost_in_a_row) = (Some(key(&packet)), 0);
            match fetched {
                Some(bytes) => {
                    taken += bytes.len() as u64;
                    self.streams[at].waiting.push(bytes);
                }
                None => {
                    let name = &self.streams[at].name;
                    self.failed.push(format!("the relay daemon does not have a packet of {name} any more"));
                }
            }
            self.streams[at].until = self.streams[at].until.max(Some(packet.end));
            self.hand_over(at);
        }
        Ok(taken > 0)
    }

    /// Bytes of a stream that were not printed.
    fn held(&self, at: usize) -> u64 {
        let stream = &self.streams[at];
        let waiting: u64 = stream.waiting.iter().map(|packet| packet.len() as u64).sum();
        let position = self.traces[stream.trace].position;
        waiting + position.map_or(0, |position| self.growing.held(position, &stream.name))
    }

    /// Gives packets to who prints them, once their trace has metadata.
    fn hand_over(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let Some(position) = self.traces[stream.trace].position else { return };
        for packet in stream.waiting.drain(..) {
            self.growing.append(position, &stream.name, &packet);
        }
    }

    /// Metadata of traces that have more of them, or that have come to an end: the relay daemon waits for the question.
    fn metadata_of_all(&mut self) -> Result<(), Error> {
        for trace in 0..self.traces.len() {
            let mut streams = self.streams.iter().filter(|stream| stream.trace == trace);
            self.traces[trace].wants_metadata |= streams.all(|stream| stream.is_over);
            self.metadata(trace)?;
        }
        Ok(())
    }

    /// Takes the metadata of a trace, if there are more.
    fn metadata(&mut self, at: usize) -> Result<(), Error> {
        let trace = &mut self.traces[at];
        let Some(stream) = trace.metadata_stream.filter(|_| trace.wants_metadata) else { return Ok(()) };
        let before = trace.metadata.len();
        loop {
            match self.viewer.metadata(stream)? {
                Metadata::Some(bytes) if bytes.is_empty() => break,
                Metadata::Some(bytes) => trace.metadata.extend(bytes),
                Metadata::Failed => {
                    trace.metadata_stream = None;
                    break;
                }
            }
            if trace.metadata.len() as u64 > kymo_live::METADATA_BYTES_MAX {
                return Err(Error::Answer { command: "GET_METADATA", what: "metadata without end".to_owned() });
            }
        }
        if trace.metadata.len() == before {
            trace.wants_metadata = trace.position.is_none();
            return Ok(());
        }
        // What is not whole yet makes sense when the rest has come.
        trace.wants_metadata = parse_metadata("metadata", &trace.metadata).is_err();
        if trace.wants_metadata {
            return Ok(());
        }
        let id = trace.id;
        let position = *trace.position.get_or_insert_with(|| self.growing.add(format!("trace {id}")));
        self.growing.set_metadata(position, trace.metadata.clone());
        (0..self.streams.len()).for_each(|stream| self.hand_over(stream));
        Ok(())
    }

    /// Notes packets that could not be read for want of metadata.
    fn tell_waiting(&mut self) {
        let waiting = self.streams.iter().filter(|stream| !stream.waiting.is_empty());
        self.failed.extend(waiting.map(|stream| format!("no metadata have come for {}", stream.name)));
    }

    /// Up to where everything has arrived, cycles by the position of the trace; `None` while a stream has told nothing.
    pub fn arrived_until(&self) -> Option<BTreeMap<usize, u64>> {
        let mut oldest: BTreeMap<usize, u64> = BTreeMap::new();
        for stream in self.streams.iter().filter(|stream| !stream.is_over) {
            let (position, until) = (self.traces[stream.trace].position?, stream.until?);
            let of = oldest.entry(position).or_insert(until);
            *of = until.min(*of);
        }
        Some(oldest)
    }
}
