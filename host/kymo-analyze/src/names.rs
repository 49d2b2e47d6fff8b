// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one table of names [spec/analyze.md 2]: which events of kymo, LTTng, trace-cmd and ftrace are which typed
//! event, and which of their
//! fields say what. Nothing else in the crate knows a name of an event.

use std::borrow::Cow;

use crate::CallId;
use crate::calls::Architecture;
use crate::event::VECTORS;
use crate::form::Form;
use crate::hash::Map;
use crate::plan::Plan;
use crate::record::{Class, ValueKind};
use crate::syscall::{self, CallEvent, CallName};

/// A row of the table. Of the fields, each with all its names, the first `needed` must be there.
struct Rule {
    form: Form,
    events: &'static [&'static str],
    fields: &'static [&'static [&'static str]],
    needed: usize,
}

const fn rule(
    form: Form,
    events: &'static [&'static str],
    needed: usize,
    fields: &'static [&'static [&'static str]],
) -> Rule {
    Rule { form, events, fields, needed }
}

const TID: &[&str] = &["tid", "pid"];
const WAKE: &[&[&str]] = &[TID, &["comm"], &["prio"], &["target_cpu"]];

const RULES: &[Rule] = &[
    rule(
        Form::Switch,
        &["sched_switch"],
        3,
        &[
            &["prev_tid", "prev_pid"],
            &["prev_state"],
            &["next_tid", "next_pid"],
            &["prev_prio"],
            &["next_prio"],
            &["next_comm"],
            &["prev_comm"],
        ],
    ),
    rule(Form::Waking, &["sched_waking"], 1, WAKE),
    rule(Form::Wakeup, &["sched_wakeup"], 1, WAKE),
    rule(Form::New, &["sched_wakeup_new"], 1, WAKE),
    rule(Form::Migrate, &["sched_migrate_task"], 2, &[TID, &["dest_cpu"]]),
    rule(Form::Priority, &["sched_pi_setprio"], 2, &[TID, &["newprio"]]),
    rule(
        Form::Fork,
        &["sched_process_fork"],
        2,
        &[&["parent_tid", "parent_pid"], &["child_tid", "child_pid"], &["child_comm"], &["child_pid"]],
    ),
    rule(Form::Create, &["task_newtask", "kymo_statedump_task_newtask"], 2, &[TID, &["clone_flags"], &["comm"]]),
    // Newer kernels do not tell the thread.
    rule(Form::Rename, &["task_rename", "kymo_statedump_task_rename"], 1, &[&["newcomm"], TID, &["oldcomm"]]),
    // The saved command lines of an imported trace.
    rule(Form::Rename, &["kymo_statedump_thread_name"], 2, &[&["name"], TID]),
    rule(
        Form::Exec,
        &["sched_process_exec", "kymo_statedump_process_exec"],
        1,
        &[TID, &["old_tid", "old_pid"], &["filename"]],
    ),
    rule(Form::Exit, &["sched_process_exit"], 1, &[TID]),
    rule(Form::Free, &["sched_process_free"], 1, &[TID]),
    rule(Form::IrqEnter, &["irq_handler_entry"], 1, &[&["irq"], &["name"]]),
    rule(Form::IrqLeave, &["irq_handler_exit"], 1, &[&["irq"]]),
    rule(Form::Raise, &["softirq_raise", "irq_softirq_raise"], 1, &[&["vec"]]),
    rule(Form::SoftirqEnter, &["softirq_entry", "irq_softirq_entry"], 1, &[&["vec"]]),
    rule(Form::SoftirqLeave, &["softirq_exit", "irq_softirq_exit"], 1, &[&["vec"]]),
    rule(Form::HrtimerStart, &["hrtimer_start", "timer_hrtimer_start"], 2, &[&["hrtimer"], &["expires"]]),
    rule(Form::HrtimerCancel, &["hrtimer_cancel", "timer_hrtimer_cancel"], 1, &[&["hrtimer"]]),
    rule(
        Form::HrtimerEnter,
        &["hrtimer_expire_entry", "timer_hrtimer_expire_entry"],
        1,
        &[&["hrtimer"], &["now"], &["function"]],
    ),
    rule(Form::HrtimerLeave, &["hrtimer_expire_exit", "timer_hrtimer_expire_exit"], 0, &[]),
    rule(Form::TimerEnter, &["timer_expire_entry"], 1, &[&["timer"], &["function"]]),
    rule(Form::TimerLeave, &["timer_expire_exit"], 0, &[]),
    rule(Form::CallByNumber, &[syscall::BY_NUMBER[0].0, syscall::BY_NUMBER[1].0], 1, &[&["id"], &["args"]]),
    rule(Form::ReturnByNumber, &[syscall::BY_NUMBER[0].1, syscall::BY_NUMBER[1].1], 1, &[&["id"], &["ret"]]),
    rule(Form::IrqsOff, &["irq_disable", "preemptirq_irq_disable"], 0, &[]),
    rule(Form::IrqsOn, &["irq_enable", "preemptirq_irq_enable"], 0, &[]),
    rule(Form::PreemptOff, &["preempt_disable", "preemptirq_preempt_disable"], 0, &[]),
    rule(Form::PreemptOn, &["preempt_enable", "preemptirq_preempt_enable"], 0, &[]),
    rule(Form::Idle, &["cpu_idle", "power_cpu_idle"], 1, &[&["state"], &["cpu_id"]]),
    rule(Form::Frequency, &["cpu_frequency", "power_cpu_frequency"], 1, &[&["state"], &["cpu_id"]]),
    rule(Form::BlockIssue, &["block_rq_issue"], 2, BLOCK),
    rule(Form::BlockComplete, &["block_rq_complete"], 2, BLOCK),
    rule(Form::NetQueue, &["net_dev_queue"], 1, &[&["skbaddr"], &["name"]]),
    rule(Form::NetXmit, &["net_dev_xmit"], 1, &[&["skbaddr"], &["name"]]),
    rule(
        Form::Fault { user: true },
        &["page_fault_user", "x86_exceptions_page_fault_user", "exceptions_page_fault_user"],
        1,
        &[&["address"]],
    ),
    rule(
        Form::Fault { user: false },
        &["page_fault_kernel", "x86_exceptions_page_fault_kernel", "exceptions_page_fault_kernel"],
        1,
        &[&["address"]],
    ),
    rule(Form::Signal, &["signal_generate"], 2, &[TID, &["sig"]]),
    rule(Form::Noise("irq"), &["irq_noise", "osnoise_irq_noise"], 2, NOISE),
    rule(Form::Noise("softirq"), &["softirq_noise", "osnoise_softirq_noise"], 2, NOISE),
    rule(Form::Noise("nmi"), &["nmi_noise", "osnoise_nmi_noise"], 2, NOISE),
    rule(Form::Noise("thread"), &["thread_noise", "osnoise_thread_noise"], 2, NOISE),
    rule(Form::Dumped, &["lttng_statedump_process_state"], 2, &[&["tid"], &["pid"], &["name"], &["status"], &["prio"]]),
];

