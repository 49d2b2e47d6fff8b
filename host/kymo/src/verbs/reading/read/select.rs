// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events and which columns are shown.

use std::collections::BTreeSet;

use kymo_command::select::EventChoice;
use kymo_ctf::read::Trace;
use kymo_filter::Context;

pub use kymo_command::select::Shown;

/// The columns around the payload.
#[derive(Clone, Copy, Default)]
pub struct Columns {
    pub time: bool,
    pub delta: bool,
    pub cpu: bool,
    pub proc: bool,
    pub pid: bool,
    pub tid: bool,
    pub event: bool,
}

/// Contexts that a kernel's records have as part of their head: shown where they are named.
const OF_HEAD: [&str; 2] = ["irq_flags", "preempt_count"];

/// What the user asked for.
pub struct Selection {
    pub columns: Columns,
    /// `--fields` was given.
    pub explicit: bool,
    all_fields: bool,
    fields: Vec<String>,
    contexts: bool,
    events: EventChoice,
}

impl Selection {
    /// `globs` choose events; without any, all are shown, those of the state dump with `state` only. A payload name
    /// that no event has is an error, because nothing would be shown for it.
    pub fn new(traces: &[Trace], fields: Option<&[String]>, globs: &[String], state: bool) -> anyhow::Result<Self> {
        let mut selection = Self {
            columns: Columns { time: true, delta: true, cpu: true, proc: true, pid: true, tid: true, event: true },
            explicit: fields.is_some(),
            all_fields: true,
            fields: Vec::new(),
            contexts: false,
            events: EventChoice::new(traces, globs, state),
        };
        if let Some(names) = fields {
            selection.choose(traces, names)?;
        }
        selection.contexts = contexts_of(traces).iter().any(|name| selection.has_context(name));
        Ok(selection)
    }

    fn choose(&mut self, traces: &[Trace], names: &[String]) -> anyhow::Result<()> {
        self.columns = Columns::default();
        self.all_fields = false;
        for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            match column(name) {
                "time" => self.columns.time = true,
                "delta" => self.columns.delta = true,
                "cpu" => self.columns.cpu = true,
                "proc" => self.columns.proc = true,
                "pid" => self.columns.pid = true,
                "tid" => self.columns.tid = true,
                "event" => self.columns.event = true,
                "*" => self.all_fields = true,
                _ => self.fields.push(name.to_owned()),
            }
        }
        let known: BTreeSet<&str> = traces
            .iter()
            .flat_map(|t| t.metadata.events.iter().flat_map(|event| t.metadata.field_names(event)))
            .collect();
        let contexts = contexts_of(traces);
        let is_known = |name: &str| match name.strip_prefix('$') {
            Some(context) => contexts.contains(context),
            None => known.contains(name),
        };
        if let Some(unknown) = self.fields.iter().find(|name| !is_known(name)) {
            let some: Vec<&str> = known.iter().copied().take(20).collect();
            let others: Vec<String> = contexts.iter().map(|name| format!(", ${name}")).collect();
            anyhow::bail!(
                "--fields: {unknown:?} is not time, delta, cpu, proc, pid, tid, event or *, and no event of the trace has such a \
                 field; fields are: {}{}; contexts are: $time, $cpu, $proc, $pid, $tid, $event{}",
                some.join(", "),
                if known.len() > some.len() { ", ..." } else { "" },
                others.concat()
            );
        }
        Ok(())
    }

    /// Whether records of an event are shown.
    pub fn event(&self, trace: usize, event: usize) -> Shown {
        self.events.of(trace, event)
    }

    /// Whether it matters in which thread a record was written.
    pub fn has_threads(&self) -> bool {
        self.columns.proc || self.columns.pid || self.columns.tid
    }

    /// Whether records may have contexts that were asked for.
    pub fn has_contexts(&self) -> bool {
        self.contexts
    }

    /// Whether a context of the record is shown: `$prio`.
    pub fn has_context(&self, name: &str) -> bool {
        let is_named = || self.fields.iter().any(|field| field.strip_prefix('$') == Some(name));
        Context::by_name(name).is_none() && (self.all_fields && !OF_HEAD.contains(&name) || is_named())
    }

    /// Whether a payload field is shown.
    pub fn has_field(&self, name: &str) -> bool {
        self.all_fields || self.fields.iter().any(|field| field == name)
    }
}

/// The column that a name stands for: contexts that are columns have the names that filters know; else the name.
fn column(name: &str) -> &str {
    match name.strip_prefix('$').and_then(Context::by_name) {
        Some(Context::Time) => "time",
        Some(Context::Cpu) => "cpu",
        Some(Context::Pid) => "pid",
        Some(Context::Tid) => "tid",
        Some(Context::Proc) => "proc",
        Some(Context::Event) => "event",
        _ => name,
    }
}

/// Contexts of records of the traces, without those that are columns.
fn contexts_of(traces: &[Trace]) -> BTreeSet<&str> {
    let events = traces.iter().flat_map(|trace| (0..trace.metadata.events.len()).map(move |event| (trace, event)));
    let infos = events.flat_map(|(trace, event)| {
        trace.metadata.contexts(event).into_iter().chain(trace.metadata.own_contexts(event))
    });
    let shown = infos.filter(|info| !info.is_length && Context::by_name(info.name).is_none());
    shown.map(|info| info.name).collect()
}
