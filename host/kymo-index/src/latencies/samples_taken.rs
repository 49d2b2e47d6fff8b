// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of latencies of a part, on their way to who makes parts [spec/index.md 5.3]: of each what sums need, and
//! of the longest all.

use std::collections::BTreeSet;

use kymo_analyze::hash::Map;
use kymo_analyze::{Begun, Doubt, Interrupt, Of, Recorders, Request, Sample, SampleGroup, TakeSamples};

use crate::latencies::bytes::SERIES_MAX;
use crate::latencies::maker::{EndedSamples, LongestOf, Token};
use crate::latencies::part::{LISTED_MAX, LONGEST_MAX, PastSample, Rank};
use crate::latencies::samples::TIME_MAX;

/// Series that are found without a map, by the lowest bits of what they are of.
const NEAR: usize = 64;

/// The longest samples of a series.
#[derive(Default)]
struct Longest {
    list: Vec<Sample>,
    /// Only samples before it are kept.
    before: Option<Rank>,
}

impl Longest {
    #[inline]
    fn take(&mut self, sample: &Sample) {
        if self.before.is_some_and(|before| sample.value_ns <= before.0.0 && sample.rank() >= before) {
            return;
        }
        self.list.push(*sample);
        if self.list.len() >= 2 * LONGEST_MAX {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.list.len() > LONGEST_MAX {
            let before = self.list.select_nth_unstable_by_key(LONGEST_MAX, Sample::rank).1.rank();
            self.list.retain(|sample| sample.rank() < before);
            self.before = Some(before);
        }
    }
}

/// Numbers of series.
struct Numbers {
    known: Map<(SampleGroup, Of), u32>,
    near: Vec<Option<(SampleGroup, Of, u32)>>,
}

impl Numbers {
    /// Where a series may be near.
    #[inline]
    fn place(group: SampleGroup, of: &Of) -> usize {
        let low = match *of {
            Of::Interrupt(Interrupt::Irq(number), _) => number as u64,
            Of::Interrupt(Interrupt::Vector(number) | Interrupt::Softirq(number), _) => number.into(),
            Of::Function(function) => function >> 4,
            Of::Call(call) => call.0.into(),
            Of::Device(device) => device,
            Of::Span(number) => number.into(),
            _ => 0,
        };
        (low.wrapping_mul(5) ^ group as u64) as usize % NEAR
    }
}

/// The samples of the part that is being read.
pub(crate) struct SamplesTaken {
    recorders: Recorders,
    numbers: Numbers,
    /// By number of the series.
    longest: Vec<Longest>,
    pub part: EndedSamples,
    /// Requests that began in the part and are not over.
    begun: BTreeSet<Request>,
    /// Nothing can be made of the trace.
    pub is_over: bool,
}

impl SamplesTaken {
    /// Those of recorders themselves do not count.
    pub fn new(recorders: Recorders) -> SamplesTaken {
        let numbers = Numbers { known: Map::default(), near: vec![None; NEAR] };
        let part = EndedSamples::default();
        SamplesTaken { recorders, numbers, longest: Vec::new(), part, begun: BTreeSet::new(), is_over: false }
    }

    /// The part is over. `request`: what is known of one that is not.
    pub fn take_part(&mut self, mut request: impl FnMut(&Request) -> Option<Begun>) -> EndedSamples {
        // The next part has about as many.
        let tokens = Vec::with_capacity(self.part.tokens.len() / 8 * 9);
        let next = EndedSamples { tokens, ..EndedSamples::default() };
        let mut part = std::mem::replace(&mut self.part, next);
        for (number, longest) in self.longest.iter_mut().enumerate() {
            let mut longest = std::mem::take(longest);
            longest.cut();
            if longest.list.is_empty() && longest.before.is_none() {
                continue;
            }
            let (series, is_cut) = (number as u32, longest.before.is_some());
            part.longest.push(LongestOf { series, list: longest.list, is_cut });
        }
        for of in std::mem::take(&mut self.begun) {
            part.begun.extend(request(&of).map(|begun| (of, begun)));
        }
        part
    }

    #[inline]
    fn number(&mut self, group: SampleGroup, of: Of) -> Option<u32> {
        let place = Numbers::place(group, &of);
        if let Some((_, _, number)) = self.numbers.near[place].filter(|near| (near.0, near.1) == (group, of)) {
            return Some(number);
        }
        let next = self.longest.len();
        let number = match self.numbers.known.get(&(group, of)) {
            Some(number) => *number,
            None if next >= SERIES_MAX => {
                self.is_over = true;
                return None;
            }
            None => {
                self.numbers.known.insert((group, of), next as u32);
                self.longest.push(Longest::default());
                self.part.new.push((group, of));
                next as u32
            }
        };
        self.numbers.near[place] = Some((group, of, number));
        Some(number)
    }

    /// What was before decides about it: it is kept as it is.
    #[cold]
    fn past(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        let is_lost = sample.doubt.has(Doubt::LOST);
        let in_part = Doubt::LOST.when(self.part.lost_to.is_some_and(|to| sample.from < to));
        let sample = Sample { doubt: sample.doubt.without(Doubt::LOST) | in_part, ..*sample };
        match self.part.past.len() < LISTED_MAX {
            true => self.part.past.push(PastSample { group, of, sample, is_lost }),
            false => self.part.is_over = true,
        }
    }
}

impl TakeSamples for SamplesTaken {
    #[inline]
    fn sample(&mut self, group: SampleGroup, of: Of, sample: &Sample) {
        let is_of_kymo = self.recorders.is_kymo;
        if is_of_kymo && group.is_of_thread() && self.recorders.own(sample.tid, sample.process, sample.name.as_str()) {
            return;
        }
        if sample.from < -TIME_MAX || sample.to >= TIME_MAX || sample.from >= TIME_MAX || sample.to < -TIME_MAX {
            self.part.is_over = true;
            return;
        }
        if group.is_of_past() && self.part.from.is_none_or(|from| sample.from <= from) {
            return self.past(group, of, sample);
        }
        let Some(series) = self.number(group, of) else { return };
        let (is_doubtful, is_idle) = (!sample.doubt.is_none(), sample.doubt.has(Doubt::IDLE));
        self.part.tokens.push(Token { value_ns: sample.value_ns, to: sample.to, series, is_doubtful, is_idle });
        if let Some(longest) = self.longest.get_mut(series as usize).filter(|_| !is_idle) {
            longest.take(sample);
        }
    }

    fn begun(&mut self, request: &Request) {
        self.begun.insert(*request);
    }

    fn ended(&mut self, request: &Request) {
        if self.begun.remove(request) {
            return;
        }
        match self.part.ended.len() < LISTED_MAX {
            true => self.part.ended.push(*request),
            false => self.part.is_over = true,
        }
    }
}
