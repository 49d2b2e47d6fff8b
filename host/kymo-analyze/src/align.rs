// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the clock of one host stands to that of another, from records that both have [spec/hosts.md].
//!
//! Messages bound it: none is received before it was sent. Each gives one inequality for offset and drift; what is left
//! of the plane of (offset, drift) behind all of them is a convex polygon, and what is said is how far it reaches.
//! Common events give a line through points instead, and how far points lie from it.

/// What drift two clocks may have, parts per billion: more than any that NTP would still correct.
pub const DRIFT_MAX_PPB: f64 = 500_000.0;

/// Times are rounded to nanoseconds, on both sides.
const ROUNDING_NS: f64 = 1.0;

/// A message between two hosts, by each host's own clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it was sent, or received, on the host whose clock is the reference.
    pub reference: i64,
    /// When it was received, or sent, on the other host.
    pub other: i64,
    /// Whether the reference host was the sender.
    pub to_other: bool,
}

/// A value and the interval that it lies in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The best guess.
    pub best: f64,
    /// Upper end.
    pub high: f64,
}

/// How to come from the time of one host to that of another: `reference = other + offset + drift * (other - at)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// The other host's time for which `offset_ns` holds: the middle of what was seen.
    pub at: i64,
    /// To be added to the other host's times, less what `whole_ns` has, ns.
    pub offset_ns: Interval,
    /// Whole nanoseconds of the offset, so that the rest keeps its precision.
    pub whole_ns: i64,
    /// How much faster the reference's clock goes, parts per billion.
    pub drift_ppb: Interval,
    /// The widest that the interval of the offset gets between the first sighting and the last, ns from the best guess.
    pub spread_ns: f64,
    /// Sightings that decided: of messages to the other host, and from it; of common events all in the first.
    pub used: [usize; 2],
    /// Positions of those that were left out, because they lie far from all others.
    pub left_out: Vec<usize>,
}

/// Why there is no relation.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Nothing was seen by both.
    Nothing,
    /// Messages went one way only: the offset, to be added to the other's times at `at`, is at least, or at most, so
    /// many ns.
    OneWay {
        /// The other host's time.
        at: i64,
        /// At least (messages to the other host); else at most.
        at_least: bool,
        /// ns.
        bound_ns: f64,
    },
    /// No offset and drift satisfies all messages: positions of two that cross.
    Crossed {
        /// One of them.
        one: usize,
        /// The other, of the other direction.
        other: usize,
    },
}

/// A point of the plane: offset (ns), drift (ns a second).
type Point = [f64; 2];

/// `offset + seconds * drift >= bound`, or `<=`.
#[derive(Clone, Copy)]
struct Bound {
    seconds: f64,
    bound_ns: f64,
    is_lower: bool,
}

impl Bound {
    /// Not negative where the point is allowed.
    fn slack(&self, [offset, drift]: Point) -> f64 {
        let above = offset + self.seconds * drift - self.bound_ns;
        (if self.is_lower { above } else { -above }) + ROUNDING_NS
    }
}

/// From messages in both directions.
pub fn align_messages(messages: &[Message]) -> Result<Relation, Refusal> {
    let (Some(first), Some(last)) = (messages.iter().map(|m| m.other).min(), messages.iter().map(|m| m.other).max())
    else {
        return Err(Refusal::Nothing);
    };
    let at = midway(first, last);
    let whole_ns = messages[0].reference.saturating_sub(messages[0].other);
    let bounds: Vec<Bound> = messages.iter().map(|message| bound(message, at, whole_ns)).collect();
    let to_other = messages.iter().filter(|message| message.to_other).count();
    let area = clip(&bounds)?;
    if to_other == 0 || to_other == messages.len() {
        let offsets = area.iter().map(|point| point[0]);
        let at_least = to_other > 0;
        let bound_ns = if at_least { offsets.fold(f64::MAX, f64::min) } else { offsets.fold(f64::MIN, f64::max) };
        return Err(Refusal::OneWay { at, at_least, bound_ns: bound_ns + whole_ns as f64 });
    }
    let best = [0, 1].map(|axis| area.iter().map(|point| point[axis]).sum::<f64>() / area.len() as f64);
    let interval = |axis: usize| Interval {
        low: area.iter().map(|point| point[axis]).fold(f64::MAX, f64::min),
        best: best[axis],
        high: area.iter().map(|point| point[axis]).fold(f64::MIN, f64::max),
    };
    let ends = [first, last].map(|end| seconds(end, at));
    let off = |point: &Point, x: f64| (point[0] - best[0] + x * (point[1] - best[1])).abs();
    let spread_ns = area.iter().flat_map(|point| ends.map(|x| off(point, x))).fold(0.0, f64::max);
    Ok(Relation {
        at,
        offset_ns: interval(0),
        whole_ns,
        drift_ppb: interval(1),
        spread_ns,
        used: [to_other, messages.len() - to_other],
        left_out: Vec::new(),
    })
}

