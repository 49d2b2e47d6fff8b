//! The drain thread: every poll it looks at each lane of each program [spec/session.md 7].
//!
//! It talks to no program and waits for none. Programs come and go through a channel from the control thread.

mod asides;
mod freeze;

pub(crate) use asides::MapRecords;
use asides::write_mark;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kymo_abi::desc::EventDesc;
use kymo_ctf::write::EventClass;
use rustix::time::ClockId;
use serde::Serialize;

use crate::chunks::{RotateJob, RotatedPart};
use crate::clock::{Source, nanoseconds};
use crate::kernel::Queue;
use crate::lane::{Lane, Pass, Program};
use crate::memory::Memory;
use crate::pace::{self, Pace};
use crate::running::Running;
use crate::snapshot::SnapshotJob;
use crate::stream::{Stream, Streams};
use crate::summary::{Damage, Loss, Lost};
use crate::watch::{Found, Origin, Watch};

/// Entries of the report's list of losses; later ones are in the totals only.
const LOSSES_MAX: usize = 4096;
/// Time between two looks at the rings of a flight recorder, for counts and dates only.
const FLIGHT_POLL: Duration = Duration::from_millis(100);
/// Programs that have ended whose rings a flight recorder keeps.
const ENDED_MAX: usize = 8;
/// Bytes of maps of programs that a flight recorder keeps.
const MAPS_BYTES_MAX: usize = 8 << 20;
/// Marks that a flight recorder keeps.
const MARKS_MAX: usize = 1000;
/// Rings in an answer to a look.
const RING_USE_MAX: usize = 4096;
/// Entries of the report's list of damage.
const DAMAGE_MAX: usize = 100;

/// What the control thread says.
pub(crate) enum ToDrain {
    /// A program was given memory.
    Add(Box<Added>),
    /// The program with this memory has ended, or has been left.
    End {
        /// Of the memory.
        serial: u64,
    },
    /// Flight recorder: write what the rings hold.
    Snapshot(SnapshotJob),
    /// Go on in another directory; and tell whom when that is done.
    Rotate(RotateJob, Sender<()>),
    /// Triggers look once more, and no more after that.
    Settle,
    /// An event was given the next id.
    Event(Box<(EventClass, EventDesc)>),
    /// A mark: its clock value and its record.
    Mark(u64, Vec<u8>),
    /// Maps of a program: records of the state dump.
    Maps(MapRecords),
    /// How full are the rings?
    Look(Sender<Vec<RingUse>>),
    /// The session has ended.
    Finish,
}

/// A program and its memory.
pub(crate) struct Added {
    pub memory: Memory,
    /// Index in the list of processes.
    pub process: usize,
    pub vpid: u32,
    pub procname: [u8; 16],
    /// Bytes that the memory counts for.
    pub charge: u64,
    /// The clock and CLOCK_MONOTONIC before the program had the memory: no record is older.
    pub made_cycles: u64,
    pub made_ns: u64,
}

/// How full a ring is: of those that have been used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RingUse {
    /// Identity of the program's memory.
    #[serde(skip)]
    pub serial: u64,
    /// Lane of the memory.
    pub lane: u32,
    /// CPU of the lane, where it has one.
    pub cpu: Option<u32>,
    /// Bytes that wait to be taken; of a flight recorder, bytes that were written, up to a whole ring.
    pub bytes: u32,
    /// Size of the ring.
    pub ring_bytes: u32,
    /// Records that were taken; of a flight recorder, that were written.
    pub records: u64,
    /// Records that were lost.
    pub lost: u64,
}

/// What others may see while the session runs.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub lost: AtomicU64,
    /// 1 once the trace can no longer be written.
    pub stopped: AtomicU64,
    /// Bytes of memories that have been given back, and not been seen by the control thread yet.
    pub released: Mutex<u64>,
}

/// What a program's lanes came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub records: u64,
    pub bytes: u64,
    pub lost: Lost,
    pub first: Option<u64>,
    pub last: Option<u64>,
    /// Whether its writers wait for room, and records that did: the program's own word.
    pub may_wait: bool,
    pub waits: u64,
}

impl Totals {
    fn add(&mut self, lane: &Lane) {
        self.records += lane.records;
        self.bytes += lane.bytes;
        self.lost.add(&lane.lost);
        self.first = [self.first, lane.first].into_iter().flatten().min();
        self.last = self.last.max(lane.last);
    }
}

