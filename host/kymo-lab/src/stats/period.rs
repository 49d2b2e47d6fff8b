// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do moments come in a period? Rayleigh's test over a grid of frequencies, held against moments without one.
//!
//! A period need not have a moment in each of its turns: of what comes every second only some may be among the worst.

use super::Random;
use crate::causes::Period;

/// A period is believed below this probability.
const LEVEL: f64 = 0.01;
/// Moments that a period takes.
const MOMENTS_MIN: usize = 6;
/// Moments that are looked at; of more, the earliest.
const MOMENTS_MAX: usize = 200;
/// Frequencies of the grid.
const FREQUENCIES: usize = 2000;
/// Steps of the grid in a turn of the whole stretch: between two of them a phase moves by a quarter of a turn.
const STEPS: f64 = 4.0;
/// Turns in the whole stretch, at least.
const TURNS_MIN: f64 = 3.0;
/// Drawings of moments without a period.
const DRAWINGS: usize = 399;
/// A longer period explains as much if its statistic is at least this share of the largest.
const AS_GOOD: f64 = 0.9;
const SEED: u64 = 0x6b79_6d6f;

/// The period of moments that fell into `watched` stretches, both ns; none where there is none to be found. Moments
/// closer than `apart` are one, and no period shorter than twice that is found.
pub fn find(moments: &[f64], watched: &[(f64, f64)], apart: f64) -> Option<Period> {
    let moments = separate(moments, apart);
    let (first, last) = (watched.first()?.0, watched.last()?.1);
    let span = last - first;
    let total: f64 = watched.iter().map(|(from, to)| to - from).sum();
    if moments.len() < MOMENTS_MIN || total <= 0.0 || !span.is_finite() {
        return None;
    }
    let grid = grid(span, apart);
    let found = largest(&moments, first, &grid)?;
    let mut random = Random::new(SEED);
    let as_large = (0..DRAWINGS).filter(|_| {
        let drawn: Vec<f64> = moments.iter().map(|_| draw(watched, total, &mut random)).collect();
        largest(&drawn, first, &grid).is_some_and(|(_, statistic)| statistic >= found.1)
    });
    let p = (as_large.count() + 1) as f64 / (DRAWINGS + 1) as f64;
    if p > LEVEL {
        return None;
    }
    let frequency = fundamental(&moments, first, &grid, found.1);
    let frequency = refine(&moments, first, frequency, STEPS.recip() / span);
    let period = Period { period_ns: (1.0 / frequency) as u64, p, spikes: moments.len() as u32 };
    has_turns(&moments, 1.0 / frequency).then_some(period)
}

/// One of those that are closer than `apart`.
fn separate(moments: &[f64], apart: f64) -> Vec<f64> {
    let mut sorted: Vec<f64> = moments.iter().copied().filter(|at| at.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let mut kept: Vec<f64> = Vec::new();
    for at in sorted {
        if kept.last().is_none_or(|last| at - last > apart) && kept.len() < MOMENTS_MAX {
            kept.push(at);
        }
    }
    kept
}

fn grid(span: f64, apart: f64) -> Vec<f64> {
    let step = STEPS.recip() / span;
    let highest = 0.5 / apart.max(f64::MIN_POSITIVE);
    (0..FREQUENCIES)
        .map(|at| TURNS_MIN / span + at as f64 * step)
        .take_while(|frequency| *frequency < highest)
        .collect()
}

/// Rayleigh's statistic: how many times as much as by chance the phases agree.
fn statistic(moments: &[f64], first: f64, frequency: f64) -> f64 {
    let (mut sine, mut cosine) = (0.0, 0.0);
    for at in moments {
        let (s, c) = (((at - first) * frequency).fract() * std::f64::consts::TAU).sin_cos();
        (sine, cosine) = (sine + s, cosine + c);
    }
    (sine * sine + cosine * cosine) / moments.len() as f64
}

fn largest(moments: &[f64], first: f64, grid: &[f64]) -> Option<(f64, f64)> {
    let all = grid.iter().map(|frequency| (*frequency, statistic(moments, first, *frequency)));
    all.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Moments in a period are in a half and a third of it as well: the longest that explains as much.
fn fundamental(moments: &[f64], first: f64, grid: &[f64], best: f64) -> f64 {
    let good = |frequency: &&f64| statistic(moments, first, **frequency) >= AS_GOOD * best;
    grid.iter().find(good).copied().unwrap_or(f64::MIN_POSITIVE)
}

/// The best frequency near one of the grid.
fn refine(moments: &[f64], first: f64, frequency: f64, step: f64) -> f64 {
    let near = (-50..=50).map(|at| frequency + f64::from(at) * step / 50.0).filter(|near| *near > 0.0);
    let best = near.map(|near| (near, statistic(moments, first, near))).max_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(frequency, |(near, _)| near)
}

/// A few crowds of moments agree at many frequencies; a period has its moments in different turns.
fn has_turns(moments: &[f64], period: f64) -> bool {
    let mut turns: Vec<i64> = moments.iter().map(|at| ((at - moments[0]) / period).round() as i64).collect();
    turns.dedup();
    turns.len() >= MOMENTS_MIN.max(moments.len() / 2)
}

fn draw(watched: &[(f64, f64)], total: f64, random: &mut Random) -> f64 {
    let mut at = random.uniform() * total;
    for (from, to) in watched {
        if at < to - from {
            return from + at;
        }
        at -= to - from;
    }
    watched.last().map_or(0.0, |(_, to)| *to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds, of which every other one is watched.
    fn watched() -> Vec<(f64, f64)> {
        (0..10).step_by(2).map(|second| (f64::from(second) * 1e9, f64::from(second + 1) * 1e9)).collect()
    }

    #[test]
    fn a_period_with_gaps_and_jitter_is_found() {
        let mut random = Random::new(5);
        for period in [50e6, 250e6, 317e6] {
            let all = (0..).map(|turn| 30e6 + f64::from(turn) * period).take_while(|at| *at < 10e9);
            let is_watched = |at: &f64| watched().iter().any(|(from, to)| (*from..*to).contains(at));
            let mut moments: Vec<f64> = all.filter(is_watched).map(|at| at + random.normal() * 0.02 * period).collect();
            moments.truncate(60);
            let found = find(&moments, &watched(), 1e6).unwrap_or_else(|| panic!("{period}"));
            let off = (found.period_ns as f64 / period - 1.0).abs();
            assert!(off < 0.02 && found.p <= LEVEL, "{period} {found:?}");
        }
    }

    #[test]
    fn chance_has_no_period() {
        let mut random = Random::new(6);
        let total = 5e9;
        let wrong = (0..20).filter(|_| {
            let moments: Vec<f64> = (0..20).map(|_| draw(&watched(), total, &mut random)).collect();
            find(&moments, &watched(), 1e6).is_some()
        });
        // Binomial of 20 and 0.01: more than 2 in one of 1000 seeds.
        assert!(wrong.count() <= 2);
    }

    #[test]
    fn crowds_and_few_moments_are_no_period() {
        let crowds: Vec<f64> = (0..20).map(|at| f64::from(at % 2) * 4.3e9 + 2.1e8 + f64::from(at) * 3e6).collect();
        assert_eq!(find(&crowds, &watched(), 1e6), None);
        let few: Vec<f64> = (0..5).map(|at| f64::from(at) * 1e9).collect();
        assert_eq!(find(&few, &watched(), 1e6), None);
        assert_eq!(find(&[f64::NAN; 9], &watched(), 0.0), None);
    }
}
