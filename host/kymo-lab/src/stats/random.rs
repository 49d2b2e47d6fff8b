// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small generator of random numbers (xoshiro256++): the same numbers from the same seed on every machine.
//!
//! For permutations and bootstraps, whose seed is stated with the result. Not for secrets.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// From a seed; any is good.
    pub fn new(seed: u64) -> Random {
        let mut state = seed;
        Random(std::array::from_fn(|_| split_mix(&mut state)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform, strictly between 0 and 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform from 0 to `end`, without it.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Poisson with this mean; normal beyond 400, where the two cannot be told apart for our use.
    pub fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 400.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as u64;
        }
        let (mut sum, mut count) = (self.exponential(), 0);
        while sum < mean {
            sum += self.exponential();
            count += 1;
        }
        count
    }

    /// Puts the first `count` of `items` in their places by chance: a random choice of so many.
    pub fn choose<T>(&mut self, items: &mut [T], count: usize) {
        for at in 0..count.min(items.len()) {
            let other = at + self.below(items.len() - at);
            items.swap(at, other);
        }
    }
}

/// Spreads a seed over the state.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_variances_are_those_of_the_distributions() {
        let mut random = Random::new(1);
        let mut moments = |draw: fn(&mut Random) -> f64| {
            let values: Vec<f64> = (0..20_000).map(|_| draw(&mut random)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
        };
        let mut check = |draw, mean: f64, variance: f64| {
            let (m, v) = moments(draw);
            assert!((m - mean).abs() < 0.04 * variance.sqrt() && (v / variance - 1.0).abs() < 0.08, "{m} {v}");
        };
        check(Random::uniform, 0.5, 1.0 / 12.0);
        check(Random::normal, 0.0, 1.0);
        check(Random::exponential, 1.0, 1.0);
        check(|random| random.poisson(7.0) as f64, 7.0, 7.0);
        check(|random| random.poisson(900.0) as f64, 900.0, 900.0);
        check(|random| random.below(6) as f64, 2.5, 35.0 / 12.0);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| (0..8).map(|_| 0).scan(Random::new(seed), |r, _| Some(r.bits())).collect::<Vec<_>>();
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