const BLOCK: &[&[&str]] = &[&["dev"], &["sector"], &["nr_sector"], &["rwbs"], &["bytes"]];
const NOISE: &[&[&str]] = &[&["start"], &["duration"]];

/// Fields that stand in front of the arguments of a system call.
const NO_ARGUMENTS: [&str; 2] = ["__syscall_nr", "nr"];

/// Beginnings of the names of vectors' events.
const VECTOR_STARTS: [&str; 2] = ["x86_irq_vectors_", "irq_vectors_"];

/// The classes of one or several traces, and the names of their system calls.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    calls: Vec<String>,
    by_name: Map<String, CallId>,
    /// Whose numbers system calls have.
    architecture: Option<Architecture>,
    /// There are calls that begin by number.
    has_numbers: bool,
    facts: Facts,
}

/// Which events there are: by that a state knows what it can wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Switches.
    pub switches: bool,
    /// `sched_waking`.
    pub waking: bool,
    /// `sched_wakeup`.
    pub wakeup: bool,
    /// Interrupts, softirqs or vectors.
    pub interrupts: bool,
    /// Interrupts of devices, or of the processor's own.
    pub hard_interrupts: bool,
    /// Softirqs.
    pub softirqs: bool,
    /// Block requests that are done.
    pub requests: bool,
    /// System calls.
    pub calls: bool,
    /// Interrupts off or preemption off.
    pub off: bool,
    /// High-resolution timers that are started.
    pub timers: bool,
    /// Page faults.
    pub faults: bool,
    /// Signals.
    pub signals: bool,
    /// Moves of threads from CPU to CPU.
    pub migrations: bool,
    /// Calls of high-resolution timers.
    pub timer_calls: bool,
    /// Idle states of processors.
    pub idle_states: bool,
    /// Frequencies of processors.
    pub frequencies: bool,
    /// New threads.
    pub creations: bool,
    /// New names of threads.
    pub renames: bool,
    /// The clocks of several machines, or traces, that are not one clock.
    pub mixed_clocks: bool,
}

