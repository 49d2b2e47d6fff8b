// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments summed up by cause, and the control group of a limit.

use crate::cause::evidence::Evidence;
use crate::cause::{Cause, CausePart, Explained, Ground, Group, Moment, Segment};
use crate::doubt::Doubt;
use crate::hash::Map;
use crate::name::Name;

impl Evidence {
    /// Takes the control group of a thread.
    pub fn learn_group(&mut self, tid: i32, group: Group) {
        self.groups.insert(tid, group);
    }

    /// The control group of a thread.
    pub fn group(&self, tid: i32) -> Option<&Group> {
        self.groups.get(&tid)
    }

    /// The control group whose limit throttled this thread, where that is known.
    pub fn limiting_group(&self, cause: Cause, tid: i32) -> Option<&Group> {
        cause.limit().filter(|limit| limit.is_of_group()).and_then(|_| self.group(tid))
    }

    /// The budget of a stretch of a thread.
    pub fn explain(&self, moment: &Moment) -> Explained {
        let segments = self.segments(moment);
        let faults = self.faults_of(moment.tid, moment.from, moment.to).count() as u64;
        let doubt = segments.iter().fold(Doubt::NONE, |all, segment| all | segment.doubt);
        Explained { parts: self.sum(&segments), doubt, faults }
    }

    /// By cause, the largest first.
    pub fn sum(&self, segments: &[Segment]) -> Vec<CausePart> {
        let mut parts: Vec<CausePart> = Vec::new();
        let mut index: Map<(Cause, Ground, Option<u32>), usize> = Map::default();
        for segment in segments {
            let (cause, ground) = (segment.cause, segment.ground);
            let place = segment.cpu.filter(|_| cause.is_of_cpu());
            let at = *index.entry((cause, ground, place)).or_insert(parts.len());
            if at == parts.len() {
                let (name, prio) = self.named(cause, segment.from);
                let (cpu, doubt) = (segment.cpu, Doubt::NONE);
                parts.push(CausePart { cause, ground, ns: 0, pieces: 0, name, prio, cpu, doubt });
            }
            parts[at].ns += segment.ns();
            parts[at].pieces += 1;
            parts[at].doubt |= segment.doubt;
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
        parts
    }

    fn named(&self, cause: Cause, at: i64) -> (Name, Option<i16>) {
        if let Cause::Interrupt(interrupt) = cause {
            return (self.handler(interrupt), None);
        }
        match cause.tid() {
            Some(tid) => (self.name(tid, at), self.prio_running(tid, at)),
            None => (Name::default(), None),
        }
    }
}
