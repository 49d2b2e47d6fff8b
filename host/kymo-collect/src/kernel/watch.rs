// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions on kernel events [spec/flight.md 3.1]: a second instance with the events that they name, and a thread
//! that reads it at every poll and asks the triggers. In flight mode nobody reads the session's own instance before a
//! snapshot.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kymo_abi::split_head;
use kymo_ctf::write::EventClass;
use kymo_filter::{Compare, Event, Filter, Necessary, necessary};
use kymo_ftrace::format::EventFormat;
use kymo_ftrace::{Batch, Decoder, Naming, comparison, format};
use kymo_tracefs::{Chosen, CpuReader, Instance, Settings, Tracefs};

use super::conditions::{KernelConditions, Nameable};
use super::config::{KernelConfig, STATE_FIRST_ID, clock_of};
use crate::clock::{ClockSource, extend};
use crate::condition_fields::event;
use crate::context::Contexts;
use crate::trigger::Fired;
use crate::watch::{ConditionClock, Watch};
use crate::{Error, priority};

/// Ring of each CPU: at a poll of a millisecond, room for some million events a second.
const RING_BYTES: u64 = 1 << 20;
/// Pages of one CPU that one look takes: half of its ring, so that a flood does not hold the thread.
const PAGES_MAX: usize = 128;
/// Between two looks at the kernel's counts of what was dropped; also when a look has found much.
const STATS_PERIOD: Duration = Duration::from_millis(100);
/// Pages in a look that are much.
const PAGES_MANY: usize = 16;
/// Pairs need the order of time over all CPUs. A record gets its time before it can be read, and an interrupt may come
/// between.
const HELD_BACK: Duration = Duration::from_micros(100);
/// Bytes of a filter for the kernel, which takes a page.
const FILTER_BYTES_MAX: usize = 2048;
/// Bytes of records that wait for the thread that has the programs' ones.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// The other side goes on without the kernel's records where none were brought for this long.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the watch of a session needs besides its conditions.
pub(crate) struct Needs<'a> {
    pub config: &'a KernelConfig,
    pub source: ClockSource,
    pub poll: Duration,
    pub clock: ConditionClock,
    pub fired: SyncSender<Fired>,
}

/// Watches the kernel. Ended by [`KernelWatch::finish`].
#[derive(Debug)]
pub(crate) struct KernelWatch {
    instance: Instance,
    thread: JoinHandle<u64>,
    /// Dropped: the thread looks once more, and ends.
    alive: Sender<()>,
}

/// A watch that is made, and not switched on.
#[derive(Debug)]
pub(crate) struct ReadyWatch {
    // It has files of the instance open, and goes first.
    looker: Looker,
    instance: Instance,
    chosen: Vec<Chosen>,
    poll: Duration,
    /// Real-time priority of the thread.
    pub priority: u8,
    /// For conditions that ask for programs' records too.
    pub queue: Option<Arc<Queue>>,
    /// The events that are watched.
    pub classes: Vec<EventClass>,
}

impl ReadyWatch {
    /// Makes the instance, and sees that the conditions fit its events.
    pub(crate) fn prepare(asked: &KernelConditions, needs: Needs<'_>) -> Result<ReadyWatch, Error> {
        let tracefs = Tracefs::find()?;
        let page = format::parse_page_format(&tracefs.header_page()?).map_err(Error::format("events/header_page"))?;
        let mut decoder = Decoder::new(page);
        let mut known = Vec::with_capacity(asked.events.len());
        for nameable in &asked.events {
            let what = nameable.event.to_string();
            let format = format::parse_event(&tracefs.format(&nameable.event)?).map_err(Error::format(&what))?;
            if format.id < STATE_FIRST_ID {
                let class = decoder.add(&nameable.system, &format, needs.config.naming, None);
                known.push(WatchableEvent { nameable, format, class });
            }
        }
        let mut watch = Watch::new(&asked.kernel, &Contexts::default(), needs.fired, needs.clock);
        watch.learn_kernel(known.iter().map(|known| &known.class));
        if let Some(error) = watch.unfit().first() {
            return Err(Error::Trigger(error.clone()));
        }
        let chosen = choose(&known, asked, needs.config.naming);
        let instance = tracefs.create(&settings(needs.config, needs.source)?)?;
        instance.stop()?;
        let queue = (!asked.mixed.is_empty()).then(|| Arc::new(Queue::default()));
        let has_pairs = asked.kernel.iter().chain(&asked.mixed).any(Filter::has_pairs);
        let looker = Looker {
            lanes: instance.cpus().into_iter().map(|cpu| Lane::new(&instance, cpu)).collect::<Result<_, Error>>()?,
            page: vec![0; instance.page_bytes()],
            decoder,
            watch,
            queue: queue.clone(),
            held: Held::default(),
            hold_back: if has_pairs { cycles(HELD_BACK, needs.clock.frequency_hz) } else { 0 },
            looked: Instant::now(),
            source: needs.source,
            unseen: 0,
        };
        let classes = known.into_iter().map(|known| known.class).collect();
        let (poll, priority) = (needs.poll, needs.config.priority);
        Ok(ReadyWatch { instance, chosen, looker, poll, priority, queue, classes })
    }

