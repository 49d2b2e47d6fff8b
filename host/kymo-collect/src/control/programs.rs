// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs say, and what they are answered [spec/session.md 4, 5, 6].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kymo_abi::desc::{self, Desc};
use kymo_abi::ring::{Layout, MEM_HEADER_BYTES};
use kymo_abi::wire::{Attached, ByeReason, DescEntry, Filter, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, RingKind};

use rustix::time::ClockId;

use super::state::{Control, Heard, PROCESSES_MAX};
use super::usage::EXE_BYTES_MAX;
use crate::channel::Channel;
use crate::compact;
use crate::drain::{Added, ToDrain};
use crate::filters::Decision;
use crate::memory::Memory;
use crate::peer::{DESCS_BYTES_MAX, DESCS_MAX, Peer, PeerEvent};
use crate::session::Config;
use crate::summary::{Outcome, ProcessSummary, Unfiltered};

/// CPUs that a program may claim to have: the C side's limit, less the spill lane.
const CPUS_MAX: u32 = 4095;
/// Lanes of a portable memory: threads that can trace at the same time.
const PORTABLE_LANES: u32 = 288;
/// A portable ring serves one thread, not a CPU: it is smaller by this.
const PORTABLE_DIVISOR: u32 = 4;
/// No ring is made smaller than this to fit the session's memory.
const RING_BYTES_LEAST: u32 = 64 << 10;

/// Events without their filter that the summary lists.
const UNFILTERED_MAX: usize = 100;

/// The largest page that machines of this kind have.
const PAGE_BYTES_MAX: u32 = if cfg!(target_arch = "x86_64") { 4096 } else { 65_536 };

impl Control {
    /// One message of a program.
    pub(super) fn hear(&mut self, peer: &mut Peer, packet: &[u8]) -> Heard {
        peer.charge(packet.len());
        let message = FromProgram::decode(packet).map_err(|error| error.to_string())?;
        match (message, peer.hello.is_some()) {
            (FromProgram::Hello(hello), false) => self.greet(peer, hello),
            (FromProgram::Hello(_), true) => Err("a second HELLO".to_owned()),
            (_, false) => Err("the first message is not HELLO".to_owned()),
            (FromProgram::Descs(list), true) => self.describe(peer, list),
            (FromProgram::DescsEnd { generation }, true) => self.decide(peer, generation),
            (FromProgram::Gone(indices), true) => {
                for index in indices {
                    if let Some(known) = peer.events.remove(&index) {
                        self.drop_text(peer, known.text);
                    }
                }
                Ok(())
            }
            (FromProgram::Attached(attached), true) => self.attached(peer, attached),
            (FromProgram::Late { generation }, true) => {
                self.late(peer, generation);
                Ok(())
            }
            (FromProgram::Filtered { index, error }, true) => self.filtered(peer, index, error),
        }
    }

    fn greet(&mut self, peer: &mut Peer, mut hello: Hello) -> Heard {
        let is_end = |at: &usize| hello.exe.is_char_boundary(*at);
        hello.exe.truncate((0..=EXE_BYTES_MAX.min(hello.exe.len())).rev().find(is_end).unwrap_or(0));
        let kind = RingKind::from_code(hello.kind);
        let entry = ProcessSummary {
            pid: peer.id.pid,
            vpid: hello.pid,
            comm: hello.comm.clone(),
            exe: hello.exe.clone(),
            ring: kind.map_or("unknown", RingKind::name).to_owned(),
            outcome: Outcome::Greeted,
            lanes: 0,
            ring_bytes: 0,
            records: Some(0),
            bytes: Some(0),
            shares: None,
            lost: None,
            lost_counted: Default::default(),
            may_wait: false,
            waits: 0,
            first: None,
            last: None,
        };
        let ours = self.calibration.source().clock();
        let mismatch = mismatch(&hello, ours);
        let lanes_ok = (1..=CPUS_MAX).contains(&hello.cpu_count);
        peer.hello = Some(hello);
        let known = self.sibling(peer).map(|sibling| sibling.process);
        let refused = || self.refused.place_of(peer);
        peer.process = match known.or_else(refused) {
            Some(process) => process,
            None => self.list(entry),
        };
        let is_readable = peer.hello.as_ref().is_some_and(|hello| hello.abi == ABI_VERSION);
        peer.is_in_scope = self.outside.is_gone(peer.id.pid) || self.in_scope(peer.id.pid);
        if !peer.is_in_scope {
            self.refuse(peer, ByeReason::Scope, "outside of the session's scope".to_owned());
        } else if let Some(text) = mismatch {
            match is_readable {
                // It is refused only if it has an event that is wanted.
                true => peer.misfit = Some(text),
                false => self.refuse(peer, ByeReason::Version, text),
            }
        } else if !lanes_ok {
            return Err("HELLO with an impossible number of CPUs".to_owned());
        }
        Ok(())
    }

