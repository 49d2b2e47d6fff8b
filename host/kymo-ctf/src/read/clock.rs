// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks of traces: from cycles to nanoseconds and back, exactly.

/// A clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Its name.
    pub name: String,
    /// Equal on traces that share the clock.
    pub uuid: Option<[u8; 16]>,
    /// For people.
    pub description: String,
    /// Cycles per second, at least 1.
    pub frequency_hz: u64,
    /// Whole seconds from the origin to cycle 0.
    pub offset_s: i64,
    /// Cycles to be added to `offset_s`.
    pub offset_cycles: i64,
    /// Uncertainty, cycles.
    pub precision_cycles: u64,
    /// The origin is 1970-01-01.
    pub absolute: bool,
    /// How its times become those of another clock; not part of the metadata.
    pub correction: Option<Correction>,
}

/// Times of a clock as those of another one [spec/hosts.md].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The time, by the clock itself, for which `offset_ns` holds.
    pub at_ns: i64,
    /// To be added.
    pub offset_ns: i64,
    /// And for each second behind `at_ns`, 10^-12 s. Below 10^12 either way.
    pub drift_ppt: i64,
}

impl Correction {
    /// The other clock's time, rounded down.
    pub fn apply(&self, ns: i128) -> i128 {
        const PARTS: i128 = 1_000_000_000_000;
        let drift = i128::from(self.drift_ppt.clamp(1 - PARTS as i64, PARTS as i64 - 1));
        // Times of clocks are below 2^94, so that this fits.
        let behind = ns - i128::from(self.at_ns);
        let (whole, part) = (behind.div_euclid(PARTS), behind.rem_euclid(PARTS));
        ns + i128::from(self.offset_ns) + whole * drift + (part * drift).div_euclid(PARTS)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            name: String::new(),
            uuid: None,
            description: String::new(),
            frequency_hz: 1_000_000_000,
            offset_s: 0,
            offset_cycles: 0,
            precision_cycles: 0,
            absolute: false,
            correction: None,
        }
    }
}

impl Clock {
    /// Whether the same cycles mean the same time.
    #[inline]
    pub(crate) fn measures_as(&self, other: &Self) -> bool {
        let rate = |clock: &Self| (clock.frequency_hz, clock.offset_s, clock.offset_cycles, clock.correction);
        rate(self) == rate(other)
    }

    /// Nanoseconds from the origin to `cycles`, rounded down, exact otherwise; as those of the other clock where there
    /// is a correction.
    pub fn nanoseconds(&self, cycles: u64) -> i128 {
        let ns = self.own_nanoseconds(cycles);
        self.correction.map_or(ns, |correction| correction.apply(ns))
    }

    fn own_nanoseconds(&self, cycles: u64) -> i128 {
        const SECOND: i128 = 1_000_000_000;
        let total = i128::from(self.offset_cycles) + i128::from(cycles);
        let part = if self.frequency_hz == 1_000_000_000 {
            total
        } else if let Ok(positive) = u128::try_from(total) {
            // Below 2^65 * 10^9, which fits; the unsigned division is the fast one.
            (positive * 1_000_000_000 / u128::from(self.frequency_hz.max(1))) as i128
        } else {
            (total * SECOND).div_euclid(i128::from(self.frequency_hz.max(1)))
        };
        i128::from(self.offset_s) * SECOND + part
    }

    /// The first cycles whose time is `ns` or later; `None` where no cycles are.
    pub fn cycles_from(&self, ns: i128) -> Option<u64> {
        let (mut low, mut high) = (0, u64::MAX);
        if self.nanoseconds(high) < ns {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.nanoseconds(middle) < ns { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }
}

/// [`Clock::nanoseconds`] for times that come one after the other: remembers the second, and multiplies in place of
/// dividing.
#[derive(Clone, Copy, Debug)]
pub struct Seconds<'t> {
    clock: &'t Clock,
    /// The cycles of one whole second, without the one behind it.
    from: u64,
    until: u64,
    /// Where that second begins: cycles, modulo 2^64 where it begins before the clock does, and ns.
    begin: u64,
    begin_ns: i128,
    /// Nanoseconds of a cycle, times 2^`shift`, rounded down.
    scale: u64,
    shift: u32,
}

/// Clocks of fewer cycles a second are converted second by second: products of a second's cycles with 10^9 have 64
/// bits.
const HZ_END: u64 = 1 << 34;

impl<'t> Seconds<'t> {
    /// Of a clock.
    pub fn new(clock: &'t Clock) -> Self {
        let hz = clock.frequency_hz.clamp(1, HZ_END);
        // Below 2^64, because hz is at least 2^log and 10^9 is below 2^30.
        let shift = HZ_END.ilog2() + hz.ilog2();
        let scale = ((1_000_000_000u128 << shift) / u128::from(hz)) as u64;
        Self { clock, from: 0, until: 0, begin: 0, begin_ns: 0, scale, shift }
    }

    /// The same as [`Clock::nanoseconds`].
    #[inline]
    pub fn nanoseconds(&mut self, cycles: u64) -> i128 {
        if cycles < self.from || cycles >= self.until {
            return self.begin_second(cycles);
        }
        self.begin_ns + i128::from(self.nanoseconds_in_second(cycles.wrapping_sub(self.begin)))
    }

    /// Of fewer cycles than a second has: their product with 10^9, divided by the frequency and rounded down.
    #[inline]
    fn nanoseconds_in_second(&self, cycles: u64) -> u64 {
        // The scale is less than 1 too small, so the product is less than cycles / 2^shift < 1 too small: after
        // rounding the result is right, or 1 too small.
        let guess = ((u128::from(cycles) * u128::from(self.scale)) >> self.shift) as u64;
        let hz = self.clock.frequency_hz;
        guess + u64::from(cycles * 1_000_000_000 - guess * hz >= hz)
    }