fn bound(message: &Message, at: i64, whole_ns: i64) -> Bound {
    let apart = i128::from(message.reference) - i128::from(message.other) - i128::from(whole_ns);
    Bound { seconds: seconds(message.other, at), bound_ns: apart as f64, is_lower: message.to_other }
}

fn midway(first: i64, last: i64) -> i64 {
    ((i128::from(first) + i128::from(last)) / 2) as i64
}

/// From `at` to `time`.
fn seconds(time: i64, at: i64) -> f64 {
    (i128::from(time) - i128::from(at)) as f64 / 1e9
}

/// What is left of the plane: a convex polygon of at least one corner.
fn clip(bounds: &[Bound]) -> Result<Vec<Point>, Refusal> {
    let far = bounds.iter().map(|b| b.bound_ns.abs() + b.seconds.abs() * DRIFT_MAX_PPB).fold(1e9, f64::max) * 2.0;
    let mut area = vec![[-far, -DRIFT_MAX_PPB], [far, -DRIFT_MAX_PPB], [far, DRIFT_MAX_PPB], [-far, DRIFT_MAX_PPB]];
    for (index, bound) in bounds.iter().enumerate() {
        if area.iter().all(|point| bound.slack(*point) >= 0.0) {
            continue;
        }
        let cut = cut(&area, bound);
        if cut.is_empty() {
            return Err(Refusal::Crossed { one: index, other: crossing(&bounds[..index], bound) });
        }
        area = cut;
    }
    Ok(area)
}

/// The part of a convex polygon that a bound allows.
fn cut(area: &[Point], bound: &Bound) -> Vec<Point> {
    let mut kept = Vec::with_capacity(area.len() + 1);
    for (index, &point) in area.iter().enumerate() {
        let next = area[(index + 1) % area.len()];
        let (here, there) = (bound.slack(point), bound.slack(next));
        if here >= 0.0 {
            kept.push(point);
        }
        if (here >= 0.0) != (there >= 0.0) {
            let share = here / (here - there);
            kept.push([0, 1].map(|axis| point[axis] + share * (next[axis] - point[axis])));
        }
    }
    kept
}

/// Of the bounds of the other direction the one that crosses this one most, without a drift.
fn crossing(before: &[Bound], bound: &Bound) -> usize {
    let depth = |other: &Bound| match bound.is_lower {
        true => bound.bound_ns - other.bound_ns,
        false => other.bound_ns - bound.bound_ns,
    };
    let others = before.iter().enumerate().filter(|(_, other)| other.is_lower != bound.is_lower);
    others.max_by(|a, b| depth(a.1).total_cmp(&depth(b.1))).map_or(0, |(index, _)| index)
}

