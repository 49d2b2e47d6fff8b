// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two laws of extremes, their fits by probability-weighted moments and by maximum likelihood.
//!
//! Shape as in the literature on extremes: above 0 heavy tails, below 0 a largest value that cannot be exceeded.

use std::f64::consts::LN_2;

use super::super::random::Random;

/// Shapes closer to 0 are 0: the formulas lose their digits there.
const NO_SHAPE: f64 = 1e-7;
/// Below it the likelihood has no maximum that says anything.
const SHAPE_MIN: f64 = -0.5;
/// Above it there is no use in looking.
const SHAPE_MAX: f64 = 3.0;

/// A law with parameters.
pub(super) trait Law: Copy {
    /// By probability-weighted moments; `None` where they have no solution. The sample ascends.
    fn by_moments(sorted: &[f64]) -> Option<Self>;
    /// By maximum likelihood. The sample ascends.
    fn by_likelihood(sorted: &[f64]) -> Option<Self>;
    /// Distribution function.
    fn cdf(self, x: f64) -> f64;
    /// The value below which one is with probability `p`, strictly between 0 and 1.
    fn quantile(self, p: f64) -> f64;
    fn shape(self) -> f64;
    /// Logarithm of the likelihood of a sample.
    fn likelihood(self, sorted: &[f64]) -> f64;
    /// The largest such logarithm of a law that exceeds `level` once in `values` values.
    fn constrained(self, sorted: &[f64], values: f64, level: f64) -> f64;

    /// A sample of this size, ascending.
    fn sample(self, size: usize, random: &mut Random) -> Vec<f64> {
        let mut values: Vec<f64> = (0..size).map(|_| self.quantile(random.uniform())).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// Generalised Pareto: excesses over a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pareto {
    pub scale: f64,
    pub shape: f64,
}

/// Generalised extreme values: maxima of blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Maxima {
    pub location: f64,
    pub scale: f64,
    pub shape: f64,
}

/// The first moments weighted by the distribution function: b0, b1, b2.
fn weighted(sorted: &[f64]) -> [f64; 3] {
    let n = sorted.len() as f64;
    let mut b = [0.0; 3];
    for (i, x) in sorted.iter().enumerate() {
        let i = i as f64;
        b[0] += x / n;
        b[1] += x * i / (n - 1.0) / n;
        b[2] += x * i * (i - 1.0) / ((n - 1.0) * (n - 2.0)) / n;
    }
    b
}

impl Law for Pareto {
    fn by_moments(sorted: &[f64]) -> Option<Pareto> {
        let [b0, b1, _] = weighted(sorted);
        let second = 2.0 * b1 - b0;
        let shape = 2.0 - b0 / second;
        let found = Pareto { scale: b0 * (1.0 - shape), shape };
        (found.scale > 0.0 && shape.is_finite()).then_some(found)
    }

    /// With shape / scale given, the best shape follows: one dimension is left to search (Grimshaw).
    fn by_likelihood(sorted: &[f64]) -> Option<Pareto> {
        let n = sorted.len() as f64;
        let (mean, max) = (sorted.iter().sum::<f64>() / n, *sorted.last()?);
        if mean <= 0.0 || max.is_nan() {
            return None;
        }
        let of = |ratio: f64| -> Pareto {
            if (ratio * max).abs() < 1e-6 {
                return Pareto { scale: mean, shape: 0.0 };
            }
            let shape = sorted.iter().map(|x| (ratio * x).ln_1p()).sum::<f64>() / n;
            Pareto { scale: shape / ratio, shape }
        };
        let likelihood = |ratio: f64| {
            let law = of(ratio);
            let possible = (SHAPE_MIN..SHAPE_MAX).contains(&law.shape) && law.scale > 0.0;
            if possible { -law.scale.ln() - law.shape - 1.0 } else { f64::NEG_INFINITY }
        };
        // From just above -1 / max, where the largest value would be the end, to heavy tails.
        let grid: Vec<f64> = (0..48).map(|step| ((f64::from(step) * 0.2 - 4.0).exp() - 1.0) / max).collect();
        let best = (0..grid.len()).max_by(|one, other| likelihood(grid[*one]).total_cmp(&likelihood(grid[*other])))?;
        let (low, high) = (grid[best.saturating_sub(1)], grid[(best + 1).min(grid.len() - 1)]);
        let found = of(golden(low, high, likelihood));
        (found.scale > 0.0 && found.shape >= SHAPE_MIN).then_some(found)
    }

