// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search for the highest rate without loss: doubling, bisection, confirmation. What a trial is, is for others.

/// Share of the asked rate that must have been written for a trial to count.
const REACHED: f64 = 0.9;
/// Writers that cannot reach a first rate, nor this part of it, have no CPU at all.
const FIRST_LOWERED: f64 = 1.0 / 1024.0;
/// Trials after which a search gives up.
const TRIALS_MAX: usize = 200;
/// Trials at one rate, one after the other, in which the writers got too little CPU: then no rate says anything.
const STARVED_MAX: usize = 3;
/// A rate that was not confirmed is followed by this part of it.
const STEP_DOWN: f64 = 0.85;

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All was written and nothing lost.
    Lossless,
    /// Something was lost.
    Lossy,
    /// The writers could not write so fast.
    Short,
    /// The writers could not write so fast, because others had the CPU.
    Starved,
}

/// Between what the search moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// First rate, records a second.
    pub(super) first: f64,
    /// No higher rate is asked for.
    pub(super) max: f64,
    /// Two rates are one where they differ by no more than this part.
    pub(super) precision: f64,
    /// Trials without loss that confirm a rate.
    pub(super) confirm: u32,
}

/// What bounds the rate above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Records were lost above.
    Loss,
    /// The writers came to their end before any loss.
    Writers,
    /// No more was asked for.
    Max,
    /// Others have the CPUs of the writers: nothing can be found.
    Busy,
    /// Too many trials: rates come and go on this machine.
    GaveUp,
}

/// The interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateInterval {
    /// Highest rate that was without loss in all trials that confirm.
    pub(super) lossless: Option<f64>,
    /// Lowest rate with loss.
    pub(super) lossy: Option<f64>,
    pub(super) end: End,
}

/// Whether so much of the asked rate was written that the trial counts. `cpu`: the share of their time in which the
/// writers, which never sleep, had a CPU; `None` if it is not known.
pub(super) fn verdict(asked: f64, written: f64, lost: u64, cpu: Option<f64>) -> Verdict {
    match (lost, written >= asked * REACHED) {
        (1.., _) => Verdict::Lossy,
        (0, true) => Verdict::Lossless,
        (0, false) if cpu.is_some_and(|share| share < REACHED) => Verdict::Starved,
        (0, false) => Verdict::Short,
    }
}

/// The trials of a search.
struct Trials<'b, F> {
    bounds: &'b Bounds,
    trial: F,
    /// That may still be run.
    left: usize,
    /// Lowest rate with loss.
    lossy: Option<f64>,
}

/// What a search knows: the highest rate that was good, the lowest that was not, and why the latter was not.
struct Limits {
    good: Option<f64>,
    bad: Option<f64>,
    end: End,
}

impl Limits {
    /// Whether nothing more can be found out.
    fn is_over(&self) -> bool {
        matches!(self.end, End::GaveUp | End::Busy)
    }
}

