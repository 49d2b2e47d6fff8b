// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of latencies one by one as bytes, and back [spec/index.md 5.3]: with all that a list of the longest shows.

use std::cmp::Reverse;
use std::hash::Hash;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::{Context, Doubt, Sample, Waker};

use crate::file::bits::{BitPut, BitTake};
use crate::latencies::part::{LONGEST_MAX, LatencyPart, Listed, longest_of};
use crate::latencies::who::{Who, WhoTable, take_one, take_some};

/// Times lie within this of 1970, so that neither lengths nor columns leave the numbers.
pub(crate) const TIME_MAX: i64 = 1 << 62;
/// Of what a sample that is not plain has beside its length.
const ODD_ORDER: u32 = 8;

/// How a sample came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct How {
    cpu: Option<u32>,
    waker: Option<Waker>,
    owner: Option<i32>,
    doubt: u16,
}

impl How {
    fn of(sample: &Sample) -> How {
        How { cpu: sample.cpu, waker: sample.waker, owner: sample.owner, doubt: sample.doubt.sample_bits() }
    }

    fn put(&self, put: &mut Put) {
        put.option(self.cpu, |put, cpu| put.number(cpu.into()));
        put.option(self.waker, |put, waker| {
            put.number(waker.cpu.into());
            waker.context.put(put);
        });
        put.option(self.owner, |put, owner| put.signed(owner.into()));
        put.number(self.doubt.into());
    }

    fn take(take: &mut Take<'_>) -> Option<How> {
        let cpu = take.option(Take::small)?;
        let waker = take.option(|take| Some(Waker { cpu: take.small()?, context: Context::take(take)? }))?;
        let owner = take.option(|take| i32::try_from(take.signed()?).ok())?;
        Some(How { cpu, waker, owner, doubt: take.small()? })
    }
}

fn whole(who: Who, how: How, (from, to): (i64, i64), value_ns: u64, late_ns: u64) -> Option<Sample> {
    let near = -TIME_MAX..TIME_MAX;
    let Who { tid, process, prio, name } = who;
    let How { cpu, waker, owner, doubt } = how;
    let doubt = Doubt::from_sample_bits(doubt);
    let sample = Sample { value_ns, from, to, tid, process, name, prio, cpu, waker, owner, doubt, late_ns };
    (near.contains(&from) && near.contains(&to)).then_some(sample)
}

/// One sample; times are distances from `base`.
pub(crate) fn put_sample(put: &mut Put, base: i64, sample: &Sample, who: &mut WhoTable) {
    put.signed(sample.from.wrapping_sub(base));
    put.signed(sample.to.wrapping_sub(base));
    put.number(sample.value_ns);
    put.number(sample.late_ns);
    who.put(put, Who::of(sample));
    How::of(sample).put(put);
}

/// The same again.
pub(crate) fn take_sample(take: &mut Take<'_>, base: i64, who: &[Who]) -> Option<Sample> {
    let (from, to) = (base.checked_add(take.signed()?)?, base.checked_add(take.signed()?)?);
    let (value_ns, late_ns) = (take.number()?, take.number()?);
    let who = take_one(take, who)?;
    whole(who, How::take(take)?, (from, to), value_ns, late_ns)
}