    fn cdf(self, x: f64) -> f64 {
        let x = (x / self.scale).max(0.0);
        if self.shape.abs() < NO_SHAPE {
            return -(-x).exp_m1();
        }
        let base = 1.0 + self.shape * x;
        if base <= 0.0 { 1.0 } else { 1.0 - base.powf(-1.0 / self.shape) }
    }

    fn quantile(self, p: f64) -> f64 {
        let log = (-p).ln_1p();
        if self.shape.abs() < NO_SHAPE {
            -self.scale * log
        } else {
            self.scale / self.shape * (-self.shape * log).exp_m1()
        }
    }

    fn shape(self) -> f64 {
        self.shape
    }

    fn likelihood(self, sorted: &[f64]) -> f64 {
        if !(SHAPE_MIN..SHAPE_MAX).contains(&self.shape) || self.scale <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let terms: f64 = match self.shape.abs() < NO_SHAPE {
            true => sorted.iter().sum::<f64>() / self.scale,
            false => {
                let ratio = self.shape / self.scale;
                (1.0 + 1.0 / self.shape) * sorted.iter().map(|x| (ratio * x).ln_1p()).sum::<f64>()
            }
        };
        let result = -terms - sorted.len() as f64 * self.scale.ln();
        if result.is_finite() { result } else { f64::NEG_INFINITY }
    }

    fn constrained(self, sorted: &[f64], values: f64, level: f64) -> f64 {
        let of = |shape: f64| {
            let log = values.ln();
            let scale = if shape.abs() < NO_SHAPE { level / log } else { level * shape / (shape * log).exp_m1() };
            Pareto { scale, shape }.likelihood(sorted)
        };
        let grid: Vec<f64> = (0..24).map(|step| SHAPE_MIN + f64::from(step) * 0.08).collect();
        let scores: Vec<f64> = grid.iter().map(|shape| of(*shape)).collect();
        let best = (0..grid.len()).max_by(|one, other| scores[*one].total_cmp(&scores[*other])).unwrap_or(0);
        let (low, high) = (grid[best.saturating_sub(1)], grid[(best + 1).min(grid.len() - 1)]);
        of(golden(low, high, of)).max(scores[best])
    }
}

/// Where a function with one maximum between two points has it.
fn golden(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    const SHARE: f64 = 0.618_033_988_749_894_9;
    let (mut left, mut right) = (high - SHARE * (high - low), low + SHARE * (high - low));
    let (mut at_left, mut at_right) = (of(left), of(right));
    for _ in 0..24 {
        if at_left >= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - SHARE * (high - low);
            at_left = of(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + SHARE * (high - low);
            at_right = of(right);
        }
    }
    (low + high) / 2.0
}

impl Law for Maxima {
    /// Hosking, Wallis and Wood's approximation of the shape, good to 1e-3.
    fn by_moments(sorted: &[f64]) -> Option<Maxima> {
        let [b0, b1, b2] = weighted(sorted);
        let c = (2.0 * b1 - b0) / (3.0 * b2 - b0) - LN_2 / 3f64.ln();
        // Of the other sign than our shape; not 0, where the formulas below have no value.
        let k = 7.859 * c + 2.9554 * c * c;
        let k = if k.abs() < 1e-5 { 1e-5 } else { k };
        if !(k > -1.0 && k < 10.0) {
            return None;
        }
        let gamma = libm::tgamma(1.0 + k);
        let scale = (2.0 * b1 - b0) * k / (gamma * (1.0 - 2f64.powf(-k)));
        let found = Maxima { location: b0 + scale * (gamma - 1.0) / k, scale, shape: -k };
        (scale > 0.0 && scale.is_finite()).then_some(found)
    }

    fn by_likelihood(sorted: &[f64]) -> Option<Maxima> {
        let start = Maxima::by_moments(sorted)?;
        let of = |point: [f64; 3]| Maxima {
            location: start.location + point[0] * start.scale,
            scale: start.scale * point[1].exp(),
            shape: point[2],
        };
        let found = of(lowest([0.0, 0.0, start.shape.clamp(-0.3, 0.8)], |point| -of(point).likelihood(sorted)));
        found.likelihood(sorted).is_finite().then_some(found)
    }

    fn cdf(self, x: f64) -> f64 {
        (-self.reduced(x)).exp()
    }

    fn quantile(self, p: f64) -> f64 {
        let y = -p.ln();
        if self.shape.abs() < NO_SHAPE {
            return self.location - self.scale * y.ln();
        }
        self.location + self.scale / self.shape * (-self.shape * y.ln()).exp_m1()
    }

    fn shape(self) -> f64 {
        self.shape
    }