    /// Switches the events on, and starts the thread.
    pub(crate) fn start(self) -> Result<KernelWatch, Error> {
        let ReadyWatch { instance, chosen, looker, poll, priority, .. } = self;
        enable(&instance, &chosen)?;
        let (alive, end) = mpsc::channel();
        let builder = thread::Builder::new().name("kymo-kwatch".to_owned());
        let thread =
            builder.spawn(move || looker.run(poll, priority, &end)).map_err(Error::system("start a thread"))?;
        if let Err(error) = instance.start() {
            // The instance cannot be removed while the thread has files of it open.
            drop(alive);
            let _ = thread.join();
            return Err(error.into());
        }
        Ok(KernelWatch { instance, thread, alive })
    }
}

impl KernelWatch {
    /// The last look; then nothing of it is left. Records that were not seen.
    pub(crate) fn finish(self) -> Result<u64, Error> {
        self.instance.stop()?;
        drop(self.alive);
        let unseen = self.thread.join().map_err(|_| Error::Thread { thread: "kernel watch" })?;
        self.instance.remove()?;
        Ok(unseen)
    }
}

/// An event, as the kernel and the trace describe it.
struct WatchableEvent<'a> {
    nameable: &'a Nameable,
    format: EventFormat,
    class: EventClass,
}

fn settings(config: &KernelConfig, source: ClockSource) -> Result<Settings, Error> {
    Ok(Settings {
        clock: clock_of(source)?.to_owned(),
        ring_bytes_per_cpu: RING_BYTES,
        subbuf_bytes: None,
        overwrite: false,
        cpus: config.cpus.clone(),
    })
}

fn cycles(time: Duration, per_second: u64) -> u64 {
    (time.as_nanos() * u128::from(per_second) / 1_000_000_000) as u64
}

/// The events to switch on, each with a filter of the kernel's own where all conditions allow one: it lets through at
/// least what they select, and they are asked again.
fn choose(known: &[WatchableEvent<'_>], asked: &KernelConditions, naming: Naming) -> Vec<Chosen> {
    let events: Vec<Event> = known.iter().map(|known| event(&known.class)).collect();
    let checked: Vec<_> = asked.kernel.iter().filter_map(|filter| filter.check(&events).ok()).collect();
    let filter_of = |at: usize, known: &WatchableEvent<'_>| {
        let say = |field: &str, op: Compare, value: i128| {
            comparison((&known.nameable.system, &known.format, naming), field, op.sign(), value)
        };
        let mut said = Vec::new();
        for checked in &checked {
            match necessary(checked, at, &say) {
                Necessary::All => return Necessary::All,
                Necessary::None => {}
                Necessary::If(text) => said.push(format!("({text})")),
            }
        }
        let text = said.join(" || ");
        match text.len() {
            0 => Necessary::None,
            1..=FILTER_BYTES_MAX => Necessary::If(text),
            _ => Necessary::All,
        }
    };
    let mut chosen = Vec::new();
    for (at, known) in known.iter().enumerate() {
        let whole = Chosen::whole(known.nameable.event.clone());
        match if asked.mixed.is_empty() { filter_of(at, known) } else { Necessary::All } {
            Necessary::All => chosen.push(whole),
            Necessary::If(filter) => chosen.push(Chosen { filter: Some(filter), ..whole }),
            // A glob of a condition named it, and the condition cannot hold for it.
            Necessary::None => {}
        }
    }
    chosen
}

