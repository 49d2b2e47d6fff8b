// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wake-ups of a part as bytes, and back [spec/index.md 5.4].

use std::hash::Hash;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::{Context, Doubt, Waker};

use crate::file::bits::{BitPut, BitTake, width};
use crate::latencies::samples::TIME_MAX;
use crate::wakes::part::{WakeArrow, WakeCount, WakePart, WakesOfThread};

/// Wake-ups that a part lists at most.
pub(crate) const WAKES_MAX: usize = 1 << 18;
/// Threads of a part at most.
pub(crate) const WAKE_THREADS_MAX: usize = 1 << 16;
/// Of single numbers.
const SINGLE_ORDER: u32 = 12;
/// Of how many are listed.
const LISTED_ORDER: u32 = 4;
/// Orders that are tried.
const ORDERS: u32 = 40;
/// Bits of the length of a time.
const WIDTH_BITS: u32 = 7;

/// What recurs, each once, in the order in which it came.
struct Recurring<T> {
    list: Vec<T>,
    places: Map<T, u64>,
}

impl<T: Copy + Eq + Hash> Recurring<T> {
    fn of(all: impl Iterator<Item = T>) -> Recurring<T> {
        let (mut list, mut places) = (Vec::new(), Map::default());
        for one in all {
            places.entry(one).or_insert_with(|| {
                list.push(one);
                list.len() as u64 - 1
            });
        }
        Recurring { list, places }
    }

    fn put(&self, bits: &mut BitPut, one: &T) {
        let place = self.places.get(one).copied().unwrap_or_default();
        bits.bits(place, place_width(self.list.len()));
    }
}

/// What recurs in wake-ups.
struct RecurringOfWakes {
    wakers: Recurring<Context>,
    cpus: Recurring<u32>,
    runs: Recurring<Option<u32>>,
    doubts: Recurring<u8>,
}

/// Bits of a position in a list of so many.
fn place_width(count: usize) -> u32 {
    width(count.saturating_sub(1) as u64)
}

fn take_place<T: Copy>(bits: &mut BitTake<'_>, of: &[T]) -> Option<T> {
    of.get(usize::try_from(bits.bits(place_width(of.len()))?).ok()?).copied()
}

/// The order in which some numbers take the fewest bits.
fn put_order(bits: &mut BitPut, values: impl Iterator<Item = u64> + Clone) -> u32 {
    let cost = |order: u32| {
        let bits = |value: u64| u64::from(order + 2 * (value >> order).saturating_add(1).ilog2());
        values.clone().map(bits).fold(0, u64::saturating_add)
    };
    // Beyond the best one, each step takes a bit more of nearly all of them.
    let mut best = (cost(0), 0);
    for order in 1..ORDERS {
        let next = (cost(order), order);
        if next.0 > best.0 {
            break;
        }
        best = next;
    }
    bits.bits(best.1.into(), 6);
    best.1
}

fn put_count(bits: &mut BitPut, count: &WakeCount, order: u32) {
    bits.number(count.all, order);
    bits.flag(count.is_cut());
    if count.is_cut() {
        bits.number(count.listed, LISTED_ORDER);
    }
}

fn take_count(bits: &mut BitTake<'_>, order: u32, most: usize) -> Option<WakeCount> {
    let all = bits.number(order)?;
    let listed = if bits.flag()? { bits.number(LISTED_ORDER).filter(|listed| *listed < all)? } else { all };
    (listed <= most as u64).then_some(WakeCount { all, listed })
}

