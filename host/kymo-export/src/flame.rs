// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flame graph as one SVG file, which needs nothing else: functions as boxes, the callers below, the width their
//! time.
//! Drawn here; a title in each box tells its numbers where the pointer stands.

use std::fmt::Write as _;

/// A box: a function and what it called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlamePart {
    /// Shown in the box, if there is room.
    pub name: String,
    /// Width: time, or a count.
    pub weight: u64,
    /// Shown in the title behind the name.
    pub note: String,
    /// Something about its time is not certain: drawn with a dashed border.
    pub is_doubtful: bool,
    /// In the order of drawing, from the left.
    pub below: Vec<FlamePart>,
}

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const HEAD: f64 = 44.0;
/// Boxes narrower than this are left out: nobody sees them.
const NARROW: f64 = 0.3;
/// Of a letter.
const LETTER: f64 = 6.6;

/// The picture of `root`, with `title` above. `unit` is behind the weights.
pub fn svg(title: &str, unit: &str, root: &FlamePart) -> String {
    let depth = depth(root, WIDTH);
    let height = HEAD + ROW * depth as f64 + 8.0;
    let mut out = String::new();
    // Writing to a text cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"6\" y=\"18\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let mut left_out = 0;
    draw(&mut out, unit, root, root.weight, (0.0, WIDTH, height - 8.0 - ROW), &mut left_out);
    if left_out > 0 {
        let _ =
            writeln!(out, "<text x=\"6\" y=\"34\" fill=\"#666\">{left_out} boxes are too narrow to be drawn</text>");
    }
    out.push_str("</svg>\n");
    out
}

/// Rows, of what is wide enough.
fn depth(part: &FlamePart, width: f64) -> usize {
    if width < NARROW {
        return 0;
    }
    let share = |below: &FlamePart| width * below.weight as f64 / part.weight.max(1) as f64;
    1 + part.below.iter().map(|below| depth(below, share(below))).max().unwrap_or(0)
}

fn draw(out: &mut String, unit: &str, part: &FlamePart, all: u64, (x, width, y): (f64, f64, f64), left_out: &mut u64) {
    if width < NARROW {
        *left_out += 1;
        return;
    }
    let share = 100.0 * part.weight as f64 / all.max(1) as f64;
    let dashed = if part.is_doubtful { " stroke=\"#333\" stroke-dasharray=\"3 2\"" } else { " stroke=\"#fff\"" };
    let _ = write!(
        out,
        "<g><title>{} {} {unit} ({share:.2} %){}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
         fill=\"{}\"{dashed} stroke-width=\"0.5\"/>",
        escaped(&part.name),
        part.weight,
        escaped(&part.note),
        ROW - 1.0,
        colour(&part.name),
    );
    let room = ((width - 6.0) / LETTER) as usize;
    if room >= 3 {
        let letters = part.name.chars().count();
        let shown: String = match letters <= room {
            true => part.name.clone(),
            false => part.name.chars().take(room - 2).chain("..".chars()).collect(),
        };
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 3.0, y + 12.5, escaped(&shown));
    }
    out.push_str("</g>\n");
    let mut at = x;
    for below in &part.below {
        let width = width * below.weight as f64 / part.weight.max(1) as f64;
        draw(out, unit, below, all, (at, width, y - ROW), left_out);
        at += width;
    }
}

/// Warm colours, the same for the same name in every picture.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let (hue, light) = (15 + hash % 40, 62 + (hash >> 8) % 14);
    format!("hsl({hue},80%,{light}%)")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no place for them.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_their_share() {
        let leaf = |name: &str, weight| FlamePart { name: name.into(), weight, ..FlamePart::default() };
        let root = FlamePart {
            name: "all".into(),
            weight: 100,
            below: vec![leaf("a<b>", 75), leaf("c\u{1}\u{ffff}", 25)],
            ..FlamePart::default()
        };
        let text = svg("t & u", "ns", &root);
        assert!(text.contains("t &amp; u") && text.contains("a&lt;b&gt; 75 ns (75.00 %)"), "{text}");
        assert!(text.contains("x=\"0.0\" y=\"54.0\"") || text.contains("width=\"900.0\""), "{text}");
        assert!(text.contains("x=\"900.0\"") && text.contains("width=\"300.0\""), "{text}");
        assert!(text.contains("c\u{fffd}\u{fffd} 25 ns"), "{text}");
        assert_eq!(text.matches("<rect").count(), 4);
    }

    #[test]
    fn narrow_boxes_are_counted() {
        let leaf = FlamePart { name: "x".into(), weight: 1, ..FlamePart::default() };
        let root = FlamePart { name: "all".into(), weight: 1_000_000, below: vec![leaf; 3], ..FlamePart::default() };
        assert!(svg("t", "ns", &root).contains("3 boxes are too narrow"));
    }
}