    /// The place of a new program in the list of processes.
    fn list(&mut self, entry: ProcessSummary) -> usize {
        self.process_count += 1;
        if self.processes.len() >= PROCESSES_MAX {
            return usize::MAX;
        }
        self.processes.push(entry);
        self.processes.len() - 1
    }

    fn describe(&mut self, peer: &mut Peer, list: Vec<DescEntry>) -> Heard {
        for DescEntry { index, desc: bytes } in list {
            match (desc::parse(&bytes), index) {
                (Ok(Desc::Event(_)), Some(index)) => {
                    let text = self.keep_text(peer, &bytes);
                    let known = PeerEvent { text, id: None, has_filter: false, refused: None };
                    if let Some(old) = peer.events.insert(index, known) {
                        self.drop_text(peer, old.text);
                    }
                    peer.undecided.push(index);
                }
                (Ok(Desc::Event(_)), None) => return Err("an event without an index".to_owned()),
                (Ok(Desc::Enum(labelled)), _) => {
                    let text = self.keep_text(peer, &bytes);
                    if let Some(old) = peer.enums.insert(labelled.full_name(), text) {
                        self.drop_text(peer, old);
                    }
                }
                // One bad description is refused, the rest goes on [spec/event.md 4].
                (Err(error), _) => {
                    self.caveat(format!("process {}: a description was refused: {error}", peer.id.pid));
                }
            }
            let count = peer.events.len().max(peer.enums.len()).max(peer.undecided.len());
            if count > DESCS_MAX || peer.desc_bytes > DESCS_BYTES_MAX {
                return Err("too many descriptions".to_owned());
            }
        }
        Ok(())
    }

    fn keep_text(&mut self, peer: &mut Peer, bytes: &[u8]) -> Arc<[u8]> {
        peer.desc_bytes += bytes.len();
        self.texts.keep(peer.id.uid, bytes)
    }

    fn drop_text(&mut self, peer: &mut Peer, text: Arc<[u8]>) {
        peer.desc_bytes = peer.desc_bytes.saturating_sub(text.len());
        self.texts.give_back(peer.id.uid, text);
    }

    /// All descriptions of a generation are here: switches the wanted events on.
    fn decide(&mut self, peer: &mut Peer, generation: u32) -> Heard {
        peer.deadline = None;
        if self.processes.get(peer.process).is_some_and(|entry| entry.outcome == Outcome::Greeted) {
            self.set_outcome(peer.process, Outcome::NothingWanted);
        }
        if self.is_misfit(peer) {
            return Ok(());
        }
        let undecided = std::mem::take(&mut peer.undecided);
        if self.switch_on(peer, undecided) {
            self.begin_maps(peer);
            peer.say(&FromCollector::Go { generation }, None);
        }
        peer.is_decided = true;
        peer.generation.get_or_insert(generation);
        Ok(())
    }

    /// Refuses a program that does not fit, if an event of it is wanted.
    pub(super) fn is_misfit(&mut self, peer: &mut Peer) -> bool {
        let Some(text) = peer.misfit.take() else { return false };
        let is_wanted = peer.events.values().any(|known| self.wants(peer.channel, &known.name()));
        if is_wanted {
            self.refuse(peer, ByeReason::Version, text);
        } else {
            peer.misfit = Some(text);
        }
        is_wanted
    }

