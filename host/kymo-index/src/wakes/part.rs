// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wake-ups of a part of a trace [spec/index.md 5.4]: how many there are of each thread, and those with the longest
//! waits.

use std::cmp::{Ordering, Reverse};

use kymo_analyze::hash::Map;
use kymo_analyze::{Context, Doing, Doubt, Interrupt, Ready, ThreadSpan, Until, Waker};

/// A wake-up, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeArrow {
    /// When, ns.
    pub at: i64,
    /// When the woken thread runs, or until when it does not, ns.
    pub to: i64,
    /// Who wakes.
    pub waker: Waker,
    /// The woken thread.
    pub tid: i32,
    /// The CPU where it runs, if it does.
    pub cpu: Option<u32>,
    /// What is doubtful about the wait.
    pub doubt: Doubt,
}

/// The order of wake-ups: the longest wait first, of equal ones the earliest; of those in the order of the woken
/// thread, the waker's CPU, what that did, the CPU where it runs, and the doubts. Only what is the same has the same.
pub type WakeRank = (Reverse<u64>, i64, i32, u32, (u8, u64), Option<u32>, u8);

/// What a CPU was in the middle of, as something that has an order.
fn context_rank(context: Context) -> (u8, u64) {
    match context {
        Context::Unknown => (0, 0),
        Context::Idle => (1, 0),
        Context::Thread(tid) => (2, tid as u64),
        Context::Interrupt(interrupt) => match interrupt {
            Interrupt::Irq(number) => (3, number as u64),
            Interrupt::Softirq(number) => (4, number.into()),
            Interrupt::Vector(number) => (5, number.into()),
            Interrupt::Hrtimer(function) => (6, function),
            Interrupt::Timer(function) => (7, function),
            Interrupt::Hard => (8, 0),
            Interrupt::Soft => (9, 0),
        },
    }
}

impl WakeArrow {
    /// Of a stretch in which a woken thread waited for a CPU, where it came to its end.
    #[inline]
    pub fn of(span: &ThreadSpan) -> Option<WakeArrow> {
        let Doing::Runnable { why: Ready::Woken(waker) | Ready::New(waker), .. } = span.doing else { return None };
        let cpu = match span.until {
            Until::Runs { cpu } => Some(cpu),
            Until::End => None,
            // It goes on on another CPU.
            Until::Woken(_) | Until::Next => return None,
        };
        let doubt = span.doubt.without(Doubt::END);
        Some(WakeArrow { at: span.ready_from, to: span.to, waker, tid: span.tid, cpu, doubt })
    }

    /// How long the woken thread waits for a CPU, ns.
    #[inline]
    pub fn wait_ns(&self) -> u64 {
        self.to.abs_diff(self.at)
    }

    /// The thread that wakes; 0 for the idle one. `None`: an interrupt, or not known.
    #[inline]
    pub fn waker_tid(&self) -> Option<i32> {
        match self.waker.context {
            Context::Thread(tid) => Some(tid),
            Context::Idle => Some(0),
            _ => None,
        }
    }

    /// Whether one of these wakes, or is woken.
    pub fn is_of(&self, tids: &[i32]) -> bool {
        tids.contains(&self.tid) || self.waker_tid().is_some_and(|tid| tids.contains(&tid))
    }

    /// Its place in the order.
    pub fn rank(&self) -> WakeRank {
        let Waker { cpu, context } = self.waker;
        (Reverse(self.wait_ns()), self.at, self.tid, cpu, context_rank(context), self.cpu, self.doubt.bits())
    }

    /// By rank.
    #[inline]
    pub fn order(&self, other: &WakeArrow) -> Ordering {
        let waits = other.wait_ns().cmp(&self.wait_ns());
        waits.then_with(|| self.at.cmp(&other.at)).then_with(|| self.rank().cmp(&other.rank()))
    }
}

/// Wake-ups of one kind in a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeCount {
    /// How many there are.
    pub all: u64,
    /// So many are listed: those with the longest waits. The list may have more of them, but not without a gap.
    pub listed: u64,
}

impl WakeCount {
    /// Not all are listed.
    pub fn is_cut(&self) -> bool {
        self.listed < self.all
    }
}

/// What a thread has to do with wake-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakesOfThread {
    /// The thread.
    pub tid: i32,
    /// Those in which it is woken.
    pub woken: WakeCount,
    /// Those in which it wakes.
    pub waking: WakeCount,
    /// How many are both.
    pub own: u64,
}

/// The wake-ups that a part tells of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WakePart {
    /// Of all threads.
    pub all: WakeCount,
    /// By number.
    pub threads: Vec<WakesOfThread>,
    /// By [`WakeArrow::rank`]: what is listed of any thread, or of all.
    pub list: Vec<WakeArrow>,
}

