// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that grow while they are printed: those of a session that is written, and live ones.
//!
//! Who gets the bytes gives whole packets to each stream. What is not after a horizon is printed in the order of time;
//! what is newer is held back, as another stream may still get something that is older. A reader begins where the one
//! before it ended, so that nothing is printed twice; packets that were printed are let go of.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;

use kymo_ctf::read::{
    Caveat, Content, Error, Files, Item, PacketPlace, Range, Reader, Severity, Start, Trace, unite_clocks,
};
use kymo_feed::Missing;

use kymo_query::Learn;

use super::args::ReadArgs;
use super::filter::Filters;
use super::format::Format;
use super::select::{Selection, Shown};
use super::shape;
use crate::verbs::analyze::caveats::{self, CaveatCounts};

/// Caveats that are kept one by one; the rest is counted.
const CAVEATS_MAX: usize = 1000;

/// Up to where everything has arrived: what is newer is held back.
#[derive(Clone, Debug)]
pub(super) struct Horizon {
    /// Nanoseconds since 1970.
    pub ns: i128,
    /// Cycles, of all traces.
    pub cycles: u64,
    /// Cycles of the clock of one trace, by its position.
    pub of_traces: Vec<(usize, u64)>,
}

impl Horizon {
    /// Nothing is held back.
    pub fn none() -> Horizon {
        Horizon { ns: i128::MAX, cycles: u64::MAX, of_traces: Vec::new() }
    }

    /// As ns.
    fn ns(&self, traces: &[Trace]) -> i128 {
        let of_trace = |&(trace, cycles): &(usize, u64)| {
            let clock = traces.get(trace)?.metadata.clocks.first()?;
            Some(clock.nanoseconds(cycles))
        };
        self.of_traces.iter().filter_map(of_trace).fold(self.ns, i128::min)
    }
}

/// A stream, as far as it was not printed.
#[derive(Default)]
struct GrowingStream {
    /// Whole packets.
    bytes: Vec<u8>,
    /// In front of what comes next, in `bytes`.
    place: PacketPlace,
    /// Bytes and packets that were let go of.
    gone: (u64, u64),
}

impl GrowingStream {
    /// Lets go of the packets in front of a place.
    fn retire(&mut self, place: PacketPlace) {
        let bytes = usize::try_from(place.packet.offset).map_or(self.bytes.len(), |at| at.min(self.bytes.len()));
        self.bytes.drain(..bytes);
        self.gone = (self.gone.0 + bytes as u64, self.gone.1 + place.packet.number);
        self.place = place;
        let mark = &mut self.place.packet;
        (mark.offset, mark.number) = (0, 0);
        mark.content_end = mark.content_end.saturating_sub(bytes as u64);
    }
}

/// A trace of which packets arrive.
struct GrowingTrace {
    label: String,
    metadata: Vec<u8>,
    streams: BTreeMap<String, GrowingStream>,
}

impl GrowingTrace {
    /// Those that have something.
    fn with_some(&self) -> impl Iterator<Item = (&String, &GrowingStream)> {
        self.streams.iter().filter(|(_, stream)| !stream.bytes.is_empty())
    }
}

impl Files for GrowingTrace {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn metadata(&self) -> Result<Content, Error> {
        Ok(Content::Owned(self.metadata.clone()))
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        Ok(self.with_some().map(|(name, _)| name.clone()).collect())
    }

    fn open(&self, name: &str) -> Result<Content, Error> {
        Ok(Content::Owned(self.streams.get(name).map_or_else(Vec::new, |stream| stream.bytes.clone())))
    }
}

/// Traces that grow, and how far they are printed.
#[derive(Default)]
pub(super) struct Growing {
    traces: Vec<GrowingTrace>,
    /// What is known of the machines' threads so far.
    learn: Option<Learn>,
    /// Time of the line before: nanoseconds or cycles, as they are shown.
    before: Option<i128>,
    shown: u64,
    lost: Missing,
    /// What was wrong, with the name of the trace; each place once, as packets are read again.
    caveats: Vec<(String, Caveat)>,
    told: BTreeSet<(usize, String, u64, String)>,
    counts: CaveatCounts,
}

impl Growing {
    /// One trace more. Its position.
    pub fn add(&mut self, label: String) -> usize {
        self.traces.push(GrowingTrace { label, metadata: Vec::new(), streams: BTreeMap::new() });
        self.traces.len() - 1
    }

    /// The metadata of a trace, all of them.
    pub fn set_metadata(&mut self, trace: usize, metadata: Vec<u8>) {
        self.traces[trace].metadata = metadata;
    }