    /// Switches those of these events on that are wanted. False when the program had to be refused.
    pub(super) fn switch_on(&mut self, peer: &mut Peer, indices: Vec<u32>) -> bool {
        let mut pairs = Vec::new();
        for index in indices {
            let Some(text) = peer.events.get(&index).map(|known| Arc::clone(&known.text)) else { continue };
            let Ok(Desc::Event(event)) = desc::parse(&text) else { continue };
            let name = event.full_name();
            self.registry.see(&name, self.selection.want(&name));
            if !self.wants(peer.channel, &name) {
                continue;
            }
            let (count, may_be_new) = (self.registry.events.len(), self.may_have_id(peer, text.len()));
            let id = self.registry.id(&event, |name| peer.labels(name), may_be_new);
            if self.registry.events.len() > count {
                self.registry.charge(peer.id.uid, text.len());
            }
            match id {
                Some(id) => pairs.push((index, id)),
                None => self.no_id_left(peer),
            }
        }
        let first = self.registry.events.len() - self.registry.fresh.len();
        for (at, desc) in std::mem::take(&mut self.registry.fresh).into_iter().enumerate() {
            let class = self.registry.events[first + at].clone();
            let _ = self.wiring.commands.send(ToDrain::Event(Box::new((class, desc))));
        }
        if self.registry.events.len() > self.written_events {
            self.write_metadata();
            // An event that the metadata lacks would make the trace unreadable.
            let count = pairs.len();
            pairs.retain(|(_, id)| usize::from(*id) <= self.written_events);
            if pairs.len() < count {
                self.not_in_metadata(peer);
            }
        }
        let programs = self.filter(&mut pairs);
        if !pairs.is_empty() {
            if peer.serial.is_none() && !self.attach(peer) {
                return false;
            }
            for filter in programs {
                if let Some(known) = peer.events.get_mut(&filter.index) {
                    (known.has_filter, known.refused) = (true, None);
                }
                peer.say(&FromCollector::Filter(filter), None);
            }
            for (index, id) in &pairs {
                if let Some(known) = peer.events.get_mut(index) {
                    known.id = Some(*id);
                }
            }
            for chunk in pairs.chunks(FromCollector::ENABLE_PAIRS_MAX) {
                peer.say(&FromCollector::Enable(chunk.to_vec()), None);
            }
        }
        true
    }

    /// Takes those events away of which no record is wanted, and gives the filters of the others.
    fn filter(&mut self, pairs: &mut Vec<(u32, u16)>) -> Vec<Filter> {
        self.refit |= self.filters.learn(&self.registry.events);
        let mut programs = Vec::new();
        let mut caveats = Vec::new();
        pairs.retain(|(index, id)| {
            let (decision, said) = self.filters.decide(*id);
            caveats.extend(said);
            if let Decision::Some(program) = &decision {
                programs.push(Filter {
                    index: *index,
                    insns: program.insns.iter().map(|insn| insn.to_bytes()).collect(),
                    pool: program.pool.clone(),
                    payload_min_bytes: program.payload_min_bytes,
                });
            }
            decision != Decision::Never
        });
        for text in caveats {
            self.caveat(text);
        }
        programs
    }

    /// A memory that was made ready. Its pages count for our control group: only for programs that are in the same.
    fn spare(&mut self, peer: &Peer, layout: &Layout, serial: u64) -> Option<Memory> {
        let spares = self.spares.as_mut().filter(|_| layout.kind == RingKind::Rseq && peer.channel == Channel::Main)?;
        self.outside.is_of_our_group(peer.id.pid).then(|| spares.take(layout, serial))?
    }

