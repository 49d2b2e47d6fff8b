// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the wake-ups of parts of those that ended in them, on a thread of its own [spec/index.md 5.4].

use std::sync::mpsc::Sender;

use kymo_analyze::hash::Map;

use crate::wakes::bytes::{WAKE_THREADS_MAX, WAKES_MAX};
use crate::wakes::part::{WakeArrow, WakeCount, WakePart, WakeRank, WakesOfThread};

/// Parts of a level that are one of the next.
pub(crate) const WAKE_FAN_OUT: usize = 8;
/// Of all threads so many are listed.
const LISTED_OF_ALL: u64 = 2048;
/// Of each thread so many as woken, and as waker: the most with which a part has no more than it may have.
const LISTED_OF_EACH: [u64; 7] = [256, 128, 64, 32, 16, 8, 4];
/// By level: wake-ups of a part that are written, unless the least of each thread are more. Behind the last as there.
const WRITTEN: [usize; 4] = [1 << 12, 1 << 12, 1 << 14, 1 << 16];
/// Wake-ups of a part that are kept while parts become longer ones.
const KEPT: usize = 1 << 16;

/// Wake-ups of a part of a level, in the order of time.
pub(crate) struct MadeWakes {
    pub level: usize,
    /// `None`: there was too much.
    pub bytes: Option<Vec<u8>>,
}

/// Makes parts.
#[derive(Default)]
pub(crate) struct WakeMaker {
    /// By level: parts that are not one of the next yet.
    levels: Vec<Vec<Option<WakePart>>>,
}

impl WakeMaker {
    /// Takes what the next part of the lowest level tells of; `None`: too much.
    pub fn take(&mut self, list: Option<Vec<WakeArrow>>, done: &Sender<MadeWakes>) {
        let mut candidates = list.and_then(ListCandidates::of_list);
        for level in 0.. {
            let written = WRITTEN[level.min(WRITTEN.len() - 1)];
            let bytes = candidates.as_ref().and_then(|all| all.part(written)).map(|part| part.encode());
            if done.send(MadeWakes { level, bytes }).is_err() {
                return;
            }
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let parts = &mut self.levels[level];
            parts.push(candidates.and_then(|all| all.part(KEPT)));
            if parts.len() < WAKE_FAN_OUT {
                return;
            }
            let parts: Option<Vec<WakePart>> = std::mem::take(parts).into_iter().collect();
            candidates = parts.and_then(ListCandidates::of_parts);
        }
    }
}

impl WakeMaker {
    /// That of parts that follow each other.
    pub fn longer(parts: Vec<WakePart>) -> Option<WakePart> {
        ListCandidates::of_parts(parts).and_then(|all| all.part(KEPT))
    }
}

/// Wake-ups of one kind, of which some are to be listed.
#[derive(Clone, Copy, Default)]
struct OfKind {
    all: u64,
    /// Up to there all are known; `None`: all of them are.
    known_to: Option<WakeRank>,
    listed: u64,
    /// Where the last one is that was listed.
    last: usize,
    is_over: bool,
}

impl OfKind {
    /// Adds those of a part, which are known up to a rank.
    fn add(&mut self, count: &WakeCount, known_to: Option<WakeRank>) {
        self.all = self.all.saturating_add(count.all);
        if count.is_cut() {
            self.known_to = [self.known_to, known_to].into_iter().flatten().min();
            self.is_over |= known_to.is_none();
        }
    }

    /// Whether the next one is listed, which is at a position. `is_same`: as the one in front of it, which has the
    /// same rank, so that both are listed, or none.
    fn lists(&mut self, at: usize, arrow: &WakeArrow, is_same: bool, most: u64) -> bool {
        let is_known = self.known_to.is_none_or(|known_to| arrow.rank() <= known_to);
        let has_room = self.listed < most || is_same && self.last + 1 == at;
        self.is_over |= !(is_known && has_room);
        if self.is_over {
            return false;
        }
        (self.listed, self.last) = (self.listed + 1, at);
        true
    }

    fn count(&self) -> WakeCount {
        WakeCount { all: self.all, listed: self.listed }
    }
}

/// What a part may list.
struct ListCandidates {
    all: OfKind,
    /// By number of the thread, as woken and as waker; and how many are both.
    threads: Vec<(i32, [OfKind; 2], u64)>,
    /// By rank.
    list: Vec<WakeArrow>,
    /// Positions of the woken thread and of the waker, which may be none.
    places: Vec<(usize, Option<usize>)>,
}

/// Positions of threads.
#[derive(Default)]
struct Places {
    known: Map<i32, usize>,
    threads: Vec<(i32, [OfKind; 2], u64)>,
}

impl Places {
    fn of(&mut self, tid: i32) -> usize {
        let next = self.threads.len();
        let place = *self.known.entry(tid).or_insert(next);
        if place == next {
            self.threads.push((tid, Default::default(), 0));
        }
        place
    }
}