    /// Whole packets, behind those that a stream has.
    pub fn append(&mut self, trace: usize, stream: &str, packets: &[u8]) {
        self.traces[trace].streams.entry(stream.to_owned()).or_default().bytes.extend_from_slice(packets);
    }

    /// Bytes of a stream that were not printed.
    pub fn held(&self, trace: usize, stream: &str) -> u64 {
        self.traces[trace].streams.get(stream).map_or(0, |stream| stream.bytes.len() as u64)
    }

    /// A trace goes on in other files, of the same names.
    pub fn restart(&mut self, trace: usize) {
        self.traces[trace].streams.clear();
    }

    /// Whether everything was printed.
    pub fn is_empty(&self) -> bool {
        self.traces.iter().all(|trace| trace.with_some().next().is_none())
    }

    /// Prints what is not after the horizon. False when --limit is reached.
    pub fn print(&mut self, args: &ReadArgs, horizon: &Horizon) -> anyhow::Result<bool> {
        let (out, goes_on) = self.render(args, horizon)?;
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()?;
        Ok(goes_on)
    }

    /// The same, as bytes.
    fn render(&mut self, args: &ReadArgs, horizon: &Horizon) -> anyhow::Result<(Vec<u8>, bool)> {
        if self.is_empty() {
            return Ok((Vec::new(), true));
        }
        let traces = self.traces.iter().map(|trace| Trace::from_files(trace).map(|opened| opened.value));
        let mut traces: Vec<Trace> = traces.collect::<Result<_, _>>()?;
        if args.traces.ignore_uuid {
            traces.iter_mut().for_each(Trace::ignore_uuid);
        }
        unite_clocks(&mut traces);
        let starts: Vec<Start> = self.streams().map(|stream| Start::At(stream.place)).collect();
        let reader = Reader::between(&traces, Range::default(), &starts);
        let Some(mut reader) = reader else { anyhow::bail!("the metadata no longer has what they had") };
        let selection = Selection::new(&traces, args.fields.as_deref(), &args.events.event, args.state)?;
        let mut filters = Filters::new(&traces, &args.scope.expressions())?;
        anyhow::ensure!(
            !filters.have_state(),
            "--filter: the machine's state ($running, $task, $task_prio, $syscall, $doing) is known of a trace that is \
             read from its begin, not while it is written; kymo read shows the same later"
        );
        let mut learn = self.learn_of(&traces, selection.has_threads() || filters.have_threads());
        let mut format = shape::format(&traces, &selection, args, self.before);
        format.resume(self.before);
        let (ns, mut out) = (horizon.ns(&traces), Vec::new());
        let mut goes_on = true;
        while goes_on && reader.pass().is_some() {
            let is_late = reader.standing().is_none_or(|(at, cycles)| at > ns || cycles > horizon.cycles);
            let Some(mut item) = reader.current().filter(|_| !is_late) else { break };
            let (at, cycles) = match &item {
                Item::Record(record) => (record.ns, record.cycles),
                Item::Loss(loss) => (loss.from_ns, loss.from_cycles),
            };
            if let Item::Loss(loss) = &item {
                self.lost.add_loss(loss);
            }
            let is_record = matches!(item, Item::Record(_));
            if show(&mut item, learn.as_mut(), &mut *format, &selection, &mut filters, &mut out) {
                self.before = Some(if args.cycles { cycles.into() } else { at });
                self.shown += u64::from(is_record);
            }
            goes_on = args.limit.is_none_or(|limit| self.shown < limit);
        }
        let places = reader.places();
        let counts = CaveatCounts { all: reader.caveat_count(), damage: reader.damage_count() };
        let found: Vec<(usize, Caveat)> = reader.caveats().map(|(trace, caveat)| (trace, caveat.clone())).collect();
        drop((reader, format));
        self.learn = learn;
        filters.conclude();
        self.note(found, counts);
        self.streams_mut().zip(places).for_each(|(stream, place)| stream.retire(place));
        Ok((out, goes_on))
    }

    /// Those that are read, in the order of the reader.
    fn streams(&self) -> impl Iterator<Item = &GrowingStream> {
        self.traces.iter().flat_map(|trace| trace.with_some().map(|(_, stream)| stream))
    }

    fn streams_mut(&mut self) -> impl Iterator<Item = &mut GrowingStream> {
        self.traces.iter_mut().flat_map(|trace| trace.streams.values_mut()).filter(|stream| !stream.bytes.is_empty())
    }

    /// What is known of threads, for the traces as they are now. `wanted`: whether they are shown.
    fn learn_of(&mut self, traces: &[Trace], wanted: bool) -> Option<Learn> {
        match self.learn.take() {
            Some(mut learn) => {
                learn.renew(traces);
                Some(learn)
            }
            None if wanted => Learn::new(traces),
            None => None,
        }
    }

