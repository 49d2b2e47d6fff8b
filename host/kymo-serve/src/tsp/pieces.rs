// SPDX-License-Identifier: MIT OR Apache-2.0
//! From stretches and mixed pixels of an answer to the states of one row: sorted, and none over another. Pure.

use serde_json::{Value, json};

use super::model::style;

/// A stretch of one state.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// ns since 1970.
    pub from: i64,
    /// ns since 1970.
    pub to: i64,
    /// Its position among the states of the answer.
    pub state: usize,
    /// What is written on it.
    pub label: String,
}

/// A pixel with several states.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedPixel {
    /// ns since 1970.
    pub from: i64,
    /// ns since 1970.
    pub to: i64,
    /// Of the pixel, by state.
    pub shares: Vec<f64>,
    /// Stretches that touch it.
    pub count: i64,
}

/// The boundary of a pixel of a window [spec/view.md 3].
pub fn edge(window: (i64, i64), pixels: i64, pixel: i64) -> i64 {
    let (from, to) = (i128::from(window.0), i128::from(window.1));
    let at = from + i128::from(pixel) * (to - from) / i128::from(pixels.max(1));
    i64::try_from(at).unwrap_or(window.1)
}

/// The states of a row. What of a mixed pixel a stretch covers is the stretch's; the rest is shown as the state that
/// has the most of it. `keys` are styles by state; none: the state is a gap.
pub fn states(mut stretches: Vec<Stretch>, pixels: &[MixedPixel], keys: &[Option<&str>]) -> Vec<Value> {
    stretches.sort_by_key(|stretch| stretch.from);
    let rest = pixels.iter().filter_map(|pixel| rest(pixel, &stretches));
    let rest: Vec<Stretch> = rest.collect();
    stretches.extend(rest);
    stretches.sort_by_key(|stretch| (stretch.from, stretch.to));
    let mut end = i64::MIN;
    let mut shown = Vec::new();
    for stretch in &stretches {
        let from = stretch.from.max(end);
        let key = keys.get(stretch.state).copied().flatten();
        if from < stretch.to {
            end = stretch.to;
            if let Some(key) = key {
                shown.push(json!({ "start": from, "end": stretch.to, "label": stretch.label, "style": style(key) }));
            }
        }
    }
    shown
}

/// What stretches leave of a mixed pixel.
fn rest(pixel: &MixedPixel, stretches: &[Stretch]) -> Option<Stretch> {
    let ns = pixel.to.abs_diff(pixel.from).max(1) as f64;
    let mut shares = pixel.shares.clone();
    let mut take = |stretch: &Stretch, from: i64, to: i64| {
        if let Some(share) = shares.get_mut(stretch.state) {
            *share -= to.abs_diff(from) as f64 / ns;
        }
    };
    let behind = stretches.partition_point(|stretch| stretch.from <= pixel.from);
    let (mut from, mut to) = (pixel.from, pixel.to);
    if let Some(left) = behind.checked_sub(1).and_then(|left| stretches.get(left)).filter(|left| left.to > from) {
        take(left, from, left.to.min(to));
        from = left.to;
    }
    if let Some(right) = stretches.get(behind).filter(|right| right.from < to) {
        take(right, right.from, to);
        to = right.from;
    }
    let most = shares.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    let label = if pixel.count > 1 { format!("{} changes", pixel.count) } else { String::new() };
    (from < to && *most.1 > 0.0).then_some(Stretch { from, to, state: most.0, label })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: i64, to: i64, state: usize) -> Stretch {
        Stretch { from, to, state, label: String::new() }
    }

    fn shown(list: &[Value]) -> Vec<(i64, i64, &str)> {
        let one = |state: &Value| (state["start"].as_i64().unwrap(), state["end"].as_i64().unwrap());
        let key = |state: &'_ Value| match state["style"]["parentKey"].as_str() {
            Some("a") => "a",
            Some("b") => "b",
            _ => "c",
        };
        list.iter().map(|state| (one(state).0, one(state).1, key(state))).collect()
    }

    const KEYS: [Option<&str>; 4] = [Some("a"), Some("b"), Some("c"), None];

    #[test]
    fn a_mixed_pixel_between_two_stretches_is_what_they_leave() {
        let pixel = MixedPixel { from: 100, to: 200, shares: vec![0.5, 0.2, 0.3, 0.0], count: 4 };
        let found = states(vec![stretch(160, 300, 2), stretch(0, 140, 0)], &[pixel], &KEYS);
        // 40 ns of a and 40 of c are theirs: 20 of b, 10 of a are left.
        assert_eq!(shown(&found), [(0, 140, "a"), (140, 160, "b"), (160, 300, "c")]);
        assert_eq!(found[1]["label"], "4 changes");
    }

    #[test]
    fn states_do_not_overlap_and_gaps_are_gaps() {
        let found =
            states(vec![stretch(0, 50, 0), stretch(40, 80, 1), stretch(80, 90, 3), stretch(90, 95, 2)], &[], &KEYS);
        assert_eq!(shown(&found), [(0, 50, "a"), (50, 80, "b"), (90, 95, "c")]);
        let full = MixedPixel { from: 10, to: 20, shares: vec![1.0], count: 1 };
        assert!(states(vec![stretch(0, 50, 3)], &[full], &KEYS).is_empty());
    }

    #[test]
    fn edges_are_those_of_the_specification() {
        let window = (1_700_000_000_000_000_003, 1_700_000_000_000_000_013);
        assert_eq!([0, 1, 2, 3].map(|pixel| edge(window, 3, pixel) - window.0), [0, 3, 6, 10]);
        assert_eq!(edge((0, i64::MAX), 8192, 8192), i64::MAX);
    }
}