    /// Gives a program its memory. False when it had to be refused.
    fn attach(&mut self, peer: &mut Peer) -> bool {
        let (serial, layout) = match self.offer_memory(peer) {
            Ok(offered) => offered,
            // The memory that is missing is that of its other connection.
            Err(_) if self.is_served_elsewhere(peer) => {
                self.duplicate(peer);
                return false;
            }
            Err(text) => {
                self.refuse(peer, ByeReason::Memory, text);
                return false;
            }
        };
        if self.sibling(peer).is_none_or(|sibling| sibling.serial.is_none()) {
            self.wiring.programs.fetch_add(1, Ordering::Relaxed);
            self.recorded_count += 1;
        }
        (peer.serial, peer.ring_bytes) = (Some(serial), layout.ring_bytes);
        let entry = self.processes.get_mut(peer.process);
        if let Some(entry) = entry.filter(|entry| peer.channel == Channel::Main || entry.lanes == 0) {
            (entry.outcome, entry.lanes, entry.ring_bytes) = (Outcome::Attached, layout.lane_count, layout.ring_bytes);
        }
        true
    }

    /// Makes memory of the present ring size for a program and sends it there. The text says why that cannot be.
    pub(super) fn offer_memory(&mut self, peer: &mut Peer) -> Result<(u64, Layout), String> {
        if let Some(shared) = self.join_shared(peer)? {
            return Ok(shared);
        }
        let Some((layout, charge)) = self.plan_memory(peer) else {
            let cap = match self.config.memory_bytes_max {
                bytes if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
                bytes => format!("{} MiB", bytes >> 20),
            };
            return Err(format!("the session's ring memory of {cap} is used up (--memory)"));
        };
        let hello = peer.hello.as_ref().ok_or("it said no HELLO")?;
        let is_shared = self.shares(peer);
        let (vpid, procname) = if is_shared { (0, procname("shared")) } else { (hello.pid, procname(&hello.comm)) };
        let serial = self.next_serial;
        self.next_serial += 1;
        let (made_cycles, made_ns) =
            (self.calibration.source().read(), self.calibration.source().nanoseconds(ClockId::Monotonic));
        let created = match &self.config.ring_dir {
            Some(dir) if self.may_have_file(peer) => Memory::create_in(dir, layout, serial),
            _ => self.spare(peer, &layout, serial).map_or_else(|| self.outside.make_memory(layout, serial), Ok),
        };
        let memory = Arc::new(created.map_err(|error| format!("its ring memory could not be made: {error}"))?);
        // Before a program can have it: whoever finds it otherwise knows that nobody wrote into it.
        note_owner(&memory, self.metadata.uuid, vpid, procname, made_cycles);
        let descriptor =
            memory.grant().map_err(|error| format!("its ring memory could not be handed over: {error}"))?;
        if self.config.ring_dir.is_some() && !self.may_have_file(peer) {
            self.rings_are_not_kept(peer);
        }
        if let Some(time) = self.config.block {
            memory.view().let_writers_wait(time.as_nanos() as u64);
        }
        memory.view().write_contexts(self.config.contexts.header());
        let charge = if self.grows(layout.kind) { 0 } else { charge };
        self.memory_used += charge;
        if self.grows(layout.kind) {
            self.growing.add(&memory, self.calibration.source().now());
            // Before the program has it: how many lanes it may claim.
            self.measure();
        }
        self.memory_used_max = self.memory_used_max.max(self.memory_in_use());
        let mut process = peer.process;
        if is_shared {
            memory.view().share();
            process = self.keep_shared(peer, serial, layout, &memory);
        }
        self.watch_ready(peer, &memory);
        let added = Added { memory, process, vpid, procname, charge, made_cycles, made_ns };
        let _ = self.wiring.commands.send(ToDrain::Add(Box::new(added)));
        let session = self.channels[peer.channel.index()].1.clone();
        peer.say(&FromCollector::Attach { layout, serial, session }, Some(descriptor));
        Ok((serial, layout))
    }

