// SPDX-License-Identifier: MIT OR Apache-2.0
//! The drain thread: every poll it looks at each lane of each program [spec/session.md 7].
//!
//! It talks to no program and waits for none. Programs come and go through a channel from the control thread.

mod asides;
mod freeze;
mod messages;
mod obey;
mod report;
mod sink;

use asides::MarkRecord;
pub use messages::RingUse;
pub(crate) use messages::{Added, Counters, MapRecords, ToDrain};
pub(crate) use report::{Report, Totals};
pub(crate) use sink::{Flight, Sink};

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rustix::time::ClockId;

use crate::chunks::{RotateJob, RotatedPart};
use crate::clock::ClockSource;
use crate::lane::{Lane, Pass, Program, TAKE_NS};
use crate::memory::Lease;
use crate::pace::{self, Pace};
use crate::running::Running;
use crate::stream::{Stream, Streams};
use crate::summary::{Damage, Loss};
use crate::unknown::{Missing, Unknown, Unknowns};
use crate::watch::{ConditionRecord, Origin};

/// Entries of the report's list of losses; later ones are in the totals only.
const LOSSES_MAX: usize = 4096;
/// Time between two looks at the rings of a flight recorder, for counts and dates only.
const FLIGHT_POLL: Duration = Duration::from_millis(100);
/// Entries of the report's list of damage.
const DAMAGE_MAX: usize = 100;

/// The state of the drain thread.
pub(crate) struct Drain {
    pub source: ClockSource,
    pub poll: Duration,
    pub commands: Receiver<ToDrain>,
    pub counters: Arc<Counters>,
    /// Called when memory was given back.
    pub wake: Box<dyn Fn() + Send>,
    sink: Sink,
    pace: Pace,
    running: Vec<Running>,
    marks: Option<Stream>,
    /// Marks that could not be written and that no packet tells of yet.
    marks_pending: u64,
    maps: Option<Stream>,
    /// Records in the directories before the present one.
    records_before: u64,
    /// Flight recorder: rare records of programs that have ended.
    rare_ended: u64,
    /// Nothing can be written, as was said.
    is_stopped: bool,
    /// Commands that came behind a snapshot, before those that are still in the channel.
    put_off: VecDeque<ToDrain>,
    report: Report,
}

impl Drain {
    pub(crate) fn new(
        source: ClockSource,
        poll: Duration,
        commands: Receiver<ToDrain>,
        counters: Arc<Counters>,
        streams: Streams,
        wake: Box<dyn Fn() + Send>,
        sink: Sink,
    ) -> Drain {
        let report = Report {
            processes: Vec::new(),
            losses: Vec::new(),
            losses_left_out: 0,
            damage: Vec::new(),
            unknown: Unknowns::default(),
            marks: 0,
            marks_lost: 0,
            unseen: 0,
            unfit: Vec::new(),
            streams,
            end: 0,
        };
        counters.watching.note_poll(poll);
        Drain {
            source,
            poll,
            commands,
            counters,
            wake,
            sink,
            pace: Pace::new(poll),
            running: Vec::new(),
            marks: None,
            marks_pending: 0,
            maps: None,
            records_before: 0,
            rare_ended: 0,
            is_stopped: false,
            put_off: VecDeque::new(),
            report,
        }
    }