impl ListCandidates {
    /// Of all wake-ups of a part. `None`: of too many threads.
    fn of_list(mut list: Vec<WakeArrow>) -> Option<ListCandidates> {
        list.sort_unstable_by(WakeArrow::order);
        let mut places = Places::default();
        for arrow in &list {
            let woken = places.of(arrow.tid);
            places.threads[woken].1[0].all += 1;
            if let Some(tid) = arrow.waker_tid() {
                let waker = places.of(tid);
                places.threads[waker].1[1].all += 1;
                places.threads[waker].2 += u64::from(waker == woken);
            }
        }
        let all = OfKind { all: list.len() as u64, ..OfKind::default() };
        ListCandidates::new(all, places, list)
    }

    /// Of parts that follow each other.
    fn of_parts(parts: Vec<WakePart>) -> Option<ListCandidates> {
        let (mut all, mut places, mut list) = (OfKind::default(), Places::default(), Vec::new());
        for part in parts {
            let mut ends = Ends::of(&part);
            all.add(&part.all, ends.all);
            for of in &part.threads {
                let place = places.of(of.tid);
                let (_, [woken, waking], own) = &mut places.threads[place];
                woken.add(&of.woken, ends.lists.remove(&(of.tid, false)));
                waking.add(&of.waking, ends.lists.remove(&(of.tid, true)));
                *own = own.saturating_add(of.own);
            }
            list.extend(part.list);
        }
        list.sort_by(WakeArrow::order);
        ListCandidates::new(all, places, list)
    }

    fn new(all: OfKind, mut found: Places, list: Vec<WakeArrow>) -> Option<ListCandidates> {
        if found.threads.len() > WAKE_THREADS_MAX {
            return None;
        }
        found.threads.sort_unstable_by_key(|(tid, ..)| *tid);
        found.known.extend(found.threads.iter().enumerate().map(|(at, (tid, ..))| (*tid, at)));
        let places = list.iter().map(|arrow| {
            let waker = arrow.waker_tid().map(|tid| found.of(tid));
            (found.of(arrow.tid), waker)
        });
        let places = places.collect();
        Some(ListCandidates { all, threads: found.threads, list, places })
    }

    /// With so many at most, if that is possible. `None`: there are too many whatever is left out.
    fn part(&self, most: usize) -> Option<WakePart> {
        let parts = LISTED_OF_EACH.iter().map(|of_each| self.listed(LISTED_OF_ALL, *of_each));
        let mut last = None;
        for part in parts {
            let fits = part.list.len() <= most;
            last = Some(part);
            if fits {
                break;
            }
        }
        last.filter(|part| part.list.len() <= WAKES_MAX)
    }

    fn listed(&self, of_all: u64, of_each: u64) -> WakePart {
        let (mut all, mut threads, mut list) = (self.all, self.threads.clone(), Vec::new());
        let mut before = None;
        for (at, (arrow, (woken, waker))) in self.list.iter().zip(&self.places).enumerate() {
            let is_same = before == Some(arrow);
            before = Some(arrow);
            let mut is_listed = all.lists(at, arrow, is_same, of_all);
            is_listed |= threads[*woken].1[0].lists(at, arrow, is_same, of_each);
            if let Some(waker) = waker {
                is_listed |= threads[*waker].1[1].lists(at, arrow, is_same, of_each);
            }
            if is_listed {
                list.push(*arrow);
            }
        }
        let of_thread = |(tid, [woken, waking], own): &(i32, [OfKind; 2], u64)| WakesOfThread {
            tid: *tid,
            woken: woken.count(),
            waking: waking.count(),
            own: *own,
        };
        WakePart { all: all.count(), threads: threads.iter().map(of_thread).collect(), list }
    }
}

/// Up to where lists of a part that are cut have all.
struct Ends {
    all: Option<WakeRank>,
    lists: Map<(i32, bool), WakeRank>,
}

impl Ends {
    fn of(part: &WakePart) -> Ends {
        let last = part.all.listed.checked_sub(1).and_then(|last| part.list.get(last as usize));
        let mut left: Map<(i32, bool), u64> = Map::default();
        for of in &part.threads {
            let kinds = [(of.woken, false), (of.waking, true)];
            left.extend(
                kinds
                    .iter()
                    .filter(|(count, _)| count.is_cut())
                    .map(|(of_kind, wakes)| ((of.tid, *wakes), of_kind.listed)),
            );
        }
        let mut lists = Map::default();
        for arrow in &part.list {
            for key in [Some((arrow.tid, false)), arrow.waker_tid().map(|tid| (tid, true))].into_iter().flatten() {
                if let Some(left) = left.get_mut(&key).filter(|left| **left > 0) {
                    *left -= 1;
                    if *left == 0 {
                        lists.insert(key, arrow.rank());
                    }
                }
            }
        }
        Ends { all: last.map(WakeArrow::rank), lists }
    }
}

#[cfg(test)]
mod tests {
    use kymo_analyze::{Context, Doubt, Interrupt, Waker};
    use kymo_testing::Random;

    use super::*;