impl Vocabulary {
    /// An empty one.
    pub fn new() -> Vocabulary {
        Vocabulary::default()
    }

    /// Learns a class. `None` where it says nothing that the state follows, or lacks a field for it.
    pub fn learn(&mut self, class: &Class) -> Option<Plan> {
        let (system, bare) = split(&class.name);
        let plan = match RULES.iter().find(|rule| rule.events.contains(&bare)) {
            Some(rule) => by_rule(rule, class)?,
            None => self.by_pattern(system, bare, class)?,
        };
        self.note(plan.form);
        Some(plan)
    }

    /// Says that clocks are not one.
    pub fn mix_clocks(&mut self) {
        self.facts.mixed_clocks = true;
    }

    /// Says whose numbers system calls have that events tell by number; `None`: they stay numbers.
    pub fn set_architecture(&mut self, architecture: Option<Architecture>) {
        self.architecture = architecture;
    }

    /// Which events there are.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Name of a system call.
    pub fn call_name(&self, call: CallId) -> Cow<'_, str> {
        match call.0.checked_sub(CallId::BY_NUMBER) {
            Some(number) => match self.architecture.and_then(|architecture| architecture.call(number.into())) {
                Some(name) => name.into(),
                None => format!("syscall_{number}").into(),
            },
            None => self.calls.get(usize::from(call.0)).map_or("?".into(), |name| name.as_str().into()),
        }
    }

    /// A system call of that name, where the trace has it: by an event of its own, else by its number.
    pub fn call_id(&self, name: &str) -> Option<CallId> {
        let by_number = || {
            let number = self.architecture.filter(|_| self.has_numbers)?.number(name)?;
            CallId::by_number(number.into())
        };
        self.by_name.get(name).copied().or_else(by_number)
    }

    /// All that a system call of that name is in the trace: it may have events of its own, and its number.
    pub(crate) fn call_ids(&self, name: &str) -> impl Iterator<Item = CallId> + use<> {
        let number = self.architecture.filter(|_| self.has_numbers).and_then(|known| known.number(name));
        let by_number = number.and_then(|number| CallId::by_number(number.into()));
        self.by_name.get(name).copied().into_iter().chain(by_number)
    }

    fn by_pattern(&mut self, system: &str, bare: &str, class: &Class) -> Option<Plan> {
        if let Some((name, is_entry)) = call_of(&class.name) {
            let call = self.call(name)?;
            return Some(if is_entry { call_plan(call, class) } else { return_plan(call, class) });
        }
        let vectors = VECTOR_STARTS.iter().find_map(|start| bare.strip_prefix(start));
        let vector = vectors.or((system == "irq_vectors" || system.is_empty()).then_some(bare))?;
        let number = |name: &str| VECTORS.iter().position(|vector| *vector == name).map(|index| index as u8);
        let enter = vector.strip_suffix("_entry").and_then(number).map(Form::VectorEnter);
        let form = enter.or_else(|| vector.strip_suffix("_exit").and_then(number).map(Form::VectorLeave))?;
        Some(Plan::new(form))
    }

    fn call(&mut self, name: &str) -> Option<CallId> {
        if let Some(call) = self.by_name.get(name) {
            return Some(*call);
        }
        let call = u16::try_from(self.calls.len()).ok().filter(|&number| number < CallId::BY_NUMBER).map(CallId)?;
        self.calls.push(name.to_owned());
        self.by_name.insert(name.to_owned(), call);
        Some(call)
    }

    fn note(&mut self, form: Form) {
        self.has_numbers |= form == Form::CallByNumber;
        let facts = &mut self.facts;
        match form {
            Form::Switch => facts.switches = true,
            Form::Waking => facts.waking = true,
            Form::Wakeup => facts.wakeup = true,
            Form::IrqEnter | Form::VectorEnter(_) => (facts.interrupts, facts.hard_interrupts) = (true, true),
            Form::SoftirqEnter => (facts.interrupts, facts.softirqs) = (true, true),
            Form::BlockComplete => facts.requests = true,
            Form::Call(_) | Form::CallByNumber => facts.calls = true,
            Form::IrqsOff | Form::PreemptOff => facts.off = true,
            Form::HrtimerStart => facts.timers = true,
            Form::HrtimerEnter => facts.timer_calls = true,
            Form::Idle => facts.idle_states = true,
            Form::Frequency => facts.frequencies = true,
            Form::Fault { .. } => facts.faults = true,
            Form::Signal => facts.signals = true,
            Form::Migrate => facts.migrations = true,
            Form::Fork | Form::Create => facts.creations = true,
            Form::Rename => facts.renames = true,
            _ => {}
        }
    }
}

