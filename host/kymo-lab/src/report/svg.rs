// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of SVG as text. Whoever adds a text need not think of escaping; whoever adds a number gets one digit after
//! the point.

use std::fmt::Write as _;

/// Colours of curves, for light and dark backgrounds; told apart with the usual kinds of colour blindness (Okabe and
/// Ito).
const COLOURS: [(&str, &str); 7] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#e69f00"),
    ("#009e73", "#2fd8a8"),
    ("#a0468a", "#e29acb"),
    ("#6b5b00", "#f0e442"),
    ("#5a5a5a", "#b8b8b8"),
    ("#7a1f1f", "#ff9d94"),
];

/// Makes a text harmless in elements and attributes of XML and HTML; what XML does not allow becomes U+FFFD.
pub fn escape(text: &str) -> String {
    let mut to = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => to.push('\u{fffd}'),
            c => to.push(c),
        }
    }
    to
}

/// Where a text stands at its point.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// To the right of it.
    Start,
    /// Over it.
    Middle,
    /// To the left of it.
    End,
}

/// A drawing that grows.
#[derive(Default)]
pub struct Drawing {
    body: String,
}

impl Drawing {
    /// A text; `class` is one of the style's.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ =
            writeln!(self.body, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#);
    }

    /// A line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _ = writeln!(self.body, r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
    }

    /// A filled rectangle, with a text that is shown when it is pointed at.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, title: &str) {
        let title = escape(title);
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"><title>{title}</title></rect>"#
        );
    }

    /// A dot with a title.
    pub fn dot(&mut self, (x, y): (f64, f64), class: &str, title: &str) {
        let title = escape(title);
        let _ = writeln!(
            self.body,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="3"><title>{title}</title></circle>"#
        );
    }

    /// A line through points, with a title. A point that is not finite interrupts it.
    pub fn curve(&mut self, points: &[(f64, f64)], class: &str, title: &str) {
        let mut path = String::new();
        let mut is_down = false;
        for (x, y) in points {
            let finite = x.is_finite() && y.is_finite();
            if finite {
                let _ = write!(path, "{}{x:.1} {y:.1}", if is_down { 'L' } else { 'M' });
            }
            is_down = finite;
        }
        if !path.is_empty() {
            let title = escape(title);
            let _ = writeln!(self.body, r#"<path class="{class}" d="{path}"><title>{title}</title></path>"#);
        }
    }

    /// Another drawing within this one, moved down.
    pub fn below(&mut self, other: &Drawing, y: f64) {
        let _ = write!(self.body, "<g transform=\"translate(0 {y:.1})\">\n{}</g>\n", other.body);
    }

    /// As an element `svg`, for an HTML page that has [`style`].
    pub fn inline(&self, (width, height): (f64, f64), title: &str) -> String {
        let title = escape(title);
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n{}</svg>\n",
            self.body
        )
    }

    /// As a file of its own.
    pub fn file(&self, (width, height): (f64, f64), title: &str) -> String {
        let title = escape(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} \
             {height:.0}\">\n<title>{title}</title>\n<style>{}</style>\n\
             <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            style_of_file(),
            self.body
        )
    }
}

/// Class of a curve's colour.
pub fn colour(number: usize) -> String {
    format!("c{}", number % COLOURS.len())
}

/// Colours by name, for light and dark.
const BASE: [(&str, &str, &str); 4] = [
    ("ground", "#fff", "#16181c"),
    ("ink", "#1b1e23", "#e4e6ea"),
    ("faint", "#666c76", "#8c929c"),
    ("grid", "#e2e5ea", "#2c3038"),
];

/// All colours: name, light, dark.
fn palette() -> Vec<(String, &'static str, &'static str)> {
    let base = BASE.iter().map(|(name, light, dark)| ((*name).to_owned(), *light, *dark));
    base.chain(COLOURS.iter().enumerate().map(|(at, (light, dark))| (colour(at), *light, *dark))).collect()
}

/// The style of drawings in a page: colours by the reader's choice of light or dark, as variables that the page has,
/// too.
pub fn style() -> String {
    let variables = |dark: bool| -> String {
        palette().iter().map(|(name, light, night)| format!("--{name}:{};", if dark { night } else { light })).collect()
    };
    format!(
        ":root{{color-scheme:light dark;{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}{SHAPES}{}",
        variables(false),
        variables(true),
        colours(|name, _, _| format!("var(--{name})"))
    )
}

/// The same for a file of its own, without variables: not all programs that draw SVG know them.
fn style_of_file() -> String {
    let (light, dark) = (colours(|_, light, _| light.to_owned()), colours(|_, _, dark| dark.to_owned()));
    format!("{SHAPES}{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

/// What has no colour.
const SHAPES: &str = "svg text{font-family:sans-serif;font-size:12px}svg .head{font-weight:bold;font-size:14px}\
     .curve{stroke-width:1.4}.thin{stroke-width:.8;opacity:.7}.beyond{fill-opacity:.55}";

/// The rules with colours, each as `of` says it.
fn colours(of: impl Fn(&str, &str, &str) -> String) -> String {
    let all = palette();
    let shown = |wanted: &str| {
        all.iter()
            .find(|(name, ..)| name == wanted)
            .map_or_else(String::new, |(name, light, dark)| of(name, light, dark))
    };
    let mut rules = format!(
        "svg text{{fill:{}}}svg .faint{{fill:{faint}}}.ground{{fill:{}}}.grid{{stroke:{}}}.axis{{stroke:{faint}}}",
        shown("ink"),
        shown("ground"),
        shown("grid"),
        faint = shown("faint")
    );
    for at in 0..COLOURS.len() {
        let (class, value) = (colour(at), shown(&colour(at)));
        let _ = write!(rules, ".{class}{{stroke:{value};fill:{value}}}svg text.{class}{{stroke:none;fill:{value}}}");
    }
    // Behind the colours, which fill.
    rules + ".curve{fill:none}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_become_elements() {
        assert_eq!(escape("<a href='x'>&\"\u{1}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}");
        let mut drawing = Drawing::default();
        drawing.text((1.0, 2.0), Anchor::Start, "faint", "</text><script>");
        assert!(!drawing.inline((10.0, 10.0), "<b>").contains("<script>"));
    }

    #[test]
    fn a_file_needs_no_variables() {
        let file = Drawing::default().file((10.0, 10.0), "x");
        assert!(
            !file.contains("var(") && file.contains(".ground{fill:#fff}") && file.contains(".ground{fill:#16181c}")
        );
        assert!(style().contains(".ground{fill:var(--ground)}") && style().contains("--ground:#fff;"));
    }

    #[test]
    fn a_gap_interrupts_a_curve() {
        let mut drawing = Drawing::default();
        drawing.curve(&[(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 4.0)], "curve c0", "");
        assert!(drawing.body.contains("M0.0 1.0M2.0 3.0L3.0 4.0"), "{}", drawing.body);
    }
}