/// Switches the events on; without filters where the kernel refuses one.
fn enable(instance: &Instance, chosen: &[Chosen]) -> Result<(), Error> {
    match instance.enable(chosen) {
        Err(kymo_tracefs::Error::Filter { event, filter, words }) => {
            tracing::info!(%event, filter, words, "the kernel refused a filter; the collector decides alone");
            let plain: Vec<Chosen> = chosen.iter().map(|chosen| Chosen::whole(chosen.event.clone())).collect();
            Ok(instance.enable(&plain)?)
        }
        result => Ok(result?),
    }
}

/// One CPU's ring.
#[derive(Debug)]
struct Lane {
    cpu: u32,
    reader: CpuReader,
    /// Records that never came into it, as far as was counted.
    dropped: u64,
}

impl Lane {
    fn new(instance: &Instance, cpu: u32) -> Result<Lane, Error> {
        Ok(Lane { cpu, reader: instance.reader(cpu)?, dropped: 0 })
    }

    /// Records that were dropped since the last call.
    fn count_dropped(&mut self) -> u64 {
        let Ok(stats) = self.reader.stats() else { return 0 };
        let dropped = stats.dropped + stats.commit_overrun + stats.overrun;
        dropped.saturating_sub(std::mem::replace(&mut self.dropped, dropped))
    }
}

/// Records that were read and not asked about, in the order of their coming.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    records: Vec<HeldRecord>,
}

#[derive(Clone, Copy, Debug)]
struct HeldRecord {
    time: u64,
    cpu: u32,
    at: usize,
    size: usize,
}

impl Held {
    /// Notes the records of a batch. What cannot be walked is not known; its count is returned.
    fn add(&mut self, batch: &Batch, cpu: u32, watch: &Watch, now: u64) -> u64 {
        let from = self.bytes.len();
        let (mut at, mut found) = (0, 0);
        while let Some(size) = batch.bytes.get(at..).and_then(|bytes| watch.kernel_record_bytes(bytes)) {
            let word =
                batch.bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            self.records.push(HeldRecord { time: extend(split_head(word).1, now), cpu, at: from + at, size });
            at += size;
            found += 1;
        }
        self.bytes.extend_from_slice(&batch.bytes);
        batch.records.saturating_sub(found)
    }

    /// Takes out what is not younger than `until`, in the order of time.
    fn take(&mut self, until: u64) -> Held {
        let all = std::mem::take(self);
        let (mut due, rest): (Vec<_>, Vec<_>) = all.records.into_iter().partition(|record| record.time <= until);
        due.sort_by_key(|record| record.time);
        for record in rest {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(&all.bytes[record.at..record.at + record.size]);
            self.records.push(HeldRecord { at, ..record });
        }
        Held { bytes: all.bytes, records: due }
    }
}

/// The state of the thread.
#[derive(Debug)]
struct Looker {
    lanes: Vec<Lane>,
    page: Vec<u8>,
    decoder: Decoder,
    watch: Watch,
    queue: Option<Arc<Queue>>,
    held: Held,
    /// Cycles.
    hold_back: u64,
    /// When the counts of drops were looked at.
    looked: Instant,
    source: ClockSource,
    unseen: u64,
}

impl Looker {
    /// Looks at every poll until the session settles; then once more. Records that were not seen.
    fn run(mut self, poll: Duration, priority: u8, end: &Receiver<()>) -> u64 {
        priority::raise(priority);
        let mut wait = poll;
        while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(wait) {
            let begun = Instant::now();
            self.look(false);
            wait = poll.saturating_sub(begun.elapsed());
        }
        self.look(true);
        self.unseen
    }

    fn look(&mut self, is_last: bool) {
        let begun = self.source.read();
        let mut pages = 0;
        for at in 0..self.lanes.len() {
            let taken = self.read(at, begun);
            pages = pages.max(taken);
        }
        if is_last || pages >= PAGES_MANY || self.looked.elapsed() >= STATS_PERIOD {
            self.count_dropped();
        }
        let until = if is_last { u64::MAX } else { begun.saturating_sub(self.hold_back) };
        let due = self.held.take(until);
        for record in &due.records {
            let bytes = &due.bytes[record.at..record.at + record.size];
            self.watch.look_kernel(bytes, record.time, record.cpu, self.source.read());
        }
        if let Some(queue) = &self.queue {
            queue.bring(&due, until);
        }
    }