/// What a record says that moves no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// A system call that opens a file begins.
    Opening,
    /// The kernel's function that opens a file for a system call is called.
    Opened,
    /// The state dump has found a descriptor.
    Descriptor,
    /// The machine has a CPU.
    Cpu,
    /// The machine has a block device.
    Device,
}

/// System calls that open a file by its path.
const OPENS: [&str; 4] = ["open", "openat", "openat2", "creat"];

/// Probes in calls that open a file: the functions that do, and the name that perf looks for in the one that copies the
/// path from the program.
const OPENED: [&str; 3] = ["do_sys_openat2", "do_sys_open", "vfs_getname"];

/// What records of a class say beside what [`Vocabulary::learn`] knows.
pub(crate) fn statement_of(name: &str) -> Option<Statement> {
    let (_, bare) = split(name);
    match bare {
        "lttng_statedump_file_descriptor" => Some(Statement::Descriptor),
        "lttng_statedump_cpu_topology" => Some(Statement::Cpu),
        "lttng_statedump_block_device" => Some(Statement::Device),
        _ if OPENED.contains(&bare) => Some(Statement::Opened),
        _ => {
            let is_opening = call_of(name).is_some_and(|(call, is_entry)| is_entry && OPENS.contains(&call));
            is_opening.then_some(Statement::Opening)
        }
    }
}

/// System and bare name.
fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

/// The system call that an event is of alone, and whether it is the entry.
fn call_of(event: &str) -> Option<(&str, bool)> {
    match CallEvent::of(event)? {
        CallEvent { call: CallName::Named(name), is_entry, .. } => Some((name, is_entry)),
        _ => None,
    }
}

fn by_rule(rule: &Rule, class: &Class) -> Option<Plan> {
    let mut plan = Plan::new(rule.form);
    for (index, names) in rule.fields.iter().enumerate() {
        match class.field(names) {
            Some(field) => plan.set(index, field),
            None if index < rule.needed => return None,
            None => {}
        }
    }
    if rule.form == Form::Fork {
        settle_fork(&mut plan, class);
    }
    plan.has_lttng_names = ["tid", "prev_tid"].iter().any(|name| class.field(&[name]).is_some());
    Some(plan)
}

/// `child_pid` is the thread in the kernel's own event, and the process beside a `child_tid`.
fn settle_fork(plan: &mut Plan, class: &Class) {
    if class.field(&["child_tid"]).is_none() {
        plan.unset(3);
    }
}

/// The arguments of a call: the first two integers behind its number.
fn call_plan(call: CallId, class: &Class) -> Plan {
    let mut plan = Plan::new(Form::Call(call));
    let is_argument = |field: &&crate::record::Field| {
        field.kind == ValueKind::Integer && !NO_ARGUMENTS.contains(&field.name.as_str())
    };
    class.fields.iter().filter(is_argument).take(2).enumerate().for_each(|(index, field)| plan.set(index, field));
    plan
}

fn return_plan(call: CallId, class: &Class) -> Plan {
    let mut plan = Plan::new(Form::Return(call));
    if let Some(field) = class.field(&["ret"]) {
        plan.set(0, field);
    }
    plan
}