    fn likelihood(self, sorted: &[f64]) -> f64 {
        if !(SHAPE_MIN..SHAPE_MAX).contains(&self.shape) {
            return f64::NEG_INFINITY;
        }
        let terms = sorted.iter().map(|x| {
            let t = self.reduced(*x);
            if t > 0.0 && t.is_finite() { (1.0 + self.shape) * t.ln() - t } else { f64::NEG_INFINITY }
        });
        terms.sum::<f64>() - sorted.len() as f64 * self.scale.ln()
    }

    fn constrained(self, sorted: &[f64], values: f64, level: f64) -> f64 {
        let log = (-(-1.0 / values).ln_1p()).ln();
        let of = |[scale, shape]: [f64; 2]| {
            let scale = self.scale * scale.exp();
            let above = if shape.abs() < NO_SHAPE { -log } else { (-shape * log).exp_m1() / shape };
            Maxima { location: level - scale * above, scale, shape }.likelihood(sorted)
        };
        // The best law of all, with a scale that brings it to the level, is a start that has a likelihood.
        let above = if self.shape.abs() < NO_SHAPE { -log } else { (-self.shape * log).exp_m1() / self.shape };
        let start = ((level - self.location) / above / self.scale).max(0.05).ln();
        let starts = [[start, self.shape], [0.0, self.shape], [0.3, 0.2]];
        starts.into_iter().map(|start| of(lowest(start, |point| -of(point)))).fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Maxima {
    /// The expected number of values above `x`.
    fn reduced(self, x: f64) -> f64 {
        let z = (x - self.location) / self.scale;
        if self.shape.abs() < NO_SHAPE {
            return (-z).exp();
        }
        let base = 1.0 + self.shape * z;
        match (base <= 0.0, self.shape > 0.0) {
            (true, true) => f64::INFINITY,
            (true, false) => 0.0,
            _ => base.powf(-1.0 / self.shape),
        }
    }
}

/// Nelder and Mead's search for the lowest place, from a start.
fn lowest<const N: usize>(start: [f64; N], of: impl Fn([f64; N]) -> f64) -> [f64; N] {
    let mut corners: Vec<([f64; N], f64)> = vec![(start, of(start))];
    for at in 0..N {
        let mut corner = start;
        corner[at] += 0.15;
        corners.push((corner, of(corner)));
    }
    for _ in 0..200 {
        corners.sort_by(|one, other| one.1.total_cmp(&other.1));
        if corners[N].1 - corners[0].1 < 1e-6 {
            break;
        }
        step(&mut corners, &of);
    }
    corners.sort_by(|one, other| one.1.total_cmp(&other.1));
    corners[0].0
}

/// Replaces the worst corner (the last) by a better one, or draws all of them to the best.
fn step<const N: usize>(corners: &mut [([f64; N], f64)], of: &impl Fn([f64; N]) -> f64) {
    let middle: [f64; N] =
        std::array::from_fn(|at| corners[..N].iter().map(|corner| corner.0[at]).sum::<f64>() / N as f64);
    let worst = corners[N];
    let along = |by: f64| {
        let point = std::array::from_fn(|at| middle[at] + by * (worst.0[at] - middle[at]));
        (point, of(point))
    };
    let mirrored = along(-1.0);
    corners[N] = if mirrored.1 < corners[0].1 {
        let further = along(-2.0);
        if further.1 < mirrored.1 { further } else { mirrored }
    } else if mirrored.1 < corners[N - 1].1 {
        mirrored
    } else {
        along(if mirrored.1 < worst.1 { -0.5 } else { 0.5 })
    };
    if corners[N].1 >= worst.1 {
        let best = corners[0].0;
        for corner in &mut corners[1..] {
            corner.0 = std::array::from_fn(|at| (corner.0[at] + best[at]) / 2.0);
            corner.1 = of(corner.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<L: Law>(law: L) {
        let mut random = Random::new(21);
        for p in [0.01, 0.5, 0.999] {
            assert!((law.cdf(law.quantile(p)) - p).abs() < 1e-9);
        }
        let sample = law.sample(4000, &mut random);
        for found in [L::by_moments(&sample).unwrap(), L::by_likelihood(&sample).unwrap()] {
            assert!((found.shape() - law.shape()).abs() < 0.07, "{} is not {}", found.shape(), law.shape());
            let level = found.quantile(0.9) / law.quantile(0.9);
            assert!((level - 1.0).abs() < 0.08, "{level}");
        }
    }

    #[test]
    fn fits_find_the_law() {
        for shape in [-0.3, -0.1, 0.0, 0.2, 0.4] {
            check(Pareto { scale: 30.0, shape });
            check(Maxima { location: 500.0, scale: 40.0, shape });
        }
    }
}
