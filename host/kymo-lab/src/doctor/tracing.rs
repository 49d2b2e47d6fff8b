// SPDX-License-Identifier: MIT OR Apache-2.0
//! What traces the kernel now: the trace buffer of its own, and those of all instances.

use crate::{Severity, Unread};

use super::check::Look;
use super::context::Context;

/// Places that a line names.
const NAMED_MAX: usize = 8;

/// What was found in force; the tracer of functions, or a stack tracer, weighs more than events.
#[derive(Default)]
struct InForce {
    named: Vec<String>,
    has_tracer: bool,
    unread: Option<Unread>,
}

impl InForce {
    /// Looks at a trace buffer: the top one, or an instance's. `of` says which.
    fn look(&mut self, context: &Context<'_>, dir: &str, of: &str) {
        let tracer = context.text(&format!("{dir}/current_tracer"));
        let events = context.optional(&format!("{dir}/events/enable"));
        if let Ok(tracer) = tracer.as_deref() {
            if tracer != "nop" {
                self.named.push(format!("tracer {tracer}{of}"));
                self.has_tracer = true;
            }
        }
        if matches!(events.as_ref().map(Option::as_deref), Ok(Some(events)) if events != "0") {
            self.named.push(format!("events are on{of}"));
        }
        // An instance may be removed while we look.
        let is_gone = context.machine.is_live() && !context.machine.has(dir);
        if let Some(reason) = tracer.err().or(events.err()).filter(|_| !is_gone) {
            self.unread = Some(reason);
        }
    }

    /// A switch that costs at every function, where it is on.
    fn switch(&mut self, context: &Context<'_>, path: &str, name: &str) {
        match context.optional(path) {
            Ok(Some(value)) if value != "0" => {
                self.named.push(name.to_owned());
                self.has_tracer = true;
            }
            Ok(_) => {}
            Err(reason) => self.unread = Some(reason),
        }
    }
}

pub(super) fn tracing(context: &Context<'_>) -> Result<Look, Unread> {
    let dirs = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let is_here = |dir: &&&str| context.machine.has(&format!("{dir}/current_tracer"));
    let Some(dir) = dirs.iter().find(is_here) else {
        let reason = context.text(&format!("{}/current_tracer", dirs[0])).err();
        let is_absent = reason.as_ref().is_none_or(|reason| reason.0.ends_with("absent"));
        let reason = reason.filter(|_| !is_absent);
        return Err(reason.unwrap_or_else(|| Unread("tracefs is not mounted".to_owned())));
    };
    let mut found = InForce::default();
    found.look(context, dir, "");
    found.switch(context, &format!("{dir}/function_profile_enabled"), "the profiler of functions");
    found.switch(context, "/proc/sys/kernel/stack_tracer_enabled", "the tracer of stacks");
    match context.optional_list(&format!("{dir}/instances")) {
        Ok(names) => {
            for name in names.unwrap_or_default() {
                found.look(context, &format!("{dir}/instances/{name}"), &format!(" in instance {name}"));
            }
        }
        Err(reason) => found.unread = Some(reason),
    }
    let more = found.named.len().saturating_sub(NAMED_MAX);
    found.named.truncate(NAMED_MAX);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let text = found.named.join(", ") + &more;
    match (text.is_empty(), found.has_tracer, found.unread) {
        (false, true, _) => Ok(Look::Graded(Severity::High, text)),
        (false, false, _) => Ok(Look::Problem(text)),
        (true, _, Some(reason)) => Err(reason),
        (true, _, None) => Ok(Look::Ok("none".to_owned())),
    }
}
