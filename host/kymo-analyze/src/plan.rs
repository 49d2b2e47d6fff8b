// SPDX-License-Identifier: MIT OR Apache-2.0
//! A class of a trace, looked up once: which typed event its records are, and where their fields stand.

use crate::CallId;
use crate::event::{Event, Interrupt, Io, Leaves, Off, Wake};
use crate::form::{FIELDS_MAX, Form};
use crate::name::Name;
use crate::record::{Field, Record, ValueKind};

const NONE: u16 = u16::MAX;
/// `clone`'s flag for a thread of the same process.
const CLONE_THREAD: u64 = 0x1_0000;
/// The state of a CPU that comes out of idle.
const NOT_IDLE: u32 = u32::MAX;
/// The unit of `nr_sector`.
const SECTOR_BYTES: u64 = 512;
/// A thread's name has at most so many bytes, also that of a program with a longer one.
const COMM_BYTES: usize = 15;
/// Tids are below this on every Linux.
const TID_END: i32 = 1 << 22;

/// How records of one class become events.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub(crate) form: Form,
    /// Positions of the rule's fields.
    at: [u16; FIELDS_MAX],
    /// Fields have LTTng's names, and so priorities are the kernel's minus 100.
    pub(crate) has_lttng_names: bool,
    /// The state of a switch is text.
    has_letters: bool,
    /// Priorities of wake-ups are the kernel's, whatever the names.
    has_raw_wakeups: bool,
}

impl Plan {
    pub(crate) fn new(form: Form) -> Plan {
        Plan { form, at: [NONE; FIELDS_MAX], has_lttng_names: false, has_letters: false, has_raw_wakeups: false }
    }

    pub(crate) fn set(&mut self, index: usize, field: &Field) {
        self.at[index] = u16::try_from(field.position).unwrap_or(NONE);
        if self.form == Form::Switch && index == 1 {
            self.has_letters = field.kind == ValueKind::Text;
        }
    }

    pub(crate) fn unset(&mut self, index: usize) {
        self.at[index] = NONE;
    }

    /// The same for a trace of LTTng before 2.7, whose wake-ups have priorities as the kernel has them.
    pub fn of_old_lttng(self) -> Plan {
        Plan { has_raw_wakeups: true, ..self }
    }

    /// Whether its events are of the state dump: written about a thread, not by it.
    pub fn is_dump(&self) -> bool {
        self.form == Form::Dumped
    }

    /// The event that a record says. `None` where its values make no sense.
    #[inline]
    pub fn decode<R: Record>(&self, record: &R) -> Option<Event> {
        let fields = View { plan: self, record };
        Some(match self.form {
            Form::Switch => Event::Switch {
                prev: fields.tid(0)?,
                leaves: fields.leaves()?,
                next: fields.tid(2)?,
                prev_prio: fields.prio(3),
                next_prio: fields.prio(4),
                next_name: fields.name(5),
                prev_name: fields.name(6),
            },
            Form::Waking => fields.wake(Wake::Waking)?,
            Form::Wakeup => fields.wake(Wake::Wakeup)?,
            Form::New => fields.wake(Wake::New)?,
            Form::Call(call) => Event::Call { call, args: [fields.word(0), fields.word(1)] },
            Form::Return(call) => Event::Return { call: Some(call), value: fields.word(0) as i64 },
            Form::IrqEnter => Event::Enter { interrupt: Interrupt::Irq(fields.int(0)?), name: fields.name(1) },
            Form::IrqLeave => Event::Leave { interrupt: Interrupt::Irq(fields.int(0)?) },
            Form::Raise => Event::Raise { vec: fields.int(0)? },
            Form::SoftirqEnter => Event::Enter { interrupt: Interrupt::Softirq(fields.int(0)?), name: Name::default() },
            Form::SoftirqLeave => Event::Leave { interrupt: Interrupt::Softirq(fields.int(0)?) },
            Form::VectorEnter(vector) => Event::Enter { interrupt: Form::vector(vector), name: Name::default() },
            Form::VectorLeave(vector) => Event::Leave { interrupt: Form::vector(vector) },
            Form::IrqsOff => Event::Switchable { what: Off::Irqs, off: true },
            Form::IrqsOn => Event::Switchable { what: Off::Irqs, off: false },
            Form::PreemptOff => Event::Switchable { what: Off::Preemption, off: true },
            Form::PreemptOn => Event::Switchable { what: Off::Preemption, off: false },
            _ => return self.decode_rare(&fields),
        })
    }