impl<E, F: FnMut(f64) -> Result<Verdict, E>> Trials<'_, F> {
    /// A trial that counts. Others may be busy for a moment: one without CPU is repeated. `None`: there were too many.
    fn counted(&mut self, rate: f64) -> Result<Option<Verdict>, E> {
        let mut starved = 0;
        loop {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                return Ok(None);
            }
            let verdict = (self.trial)(rate)?;
            if verdict == Verdict::Lossy {
                self.lossy = Some(self.lossy.map_or(rate, |lowest: f64| lowest.min(rate)));
            }
            starved += 1;
            if verdict != Verdict::Starved || starved == STARVED_MAX {
                return Ok(Some(verdict));
            }
        }
    }

    /// Doubling; where the first rate already loses something, or is not reached, halving.
    fn bracket(&mut self) -> Result<Limits, E> {
        let bounds = self.bounds;
        let mut limits = Limits { good: None, bad: None, end: End::Max };
        let mut rate = bounds.first.min(bounds.max);
        while limits.good.is_none() || limits.bad.is_none() {
            match self.counted(rate)? {
                None => limits.end = End::GaveUp,
                Some(Verdict::Starved) => limits.end = End::Busy,
                Some(Verdict::Lossless) => limits.good = Some(rate),
                Some(Verdict::Lossy) => (limits.bad, limits.end) = (Some(rate), End::Loss),
                Some(Verdict::Short) => (limits.bad, limits.end) = (Some(rate), End::Writers),
            }
            if limits.is_over() {
                break;
            }
            match (limits.good, limits.bad) {
                (Some(good), None) if good < bounds.max => rate = (good * 2.0).min(bounds.max),
                (None, Some(bad)) if bad > 2.0 && (limits.end == End::Loss || bad > bounds.first * FIRST_LOWERED) => {
                    rate = bad / 2.0;
                }
                _ => break,
            }
        }
        Ok(limits)
    }

    /// Bisection, and then as many trials of the same rate as are to confirm it.
    fn bisect(&mut self, limits: &mut Limits) -> Result<(), E> {
        let bounds = self.bounds;
        let mut confirmed = 0;
        while let Some(low) = limits.good.filter(|_| !limits.is_over()) {
            let apart = limits.bad.is_some_and(|bad| bad / low > 1.0 + bounds.precision);
            if !apart && confirmed >= bounds.confirm {
                break;
            }
            let next = if apart { (low * limits.bad.unwrap_or(low)).sqrt() } else { low };
            match (self.counted(next)?, apart) {
                (None, _) => (limits.good, limits.end) = (None, End::GaveUp),
                (Some(Verdict::Starved), _) => (limits.good, limits.end) = (None, End::Busy),
                (Some(Verdict::Lossless), true) => limits.good = Some(next),
                (Some(Verdict::Lossless), false) => confirmed += 1,
                (Some(found), _) => {
                    limits.end = if found == Verdict::Lossy { End::Loss } else { End::Writers };
                    limits.bad = Some(next);
                    confirmed = 0;
                    if !apart {
                        // Not confirmed: lower, and no bisection back to where it failed.
                        limits.good = Some(low * STEP_DOWN).filter(|rate| *rate >= 1.0);
                        limits.bad = limits.good.map(|rate| rate * (1.0 + bounds.precision / 2.0));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Searches with `trial`, which runs at a rate.
///
/// # Errors
/// Those of `trial`.
pub(super) fn search<E>(bounds: &Bounds, trial: impl FnMut(f64) -> Result<Verdict, E>) -> Result<RateInterval, E> {
    let mut trials = Trials { bounds, trial, left: TRIALS_MAX, lossy: None };
    let mut limits = trials.bracket()?;
    if limits.is_over() {
        return Ok(RateInterval { lossless: None, lossy: trials.lossy, end: limits.end });
    }
    trials.bisect(&mut limits)?;
    Ok(RateInterval { lossless: limits.good, lossy: trials.lossy, end: limits.end })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { first: 1000.0, max: 1e9, precision: 0.05, confirm: 5 };

    fn found(bounds: &Bounds, of: impl Fn(usize, f64) -> Verdict) -> RateInterval {
        let mut trials = 0;
        search(bounds, |rate| {
            trials += 1;
            Ok::<_, ()>(of(trials, rate))
        })
        .unwrap()
    }

    #[test]
    fn a_sharp_edge_is_found_within_the_precision() {
        for edge in [3.0, 700.0, 123_456.0, 4e7] {
            let is = |rate| if rate < edge { Verdict::Lossless } else { Verdict::Lossy };
            let found = found(&BOUNDS, |_, rate| is(rate));
            let (low, high) = (found.lossless.unwrap(), found.lossy.unwrap());
            assert!(low < edge && edge <= high && high / low <= 1.06, "{edge}: {low} {high}");
            assert_eq!(found.end, End::Loss);
        }
    }

    #[test]
    fn writers_and_the_highest_rate_end_it_too() {
        let short = found(&BOUNDS, |_, rate| if rate < 5e5 { Verdict::Lossless } else { Verdict::Short });
        assert_eq!((short.end, short.lossy), (End::Writers, None));
        assert!(short.lossless.unwrap() > 4.7e5);
        let all = found(&Bounds { max: 64_000.0, ..BOUNDS }, |_, _| Verdict::Lossless);
        assert_eq!(all, RateInterval { lossless: Some(64_000.0), lossy: None, end: End::Max });
        assert_eq!(found(&BOUNDS, |_, _| Verdict::Lossy).lossless, None);
        // A first rate that is too high for the writers is lowered; no CPU for them at all has an end.
        let slow = found(&BOUNDS, |_, rate| if rate < 77.0 { Verdict::Lossless } else { Verdict::Short });
        assert!(slow.lossless.is_some_and(|rate| (73.0..77.0).contains(&rate)) && slow.end == End::Writers, "{slow:?}");
        let none = found(&BOUNDS, |trial, _| if trial > 12 { panic!("asked again") } else { Verdict::Short });
        assert_eq!(none, RateInterval { lossless: None, lossy: None, end: End::Writers });
        let both = found(&BOUNDS, |_, rate| if rate > 400.0 { Verdict::Lossy } else { Verdict::Short });
        assert_eq!(both, RateInterval { lossless: None, lossy: Some(500.0), end: End::Writers });
    }

    #[test]
    fn a_rate_that_loses_now_and_then_is_not_confirmed() {
        // Above 10000 each third trial loses.
        let of = |trial: usize, rate: f64| {
            let is_lossy = rate > 1e6 || (rate > 1e4 && trial % 3 == 0);
            if is_lossy { Verdict::Lossy } else { Verdict::Lossless }
        };
        let found = found(&BOUNDS, of);
        assert!(found.lossless.unwrap() <= 1e4, "{found:?}");
        assert_eq!(verdict(100.0, 95.0, 0, Some(0.5)), Verdict::Lossless);
        assert_eq!(verdict(100.0, 50.0, 0, Some(0.99)), Verdict::Short);
        assert_eq!(verdict(100.0, 50.0, 0, None), Verdict::Short);
        assert_eq!(verdict(100.0, 50.0, 0, Some(0.5)), Verdict::Starved);
        assert_eq!(verdict(100.0, 50.0, 1, Some(0.5)), Verdict::Lossy);
    }

    #[test]
    fn a_busy_machine_ends_the_search_at_once() {
        let busy = RateInterval { lossless: None, lossy: None, end: End::Busy };
        let always = found(&BOUNDS, |trial, _| if trial > 3 { panic!("asked again") } else { Verdict::Starved });
        assert_eq!(always, busy);
        // Also where it becomes busy later: a rate that was not confirmed is none.
        let later = found(&BOUNDS, |trial, _| if trial > 8 { Verdict::Starved } else { Verdict::Lossless });
        assert_eq!(later, busy);
        let confirming = |trial: usize, rate: f64| match trial {
            50.. => Verdict::Starved,
            _ if rate < 9000.0 => Verdict::Lossless,
            _ => Verdict::Lossy,
        };
        let late = found(&Bounds { confirm: 1000, ..BOUNDS }, confirming);
        assert_eq!((late.lossless, late.end), (None, End::Busy));
        // One bad moment is none.
        let moment = |trial: usize, rate: f64| match (trial % 3, rate < 5e5) {
            (0, _) => Verdict::Starved,
            (_, true) => Verdict::Lossless,
            (_, false) => Verdict::Lossy,
        };
        assert!(found(&BOUNDS, moment).lossless.is_some_and(|rate| rate > 4.7e5));
    }
}