/// The thread's result.
pub(crate) struct Report {
    /// Totals by index of the process.
    pub processes: Vec<(usize, Totals)>,
    pub losses: Vec<Loss>,
    pub losses_left_out: u64,
    pub damage: Vec<Damage>,
    /// Marks written.
    pub marks: u64,
    /// Triggers: records that were overwritten before they were looked at, and conditions that no event fits.
    pub unseen: u64,
    pub unfit: Vec<String>,
    pub streams: Streams,
    /// Clock value when the last ring had been emptied.
    pub end: u64,
}

/// The state of the drain thread.
pub(crate) struct Drain {
    pub source: Source,
    pub poll: Duration,
    pub commands: Receiver<ToDrain>,
    pub counters: Arc<Counters>,
    /// Called when memory was given back.
    pub wake: Box<dyn Fn() + Send>,
    /// Rings are overwritten, and read for snapshots only.
    pub flight: bool,
    /// Triggers, if there are any.
    pub watch: Option<Watch>,
    /// Records of the kernel that triggers ask for too.
    pub kernel_records: Option<Arc<Queue>>,
    pace: Pace,
    running: Vec<Running>,
    /// Flight recorder: programs that have ended, whose last moments may be wanted; and recent marks.
    ended: VecDeque<Running>,
    recent_marks: VecDeque<(u64, Vec<u8>)>,
    marks: Option<Stream>,
    /// Flight recorder: maps of the programs, those that have ended too.
    recent_maps: VecDeque<MapRecords>,
    maps: Option<Stream>,
    /// Records in the directories before the present one.
    records_before: u64,
    /// Flight recorder: rare records of programs that have ended.
    rare_ended: u64,
    /// Memory of copies, for the next ones.
    buffers: Vec<Vec<u8>>,
    /// Flight recorder: real-time priority while it looks for triggers and copies rings.
    pub priority: u8,
    report: Report,
}

impl Drain {
    pub(crate) fn new(
        source: Source,
        poll: Duration,
        commands: Receiver<ToDrain>,
        counters: Arc<Counters>,
        streams: Streams,
        wake: Box<dyn Fn() + Send>,
        (flight, watch, kernel_records): (bool, Option<Watch>, Option<Arc<Queue>>),
    ) -> Drain {
        let report = Report {
            processes: Vec::new(),
            losses: Vec::new(),
            losses_left_out: 0,
            damage: Vec::new(),
            marks: 0,
            unseen: 0,
            unfit: Vec::new(),
            streams,
            end: 0,
        };
        Drain {
            source,
            poll,
            commands,
            counters,
            wake,
            flight,
            watch,
            kernel_records,
            pace: Pace::new(poll),
            running: Vec::new(),
            ended: VecDeque::new(),
            recent_marks: VecDeque::new(),
            marks: None,
            recent_maps: VecDeque::new(),
            maps: None,
            records_before: 0,
            rare_ended: 0,
            buffers: Vec::new(),
            priority: 0,
            report,
        }
    }