/// From events that both hosts saw at the same moment: times of the reference, and of the other. Least squares; events
/// that lie further from the line than [`OUTLIER_MEDIANS`] times the median are left out.
pub fn align_common(events: &[(i64, i64)]) -> Result<Relation, Refusal> {
    let (Some(first), Some(last)) = (events.iter().map(|e| e.1).min(), events.iter().map(|e| e.1).max()) else {
        return Err(Refusal::Nothing);
    };
    let at = midway(first, last);
    let whole_ns = events[0].0.saturating_sub(events[0].1);
    let point = |&(reference, other): &(i64, i64)| {
        let apart = i128::from(reference) - i128::from(other) - i128::from(whole_ns);
        [seconds(other, at), apart as f64]
    };
    let points: Vec<Point> = events.iter().map(point).collect();
    let mut kept: Vec<usize> = (0..points.len()).collect();
    let mut line = fit(&points, &kept);
    for _ in 0..ROUNDS {
        let off = |index: &usize| (points[*index][1] - line[0] - line[1] * points[*index][0]).abs();
        let mut distances: Vec<f64> = kept.iter().map(off).collect();
        distances.sort_by(f64::total_cmp);
        let limit = (distances[distances.len() / 2] * OUTLIER_MEDIANS).max(2.0 * ROUNDING_NS);
        let near: Vec<usize> = kept.iter().copied().filter(|index| off(index) <= limit).collect();
        if near.len() == kept.len() || near.len() < 2 {
            break;
        }
        kept = near;
        line = fit(&points, &kept);
    }
    let off = |index: &usize| (points[*index][1] - line[0] - line[1] * points[*index][0]).abs();
    let spread_ns = kept.iter().map(off).fold(ROUNDING_NS, f64::max);
    // As far as the line can turn between points that lie that far from it.
    let reach = seconds(last, at).max(1e-9);
    let turn = if kept.len() < 2 { DRIFT_MAX_PPB } else { (spread_ns / reach).min(DRIFT_MAX_PPB) };
    let around = |best: f64, by: f64| Interval { low: best - by, best, high: best + by };
    let left_out = (0..points.len()).filter(|index| kept.binary_search(index).is_err()).collect();
    Ok(Relation {
        at,
        offset_ns: around(line[0], spread_ns),
        whole_ns,
        drift_ppb: around(line[1], turn),
        spread_ns,
        used: [kept.len(), 0],
        left_out,
    })
}

/// How many medians of the distance from the line are too many.
pub const OUTLIER_MEDIANS: f64 = 10.0;

/// Lines that are tried.
const ROUNDS: usize = 20;

/// Offset and drift of the line through points that is best by least squares.
fn fit(points: &[Point], of: &[usize]) -> Point {
    let count = of.len() as f64;
    let mean = [0, 1].map(|axis| of.iter().map(|&i| points[i][axis]).sum::<f64>() / count);
    let sum = |axis: usize| of.iter().map(|&i| (points[i][0] - mean[0]) * (points[i][axis] - mean[axis])).sum::<f64>();
    let across = sum(0);
    let drift = if across > 0.0 { (sum(1) / across).clamp(-DRIFT_MAX_PPB, DRIFT_MAX_PPB) } else { 0.0 };
    [mean[1] - drift * mean[0], drift]
}

#[cfg(test)]
mod tests {
    use kymo_testing::Random;

    use super::*;

    /// Two clocks, and how the other one stands to the reference at each moment.
    struct Clocks {
        offset_ns: i64,
        drift_ppb: f64,
        begin: i64,
    }

    impl Clocks {
        fn random(random: &mut Random) -> Self {
            Self {
                offset_ns: random.below(1u64 << 50) as i64 - (1 << 49),
                drift_ppb: random.below(400_000) as f64 - 200_000.0,
                begin: 1_700_000_000_000_000_000 + random.below(1u64 << 40) as i64,
            }
        }

        /// What the reference shows when the other clock shows `other`.
        fn reference(&self, other: i64) -> i64 {
            other + self.offset_ns + ((other - self.begin) as f64 * self.drift_ppb / 1e9).round() as i64
        }

        fn within(&self, relation: &Relation) -> bool {
            let truth = (self.reference(relation.at) - relation.at - relation.whole_ns) as f64;
            let holds = |value: f64, interval: Interval| interval.low - 2.0 <= value && value <= interval.high + 2.0;
            holds(truth, relation.offset_ns) && holds(self.drift_ppb, relation.drift_ppb)
        }
    }

