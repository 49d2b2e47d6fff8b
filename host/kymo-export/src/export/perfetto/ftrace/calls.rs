// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls as ftrace's `sys_enter` and `sys_exit`, by whatever names they were recorded. Perfetto wants numbers,
//! and makes names of them by the machine that the trace names.

use kymo_analyze::syscall::{CallEvent, CallName, CallNumbers};
use kymo_ctf::read::{Number, Record, Trace, Value};

use super::super::super::exporter::Done;
use super::super::super::facts::env_text;
use super::super::wire::Message;
use super::message::OwnMessage;
use super::table::{SYS_ENTER, SYS_EXIT};

/// Machines whose numbers are known, as `uname -m` names them.
const MACHINES: [&str; 2] = ["x86_64", "aarch64"];

/// What an event of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OneCall {
    /// None where the record has it.
    number: Option<u16>,
    is_entry: bool,
}

impl OneCall {
    /// The field that has the number, and is no argument.
    fn number_field(self) -> &'static str {
        if self.number.is_none() { "id" } else { "__syscall_nr" }
    }
}

/// Which events are of system calls.
pub struct Calls {
    machine: Option<String>,
    /// The traces do not say which machine it is.
    is_assumed: bool,
    /// By trace and event.
    by_event: Vec<Vec<Option<OneCall>>>,
}

impl Calls {
    pub fn new(traces: &[Trace]) -> Calls {
        let names = |trace: &Trace| trace.metadata.events.iter().map(|event| event.name.clone()).collect();
        let names: Vec<Vec<String>> = traces.iter().map(names).collect();
        Calls::of_names(traces.iter().find_map(|trace| env_text(trace, "architecture")), &names)
    }

    /// By the names of events, and the machine where it is known. Where it is not, that is taken which has all calls.
    fn of_names(said: Option<&str>, names: &[Vec<String>]) -> Calls {
        let events = || names.iter().flatten().filter_map(|name| CallEvent::of(name));
        let has_all = |machine: &&str| {
            let numbers = CallNumbers::of_machine(machine);
            numbers.is_some_and(|numbers| events().all(|event| event.is_compat || is_known(&event, &numbers)))
        };
        let has_names = events().any(|event| matches!(event.call, CallName::Named(_)));
        let assumed = || MACHINES.into_iter().find(has_all).or(Some(MACHINES[0])).filter(|_| has_names);
        let machine = said.or_else(assumed);
        let numbers = machine.and_then(CallNumbers::of_machine);
        let call = |name: &String| {
            let event = CallEvent::of(name)?;
            let number = match event.call {
                CallName::ByNumber => None,
                CallName::Named(_) => Some(number_of(&event, numbers.as_ref()?)?),
            };
            Some(OneCall { number, is_entry: event.is_entry })
        };
        let by_event = names.iter().map(|names| names.iter().map(call).collect()).collect();
        Calls { machine: machine.map(str::to_owned), is_assumed: said.is_none() && machine.is_some(), by_event }
    }

    /// The machine whose numbers they are.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// The message of a record; none where it is of no call, or of one without a number.
    pub(super) fn message(&self, record: &Record<'_>, done: &mut Done) -> Option<OwnMessage> {
        let call = self.by_event[record.trace][record.event_position]?;
        // A slice of a thread that is not known would be one of thread 0.
        record.vtid?;
        let own_number = record.payload.get(call.number_field()).and_then(|value| integer(&value));
        let number = own_number.or(call.number.map(i64::from))?;
        if self.is_assumed && own_number.is_none() {
            let machine = self.machine.as_deref().unwrap_or_default();
            done.change(&format!("system calls of a machine that the trace does not name: numbers of {machine}"), 1);
        }
        let mut body = Message::default();
        body.int(1, number);
        let fields = record.payload.iter().filter(|(name, _)| *name != call.number_field());
        let left = match call.is_entry {
            true => arguments(fields, &mut body),
            false => returned(fields, &mut body),
        };
        Some(OwnMessage { number: if call.is_entry { SYS_ENTER } else { SYS_EXIT }, body, left })
    }
}

fn is_known(event: &CallEvent<'_>, numbers: &CallNumbers) -> bool {
    match event.call {
        CallName::Named(name) => numbers.number(name).is_some(),
        CallName::ByNumber => true,
    }
}

fn number_of(event: &CallEvent<'_>, numbers: &CallNumbers) -> Option<u16> {
    match event.call {
        // The numbers of 32-bit programs are others.
        CallName::Named(name) if !event.is_compat => numbers.number(name),
        _ => None,
    }
}

/// The arguments up to the first one that is no number: their place says which they are. What has none is told.
fn arguments<'a>(fields: impl Iterator<Item = (&'a str, Value<'a>)>, body: &mut Message) -> Vec<String> {
    let mut left = Vec::new();
    for (name, value) in fields {
        match &value {
            Value::Array(elements) if left.is_empty() => {
                elements.iter().filter_map(|element| integer(&element)).for_each(|value| body.int(2, value));
            }
            value => match integer(value).filter(|_| left.is_empty()) {
                Some(value) => body.int(2, value),
                None => left.push(name.to_owned()),
            },
        }
    }
    left
}

/// The value that a call returned.
fn returned<'a>(fields: impl Iterator<Item = (&'a str, Value<'a>)>, body: &mut Message) -> Vec<String> {
    let mut left = Vec::new();
    for (name, value) in fields {
        match integer(&value).filter(|_| name == "ret") {
            Some(value) => body.int(2, value),
            None => left.push(name.to_owned()),
        }
    }
    left
}

fn integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Int(Number::Unsigned(number), _) | Value::Enum(Number::Unsigned(number), _) => Some(*number as i64),
        Value::Int(Number::Signed(number), _) | Value::Enum(Number::Signed(number), _) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(said: Option<&str>, names: &[&str]) -> Calls {
        Calls::of_names(said, &[names.iter().map(|name| (*name).to_owned()).collect()])
    }

    #[test]
    fn events_of_all_tracers_have_their_numbers() {
        let names = [
            "syscall_entry_openat",
            "syscalls:sys_exit_openat",
            "raw_syscalls:sys_enter",
            "compat_syscall_entry_openat",
            "sched_switch",
        ];
        let found = calls(Some("x86_64"), &names);
        let call = |number, is_entry| Some(OneCall { number, is_entry });
        assert_eq!(found.by_event[0], [call(Some(257), true), call(Some(257), false), call(None, true), None, None]);
        assert_eq!((found.machine(), found.is_assumed), (Some("x86_64"), false));
        assert_eq!(calls(Some("aarch64"), &names).by_event[0][0], call(Some(56), true));
        // A machine whose numbers are not known: calls stay generic events, but those that have a number.
        assert_eq!(calls(Some("riscv64"), &names).by_event[0][..3], [None, None, call(None, true)]);
    }

    #[test]
    fn a_machine_is_assumed_where_none_is_said() {
        let found = calls(None, &["syscall_entry_arch_prctl", "syscall_exit_read"]);
        assert_eq!((found.machine(), found.is_assumed), (Some("x86_64"), true));
        let found = calls(None, &["sched_switch", "raw_syscalls:sys_enter"]);
        assert_eq!((found.machine(), found.is_assumed), (None, false));
    }
}