    /// Sizes of a program's memory and what it counts for, halved until it fits [spec/session.md 6].
    pub(super) fn plan_memory(&mut self, peer: &Peer) -> Option<(Layout, u64)> {
        let hello = peer.hello.as_ref()?;
        let (kind, cpu_count) = (RingKind::from_code(hello.kind).unwrap_or(RingKind::Portable), hello.cpu_count);
        let (pid, channel) = (peer.id.pid, peer.channel);
        self.measure();
        let wished = self.wished_ring_bytes(kind, channel);
        let mut ring_bytes = wished;
        let (lanes, charged) = match kind {
            // Others that share them may run elsewhere.
            RingKind::Rseq if self.shares(peer) => (cpu_count + 1, cpu_count),
            RingKind::Rseq => (cpu_count + 1, self.cpus_allowed(pid).unwrap_or(cpu_count).min(cpu_count)),
            // The whole file has its space reserved.
            RingKind::Portable if self.config.ring_dir.is_some() => (PORTABLE_LANES, PORTABLE_LANES),
            // One must have room; the others are counted when threads claim them.
            RingKind::Portable => (PORTABLE_LANES, 1),
        };
        let free = self.config.memory_bytes_max.saturating_sub(self.memory_in_use());
        // Where lanes count as they are used, so does what stands before them.
        let control_bytes = if self.grows(kind) { u64::from(MEM_HEADER_BYTES) + u64::from(lanes) * 128 } else { 0 };
        while u64::from(charged) * u64::from(ring_bytes) + control_bytes > free {
            ring_bytes /= 2;
            if ring_bytes < RING_BYTES_LEAST.min(wished) {
                return None;
            }
        }
        if ring_bytes < wished {
            self.caveat("rings were made smaller to fit into --memory".to_owned());
        }
        let mut layout =
            Layout::new(kind, self.calibration.source().clock(), lanes, ring_bytes, PAGE_BYTES_MAX).ok()?;
        layout = layout.compact(self.config.compact);
        if self.config.flight && channel == Channel::Main {
            layout = layout.overwriting(PAGE_BYTES_MAX).ok()?;
        }
        Some((layout, u64::from(charged) * u64::from(ring_bytes)))
    }

    /// CPUs that a process may run on; `None` where that cannot be seen.
    fn cpus_allowed(&self, pid: u32) -> Option<u32> {
        let count = self.outside.affinity(pid)?.count();
        (count > 0).then_some(count)
    }

    /// Whether a process is one that the session wants.
    pub(super) fn in_scope(&self, pid: u32) -> bool {
        self.outside.is_in_scope(&self.config.scope, pid)
    }

    /// Whether memory of this kind is counted as it is used.
    fn grows(&self, kind: RingKind) -> bool {
        kind == RingKind::Portable && self.config.ring_dir.is_none()
    }

    /// Bytes of a ring of this kind, if there is memory.
    pub(super) fn wished_ring_bytes(&self, kind: RingKind, channel: Channel) -> u32 {
        let ring_bytes = channel.ring_bytes(self.config.ring_bytes);
        match kind {
            RingKind::Rseq => ring_bytes,
            RingKind::Portable => (ring_bytes / PORTABLE_DIVISOR).max(RING_BYTES_LEAST.min(ring_bytes)),
        }
    }

    /// We found each other both ways; the other connection serves [spec/session.md 3].
    fn duplicate(&mut self, peer: &mut Peer) {
        self.process_count -= u64::from(self.sibling(peer).is_none());
        self.set_outcome(peer.process, Outcome::Duplicate);
        peer.bye(ByeReason::End, "served by another connection");
    }

    fn attached(&mut self, peer: &mut Peer, attached: Attached) -> Heard {
        if peer.offer.as_ref().is_some_and(|offer| offer.serial == attached.serial) {
            return self.answered(peer, attached.error);
        }
        if peer.serial != Some(attached.serial) {
            return Err("ATTACHED for a memory that it does not have".to_owned());
        }
        peer.is_mapped = true;
        peer.late |= attached.late;
        if attached.error == 0 || attached.error == libc::EALREADY as u32 {
            self.begins_late(peer);
        }
        if attached.error == 0 {
            self.make_reachable_ready(peer);
            self.offer_again(peer);
            return Ok(());
        }
        self.take_memory_from(peer);
        if self.sibling(peer).is_none_or(|sibling| sibling.serial.is_none()) {
            self.recorded_count -= 1;
        }
        if attached.error == libc::EALREADY as u32 {
            self.duplicate(peer);
            return Ok(());
        }
        let error = compact::refusal(attached.error as i32, self.config.compact);
        self.cannot_map(peer, &error);
        self.keep_refusal(peer, ByeReason::Memory);
        self.set_outcome(peer.process, Outcome::Refused(format!("it could not map its rings: {error}")));
        Ok(())
    }
}