    fn message(clocks: &Clocks, random: &mut Random, span_s: u64) -> Message {
        let sent = clocks.begin + random.below(span_s * 1_000_000_000) as i64;
        // Mostly short, sometimes late by a lot.
        let most = 1 << (10 + random.below(16));
        let late = 20_000 + random.below(most) as i64;
        match random.below(2) {
            0 => Message { reference: clocks.reference(sent), other: sent + late, to_other: true },
            _ => Message { reference: clocks.reference(sent + late), other: sent, to_other: false },
        }
    }

    #[test]
    fn what_is_true_lies_in_the_interval() {
        for seed in 1..300u64 {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let clocks = Clocks::random(&mut random);
            let (count, span_s) = (3 + random.below(300), 1 + random.below(100));
            let messages: Vec<Message> = (0..count).map(|_| message(&clocks, &mut random, span_s)).collect();
            match align_messages(&messages) {
                Ok(relation) => {
                    assert!(clocks.within(&relation), "seed {seed}: {relation:?}");
                    let Interval { low, best, high } = relation.offset_ns;
                    assert!(low <= best && best <= high, "seed {seed}: {relation:?}");
                    assert_eq!(relation.used[0] + relation.used[1], messages.len());
                }
                Err(Refusal::OneWay { .. }) => {
                    let to_other = messages.iter().filter(|message| message.to_other).count();
                    assert!(to_other == 0 || to_other == messages.len(), "seed {seed}");
                }
                Err(refusal) => panic!("seed {seed}: {refusal:?}"),
            }
        }
    }

    #[test]
    fn more_messages_say_more() {
        let mut random = Random(77);
        let clocks = Clocks::random(&mut random);
        let messages: Vec<Message> = (0..2000).map(|_| message(&clocks, &mut random, 60)).collect();
        let widths = [20, 200, 2000].map(|count| {
            let offset = align_messages(&messages[..count]).unwrap().offset_ns;
            offset.high - offset.low
        });
        assert!(widths[0] > widths[2] && widths[2] < 100_000.0, "{widths:?}");
    }

    #[test]
    fn one_way_gives_one_bound() {
        let to = |sent: i64, received: i64| Message { reference: sent, other: received, to_other: true };
        let from = |sent: i64, received: i64| Message { reference: received, other: sent, to_other: false };
        // Short enough that no drift matters.
        let refusal = align_messages(&[to(1000, 400), to(2000, 1500)]).unwrap_err();
        let Refusal::OneWay { at_least: true, bound_ns, .. } = refusal else { panic!("{refusal:?}") };
        assert!((bound_ns - 600.0).abs() <= 2.0, "{bound_ns}");
        let refusal = align_messages(&[from(400, 1000), from(1500, 2000)]).unwrap_err();
        let Refusal::OneWay { at_least: false, bound_ns, .. } = refusal else { panic!("{refusal:?}") };
        assert!((bound_ns - 500.0).abs() <= 2.0, "{bound_ns}");
        assert_eq!(align_messages(&[]), Err(Refusal::Nothing));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let to = Message { reference: 5000, other: 1000, to_other: true };
        let fine = Message { reference: 7000, other: 2000, to_other: false };
        let before_it_was_sent = Message { reference: 2500, other: 2000, to_other: false };
        assert!(align_messages(&[to, fine]).is_ok());
        let refusal = align_messages(&[to, fine, before_it_was_sent]);
        assert_eq!(refusal, Err(Refusal::Crossed { one: 2, other: 0 }));
    }

    #[test]
    fn common_events_make_a_line_and_leave_out_what_is_far() {
        for seed in 1..100u64 {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let clocks = Clocks::random(&mut random);
            let mut events: Vec<(i64, i64)> = (0..100i64)
                .map(|i| {
                    let other = clocks.begin + i * 100_000_000;
                    (clocks.reference(other) + random.below(2000) as i64 - 1000, other)
                })
                .collect();
            events[40].0 += 1_000_000_000;
            let relation = align_common(&events).unwrap();
            assert_eq!(relation.left_out, [40], "seed {seed}");
            assert!(clocks.within(&relation), "seed {seed}: {relation:?}");
            assert!(relation.spread_ns < 2500.0);
        }
    }
}