    /// Runs until the session ends.
    pub(crate) fn run(mut self) -> Report {
        self.take_priority(self.watch.is_some());
        let mut wait = Duration::ZERO;
        loop {
            let command = match self.running.is_empty() && self.kernel_records.is_none() {
                true => self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.commands.recv_timeout(wait),
            };
            let goes_on = match command {
                Ok(command) => self.obey(command) && self.obey_waiting(),
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            if !goes_on {
                break;
            }
            let begun = Instant::now();
            self.note_alive();
            self.look_for_triggers();
            let is_busy = self.pass();
            wait = if self.flight && self.watch.is_none() {
                FLIGHT_POLL
            } else if is_busy {
                Duration::ZERO
            } else {
                self.next_look().saturating_sub(begun.elapsed())
            };
        }
        for index in (0..self.running.len()).rev() {
            self.end(index);
        }
        while self.forget_oldest() {}
        for stream in [self.marks.take(), self.maps.take()].into_iter().flatten() {
            self.report.streams.release(stream);
        }
        self.end_watch();
        self.report.streams.finish();
        self.report.end = self.source.read();
        self.report
    }

    /// Time to the next look. Triggers have a latency to keep, whatever the rings do.
    fn next_look(&mut self) -> Duration {
        let is_quiet = self.watch.is_none() && self.running.iter().all(Running::is_quiet);
        let poll = self.poll;
        let bounds = self.running.iter().map(|running| pace::bound_of(running.added.memory.layout(), poll));
        let bound = bounds.min().unwrap_or_default();
        self.pace.next(is_quiet, bound)
    }

    /// Obeys a bounded number of commands that wait already. False when the session has ended.
    fn obey_waiting(&mut self) -> bool {
        for _ in 0..64 {
            match self.commands.try_recv() {
                Ok(command) => {
                    if !self.obey(command) {
                        return false;
                    }
                }
                Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => break,
            }
        }
        true
    }

    fn obey(&mut self, command: ToDrain) -> bool {
        match command {
            ToDrain::Add(added) => self.running.push(Running::new(added)),
            ToDrain::End { serial } => {
                if let Some(index) = self.running.iter().position(|running| running.added.memory.serial() == serial) {
                    self.end(index);
                }
            }
            ToDrain::Event(event) => {
                if let Some(watch) = &mut self.watch {
                    watch.learn(&event.0, &event.1);
                }
            }
            ToDrain::Settle => {
                self.look_for_triggers();
                self.end_watch();
            }
            ToDrain::Mark(time, bytes) => self.mark(time, &bytes),
            ToDrain::Maps(records) => self.take_maps(records),
            ToDrain::Snapshot(job) => {
                let part = self.snapshot(&job);
                // Who asked may have given up.
                let _ = job.reply.send(part);
            }
            ToDrain::Rotate(job, gone) => {
                let part = self.rotate(&job);
                let _ = job.reply.send(part);
                let _ = gone.send(());
            }
            ToDrain::Look(reply) => {
                let all = self.running.iter().flat_map(Running::ring_use).take(RING_USE_MAX).collect();
                let _ = reply.send(all);
            }
            ToDrain::Finish => return false,
        }
        true
    }

    fn mark(&mut self, time: u64, bytes: &[u8]) {
        if self.flight {
            if self.recent_marks.len() >= MARKS_MAX {
                self.recent_marks.pop_front();
            }
            self.recent_marks.push_back((time, bytes.to_vec()));
            self.report.marks += 1;
            return;
        }
        let mut slot = self.marks.take();
        if write_mark(&mut self.report.streams, &mut slot, time, bytes, self.source.read()) {
            self.report.marks += 1;
            self.counters.records.fetch_add(1, Ordering::Relaxed);
        }
        self.marks = slot;
    }

    fn take_maps(&mut self, records: MapRecords) {
        if self.flight {
            let kept = |maps: &VecDeque<MapRecords>| maps.iter().map(|maps| maps.bytes.len()).sum::<usize>();
            while !self.recent_maps.is_empty() && kept(&self.recent_maps) + records.bytes.len() > MAPS_BYTES_MAX {
                self.recent_maps.pop_front();
            }
            self.recent_maps.push_back(records);
            return;
        }
        let mut slot = self.maps.take();
        records.write(&mut self.report.streams, &mut slot, self.source.read());
        self.maps = slot;
    }

    /// Whoever waits for triggers to fire waits no longer.
    fn end_watch(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.report.unseen = watch.unseen + self.kernel_records.as_ref().map_or(0, |queue| queue.unseen());
            self.report.unfit = watch.unfit();
        }
    }

    /// Asks the triggers of the records that came since the last poll, in the order of time over all lanes: those that are older than
    /// the beginning of this look, because of others a lane may have more by the time it is looked at.
    fn look_for_triggers(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let pass = Drain::pass_of(self.source, &mut self.report.streams, false);
        let due = self.kernel_records.as_ref().map(|queue| queue.take(pass.cycles));
        // Older ones of the kernel may come as long as its side has not come so far.
        let until = due.as_ref().map_or(pass.cycles, |due| due.until);
        let due = due.unwrap_or_default();
        if due.is_lost {
            watch.lost();
        }
        let mut lanes = Vec::new();
        let mut found = Vec::new();
        for running in &mut self.running {
            running.find_lanes();
            let Added { ref memory, vpid, procname, .. } = *running.added;
            let program = Program { memory, vpid, procname };
            for lane in &mut running.lanes {
                let (bytes, unseen) = lane.fresh(&program, &pass);
                watch.unseen += unseen;
                if bytes.is_empty() {
                    continue;
                }
                let span = watch.index(&bytes, lanes.len(), (self.source.read(), until), &mut found);
                lane.looked_at(span);
                lanes.push((bytes, lane.cpu(), vpid, procname));
            }
        }
        found.sort_by_key(|found: &Found| found.time);
        let mut of_kernel = due.records.into_iter().peekable();
        for Found { time, lane, at } in found {
            while let Some(record) = of_kernel.next_if(|record| record.time <= time) {
                watch.look_kernel(&record.bytes, record.time, record.cpu, self.source.read());
            }
            let (bytes, cpu, vpid, procname) = &lanes[lane];
            let name = String::from_utf8_lossy(procname);
            let origin = Origin { cpu: *cpu, vpid: *vpid, procname: name.trim_end_matches('\0') };
            watch.look(&bytes[at..], time, &origin, self.source.read());
        }
        for record in of_kernel {
            watch.look_kernel(&record.bytes, record.time, record.cpu, self.source.read());
        }
    }