    #[cold]
    fn begin_second(&mut self, cycles: u64) -> i128 {
        let hz = i128::from(self.clock.frequency_hz);
        let part = (i128::from(self.clock.offset_cycles) + i128::from(cycles)).rem_euclid(hz);
        let begin = i128::from(cycles) - part;
        // Of 2^34 cycles a second at most the product has 64 bits.
        // With a correction each time is reckoned by itself.
        let is_plain = (1..HZ_END.into()).contains(&hz) && self.clock.correction.is_none();
        if is_plain {
            (self.from, self.until) = (begin.max(0) as u64, (begin + hz).min(u64::MAX.into()) as u64);
            (self.begin, self.begin_ns) = (begin as u64, self.clock.nanoseconds(cycles) - part * 1_000_000_000 / hz);
        }
        self.clock.nanoseconds(cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cycles_of_a_time() {
        let clock = Clock { frequency_hz: 2_999_999_999, offset_s: 5, offset_cycles: 12, ..Clock::default() };
        for cycles in [0, 1, 2, 3, 1_000_000, 3_000_000_007, 1 << 60] {
            let ns = clock.nanoseconds(cycles);
            let first = clock.cycles_from(ns).unwrap();
            assert!(first <= cycles && clock.nanoseconds(first) == ns, "{cycles}");
            assert!(first == 0 || clock.nanoseconds(first - 1) < ns, "{cycles}");
        }
        assert_eq!(clock.cycles_from(i128::MIN), Some(0));
        assert_eq!(clock.cycles_from(i128::MAX), None);
    }

    /// Multiplying gives what dividing gives, also where the quotient is a whole number or just below one.
    #[test]
    fn parts_of_a_second_are_exact() {
        let frequencies = [
            1,
            2,
            3,
            7,
            1000,
            19_200_000,
            999_999_999,
            1_000_000_000,
            1_000_000_001,
            1_700_000_000,
            2_893_299_999,
            4_294_967_296,
            HZ_END - 1,
        ];
        let mut random = 1u64;
        for hz in frequencies {
            let clock = Clock { frequency_hz: hz, ..Clock::default() };
            let seconds = Seconds::new(&clock);
            let check = |cycles: u64| {
                let expect = (u128::from(cycles) * 1_000_000_000 / u128::from(hz)) as u64;
                assert_eq!(seconds.nanoseconds_in_second(cycles), expect, "{cycles} of {hz}");
            };
            for _ in 0..2000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let cycles = (random >> 20) % hz;
                check(cycles);
                // The first cycles of a nanosecond, and those in front of them.
                let ns = u128::from(cycles) * 1_000_000_000 / u128::from(hz);
                let first = (ns * u128::from(hz)).div_ceil(1_000_000_000) as u64;
                [first.saturating_sub(1), first, first + 1].into_iter().filter(|&at| at < hz).for_each(check);
            }
            [0, hz - 1].into_iter().for_each(check);
        }
    }

    #[test]
    fn corrections_are_exact_and_keep_the_order() {
        let apply = |at_ns, offset_ns, drift_ppt, ns| Correction { at_ns, offset_ns, drift_ppt }.apply(ns);
        assert_eq!(apply(0, 7, 0, -3), 4);
        assert_eq!(apply(1_000, -5, 1_000_000, 1_000_001_000), 1_000_001_000 - 5 + 1_000);
        assert_eq!(apply(1_000, 0, -1_000_000, -999_999_000), -999_999_000 + 1_000);
        assert_eq!(apply(0, 0, 1, 10_i128.pow(27)), 10_i128.pow(27) + 10_i128.pow(15));
        for drift_ppt in [-500_000_000, -1, 0, 3, 500_000_000] {
            let corrected = (-5_000..5_000).map(|step| apply(17, 1 << 50, drift_ppt, step * 997));
            assert!(corrected.is_sorted());
        }
        let correction = Some(Correction { at_ns: 5, offset_ns: 1_000, drift_ppt: 250_000_000 });
        let clock = Clock { frequency_hz: 3, correction, ..Clock::default() };
        let mut seconds = Seconds::new(&clock);
        for cycles in [0, 1, 2, 3, 100, 50, 7_000_000] {
            assert_eq!(seconds.nanoseconds(cycles), clock.nanoseconds(cycles));
        }
        assert!(!clock.measures_as(&Clock { correction: None, ..clock.clone() }));
    }

    #[test]
    fn clock_is_exact() {
        let clock =
            |frequency_hz, offset_s, offset_cycles| Clock { frequency_hz, offset_s, offset_cycles, ..Clock::default() };
        for (clock, cycles, expect) in [
            (clock(1_000_000_000, 1, 5), 7, 1_000_000_012),
            (clock(3_000_000_000, 0, 0), 2, 0),
            (clock(3_000_000_000, 0, 0), 3, 1),
            (clock(2_999_999_999, 0, 0), u64::MAX, 6_148_914_693_286_155_436),
            (clock(3, -2, -1), 0, -2_333_333_334),
            (clock(1, i64::MAX, 0), u64::MAX, (i128::from(i64::MAX) + i128::from(u64::MAX)) * 1_000_000_000),
        ] {
            assert_eq!(clock.nanoseconds(cycles), expect);
            let mut seconds = Seconds::new(&clock);
            for cycles in [cycles, cycles, cycles / 2, cycles.saturating_add(1), 0, cycles.saturating_sub(3), u64::MAX]
            {
                assert_eq!(seconds.nanoseconds(cycles), clock.nanoseconds(cycles), "{clock:?} {cycles}");
            }
        }
    }
}