    /// Keeps what was wrong, with its place in the whole stream. `counts`: with what the reader did not list.
    fn note(&mut self, found: Vec<(usize, Caveat)>, counts: CaveatCounts) {
        let is_damage = |caveat: &Caveat| caveat.damage.severity() == Severity::Unread;
        let listed = found.iter().filter(|(_, caveat)| is_damage(caveat)).count() as u64;
        self.counts.all += counts.all.saturating_sub(found.len() as u64);
        self.counts.damage += counts.damage.saturating_sub(listed);
        for (trace, mut caveat) in found {
            let gone = self.traces[trace].streams.get(&caveat.file).map_or((0, 0), |stream| stream.gone);
            caveat.at += gone.0;
            caveat.packet = caveat.packet.map(|packet| packet + gone.1);
            let key = (trace, caveat.file.clone(), caveat.at, caveat.damage.to_string());
            let is_new = self.told.len() >= CAVEATS_MAX || self.told.insert(key);
            if !is_new {
                continue;
            }
            self.counts.all += 1;
            self.counts.damage += u64::from(is_damage(&caveat));
            if self.caveats.len() < CAVEATS_MAX {
                let label = &self.traces[trace].label;
                let front = if self.traces.len() == 1 { String::new() } else { format!("{label}/") };
                self.caveats.push((front, caveat));
            }
        }
    }

    /// Says on standard error what was lost and damaged; the exit status by that.
    pub fn conclude(&self) -> ExitCode {
        if !self.lost.is_none() {
            eprintln!("kymo: {}", self.lost.text());
        }
        caveats::say(&[], self.caveats.iter().map(|(front, caveat)| (front.clone(), caveat)), self.counts, "")
    }
}

/// What cannot be asked of a trace that grows.
pub(super) fn check(args: &ReadArgs) -> anyhow::Result<()> {
    let has_pairs = |text: &String| kymo_filter::parse_of_trace(text).is_ok_and(|filter| filter.has_pairs());
    let pairs = args.scope.filters.filter.iter().any(has_pairs);
    anyhow::ensure!(
        !pairs,
        "a trace that is being written cannot be asked for pairs of records (latency); kymo read can later"
    );
    anyhow::ensure!(args.hosts.is_none(), "one trace is read while it is written: --shift and --align are for several");
    Ok(())
}

