// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events of the kernel the conditions of triggers name [spec/flight.md 3.1].

use kymo_filter::{Filter, Named};
use kymo_ftrace::Naming;
use kymo_tracefs::{EventName, Tracefs};

use crate::Error;

/// Kernel events that all conditions together may name.
const EVENTS_MAX: usize = 1000;
/// Events of wake-ups, besides the switch; the second is needed where the first is missing.
const WAKEUPS: [&str; 3] = ["sched_waking", "sched_wakeup", "sched_wakeup_new"];

/// An event that a condition can name.
#[derive(Clone, Debug)]
pub(crate) struct Nameable {
    pub event: EventName,
    /// What the trace takes its system for.
    pub system: String,
    /// Its name in the trace.
    pub name: String,
}

impl Nameable {
    /// A probe, whose group means nothing to readers.
    pub(crate) fn new(event: EventName, system: &str, naming: Naming) -> Nameable {
        let name = naming.event(system, &event.name);
        Nameable { event, system: system.to_owned(), name }
    }
}

/// The conditions by whose records they ask for, and the kernel events that they name.
#[derive(Debug, Default)]
pub(crate) struct KernelConditions {
    /// Records of programs only; also where no event is named.
    pub programs: Vec<Filter>,
    /// Records of the kernel only.
    pub kernel: Vec<Filter>,
    /// Both, in the order of time.
    pub mixed: Vec<Filter>,
    pub events: Vec<Nameable>,
}

impl KernelConditions {
    /// The conditions that the thread with the programs' records asks.
    pub(crate) fn of_programs(&self) -> Vec<Filter> {
        self.programs.iter().chain(&self.mixed).cloned().collect()
    }

    /// Sorts the conditions. `probes`: events of the session's own. Looks into tracefs only where a condition may name
    /// an event of the kernel.
    pub(crate) fn of(conditions: &[Filter], naming: Naming, probes: &[Nameable]) -> Result<KernelConditions, Error> {
        let mut asked = KernelConditions::default();
        let mut known = KnownToTracefs { naming, probes, tracefs: None, all: None };
        for filter in conditions {
            let (mut of_kernel, mut of_programs) = (Vec::new(), false);
            for named in filter.named() {
                let found = match named {
                    Named::Member(name, member) => {
                        known.refuse_event_as_field(name, member)?;
                        continue;
                    }
                    Named::Wakeups => known.wakeups()?,
                    Named::Event(pattern) => known.named(&pattern.glob)?,
                };
                of_programs |= found.is_empty();
                of_kernel.extend(found);
            }
            let list = match (of_kernel.is_empty(), of_programs) {
                (true, _) => &mut asked.programs,
                (false, false) => &mut asked.kernel,
                (false, true) => &mut asked.mixed,
            };
            list.push(filter.clone());
            asked.events.extend(of_kernel);
        }
        asked.events.sort_by(|one, other| one.event.cmp(&other.event));
        asked.events.dedup_by(|one, other| one.event == other.event);
        match asked.events.len() {
            0..=EVENTS_MAX => Ok(asked),
            many => Err(Error::Trigger(format!(
                "the conditions name {many} kernel events, at most {EVENTS_MAX} are watched; use narrower patterns"
            ))),
        }
    }
}

/// The kernel's events, read when the first name asks for them.
struct KnownToTracefs<'a> {
    naming: Naming,
    probes: &'a [Nameable],
    tracefs: Option<Tracefs>,
    all: Option<Vec<Nameable>>,
}

impl KnownToTracefs<'_> {
    fn tracefs(&mut self) -> Result<&Tracefs, Error> {
        let found = match self.tracefs.take() {
            Some(found) => found,
            None => Tracefs::find()?,
        };
        Ok(self.tracefs.insert(found))
    }

    fn all(&mut self) -> Result<&[Nameable], Error> {
        if self.all.is_none() {
            let naming = self.naming;
            let events = self.tracefs()?.events()?;
            let own = events.into_iter().filter(|event| !event.system.starts_with("kymo_"));
            let mut all: Vec<Nameable> = own
                .map(|event| {
                    let system = event.system.clone();
                    Nameable::new(event, &system, naming)
                })
                .collect();
            all.extend(self.probes.iter().cloned());
            self.all = Some(all);
        }
        Ok(self.all.as_deref().unwrap_or_default())
    }

    /// The events of the kernel that a pattern of a condition means; none where it is about programs. Their events are
    /// called `provider:name`, so a name without a colon is of the kernel.
    fn named(&mut self, glob: &str) -> Result<Vec<Nameable>, Error> {
        let is_kernels = match (self.naming, glob.contains(':')) {
            _ if glob.starts_with(['*', '?']) => false,
            (_, false) | (Naming::Kernel, true) => true,
            (Naming::Lttng, true) => {
                self.refuse_other_name(glob)?;
                false
            }
        };
        if !is_kernels {
            return Ok(Vec::new());
        }
        let all = self.all()?;
        let found: Vec<Nameable> = all.iter().filter(|of| kymo_names::event_matches(glob, &of.name)).cloned().collect();
        if !found.is_empty() || glob.contains(':') {
            return Ok(found);
        }
        let names: Vec<String> = all.iter().map(|of| of.name.clone()).collect();
        let near = crate::near(glob, &names, 3);
        let hint = match near.is_empty() {
            true => "events of programs are called provider:name; `kymo list -k` shows those of the kernel".to_owned(),
            false => format!("near it: {}", near.join(", ")),
        };
        Err(Error::Trigger(format!("the kernel has no event {glob}; {hint}")))
    }

    /// `sched:sched_switch` where the trace calls it otherwise: it would never fire.
    fn refuse_other_name(&mut self, name: &str) -> Result<(), Error> {
        let Some(event) = EventName::parse(name).filter(|event| !event.name.contains(['*', '?', '['])) else {
            return Ok(());
        };
        let is_there = self.tracefs().is_ok_and(|tracefs| tracefs.format(&event).is_ok());
        if !is_there {
            return Ok(());
        }
        let called = self.naming.event(&event.system, &event.name);
        Err(Error::Trigger(format!(
            "{name} is called {called} in this trace (--names kernel keeps the kernel's names)"
        )))
    }

    /// `sched_switch.next_tid` is a field `sched_switch`: no event has one.
    fn refuse_event_as_field(&mut self, name: &str, member: &str) -> Result<(), Error> {
        // Where the kernel cannot be had, its events are not meant.
        if !self.all().is_ok_and(|all| all.iter().any(|of| of.name == name)) {
            return Ok(());
        }
        Err(Error::Trigger(format!("{name} is an event; write `{name}: {member} ...` or `\"{name}\".{member}`")))
    }

    fn wakeups(&mut self) -> Result<Vec<Nameable>, Error> {
        let of_sched = |all: &[Nameable], name: &str| {
            all.iter().find(|of| of.event.system == "sched" && of.event.name == name).cloned()
        };
        let all = self.all()?;
        let [waking, wakeup, new] = WAKEUPS.map(|name| of_sched(all, name));
        let switch = of_sched(all, "sched_switch");
        match (waking.or(wakeup), switch) {
            (Some(waking), Some(switch)) => Ok([Some(waking), new, Some(switch)].into_iter().flatten().collect()),
            _ => Err(Error::Trigger(
                "wakeup() needs the events sched_waking and sched_switch, which this kernel does not have".to_owned(),
            )),
        }
    }
}