impl WakePart {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let list = &self.list;
        let wakers = Recurring::of(list.iter().map(|of| of.waker.context));
        let cpus = Recurring::of(list.iter().map(|of| of.waker.cpu));
        let runs = Recurring::of(list.iter().map(|of| of.cpu));
        let doubts = Recurring::of(list.iter().map(|of| of.doubt.bits()));
        let (mut put, mut bits) = (Put::default(), BitPut::default());
        put.number(wakers.list.len() as u64);
        wakers.list.iter().for_each(|context| context.put(&mut put));
        put.number(cpus.list.len() as u64);
        cpus.list.iter().for_each(|cpu| put.number((*cpu).into()));
        put.number(runs.list.len() as u64);
        runs.list.iter().for_each(|cpu| put.option(*cpu, |put, cpu| put.number(cpu.into())));
        put.number(doubts.list.len() as u64);
        doubts.list.iter().for_each(|doubt| put.byte(*doubt));
        bits.number(self.threads.len() as u64, SINGLE_ORDER);
        bits.number(list.len() as u64, SINGLE_ORDER);
        put_count(&mut bits, &self.all, SINGLE_ORDER);
        self.put_threads(&mut bits);
        self.put_list(&mut bits, &RecurringOfWakes { wakers, cpus, runs, doubts });
        bits.finish(&mut put.0);
        put.0
    }

    fn put_threads(&self, bits: &mut BitPut) {
        let counts = self.threads.iter().flat_map(|of| [of.woken.all, of.waking.all]);
        let order = put_order(bits, counts);
        let mut before = 0;
        for of in &self.threads {
            bits.signed(i64::from(of.tid).wrapping_sub(before), 2);
            before = of.tid.into();
            put_count(bits, &of.woken, order);
            put_count(bits, &of.waking, order);
            bits.number(of.own, 0);
        }
    }

    fn put_list(&self, bits: &mut BitPut, recurring: &RecurringOfWakes) {
        let list = &self.list;
        let (Some(first), Some(newest)) = (list.iter().map(|of| of.at).min(), list.iter().map(|of| of.at).max()) else {
            return;
        };
        let longest = list.first().map_or(0, WakeArrow::wait_ns);
        bits.signed(first, SINGLE_ORDER);
        bits.number(longest, SINGLE_ORDER);
        let time_width = width(newest.abs_diff(first));
        bits.bits(time_width.into(), WIDTH_BITS);
        let shorter = list.windows(2).map(|pair| pair[0].wait_ns() - pair[1].wait_ns());
        let order = put_order(bits, shorter);
        let mut before = longest;
        for of in list {
            bits.number(before - of.wait_ns(), order);
            before = of.wait_ns();
            bits.bits(of.at.abs_diff(first), time_width);
            let woken = self.threads.binary_search_by_key(&of.tid, |thread| thread.tid).unwrap_or_default();
            bits.bits(woken as u64, place_width(self.threads.len()));
            recurring.wakers.put(bits, &of.waker.context);
            recurring.cpus.put(bits, &of.waker.cpu);
            recurring.runs.put(bits, &of.cpu);
            recurring.doubts.put(bits, &of.doubt.bits());
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<WakePart> {
        WakePart::take(bytes, false)
    }

    /// The list ends where it has no longer all of all threads.
    pub(crate) fn decode_of_all(bytes: &[u8]) -> Option<WakePart> {
        WakePart::take(bytes, true)
    }

    fn take(bytes: &[u8], is_of_all: bool) -> Option<WakePart> {
        let mut take = Take(bytes);
        let count = take.count()?;
        let wakers = (0..count).map(|_| Context::take(&mut take)).collect::<Option<Vec<_>>>()?;
        let count = take.count()?;
        let cpus = (0..count).map(|_| take.small()).collect::<Option<Vec<u32>>>()?;
        let count = take.count()?;
        let runs = (0..count).map(|_| take.option(Take::small)).collect::<Option<Vec<Option<u32>>>>()?;
        let count = take.count()?;
        let doubts = (0..count).map(|_| take.byte().map(Doubt::from_bits)).collect::<Option<Vec<_>>>()?;
        let mut bits = BitTake::new(take.0);
        let threads = bits.count(SINGLE_ORDER).filter(|count| *count <= WAKE_THREADS_MAX)?;
        let listed = bits.count(SINGLE_ORDER).filter(|count| *count <= WAKES_MAX)?;
        let all = take_count(&mut bits, SINGLE_ORDER, listed)?;
        let threads = take_threads(&mut bits, threads, listed)?;
        let mut list = Vec::new();
        if listed > 0 {
            let mut at = bits.signed(SINGLE_ORDER)?;
            at = Some(at).filter(|at| (-TIME_MAX..TIME_MAX).contains(at))?;
            let mut wait = bits.number(SINGLE_ORDER)?;
            let time_width = bits.bits(WIDTH_BITS).filter(|width| *width <= 64)? as u32;
            let order = bits.bits(6)? as u32;
            let tids: Vec<i32> = threads.iter().map(|of| of.tid).collect();
            let count = if is_of_all { all.listed as usize } else { listed };
            // Each has a bit at least.
            list.reserve(count);
            for _ in 0..count {
                wait = wait.checked_sub(bits.number(order)?)?;
                let at = at.checked_add_unsigned(bits.bits(time_width)?)?;
                let to = at.checked_add_unsigned(wait).filter(|to| *to < TIME_MAX)?;
                let tid = take_place(&mut bits, &tids)?;
                let context = take_place(&mut bits, &wakers)?;
                let waker = Waker { cpu: take_place(&mut bits, &cpus)?, context };
                let (cpu, doubt) = (take_place(&mut bits, &runs)?, take_place(&mut bits, &doubts)?);
                list.push(WakeArrow { at, to, waker, tid, cpu, doubt });
            }
        }
        let is_sorted = list.is_sorted_by(|a, b| a.order(b).is_le());
        ((is_of_all || bits.is_at_end()) && is_sorted).then_some(WakePart { all, threads, list })
    }
}

fn take_threads(bits: &mut BitTake<'_>, count: usize, listed: usize) -> Option<Vec<WakesOfThread>> {
    let order = bits.bits(6)? as u32;
    let (mut threads, mut before) = (Vec::<WakesOfThread>::with_capacity(count), 0i64);
    for _ in 0..count {
        before = before.checked_add(bits.signed(2)?)?;
        let tid = i32::try_from(before).ok()?;
        if threads.last().is_some_and(|last| last.tid >= tid) {
            return None;
        }
        let (woken, waking) = (take_count(bits, order, listed)?, take_count(bits, order, listed)?);
        threads.push(WakesOfThread { tid, woken, waking, own: bits.number(0)? });
    }
    Some(threads)
}
