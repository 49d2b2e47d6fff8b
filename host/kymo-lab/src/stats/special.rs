// SPDX-License-Identifier: MIT OR Apache-2.0
//! Special functions that the statistics need and libm does not have: incomplete beta, normal and binomial
//! distributions.
//!
//! Held against tabulated values; relative errors below 1e-10 where the callers are.

use libm::{erfc, lgamma};

/// Regularised incomplete beta function I_x(a, b), for `a, b > 0` and `x` in 0..=1.
pub fn beta_regularised(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (lgamma(a + b) - lgamma(a) - lgamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz' method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    // Converges in about sqrt(max(a, b)) steps.
    const STEPS: u32 = 100_000;
    let solid = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / solid(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..=STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / solid(1.0 + even * d);
        c = solid(1.0 + even / c);
        result *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / solid(1.0 + odd * d);
        c = solid(1.0 + odd / c);
        let change = d * c;
        result *= change;
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// Probability of at most `k` successes among `n` trials, each with probability `p`.
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    let variance = n as f64 * p * (1.0 - p);
    // Above, the normal distribution is off by less than 1e-4, and the fraction would take long.
    if variance > 1e7 {
        return normal_cdf((k as f64 + 0.5 - n as f64 * p) / variance.sqrt());
    }
    1.0 - beta_regularised(k as f64 + 1.0, (n - k) as f64, p)
}

/// Distribution function of the standard normal distribution.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// The z below which a standard normal value is with probability `p`, for `p` strictly between 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    // A rational start (Hastings), then Newton's steps on the logarithm, which is concave: they cannot run away.
    let t = (-2.0 * p.ln()).sqrt();
    let mut z = -(t
        - (2.515_517 + 0.802_853 * t + 0.010_328 * t * t)
            / (1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t * t * t));
    for _ in 0..4 {
        let cdf = normal_cdf(z);
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        z -= (cdf.ln() - p.ln()) * cdf / density;
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: f64, expect: f64) {
        assert!((value - expect).abs() <= 1e-10 * expect.abs().max(1e-3), "{value} is not {expect}");
    }

    #[test]
    fn beta_and_binomial() {
        check(beta_regularised(2.0, 3.0, 0.5), 0.6875);
        check(beta_regularised(0.5, 0.5, 0.25), 1.0 / 3.0);
        // 1 - 0.999^1000 and the sum of Bin(20, 0.25) up to 4.
        check(binomial_cdf(0, 1000, 0.001), 0.999_f64.powi(1000));
        check(binomial_cdf(4, 20, 0.25), 0.414_841_502_530_180_15);
        check(binomial_cdf(20, 20, 0.25), 1.0);
        assert!((binomial_cdf(500_000_000, 1_000_000_000, 0.5) - 0.5).abs() < 1e-4);
    }

    #[test]
    fn normal() {
        check(normal_cdf(0.0), 0.5);
        check(normal_cdf(-1.0), 0.158_655_253_931_457_05);
        check(normal_cdf(1.959_963_984_540_054), 0.975);
        check(normal_cdf(-6.0), 9.865_876_449_133_282e-10);
        check(normal_quantile(0.975), 1.959_963_984_540_054);
        check(normal_quantile(0.5), 0.0);
        check(normal_quantile(1e-9), -5.997_807_015_007_686_9);
    }
}