    /// What the rings hold goes into the present directory, what comes into that of `job`.
    fn rotate(&mut self, job: &RotateJob) -> RotatedPart {
        let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
        for running in &mut self.running {
            running.look(&mut pass, &self.counters);
        }
        let streams = &mut self.report.streams;
        for running in &mut self.running {
            let memory = &running.added.memory;
            for lane in &mut running.lanes {
                lane.note_told(memory);
                lane.leave_file(streams);
            }
            memory.note_trace(job.uuid);
        }
        for stream in [self.marks.take(), self.maps.take()].into_iter().flatten() {
            streams.release(stream);
        }
        let written = streams.go_on_in(&job.dir, job.uuid);
        self.counters.stopped.store(0, Ordering::Relaxed);
        let of_running = self.running.iter().flat_map(|running| &running.lanes).map(|lane| lane.records);
        let of_ended = self.report.processes.iter().map(|(_, totals)| totals.records);
        let all = of_running.chain(of_ended).sum::<u64>() + self.report.marks;
        let records = all - std::mem::replace(&mut self.records_before, all);
        RotatedPart { written, records }
    }

    /// Gives up the rings of the program that ended first. False where there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some(running) = self.ended.pop_front() else { return false };
        self.file(&running);
        *self.counters.released.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += running.added.charge;
        drop(running);
        (self.wake)();
        true
    }

    fn pass_of<'a>(source: Source, streams: &'a mut Streams, force: bool) -> Pass<'a> {
        Pass { source, streams, ns: nanoseconds(ClockId::Monotonic), cycles: source.read(), force, stopped_at: None }
    }

    /// Tells whoever finds the rings after our death until when we looked.
    fn note_alive(&self) {
        let now = self.source.read();
        for running in &self.running {
            running.added.memory.view().notes().alive.store(now, Ordering::Relaxed);
        }
    }

    /// Looks at every lane once. True when one was so full that there is no time to sleep.
    fn pass(&mut self) -> bool {
        let mut pass = Drain::pass_of(self.source, &mut self.report.streams, false);
        let mut busy = false;
        for running in &mut self.running {
            if running.is_overwritten() {
                running.watch(&mut pass, &self.counters);
            } else {
                busy |= running.look(&mut pass, &self.counters);
            }
        }
        self.note_stop();
        busy
    }

    fn note_stop(&self) {
        if self.report.streams.stopped.is_some() {
            self.counters.stopped.store(1, Ordering::Relaxed);
        }
    }

    /// The last look at a program. Twice: what was published during the first look is whole too.
    fn end(&mut self, index: usize) {
        if self.flight {
            self.look_for_triggers();
        }
        let mut running = self.running.swap_remove(index);
        if running.is_overwritten() {
            let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
            running.watch(&mut pass, &self.counters);
            self.ended.push_back(running);
            while self.ended.len() > ENDED_MAX {
                self.forget_oldest();
            }
            return;
        }
        for _ in 0..2 {
            let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
            running.look(&mut pass, &self.counters);
        }
        let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
        running.finish(&mut pass);
        self.note_stop();
        self.rare_ended += running.lanes.iter().map(|lane| lane.records).sum::<u64>();
        self.file(&running);
        *self.counters.released.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += running.added.charge;
        drop(running);
        (self.wake)();
    }

    /// Adds a program that has ended to the report.
    fn file(&mut self, running: &Running) {
        let Added { process, vpid, .. } = *running.added;
        let header = running.added.memory.view().header();
        let mut totals = Totals {
            may_wait: header.block_agreed.load(Ordering::Relaxed) > 0,
            waits: header.block_waits.load(Ordering::Relaxed),
            ..Totals::default()
        };
        for lane in &running.lanes {
            totals.add(lane);
            for interval in &lane.intervals {
                if self.report.losses.len() >= LOSSES_MAX {
                    self.report.losses_left_out = self.report.losses_left_out.saturating_add(interval.records);
                    continue;
                }
                self.report.losses.push(Loss {
                    process,
                    vpid,
                    lane: lane.number(),
                    cpu: lane.cpu(),
                    cause: interval.cause,
                    records: interval.records,
                    from: interval.from,
                    to: interval.to,
                    from_s: 0.0,
                    to_s: 0.0,
                });
            }
            for damage in &lane.damage {
                if self.report.damage.len() < DAMAGE_MAX {
                    let what = damage.what.clone();
                    self.report.damage.push(Damage {
                        process,
                        vpid,
                        lane: lane.number(),
                        at: damage.at,
                        what,
                        lane_closed: damage.closed,
                    });
                }
            }
        }
        self.report.processes.push((process, totals));
    }
}