impl Control {
    /// A filter that was refused: its event is recorded without it, and somebody should know.
    fn filtered(&mut self, peer: &mut Peer, index: u32, error: u32) -> Heard {
        // Its library may have gone meanwhile.
        let Some(known) = peer.events.get_mut(&index) else { return Ok(()) };
        if !known.has_filter || error == 0 {
            return Err("FILTERED for an event that has no filter".to_owned());
        }
        if known.refused.replace(error).is_some() {
            return Ok(());
        }
        self.unfiltered_count += 1;
        if self.unfiltered.len() < UNFILTERED_MAX {
            let vpid = peer.hello.as_ref().map_or(0, |hello| hello.pid);
            let (event, why) = (known.name(), why_unfiltered(error));
            self.unfiltered.push(Unfiltered { process: peer.process, vpid, event, why });
        }
        Ok(())
    }
}

/// What an errno value in FILTERED means.
pub(super) fn why_unfiltered(error: u32) -> String {
    match error as i32 {
        libc::ENOMEM => "the program's memory for filters (8 MiB) is used up".to_owned(),
        libc::EINVAL => "the program does not know such a filter; its libkymo is of another version".to_owned(),
        libc::EMSGSIZE => "the filter counts on longer records than the event has".to_owned(),
        error => std::io::Error::from_raw_os_error(error).to_string(),
    }
}

/// The layout that most programs of a session will have; none where memory cannot be made before it is known for whom.
pub(crate) fn spare_layout(config: &Config, clock: Clock) -> Option<Layout> {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let last: u32 = possible.trim().rsplit(['-', ',']).next()?.parse().ok()?;
    let ring_bytes = Channel::Main.ring_bytes(config.ring_bytes);
    let layout = Layout::new(RingKind::Rseq, clock, last.checked_add(2)?, ring_bytes, PAGE_BYTES_MAX).ok()?;
    let layout = layout.compact(config.compact);
    let layout = if config.flight { layout.overwriting(PAGE_BYTES_MAX).ok()? } else { layout };
    let is_within = u64::from(last + 1) * u64::from(ring_bytes) <= config.memory_bytes_max;
    (config.ring_dir.is_none() && is_within).then_some(layout)
}

/// Why this program and this collector do not fit, if so.
fn mismatch(hello: &Hello, ours: Clock) -> Option<String> {
    if hello.abi != ABI_VERSION {
        return Some(format!("the program's libkymo has ABI {}, this kymo has ABI {ABI_VERSION}", hello.abi));
    }
    let theirs = Clock::from_code(hello.clock)
        .map_or_else(|| format!("number {}", hello.clock), |clock| clock.name().to_owned());
    if hello.clock != ours.code() {
        return Some(format!("the program's clock is {theirs}, the session's is {} (KYMO_CLOCK)", ours.name()));
    }
    let is_known = RingKind::from_code(hello.kind).is_some();
    (!is_known)
        .then(|| format!("the program's rings are of kind {}, this kymo knows 1 (rseq) and 2 (portable)", hello.kind))
}

/// The name of a program as a packet has it.
fn procname(comm: &str) -> [u8; 16] {
    let mut out = [0; 16];
    let mut end = comm.len().min(15);
    while !comm.is_char_boundary(end) {
        end -= 1;
    }
    out[..end].copy_from_slice(&comm.as_bytes()[..end]);
    out
}

/// For whoever finds the memory after our death.
fn note_owner(memory: &Memory, uuid: [u8; 16], vpid: u32, procname: [u8; 16], made: u64) {
    use std::sync::atomic::Ordering::Relaxed;
    memory.note_trace(uuid);
    let notes = memory.view().notes();
    for (to, from) in notes.procname.iter().zip(procname.chunks_exact(8)) {
        to.store(from.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), Relaxed);
    }
    notes.vpid.store(vpid.into(), Relaxed);
    notes.made.store(made, Relaxed);
    notes.alive.store(made, Relaxed);
}