/// Bits of the position in a list of so many.
fn width(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// What the samples of a piece have in common, each once.
struct Words {
    who: Vec<Who>,
    how: Vec<How>,
    /// Where they are, by what they are.
    who_places: Map<Who, u64>,
    how_places: Map<How, u64>,
}

/// Puts something into a list, if it is not there yet.
fn place<T: Copy + Eq + Hash>(list: &mut Vec<T>, places: &mut Map<T, u64>, own: T) {
    places.entry(own).or_insert_with(|| {
        list.push(own);
        list.len() as u64 - 1
    });
}

impl Words {
    /// Those of some samples, which are put.
    fn put<'s>(put: &mut Put, samples: impl Iterator<Item = &'s Sample>, table: &mut WhoTable) -> Words {
        let (mut who, mut how) = (Vec::new(), Vec::new());
        let (mut who_places, mut how_places) = (Map::default(), Map::default());
        for sample in samples {
            place(&mut who, &mut who_places, Who::of(sample));
            place(&mut how, &mut how_places, How::of(sample));
        }
        let who = table.put_some(put, who.into_iter());
        for (at, who) in who.iter().enumerate() {
            who_places.insert(*who, at as u64);
        }
        put.number(how.len() as u64);
        how.iter().for_each(|how| how.put(put));
        Words { who, how, who_places, how_places }
    }

    fn take(take: &mut Take<'_>, table: &[Who]) -> Option<Words> {
        let who = take_some(take, table)?;
        let count = take.count()?;
        let how = (0..count).map(|_| How::take(take)).collect::<Option<_>>()?;
        Some(Words { who, how, who_places: Map::default(), how_places: Map::default() })
    }

    /// Some samples, in the order in which they ended.
    fn put_list(&self, bits: &mut BitPut, base: i64, list: &[Sample]) {
        let (first, last) = (list.first().map_or(0, |of| of.to), list.last().map_or(0, |of| of.to));
        let least = list.iter().map(|of| of.value_ns).min().unwrap_or(0);
        let above = list.iter().fold(0u64, |sum, of| sum.saturating_add(of.value_ns - least));
        bits.number(least, ODD_ORDER);
        bits.signed(first.wrapping_sub(base), ODD_ORDER);
        let (time_order, order) = (bits.order(last.abs_diff(first), list.len()), bits.order(above, list.len()));
        let mut before = first;
        for sample in list {
            bits.number(sample.to.abs_diff(before), time_order);
            before = sample.to;
            bits.number(sample.value_ns - least, order);
            let length = sample.to.wrapping_sub(sample.from);
            let odd = length.wrapping_sub(sample.value_ns as i64);
            let is_odd = odd != 0 || sample.late_ns != 0;
            bits.bits(is_odd.into(), 1);
            if is_odd {
                bits.signed(odd, ODD_ORDER);
                bits.number(sample.late_ns, ODD_ORDER);
            }
            let who = self.who_places.get(&Who::of(sample)).copied().unwrap_or_default();
            bits.bits(who, width(self.who.len()));
            let how = self.how_places.get(&How::of(sample)).copied().unwrap_or_default();
            bits.bits(how, width(self.how.len()));
        }
    }

    fn take_list(&self, bits: &mut BitTake<'_>, base: i64, count: usize) -> Option<Vec<Sample>> {
        let mut list = Vec::with_capacity(count);
        let least = bits.number(ODD_ORDER)?;
        let mut to = base.checked_add(bits.signed(ODD_ORDER)?)?;
        let (time_order, order) = (bits.order()?, bits.order()?);
        for _ in 0..count {
            to = to.checked_add_unsigned(bits.number(time_order)?)?;
            let value_ns = least.checked_add(bits.number(order)?)?;
            let is_odd = bits.bits(1)? == 1;
            let (odd, late_ns) = match is_odd {
                true => (bits.signed(ODD_ORDER)?, bits.number(ODD_ORDER)?),
                false => (0, 0),
            };
            let from = to.checked_sub(odd)?.checked_sub_unsigned(value_ns)?;
            let who = *self.who.get(bits.bits(width(self.who.len()))? as usize)?;
            let how = *self.how.get(bits.bits(width(self.how.len()))? as usize)?;
            list.push(whole(who, how, (from, to), value_ns, late_ns)?);
        }
        Some(list)
    }
}

impl LatencyPart {
    /// The longest: of each series as many as `listed` says.
    pub(crate) fn encode_longest(&self, listed: Listed, who: &mut WhoTable) -> Vec<u8> {
        let least_ns = self.least_of_all(listed.of_all);
        let kept = self.series.iter().map(|of| {
            let among_all = of.longest.partition_point(|sample| least_ns.is_some_and(|least| sample.value_ns >= least));
            longest_of(&of.longest, among_all.max(listed.of_series))
        });
        let (mut put, mut bits) = (Put::default(), BitPut::default());
        put.signed(self.from);
        let words = Words::put(&mut put, kept.clone().flatten(), who);
        for (of, kept) in self.series.iter().zip(kept) {
            let is_cut = of.is_cut || kept.len() < of.longest.len();
            put.number((kept.len() as u64) << 1 | u64::from(is_cut));
            let mut list = kept.to_vec();
            list.sort_by_key(|sample| sample.to);
            if !list.is_empty() {
                words.put_list(&mut bits, self.from, &list);
            }
        }
        bits.finish(&mut put.0);
        put.0
    }

    /// How long the shortest is of so many that are the longest of all series.
    fn least_of_all(&self, count: usize) -> Option<u64> {
        let mut all: Vec<u64> = self.series.iter().flat_map(|of| &of.longest).map(|sample| sample.value_ns).collect();
        let last = count.min(all.len()).checked_sub(1)?;
        Some(*all.select_nth_unstable_by_key(last, |ns| Reverse(*ns)).1)
    }

    /// Takes the longest of its series.
    pub(crate) fn decode_longest(&mut self, bytes: &[u8], who: &[Who]) -> Option<()> {
        let mut take = Take(bytes);
        let base = take.signed().filter(|base| *base == self.from)?;
        let words = Words::take(&mut take, who)?;
        let counts: Vec<u64> = self.series.iter().map(|_| take.number()).collect::<Option<_>>()?;
        let mut bits = BitTake::new(take.0);
        for (of, count) in self.series.iter_mut().zip(counts) {
            of.is_cut = count & 1 == 1;
            let count = usize::try_from(count >> 1).ok().filter(|count| *count <= LONGEST_MAX)?;
            if count > 0 {
                of.longest = words.take_list(&mut bits, base, count)?;
                of.longest.sort_by_key(Sample::rank);
            }
        }
        bits.is_at_end().then_some(())
    }
}
