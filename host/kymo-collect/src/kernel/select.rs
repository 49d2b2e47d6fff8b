// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel events that are switched on and off while a session runs [spec/session.md 10].

use std::sync::mpsc;
use std::time::Duration;

use kymo_ctf::write::EventClass;
use kymo_ftrace::{Naming, class_of, format};
use kymo_tracefs::{Chosen, EventName, Instance, Wanted};
use serde::Serialize;

use super::Recording;
use super::config::STATE_FIRST_ID;
use super::drain::NewEvent;
use super::drain::Order;
use super::names::{FieldNames, system_in_trace};
use crate::Error;

/// The thread writes a snapshot to its end before it learns.
const LEARN_TIME: Duration = Duration::from_secs(20);

/// What switching kernel events on or off came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelChanged {
    /// Events that match, as `system:event`.
    pub events: Vec<String>,
    /// Whether the session had no kernel part before.
    pub is_new: bool,
}

/// The kernel events of a running session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelView {
    /// Those that are on, as `system:event`.
    pub events: Vec<String>,
    /// What was switched since the start, in order: `+PATTERN`, `-PATTERN`.
    pub changes: Vec<String>,
}

/// A change that was found right.
#[derive(Debug, Default)]
pub(crate) struct KernelPlan {
    /// What matches; of `disable` what was on.
    chosen: Vec<Chosen>,
    new: Vec<NewEvent>,
    /// Classes that the metadata must have first.
    pub classes: Vec<EventClass>,
}

impl Recording {
    /// Every event that can be switched: the kernel's, and this session's probes under the name that the trace gives
    /// them.
    fn nameable(&self) -> Result<Vec<EventName>, Error> {
        let group = self.instance.probe_group();
        let mut all = self.instance.tracefs().events()?;
        all.retain(|event| event.system != group);
        let probes = self.selected.known.keys().filter(|event| event.system == group);
        all.extend(probes.map(|event| EventName::new("uprobe", event.name.clone())));
        all.sort();
        all.dedup();
        Ok(all)
    }

    /// What `patterns` of `-k` mean here. Nothing is changed.
    pub(crate) fn plan(&self, patterns: &[String], on: bool) -> Result<KernelPlan, Error> {
        let wanted = Wanted::parse(patterns)?;
        if wanted.sample_frequency().is_some() {
            return Err(Error::Refused(
                "samples are taken from the start of a session to its end: give -k perf:cpu-clock when it starts"
                    .to_owned(),
            ));
        }
        let group = self.instance.probe_group();
        let mut chosen = if on { wanted } else { wanted.whole() }.choose(&self.nameable()?)?;
        for chosen in chosen.iter_mut().filter(|chosen| chosen.event.system == "uprobe") {
            chosen.event.system.clone_from(&group);
        }
        if !on {
            chosen.retain(|chosen| self.selected.on.contains_key(&chosen.event));
            return Ok(KernelPlan { chosen, ..KernelPlan::default() });
        }
        let mut plan = KernelPlan::default();
        let mut fields = FieldNames::default();
        for chosen in chosen {
            match self.selected.known.get(&chosen.event) {
                Some(before) if *before != chosen.fields => return Err(other_fields(&chosen.event, before.as_deref())),
                Some(_) => {}
                None => {
                    let Some(new) = describe(&self.instance, &chosen, self.naming, &mut fields)? else { continue };
                    plan.classes.push(class_of(&new.system, &new.format, new.naming, new.fields.as_deref()));
                    plan.new.push(new);
                }
            }
            plan.chosen.push(chosen);
        }
        fields.check()?;
        Ok(plan)
    }

    /// Switches on what was planned; the classes are in the metadata.
    pub(crate) fn switch_on(&mut self, plan: KernelPlan) -> Result<KernelChanged, Error> {
        if !plan.new.is_empty() {
            let (reply, learnt) = mpsc::channel();
            let _ = self.orders.send(Order::Learn(plan.new, reply));
            learnt.recv_timeout(LEARN_TIME).map_err(|_| Error::Thread { thread: "kernel" })?;
            for chosen in &plan.chosen {
                self.selected.known.entry(chosen.event.clone()).or_insert_with(|| chosen.fields.clone());
            }
        }
        self.instance.enable(&plan.chosen).inspect_err(|_| {
            // Those that were on before are off now.
            let before: Vec<Chosen> =
                plan.chosen.iter().filter_map(|chosen| self.selected.on.get(&chosen.event).cloned()).collect();
            let _ = self.instance.enable(&before);
        })?;
        let events = self.names(&plan.chosen);
        for name in &events {
            if !self.events.contains(name) {
                self.events.push(name.clone());
            }
        }
        self.selected.on.extend(plan.chosen.into_iter().map(|chosen| (chosen.event.clone(), chosen)));
        Ok(KernelChanged { events, is_new: false })
    }

    /// Switches off what was planned. What is in the rings already stays.
    pub(crate) fn switch_off(&mut self, plan: &KernelPlan) -> Result<KernelChanged, Error> {
        let events: Vec<EventName> = plan.chosen.iter().map(|chosen| chosen.event.clone()).collect();
        self.instance.disable_events(&events)?;
        events.iter().for_each(|event| drop(self.selected.on.remove(event)));
        Ok(KernelChanged { events: self.names(&plan.chosen), is_new: false })
    }

    fn names(&self, chosen: &[Chosen]) -> Vec<String> {
        let name = |event: &EventName| format!("{}:{}", system_in_trace(&self.instance, &event.system), event.name);
        chosen.iter().map(|chosen| name(&chosen.event)).collect()
    }

    /// What is on, and what was changed.
    pub(crate) fn view(&self) -> KernelView {
        let on: Vec<Chosen> = self.selected.on.values().cloned().collect();
        let text = |(pattern, on): &(String, bool)| format!("{}{pattern}", if *on { '+' } else { '-' });
        KernelView { events: self.names(&on), changes: self.selected.changes.iter().map(text).collect() }
    }
}

/// The description of an event that the trace does not know yet; `None` where its id is too large for a trace.
fn describe(
    instance: &Instance,
    chosen: &Chosen,
    naming: Naming,
    fields: &mut FieldNames,
) -> Result<Option<NewEvent>, Error> {
    let name = &chosen.event;
    let text = instance.tracefs().format(name)?;
    let format = format::parse_event(&text).map_err(Error::format(&name.to_string()))?;
    if format.id >= STATE_FIRST_ID {
        return Ok(None);
    }
    fields.note(chosen, &format);
    let system = system_in_trace(instance, &name.system).to_owned();
    Ok(Some(NewEvent { system, format, naming, fields: chosen.fields.clone() }))
}

fn other_fields(event: &EventName, before: Option<&[String]>) -> Error {
    let have = before.map_or_else(|| "all fields".to_owned(), |fields| format!("{{{}}}", fields.join(",")));
    Error::Refused(format!(
        "{event} is in this trace with {have}, and an event has the same fields all over a trace; say the same, or start another session"
    ))
}