impl WakePart {
    /// What is known of a thread.
    fn thread(&self, tid: i32) -> Option<&WakesOfThread> {
        self.threads.binary_search_by_key(&tid, |of| of.tid).ok().and_then(|at| self.threads.get(at))
    }

    /// How many there are of some threads, or of all. `None`: one may be of two of them.
    pub fn total(&self, tids: Option<&[i32]>) -> Option<u64> {
        match tids {
            None => Some(self.all.all),
            Some([]) => Some(0),
            Some([tid]) => {
                let all = |of: &WakesOfThread| of.woken.all.saturating_add(of.waking.all).saturating_sub(of.own);
                Some(self.thread(*tid).map_or(0, all))
            }
            Some(_) => None,
        }
    }

    /// Up to which rank all of some threads, or of all, are listed. `None`: all of them are. `Some(None)`: of none it
    /// is known.
    pub fn known_to(&self, tids: Option<&[i32]>) -> Option<Option<WakeRank>> {
        let rank = |listed: u64| {
            let last = usize::try_from(listed).ok().and_then(|listed| listed.checked_sub(1))?;
            self.list.get(last).map(WakeArrow::rank)
        };
        if !self.all.is_cut() {
            return None;
        }
        let of_all = rank(self.all.listed);
        let Some(tids) = tids else { return Some(of_all) };
        // What is left of each list that is cut.
        let mut left: Map<(i32, bool), u64> = Map::default();
        for of in tids.iter().filter_map(|tid| self.thread(*tid)) {
            for (count, wakes) in [(of.woken, false), (of.waking, true)] {
                if count.is_cut() {
                    left.insert((of.tid, wakes), count.listed);
                }
            }
        }
        if left.is_empty() {
            return None;
        }
        if left.values().any(|listed| *listed == 0) {
            return Some(of_all);
        }
        // The list that ends first.
        let mut is_end = |key: (i32, bool)| {
            left.get_mut(&key).is_some_and(|left| {
                *left -= 1;
                *left == 0
            })
        };
        let mut ends =
            |of: &&WakeArrow| is_end((of.tid, false)) | of.waker_tid().is_some_and(|tid| is_end((tid, true)));
        let first = self.list.iter().find(|of| ends(of)).map(WakeArrow::rank);
        Some(first.max(of_all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(at: i64, wait: i64, by: i32, tid: i32) -> WakeArrow {
        let waker = Waker { cpu: 1, context: Context::Thread(by) };
        WakeArrow { at, to: at + wait, waker, tid, cpu: Some(0), doubt: Doubt::NONE }
    }

    #[test]
    fn the_longest_wait_is_first_and_of_equal_ones_the_earliest() {
        let mut list = [wake(5, 10, 1, 2), wake(3, 10, 1, 2), wake(9, 20, 1, 2), wake(3, 10, 1, 1), wake(3, 10, 0, 1)];
        list.sort_by(WakeArrow::order);
        let found = list.map(|of| (of.at, of.wait_ns(), of.waker_tid(), of.tid));
        let expect =
            [(9, 20, Some(1), 2), (3, 10, Some(0), 1), (3, 10, Some(1), 1), (3, 10, Some(1), 2), (5, 10, Some(1), 2)];
        assert_eq!(found, expect);
        assert!(list.is_sorted_by_key(WakeArrow::rank));
    }

    #[test]
    fn a_part_is_known_to_the_end_of_the_list_that_ends_first() {
        let list: Vec<WakeArrow> = (0..6).map(|at| wake(at, 100 - at, 1 + at as i32 % 2, 5)).collect();
        let count = |all, listed| WakeCount { all, listed };
        let of = |tid, woken, waking| WakesOfThread { tid, woken, waking, own: 0 };
        let none = WakeCount::default();
        let threads = vec![of(1, none, count(9, 3)), of(2, none, count(3, 3)), of(5, count(12, 4), none)];
        let part = WakePart { all: count(12, 2), threads, list: list.clone() };
        let rank = |at: usize| Some(list.get(at).map(WakeArrow::rank));
        for (tids, expect) in [
            (None, rank(1)),
            (Some(&[1][..]), rank(4)),
            (Some(&[2]), None),
            (Some(&[5]), rank(3)),
            (Some(&[1, 5]), rank(3)),
            (Some(&[7]), None),
        ] {
            assert_eq!(part.known_to(tids), expect, "{tids:?}");
        }
        assert_eq!((part.total(Some(&[1])), part.total(Some(&[1, 2])), part.total(None)), (Some(9), None, Some(12)));
    }
}
