// SPDX-License-Identifier: MIT OR Apache-2.0
//! What befalls simulated sessions: faults, and what their owners ask of them.

use std::sync::mpsc::{Receiver, channel};

use super::run::{MS, Run, SECOND};
use super::session::{Fault, Simulated};
use crate::chunks::RotateJob;
use crate::control::ToControl;

impl Run {
    /// Something goes wrong for a while.
    pub(super) fn fail(&mut self, now: u64) {
        if self.sessions.is_empty() {
            return;
        }
        let number = self.random.below(self.sessions.len());
        let fault = self.random.pick(&[
            Fault::ControlStalls,
            Fault::ControlStalls,
            Fault::DrainStalls,
            Fault::DiskFull,
            Fault::DiskFull,
            Fault::DiskWithoutDescriptors,
            Fault::DiskGone,
            Fault::NoDescriptors,
            Fault::NoMemory,
        ]);
        let most = self.random.pick(&[50 * MS, SECOND, 5 * SECOND]);
        let until = now + self.random.below(most);
        self.set_fault(number, fault, true);
        self.say(|| format!("session {number}: {fault:?} until {:.3}", until as f64 / 1e9));
        self.faults.push((until, number, fault));
        self.totals.faults += 1;
        let session = &mut self.sessions[number];
        match fault {
            Fault::ControlStalls => {
                session.stalled.0 = session.stalled.0.max(until);
                session.control_at = session.control_at.max(until);
            }
            Fault::DrainStalls => {
                session.stalled.1 = session.stalled.1.max(until);
                session.drain_at = session.drain_at.map(|at| at.max(until));
            }
            _ => {}
        }
    }

    fn set_fault(&mut self, number: usize, fault: Fault, is_on: bool) {
        // A disk that is full, a quota that is used up, and a disk that breaks.
        let says = self.random.pick(&[0, libc::EDQUOT, libc::EIO]);
        self.totals.disk_errors += u64::from(says != 0 && is_on && fault == Fault::DiskFull);
        let session = &mut self.sessions[number];
        session.disk_was_bad |= matches!(fault, Fault::DiskFull | Fault::DiskWithoutDescriptors | Fault::DiskGone);
        match fault {
            Fault::ControlStalls | Fault::DrainStalls => {}
            Fault::DiskFull => session.disk.set_faults(|faults| (faults.is_full, faults.says) = (is_on, says)),
            Fault::DiskWithoutDescriptors => session.disk.set_faults(|faults| faults.no_descriptors = is_on),
            Fault::DiskGone => session.disk.set_faults(|faults| faults.is_gone = is_on),
            Fault::NoDescriptors => session.hall.lock().unwrap().no_descriptors = is_on,
            Fault::NoMemory => session.hall.lock().unwrap().no_memory = is_on,
        }
    }

    pub(super) fn end_faults(&mut self, now: u64) {
        let ended: Vec<(u64, usize, Fault)> = self.faults.iter().filter(|(at, ..)| *at <= now).copied().collect();
        self.faults.retain(|(at, ..)| *at > now);
        for (_, number, fault) in ended {
            if !self.faults.iter().any(|(_, session, other)| (*session, *other) == (number, fault)) {
                self.set_fault(number, fault, false);
            }
            self.sessions[number].poke_drain(now);
            self.heed(number);
        }
    }

    /// The session's owner asks something.
    pub(super) fn ask(&mut self) {
        let running: Vec<usize> =
            (0..self.sessions.len()).filter(|number| self.sessions[*number].asked.is_none()).collect();
        if running.is_empty() {
            return;
        }
        let number = self.random.pick(&running);
        let what = self.random.below(12);
        self.totals.verbs += 1;
        self.say(|| format!("session {number}: verb {what}"));
        let now = self.now();
        let (patterns, ring_bytes) =
            (vec![format!("sim:e{}", 1 + self.random.below(6))], self.random.pick(&[4096, 16 << 10, 64 << 10]));
        let (count, back) = (1 + self.random.below(100), self.random.below(20 * SECOND));
        let session = &mut self.sessions[number];
        let request = match what {
            0 | 1 => {
                let (reply, answer) = channel();
                session.replies.push(Box::new(answer));
                ToControl::Select { patterns, on: what == 0, reply }
            }
            2 if !session.traits.has_files => {
                let (reply, answer) = channel();
                session.replies.push(Box::new(answer));
                ToControl::RingBytes(ring_bytes, Some(reply))
            }
            4 | 5 => return session.mark(count),
            6 | 7 if session.traits.is_flight => {
                return session.ask_for_snapshot((what == 6).then(|| now.saturating_sub(back)), now);
            }
            8 if !session.traits.is_flight => rotation(session),
            9 => return session.ask_for_rings(now),
            10 => session.questions.kernel_event(),
            _ => {
                let (reply, answer) = channel();
                session.replies.push(Box::new(answer));
                ToControl::View(reply)
            }
        };
        let _ = session.to_control.send(request);
        session.hall.lock().unwrap().woken = true;
        self.heed(number);
    }
}

/// The trace goes on in another directory.
fn rotation(session: &mut Simulated) -> ToControl {
    session.chunks += 1;
    let (done, parts) = channel();
    let (reply, answer): (_, Receiver<_>) = channel();
    session.replies.push(Box::new((parts, answer)));
    let dir = session.chunk(session.chunks);
    let mut uuid = [session.number as u8 + 1; 16];
    uuid[15] = session.chunks as u8;
    ToControl::Rotate { job: RotateJob { dir, uuid, reply: done }, reply }
}