    fn decode_rare<R: Record>(&self, fields: &View<'_, R>) -> Option<Event> {
        Some(match self.form {
            Form::Migrate => Event::Migrate { tid: fields.tid(0)?, cpu: fields.int(1)? },
            Form::Priority => Event::Priority { tid: fields.tid(0)?, prio: fields.prio(1)? },
            Form::Fork => Event::Fork {
                parent: fields.tid(0)?,
                child: fields.tid(1)?,
                name: fields.name(2),
                process: fields.tid(3),
            },
            Form::Create => Event::Create {
                child: fields.tid(0)?,
                same_process: fields.word(1) & CLONE_THREAD != 0,
                name: fields.name(2),
            },
            Form::Rename => Event::Rename { name: fields.name(0), tid: fields.tid(1), old: fields.name(2) },
            Form::Exec => {
                let tid = fields.tid(0)?;
                Event::Exec { tid, old_tid: fields.tid(1).unwrap_or(tid), name: fields.file_name(2) }
            }
            Form::Exit => Event::Exit { tid: fields.tid(0)? },
            Form::Free => Event::Free { tid: fields.tid(0)? },
            Form::CallByNumber => {
                let args = [0, 1].map(|index| fields.element(1, index));
                Event::Call { call: CallId::by_number(fields.integer(0)?)?, args }
            }
            Form::ReturnByNumber => {
                Event::Return { call: CallId::by_number(fields.integer(0)?), value: fields.word(1) as i64 }
            }
            Form::Dumped => Event::Dumped {
                tid: fields.tid(0)?,
                process: fields.tid(1)?,
                name: fields.name(2),
                prio: fields.prio(4),
                asleep: fields.integer(3) == Some(5),
            },
            _ => return self.decode_device(fields),
        })
    }

    fn decode_device<R: Record>(&self, fields: &View<'_, R>) -> Option<Event> {
        let block = |step| Event::Io {
            step,
            device: fields.word(0),
            key: fields.word(1),
            name: Name::default(),
            bytes: fields.request_bytes(),
            writes: fields.request_writes(),
        };
        let net =
            |step| Event::Io { step, device: 0, key: fields.word(0), name: fields.name(1), bytes: 0, writes: None };
        Some(match self.form {
            Form::HrtimerStart => Event::TimerStart { timer: fields.word(0), expires: fields.word(1) as i64 },
            Form::HrtimerCancel => Event::TimerCancel { timer: fields.word(0) },
            Form::HrtimerEnter => {
                Event::TimerExpire { timer: fields.word(0), now: fields.word(1) as i64, function: fields.word(2) }
            }
            Form::HrtimerLeave => Event::Leave { interrupt: Interrupt::Hrtimer(0) },
            Form::TimerEnter => Event::Enter { interrupt: Interrupt::Timer(fields.word(1)), name: Name::default() },
            Form::TimerLeave => Event::Leave { interrupt: Interrupt::Timer(0) },
            Form::Idle => {
                let state = fields.word(0) as u32;
                Event::Idle { cpu: fields.int(1), state: (state != NOT_IDLE).then_some(state) }
            }
            Form::Frequency => Event::Frequency { cpu: fields.int(1), khz: fields.int(0)? },
            Form::BlockIssue => block(Io::BlockIssue),
            Form::BlockComplete => block(Io::BlockComplete),
            Form::NetQueue => net(Io::NetQueue),
            Form::NetXmit => net(Io::NetXmit),
            Form::Fault { user } => Event::Fault { address: fields.word(0), user },
            Form::Signal => Event::Signal { tid: fields.tid(0)?, number: fields.int(1)? },
            Form::Noise(kind) => Event::Noise { kind, start: fields.word(0) as i64, duration: fields.word(1) as i64 },
            _ => return None,
        })
    }
}

/// The fields of a record by their places in the rule.
struct View<'a, R> {
    plan: &'a Plan,
    record: &'a R,
}