    /// Runs until the session ends.
    pub(crate) fn run(mut self) -> Report {
        self.be_urgent_for_triggers();
        let mut wait = Some(Duration::ZERO);
        loop {
            let command = match (self.put_off.pop_front(), wait) {
                (Some(command), _) => Ok(command),
                (None, None) => self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (None, Some(wait)) => self.commands.recv_timeout(wait),
            };
            let goes_on = match command {
                Ok(command) => self.obey(command) && self.obey_waiting().is_some(),
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            if !goes_on {
                break;
            }
            wait = self.look();
        }
        self.conclude()
    }

    /// One look at everything. Returns how long nothing needs to be done unless there is a command; `None` where there
    /// is nothing to look at until then.
    pub(crate) fn look(&mut self) -> Option<Duration> {
        let begun = self.source.now();
        self.note_alive();
        self.look_for_triggers();
        let is_busy = self.pass();
        self.close_free();
        if self.running.is_empty() && !self.sink.has_kernel_records() {
            return None;
        }
        let wait = if matches!(self.sink, Sink::Flight(_)) && !self.sink.has_triggers() {
            FLIGHT_POLL
        } else if is_busy {
            Duration::ZERO
        } else {
            self.next_look().saturating_sub(self.source.now().saturating_duration_since(begun))
        };
        Some(self.next_question().map_or(wait, |question| wait.min(question)))
    }

    /// The session has ended: empties all rings for the last time.
    pub(crate) fn conclude(mut self) -> Report {
        for index in (0..self.running.len()).rev() {
            self.end(index);
        }
        while self.forget_oldest() {}
        self.tell_of_marks();
        for stream in [self.marks.take(), self.maps.take()].into_iter().flatten() {
            self.report.streams.release(stream);
        }
        self.end_watch();
        self.report.streams.finish();
        self.report.end = self.source.read();
        self.report
    }

    /// How long nothing can change unless a program writes or a command comes: `None` for ever. So long the simulation
    /// takes no look.
    #[cfg(test)]
    pub(crate) fn next_change(&self) -> Option<Duration> {
        let is_quiet = self.running.iter().all(Running::is_quiet) && self.report.streams.is_writing();
        if is_quiet { self.next_question() } else { Some(Duration::ZERO) }
    }

    /// Time to the next look. Triggers have a latency to keep, whatever the rings do.
    fn next_look(&mut self) -> Duration {
        let mut are_calm = !self.sink.has_triggers();
        let mut bound = None;
        for running in &self.running {
            let (is_calm, waiting) = running.pace();
            are_calm &= is_calm;
            let own = pace::bound_of(running.added.memory.layout(), waiting, self.poll);
            bound = Some(bound.map_or(own, |bound: Duration| bound.min(own)));
        }
        let now = self.source.nanoseconds(ClockId::Monotonic);
        let bound = self.counters.watching.wait(now, bound.unwrap_or_default());
        self.pace.next(are_calm, bound)
    }

    fn mark(&mut self, time: u64, bytes: &[u8]) {
        if let Some(flight) = self.sink.flight() {
            flight.keep_mark(time, bytes);
            self.report.marks += 1;
            return;
        }
        let mut slot = self.marks.take();
        let mark = MarkRecord { time, lost: self.marks_pending, bytes };
        if mark.write(&mut self.report.streams, &mut slot, self.source.read()) {
            self.marks_pending = 0;
            self.report.marks += 1;
            self.counters.records.fetch_add(1, Ordering::Relaxed);
        } else {
            self.marks_pending += 1;
            self.report.marks_lost += 1;
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
        self.marks = slot;
    }

    /// Marks that could not be written, and behind which none came that could: a packet without a record tells of them.
    fn tell_of_marks(&mut self) {
        if self.marks_pending > 0 {
            self.report.streams.try_again();
            let now = self.source.read();
            let mut slot = self.marks.take();
            let mark = MarkRecord { time: now, lost: self.marks_pending, bytes: &[] };
            mark.write(&mut self.report.streams, &mut slot, now);
            self.marks = slot;
        }
    }

    fn take_maps(&mut self, records: MapRecords) {
        if let Some(flight) = self.sink.flight() {
            flight.keep_maps(records);
            return;
        }
        let mut slot = self.maps.take();
        records.write(&mut self.report.streams, &mut slot, self.source.read());
        self.maps = slot;
    }

    /// Whoever waits for triggers to fire waits no longer.
    fn end_watch(&mut self) {
        let Some(flight) = self.sink.flight() else { return };
        if let Some(watch) = flight.watch.take() {
            self.report.unseen = watch.unseen + flight.kernel_records.as_ref().map_or(0, |queue| queue.unseen());
            self.report.unfit = watch.unfit();
        }
    }

    /// Asks the triggers of the records that came since the last poll, in the order of time over all lanes: those that
    /// are older than the beginning of this look, because of others a lane may have more by the time it is looked at.
    fn look_for_triggers(&mut self) {
        let Sink::Flight(flight) = &mut self.sink else { return };
        let Some(watch) = &mut flight.watch else { return };
        let pass = Drain::pass_of(self.source, &mut self.report.streams, false);
        let due = flight.kernel_records.as_ref().map(|queue| queue.take(pass.cycles));
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
                let mut cut = lane.looked_cut();
                let now = self.source.read();
                let span = watch.index(&bytes, lanes.len(), &mut cut, now, until, &mut found);
                lane.looked_at(span, cut);
                lanes.push((bytes, lane.cpu(), vpid, procname));
            }
        }
        found.sort_by_key(|found: &ConditionRecord| found.time);
        let mut of_kernel = due.records.into_iter().peekable();
        for of in found {
            while let Some(record) = of_kernel.next_if(|record| record.time <= of.time) {
                watch.look_kernel(&record.bytes, record.time, record.cpu, self.source.read());
            }
            let (bytes, cpu, vpid, procname) = &lanes[of.lane];
            let name = String::from_utf8_lossy(procname);
            let origin = Origin { cpu: *cpu, vpid: *vpid, procname: name.trim_end_matches('\0') };
            watch.look(&bytes[of.at..], &of, &origin, self.source.read());
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
                lane.leave_file(streams);
            }
            memory.note_trace(job.uuid);
        }
        for stream in [self.marks.take(), self.maps.take()].into_iter().flatten() {
            streams.release(stream);
        }
        let written = streams.go_on_in(&job.dir, job.uuid);
        self.note_stop();
        let of_running = self.running.iter().flat_map(|running| &running.lanes).map(|lane| lane.records);
        let of_ended = self.report.processes.iter().map(|(_, totals)| totals.records);
        let all = of_running.chain(of_ended).sum::<u64>() + self.report.marks;
        let records = all - std::mem::replace(&mut self.records_before, all);
        RotatedPart { written, records }
    }

    /// Gives up the rings of the program that ended first. False where there is none.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.sink.flight().and_then(|flight| flight.ended.pop_front());
        let Some(running) = oldest else { return false };
        self.give_up(running);
        true
    }

    fn pass_of<'a>(source: ClockSource, streams: &'a mut Streams, force: bool) -> Pass<'a> {
        Pass {
            source,
            streams,
            ns: source.nanoseconds(ClockId::Monotonic),
            cycles: source.read(),
            force,
            take_ns: TAKE_NS,
            stopped_at: None,
        }
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
        self.report.streams.look_again(self.source.read());
        let mut pass = Drain::pass_of(self.source, &mut self.report.streams, false);
        pass.take_ns = self.counters.watching.age_ns(pass.ns, TAKE_NS);
        let mut busy = false;
        for running in &mut self.running {
            if running.is_overwritten() {
                running.watch(&mut pass, &self.counters);
            } else {
                busy |= running.look(&mut pass, &self.counters);
            }
        }
        self.note_stop();
        self.tell_first();
        self.end_damaged();
        busy
    }

    /// Tells the control thread of lanes with their first record.
    fn tell_first(&mut self) {
        let with_first = self.running.iter_mut().filter(|running| !running.first.is_empty());
        let all: Vec<(u64, u32)> = with_first
            .flat_map(|running| {
                let serial = running.added.memory.serial();
                std::mem::take(&mut running.first).into_iter().map(move |lane| (serial, lane))
            })
            .collect();
        if !all.is_empty() {
            self.counters.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(all);
            (self.wake)();
        }
    }

    fn note_stop(&mut self) {
        let is_stopped = !self.report.streams.is_writing();
        if is_stopped != std::mem::replace(&mut self.is_stopped, is_stopped) {
            self.counters.stopped.store(is_stopped.into(), Ordering::Relaxed);
        }
    }

    /// Programs whose ring memory was taken away under us [spec/session.md 6]: their recording ends, and nobody else's.
    fn end_damaged(&mut self) {
        while let Some(index) = self.running.iter().position(|running| running.added.memory.is_damaged()) {
            let mut running = self.running.swap_remove(index);
            let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
            running.finish(&mut pass, &self.counters);
            self.count_never_looked(&running);
            self.rare_ended += running.lanes.iter().map(|lane| lane.records).sum::<u64>();
            self.give_up(running);
        }
    }

    /// What a program came to, and its memory back.
    fn give_up(&mut self, running: Running) {
        self.file(&running);
        *self.counters.released.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += running.charge();
        drop(running);
        (self.wake)();
    }

    /// Closes those memories that were left and that nobody can write into any more.
    fn close_free(&mut self) {
        let now = self.source.now();
        for index in (0..self.running.len()).rev() {
            if self.running[index].is_due(now) {
                self.close_if_free(index);
            }
        }
    }

    /// Asks the kernel who still holds a memory that was left: forked children may write on [spec/session.md 7].
    fn close_if_free(&mut self, index: usize) {
        let running = &mut self.running[index];
        match running.added.memory.lease() {
            Lease::Held => return running.ask_later(self.source.now()),
            Lease::Free => {}
            Lease::NotKnown => {
                let why = "whether a process that it forked goes on writing could not be found out: the kernel has no /proc here, or no locks";
                let next = "mount /proc where kymo runs; use a file system with locks for --ring-dir";
                let entry = Unknown::new(Missing::Rest, why, next);
                self.report.unknown.add(Unknown { process: Some(running.added.process), ..entry });
            }
        }
        self.end(index);
    }

    /// How long until a memory that was left is asked for again.
    fn next_question(&self) -> Option<Duration> {
        let next = self.running.iter().filter_map(|running| running.asked_again_at()).min()?;
        Some(next.saturating_duration_since(self.source.now()))
    }

    /// The last look at a program. Twice: what was published during the first look is whole too.
    fn end(&mut self, index: usize) {
        self.look_for_triggers();
        if let (true, Some(flight)) = (self.running[index].is_overwritten(), self.sink.flight()) {
            let mut running = self.running.swap_remove(index);
            let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
            running.watch(&mut pass, &self.counters);
            if let Some(oldest) = flight.keep_ended(running) {
                self.give_up(oldest);
            }
            return;
        }
        for _ in 0..2 {
            let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
            self.running[index].look(&mut pass, &self.counters);
        }
        let mut pass = Drain::pass_of(self.source, &mut self.report.streams, true);
        self.running[index].finish(&mut pass, &self.counters);
        self.note_stop();
        // A program that is cut off may have written until it was.
        self.look_for_triggers();
        let running = self.running.swap_remove(index);
        self.count_never_looked(&running);
        self.rare_ended += running.lanes.iter().map(|lane| lane.records).sum::<u64>();
        self.give_up(running);
    }

    /// Its rings go, and triggers have not looked at all that was in them.
    fn count_never_looked(&mut self, running: &Running) {
        if let Some(watch) = self.sink.flight().and_then(|flight| flight.watch.as_mut()) {
            watch.unseen += running.lanes.iter().map(Lane::never_looked).sum::<u64>();
        }
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
        if running.added.memory.is_damaged() {
            self.report.unknown.add(memory_gone(process));
        }
        self.report.processes.push((process, totals));
        self.admit(running);
    }

    /// Lanes that were given up, and counters that made no sense: what they had to tell is not known.
    fn admit(&mut self, running: &Running) {
        let closed = running.lanes.iter().find_map(|lane| {
            let damage = lane.damage.iter().find(|damage| damage.closed)?;
            Some((Missing::Rest, format!("lane {} was given up: {}", lane.number(), damage.what)))
        });
        let uncounted = || {
            let why = "it wrote over its count of records that found no lane".to_owned();
            running.lost_lane_closed.then_some((Missing::Part, why))
        };
        let process = Some(running.added.process);
        if running.added.memory.view().header().left.load(Ordering::Relaxed) != 0 {
            let why = "it could not talk to the collector for longer than it may wait, and stopped recording";
            let next = "give the collector CPU time";
            self.report.unknown.add(Unknown { process, ..Unknown::new(Missing::Rest, why, next) });
        }
        let Some((what, why)) = closed.or_else(uncounted) else { return };
        let next = "the program writes into memory that is not its own: look for a stray pointer in it";
        self.report.unknown.add(Unknown { process, ..Unknown::new(what, why, next) });
    }
}

/// What is said of a program whose ring memory was taken away.
fn memory_gone(process: usize) -> Unknown {
    let why = "its ring memory was taken away while it was recorded: the file was cut short, its disk is full, or the storage is broken";
    let next = "see that nobody changes the files in --ring-dir, and that its file system has room";
    Unknown { process: Some(process), ..Unknown::new(Missing::Rest, why, next) }
}