    /// Wake-ups of few threads, some of which are the same.
    fn some(random: &mut Random, count: u64) -> Vec<WakeArrow> {
        let arrow = |random: &mut Random| {
            let at = random.below(6 * count) as i64;
            let context = match random.below(8u32) {
                0 => Context::Idle,
                1 => Context::Unknown,
                2 => Context::Interrupt(Interrupt::Irq(random.below(2u32) as i32)),
                _ => Context::Thread(1 + random.below(4u32) as i32),
            };
            let waker = Waker { cpu: if random.below(9u32) == 0 { u32::MAX } else { random.below(2u32) }, context };
            let cpu = (random.below(9u32) > 0).then(|| random.below(2u32));
            let doubt = if random.below(5u32) == 0 { Doubt::LOST } else { Doubt::NONE };
            let tid = 1 + random.below(4u32) as i32;
            WakeArrow { at, to: at + random.below(5u32) as i64 * 100, waker, tid, cpu, doubt }
        };
        let mut all: Vec<WakeArrow> = (0..count).map(|_| arrow(random)).collect();
        let again = all.iter().copied().filter(|_| random.below(3u32) == 0).collect::<Vec<_>>();
        all.extend(again.iter().chain(&again));
        all
    }

    fn ranks(list: &[WakeArrow], of: impl Fn(&WakeArrow) -> bool) -> Vec<WakeRank> {
        let mut all: Vec<WakeRank> = list.iter().filter(|arrow| of(arrow)).map(WakeArrow::rank).collect();
        all.sort_unstable();
        all
    }

    /// What a part has is that of the wake-ups that it tells of.
    #[track_caller]
    fn is_of(part: &WakePart, list: &[WakeArrow]) {
        assert_eq!(WakePart::decode(&part.encode()).as_ref(), Some(part));
        for tids in [None, Some(&[1][..]), Some(&[4]), Some(&[0]), Some(&[9]), Some(&[1, 2]), Some(&[2, 3, 4])] {
            let is_wanted = |arrow: &WakeArrow| tids.is_none_or(|tids| arrow.is_of(tids));
            let all = ranks(list, is_wanted);
            assert!(part.total(tids).is_none_or(|total| total == all.len() as u64), "{tids:?}");
            let known_to = part.known_to(tids);
            let is_known = |rank: &WakeRank| known_to.is_none_or(|known_to| known_to.is_some_and(|to| *rank <= to));
            let [expect, found] = [all.clone(), ranks(&part.list, is_wanted)].map(|mut ranks| {
                ranks.retain(is_known);
                ranks
            });
            assert_eq!(found, expect, "{tids:?}");
            assert!(known_to.is_none() || !found.is_empty() || all.is_empty(), "{tids:?}: nothing is known");
        }
    }

    #[test]
    fn parts_list_the_longest_and_know_up_to_where() {
        let mut random = Random::new("wakes", 11);
        for round in 0..300 {
            let sizes = |random: &mut Random| (1 + random.below(20u64), 1 + random.below(6u64));
            let (mut lists, mut parts) = (Vec::new(), Vec::new());
            for _ in 0..1 + random.below(4u32) {
                let count = random.below(40u64);
                let list = some(&mut random, count);
                let (of_all, of_each) = sizes(&mut random);
                let part = ListCandidates::of_list(list.clone()).unwrap().listed(of_all, of_each);
                is_of(&part, &list);
                lists.extend(list);
                parts.push(part);
            }
            let (of_all, of_each) = sizes(&mut random);
            let longer = ListCandidates::of_parts(parts).unwrap().listed(of_all, of_each);
            is_of(&longer, &lists);
            // And that again with others.
            let list = some(&mut random, 30);
            let other = ListCandidates::of_list(list.clone()).unwrap().part(round).unwrap();
            lists.extend(list);
            is_of(&ListCandidates::of_parts(vec![longer, other]).unwrap().listed(of_all, of_each), &lists);
        }
    }

    #[test]
    fn a_part_has_no_more_than_it_may_have() {
        let mut random = Random::new("wakes", 12);
        let list = some(&mut random, 4000);
        let all = ListCandidates::of_list(list).unwrap();
        let [few, many] = [1000, 4000].map(|most| all.part(most).unwrap().list.len());
        assert!(few >= 1000 && many > few && many <= 4000, "{few} and {many}");
        let count = WAKE_THREADS_MAX as i32 + 1;
        let waker = Waker { cpu: 0, context: Context::Unknown };
        let of = |tid: i32| WakeArrow { at: 0, to: 1, waker, tid, cpu: None, doubt: Doubt::NONE };
        assert!(ListCandidates::of_list((0..count).map(of).collect()).is_none());
        assert!(ListCandidates::of_list((1..count).map(of).collect()).is_some());
    }

    #[test]
    fn bytes_of_anyone_are_no_part_or_one() {
        let mut random = Random::new("wakes", 13);
        for round in 0..3000u64 {
            let list = some(&mut random, round % 20);
            let mut bytes = ListCandidates::of_list(list).unwrap().listed(9, 2).encode();
            for _ in 0..1 + random.below(3u32) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8u32);
            }
            bytes.truncate(bytes.len() - random.below(2u64) as usize);
            crate::probe::piece(&[&[18][..], &bytes].concat());
        }
    }
}
