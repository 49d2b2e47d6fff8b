// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of block devices, from issue to completion.

use std::collections::BTreeMap;

use super::actor::{Actor, UsageScope};
use super::amounts::{Durations, Transfers};
use crate::doubt::Doubt;
use crate::hash::Open;

/// What a block device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Requests that were done in the stretch.
    pub transfers: Transfers,
    /// From issue to completion, of those whose issue is in the trace.
    pub times: Durations,
    /// Requests of which only the completion is in the trace: who issued them is not known.
    pub without_issue: u64,
}

/// A request as its issue, or its completion, has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub at: i64,
    pub cpu: Option<u32>,
    pub bytes: u64,
    pub writes: Option<bool>,
}

/// All block devices, by the kernel's number.
#[derive(Clone, Debug)]
pub(super) struct Disks {
    begun: Open<(u64, u64), (Request, Actor)>,
    pub devices: BTreeMap<u64, DeviceUse>,
    lost_until: i64,
}

impl Default for Disks {
    fn default() -> Disks {
        Disks { begun: Open::default(), devices: BTreeMap::new(), lost_until: i64::MIN }
    }
}

impl Disks {
    /// A request goes to its device. `key`: device and sector.
    pub fn issue(&mut self, key: (u64, u64), request: Request, actor: Actor) {
        self.begun.replace(key, (request, actor));
    }

    /// A device has done a request, which is asked for if `is_taken`. Gives what the thread that issued it has to its
    /// account.
    pub fn complete(
        &mut self,
        key: (u64, u64),
        done: Request,
        (scope, is_taken): (&UsageScope, bool),
    ) -> Option<(Actor, Transfers)> {
        let begun = self.begun.pop(&key);
        if !is_taken || !scope.has(done.at) || !is_asked(begun.as_ref(), scope) {
            return None;
        }
        let device = self.devices.entry(key.0).or_default();
        let mut one = Transfers::default();
        let Some((issued, actor)) = begun else {
            device.without_issue += 1;
            one.add(done.writes, Some(done.bytes), Doubt::NONE);
            device.transfers.plus(&one);
            return None;
        };
        // A completion may be of a part, and older kernels' completions do not tell their bytes.
        let bytes = if done.bytes > 0 { done.bytes } else { issued.bytes };
        let doubt = Doubt::LOST.when(issued.at < self.lost_until);
        one.add(issued.writes.or(done.writes), Some(bytes), doubt);
        device.transfers.plus(&one);
        device.times.add(done.at.saturating_sub(issued.at).max(0) as u64, doubt);
        Some((actor, one))
    }

    /// Records were lost up to a time.
    pub fn lose(&mut self, to: i64) {
        self.lost_until = self.lost_until.max(to);
    }

    /// Requests that were not done at the end, by device; those that were too many.
    pub fn open(&self) -> (u64, u64) {
        (self.begun.len() as u64, self.begun.dropped())
    }
}

/// Whether a request belongs to who is asked for. Where only some are, one of an unknown thread does not.
fn is_asked(begun: Option<&(Request, Actor)>, scope: &UsageScope) -> bool {
    match begun {
        Some((issued, actor)) => scope.wants(actor) && issued.cpu.is_none_or(|cpu| scope.has_cpu(cpu)),
        None => scope.is_everybody() && scope.cpus.is_none(),
    }
}