impl<R: Record> View<'_, R> {
    #[inline]
    fn integer(&self, index: usize) -> Option<i128> {
        match self.plan.at[index] {
            NONE => None,
            position => self.record.integer(position.into()),
        }
    }

    #[inline]
    fn int<T: TryFrom<i128>>(&self, index: usize) -> Option<T> {
        T::try_from(self.integer(index)?).ok()
    }

    /// 64 bits as they are; 0 where there is no such field.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.integer(index).unwrap_or(0) as u64
    }

    /// 64 bits of an element of an array; 0 where there is no such field.
    #[inline]
    fn element(&self, index: usize, element: usize) -> u64 {
        match self.plan.at[index] {
            NONE => 0,
            position => self.record.element(position.into(), element).unwrap_or(0) as u64,
        }
    }

    #[inline]
    fn tid(&self, index: usize) -> Option<i32> {
        self.int(index).filter(|tid| (0..TID_END).contains(tid))
    }

    /// The kernel's priority.
    #[inline]
    fn prio(&self, index: usize) -> Option<i16> {
        let prio: i16 = self.int(index)?;
        if self.plan.has_lttng_names { prio.checked_add(100) } else { Some(prio) }
    }

    #[inline]
    fn name(&self, index: usize) -> Name {
        match self.plan.at[index] {
            NONE => Name::default(),
            position => self.record.name(position.into()).unwrap_or_default(),
        }
    }

    fn file_name(&self, index: usize) -> Name {
        let text = match self.plan.at[index] {
            NONE => None,
            position => self.record.text(position.into()),
        };
        text.map_or_else(Name::default, |path| {
            // The kernel alone knows how it calls a program that has no path.
            let is_nameless = path.starts_with("/dev/fd/");
            let file = path.rsplit('/').next().filter(|_| !is_nameless).unwrap_or_default();
            let end = (0..=COMM_BYTES.min(file.len())).rev().find(|&end| file.is_char_boundary(end));
            Name::new(&file[..end.unwrap_or(0)])
        })
    }

    /// Bytes of a block request: its sectors, which have 512 bytes on every device; without sectors what it says
    /// itself.
    fn request_bytes(&self) -> u64 {
        match self.word(2) {
            0 => self.word(4),
            sectors => sectors.saturating_mul(SECTOR_BYTES),
        }
    }

    /// Whether a block request writes or reads: by LTTng's bits, or by the kernel's letters.
    fn request_writes(&self) -> Option<bool> {
        match self.integer(3) {
            Some(bits) => by_bits(bits),
            None => by_request(self.name(3).as_str()),
        }
    }

    #[inline]
    fn wake(&self, step: Wake) -> Option<Event> {
        Some(Event::Wake {
            step,
            tid: self.tid(0)?,
            name: self.name(1),
            prio: if self.plan.has_raw_wakeups { self.int(2) } else { self.prio(2) },
            cpu: self.int(3),
            within: None,
        })
    }

    #[inline]
    fn leaves(&self) -> Option<Leaves> {
        if self.plan.has_letters {
            return self.record.text(self.plan.at[1].into()).map(|text| by_letters(&text));
        }
        self.integer(1).map(by_state)
    }
}

/// By the kernel's bits. The bit above the last state marks a thread that was preempted.
#[inline]
fn by_state(state: i128) -> Leaves {
    const ENDED: i128 = 0x30;
    match state {
        0 => Leaves::GaveWay,
        0x100 | 0x200 => Leaves::Preempted,
        _ if state & ENDED != 0 => Leaves::Ended,
        _ if state & 1 != 0 => Leaves::Asleep(b'S'),
        _ if state & 2 != 0 => Leaves::Asleep(b'D'),
        _ if state & 4 != 0 => Leaves::Asleep(b'T'),
        _ if state & 8 != 0 => Leaves::Asleep(b't'),
        _ if state & 0x40 != 0 => Leaves::Asleep(b'P'),
        _ if state & 0x80 != 0 => Leaves::Asleep(b'I'),
        _ => Leaves::Asleep(b'?'),
    }
}

/// LTTng's bits of a block request.
fn by_bits(bits: i128) -> Option<bool> {
    const WRITE: i128 = 1;
    const READ: i128 = 4;
    match bits & (WRITE | READ) {
        WRITE => Some(true),
        READ => Some(false),
        _ => None,
    }
}

/// The kernel's letters of a block request: flushes in front of it come first.
fn by_request(letters: &str) -> Option<bool> {
    match letters.trim_start_matches('F').as_bytes().first() {
        Some(b'W') => Some(true),
        Some(b'R') => Some(false),
        _ => None,
    }
}

/// By the letters of ftrace's text.
fn by_letters(text: &str) -> Leaves {
    match text.as_bytes().first() {
        Some(b'R') if text.contains('+') => Leaves::Preempted,
        Some(b'R') => Leaves::GaveWay,
        Some(b'X' | b'Z') => Leaves::Ended,
        Some(letter) => Leaves::Asleep(*letter),
        None => Leaves::Asleep(b'?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_all_kernels() {
        for (state, expect) in [
            (0, Leaves::GaveWay),
            (256, Leaves::Preempted),
            (512, Leaves::Preempted),
            (1, Leaves::Asleep(b'S')),
            (2, Leaves::Asleep(b'D')),
            (0x81, Leaves::Asleep(b'S')),
            (0x80, Leaves::Asleep(b'I')),
            (16, Leaves::Ended),
            (32, Leaves::Ended),
            (1 << 40, Leaves::Asleep(b'?')),
        ] {
            assert_eq!(by_state(state), expect, "{state}");
        }
        for (text, expect) in [("R+", Leaves::Preempted), ("R", Leaves::GaveWay), ("D", Leaves::Asleep(b'D'))] {
            assert_eq!(by_letters(text), expect, "{text}");
        }
    }

    #[test]
    fn requests_write_or_read() {
        for (letters, bits, expect) in [
            ("W", 1, Some(true)),
            ("WS", 33, Some(true)),
            ("FWFS", 0x621, Some(true)),
            ("R", 4, Some(false)),
            ("RA", 12, Some(false)),
            ("FF", 0x300, None),
            ("DS", 34, None),
            ("N", 0, None),
            ("", 5, None),
        ] {
            assert_eq!((by_request(letters), by_bits(bits)), (expect, expect), "{letters}");
        }
    }
}