/// Prints one item. Whether it is one that is shown.
fn show<'r>(
    item: &mut Item<'r>,
    learn: Option<&'r mut Learn>,
    format: &mut dyn Format,
    selection: &Selection,
    filters: &mut Filters,
    out: &mut Vec<u8>,
) -> bool {
    match item {
        Item::Loss(loss) => {
            filters.lost(loss);
            if let Some(learn) = learn {
                learn.loss(loss);
            }
            format.loss(out, loss);
        }
        Item::Record(record) => {
            if let Some(learn) = learn {
                learn.record(record);
            }
            let is_shown = selection.event(record.trace, record.event_position) == Shown::Yes;
            if !filters.matches(record, is_shown) || !is_shown {
                return false;
            }
            format.record(out, record);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use kymo_testing::Random;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: ReadArgs,
    }

    fn args(words: &[&str]) -> ReadArgs {
        use clap::Parser as _;
        Command::parse_from([&["read", "t"], words].concat()).args
    }

    const METADATA: &str = "typealias integer { size = 8; } := u8;
        clock { name = c; freq = 1000000000; };
        stream { packet.context := struct { u8 packet_size; u8 content_size; u8 packet_seq_num; u8 events_discarded;
                integer { size = 8; map = clock.c.value; } timestamp_begin;
                integer { size = 8; map = clock.c.value; } timestamp_end; };
            event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
        event { id = 7; name = \"one\"; fields := struct { u8 n; }; };";

    /// A packet of two records.
    fn packet(number: u8, discarded: u8, begin: u8) -> Vec<u8> {
        vec![96, 96, number, discarded, begin, begin + 8, 7, begin + 2, number, 7, begin + 6, number]
    }

    fn growing() -> Growing {
        let mut growing = Growing::default();
        assert_eq!(growing.add("t".into()), 0);
        growing.set_metadata(0, METADATA.into());
        growing
    }

    fn rendered(growing: &mut Growing, args: &ReadArgs, horizon: &Horizon) -> String {
        String::from_utf8(growing.render(args, horizon).unwrap().0).unwrap()
    }

    fn until(ns: i128) -> Horizon {
        Horizon { ns, ..Horizon::none() }
    }

    #[test]
    fn in_whatever_pieces_it_comes_it_is_printed_once() {
        let args = args(&["--json"]);
        let streams: [Vec<Vec<u8>>; 2] =
            [(0..8).map(|n| packet(n, n / 3, n * 20)).collect(), (0..8).map(|n| packet(n, 0, n * 20 + 5)).collect()];
        let mut whole = growing();
        for (at, packets) in streams.iter().enumerate() {
            whole.append(0, &format!("s{at}"), &packets.concat());
        }
        let expect = rendered(&mut whole, &args, &Horizon::none());
        // Two records a packet, and the two packets that tell of losses.
        assert_eq!((expect.lines().count(), whole.lost.records, whole.is_empty()), (34, 2, true));
        let mut random = Random::new("growing", 3);
        for _ in 0..100 {
            let (mut growing, mut given, mut text) = (growing(), [0, 0], String::new());
            let mut at = 0;
            while given != [8, 8] {
                let stream = random.below(2usize);
                let count = random.below(9 - given[stream]);
                growing.append(
                    0,
                    &format!("s{stream}"),
                    &streams[stream][given[stream]..given[stream] + count].concat(),
                );
                given[stream] += count;
                // Up to where both have told everything.
                let told = given.map(|packets| i128::from(packets as u8) * 20 - 12).into_iter().min().unwrap_or(0);
                at = told.max(at);
                text += &rendered(&mut growing, &args, &until(at - i128::from(random.below(15u8))));
            }
            text += &rendered(&mut growing, &args, &Horizon::none());
            assert_eq!(text, expect);
            assert!(growing.is_empty() && growing.lost.records == 2);
        }
    }

    #[test]
    fn packets_that_are_missing_are_told() {
        let mut growing = growing();
        growing.append(0, "s", &packet(0, 0, 10));
        rendered(&mut growing, &args(&[]), &Horizon::none());
        growing.append(0, "s", &packet(3, 0, 90));
        let shown = rendered(&mut growing, &args(&[]), &Horizon::none());
        assert!(shown.contains("lost 2 packets"), "{shown}");
        assert_eq!(growing.lost, Missing { records: 0, packets: 2, places: 1 });
    }

    #[test]
    fn damage_is_told_once_with_its_place_in_the_whole_stream() {
        let mut growing = growing();
        growing.append(0, "s", &packet(0, 0, 10));
        rendered(&mut growing, &args(&[]), &Horizon::none());
        // An event that nobody knows, behind a record that is held back for some time.
        let mut bad = packet(1, 0, 50);
        bad[9] = 99;
        growing.append(0, "s", &bad);
        for ns in [49, 51, 52, 52, 60] {
            rendered(&mut growing, &args(&[]), &until(ns));
        }
        let told: Vec<(Option<u64>, u64)> = growing.caveats.iter().map(|(_, of)| (of.packet, of.at)).collect();
        assert_eq!((told, growing.counts.damage), (vec![(Some(1), 21)], 1));
    }

    #[test]
    fn what_does_not_fit_and_was_read_is_told_once_however_often_it_is_met() {
        // The counter of lost records goes back.
        let odd = [packet(0, 5, 50), packet(1, 2, 70)].concat();
        let mut whole = growing();
        whole.append(0, "s", &odd);
        rendered(&mut whole, &args(&[]), &Horizon::none());
        let mut growing = growing();
        growing.append(0, "s", &odd);
        for ns in [20, 30, 40] {
            assert_eq!(rendered(&mut growing, &args(&[]), &until(ns)), "");
        }
        rendered(&mut growing, &args(&[]), &Horizon::none());
        assert_eq!((whole.counts.all, whole.counts.damage), (1, 0), "{:?}", whole.caveats);
        assert_eq!((growing.counts.all, growing.caveats), (whole.counts.all, whole.caveats));
    }

    #[test]
    fn what_needs_a_whole_trace_is_refused() {
        for words in
            [&["--filter", "latency(a:b, a:c) > 5"][..], &["--filter", "wakeup() > 1ms"], &["--align", "common:a,by=n"]]
        {
            assert!(check(&args(words)).is_err(), "{words:?}");
        }
        assert!(check(&args(&["--filter", "n == 1"])).is_ok());
        let mut growing = growing();
        growing.append(0, "s", &packet(0, 0, 10));
        assert!(growing.render(&args(&["--filter", "$running == 0"]), &Horizon::none()).is_err());
    }

    #[test]
    fn a_limit_ends_it() {
        let mut growing = growing();
        growing.append(0, "s", &[packet(0, 0, 10), packet(1, 0, 50)].concat());
        let (text, goes_on) = growing.render(&args(&["--limit", "3"]), &Horizon::none()).unwrap();
        assert_eq!((text.iter().filter(|byte| **byte == b'\n').count(), goes_on), (3, false));
    }
}