    /// Takes pages of a ring until it is empty, or has records of after `begun`: those of the reading itself may be
    /// without end.
    fn read(&mut self, at: usize, begun: u64) -> usize {
        let Looker { lanes, page, decoder, watch, held, source, unseen, .. } = self;
        let lane = &mut lanes[at];
        let mut pages = 0;
        while pages < PAGES_MAX {
            let taken = match lane.reader.read(page) {
                Ok(0) => break,
                Ok(taken) => taken,
                Err(error) => {
                    tracing::warn!(cpu = lane.cpu, %error, "a ring that is watched cannot be read");
                    break;
                }
            };
            pages += 1;
            let Ok(mut pending) = decoder.open(&page[..taken]) else {
                *unseen += 1;
                continue;
            };
            let (mut is_done, mut newest) = (false, 0);
            while !is_done {
                let mut batch = Batch::default();
                is_done = decoder.decode(&mut pending, &mut batch);
                newest = if batch.records > 0 { batch.end } else { newest };
                *unseen += held.add(&batch, lane.cpu, watch, source.read());
            }
            let outcome = &pending.outcome;
            *unseen += outcome.unknown + outcome.short + u64::from(outcome.damage.is_some());
            if newest > begun {
                break;
            }
        }
        pages
    }

    fn count_dropped(&mut self) {
        self.looked = Instant::now();
        let dropped: u64 = self.lanes.iter_mut().map(Lane::count_dropped).sum();
        if dropped == 0 {
            return;
        }
        self.unseen += dropped;
        self.watch.lost();
        if let Some(queue) = &self.queue {
            queue.lose();
        }
    }
}

/// Records on their way to the thread that has those of programs.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<KernelRecord>,
    bytes: usize,
    /// All that is older is in the queue.
    until: u64,
    brought: Option<Instant>,
    is_lost: bool,
    unseen: u64,
}

/// A kernel record that waits to be asked about.
#[derive(Debug)]
pub(crate) struct KernelRecord {
    pub time: u64,
    pub cpu: u32,
    pub bytes: Box<[u8]>,
}

/// What is due.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// In the order of time.
    pub records: Vec<KernelRecord>,
    /// No older one will come.
    pub until: u64,
    /// Records are missing in front of these.
    pub is_lost: bool,
}

impl Queue {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bring(&self, due: &Held, until: u64) {
        let mut waiting = self.lock();
        for record in &due.records {
            let bytes: Box<[u8]> = due.bytes[record.at..record.at + record.size].into();
            waiting.bytes += bytes.len();
            waiting.records.push_back(KernelRecord { time: record.time, cpu: record.cpu, bytes });
        }
        while waiting.bytes > QUEUE_BYTES_MAX {
            let Some(oldest) = waiting.records.pop_front() else { break };
            waiting.bytes -= oldest.bytes.len();
            waiting.unseen += 1;
            waiting.is_lost = true;
        }
        waiting.until = until;
        waiting.brought = Some(Instant::now());
    }

    fn lose(&self) {
        self.lock().is_lost = true;
    }

    /// Takes what is not younger than `now`, as far as the kernel's side has come.
    pub(crate) fn take(&self, now: u64) -> Due {
        let mut waiting = self.lock();
        let is_alive = waiting.brought.is_some_and(|brought| brought.elapsed() < PATIENCE);
        let until = if is_alive { now.min(waiting.until) } else { now };
        let mut records = Vec::new();
        while waiting.records.front().is_some_and(|record| record.time <= until) {
            let Some(record) = waiting.records.pop_front() else { break };
            waiting.bytes -= record.bytes.len();
            records.push(record);
        }
        Due { records, until, is_lost: std::mem::take(&mut waiting.is_lost) }
    }

    /// Records that were dropped because nobody took them.
    pub(crate) fn unseen(&self) -> u64 {
        self.lock().unseen
    }
}
