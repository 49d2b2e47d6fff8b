// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's events of a session that runs [spec/session.md 10]: metadata first, then the events.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, mpsc};

use kymo_ctf::write::EventClass;
use kymo_ftrace::Naming;
use kymo_tracefs::Wanted;

use super::Session;
use crate::Error;
use crate::control::ToControl;
use crate::kernel::{Kernel, KernelChanged, KernelConfig, KernelSink, KernelView, Recording, TracePlace};

impl Session {
    /// Switches kernel events on or off; `patterns` are those of `-k`, filters and fields included. A session without a
    /// kernel part gets one with the first events that are switched on.
    pub fn select_kernel(&mut self, patterns: &[String], on: bool) -> Result<KernelChanged, Error> {
        if self.kernel.is_none() {
            return match on {
                true => self.begin_kernel(patterns),
                false => {
                    Err(Error::Refused("this session has no kernel events; `enable -k` switches some on".to_owned()))
                }
            };
        }
        let Some(kernel) = &mut self.kernel else { return Err(Error::Thread { thread: "kernel" }) };
        let mut plan = kernel.plan(patterns, on)?;
        let classes = std::mem::take(&mut plan.classes);
        if !classes.is_empty() {
            self.tell_of_kernel_events(classes, None)?;
        }
        let Some(kernel) = &mut self.kernel else { return Err(Error::Thread { thread: "kernel" }) };
        kernel.selected.note(patterns, on)?;
        if on { kernel.switch_on(plan) } else { kernel.switch_off(&plan) }
    }

    /// The kernel's part of a session that began without one.
    fn begin_kernel(&mut self, patterns: &[String]) -> Result<KernelChanged, Error> {
        let config = KernelConfig { wanted: Wanted::parse(patterns)?, ..self.kernel_base.clone() };
        let kernel = Kernel::prepare(&config, self.source)?;
        let (dir, uuid) = self.tell_of_kernel_events(kernel.classes.clone(), Some(kernel.naming()))?;
        let sink = if self.snapshots.is_some() { KernelSink::Flight } else { KernelSink::Stream };
        let mut recording =
            kernel.start(self.source, Arc::clone(&self.counters), TracePlace { dir: &dir, uuid }, sink)?;
        recording.selected.note(patterns, true)?;
        if let Some(snapshots) = &self.snapshots {
            *snapshots.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(recording.side());
        }
        let events = recording.view().events;
        self.kernel = Some(recording);
        Ok(KernelChanged { events, is_new: true })
    }

    /// Brings classes into the metadata. Directory and uuid of the trace that is written now.
    fn tell_of_kernel_events(
        &self,
        classes: Vec<EventClass>,
        naming: Option<Naming>,
    ) -> Result<(PathBuf, [u8; 16]), Error> {
        let (reply, answer) = mpsc::channel();
        self.ask_control(ToControl::KernelEvents { classes, naming, reply });
        self.answer(&answer)?
    }

    /// The kernel events, where there are any.
    pub fn kernel_view(&self) -> Option<KernelView> {
        self.kernel.as_ref().map(Recording::view)
    }
}
