// SPDX-License-Identifier: MIT OR Apache-2.0
//! A story as a screenful of text.

use super::story::{Advice, Link, Moment, Slice, Story, StoryRow, StretchSide};
use crate::doubt::Doubt;
use crate::units::duration;

/// Parts of the budget that are shown.
const SLICES_SHOWN: usize = 7;
/// Characters of a line, for what is broken into lines.
const WIDTH: usize = 110;
/// Width of the longest bar.
const BAR: usize = 24;
/// Frames of a call stack that are shown.
const FRAMES_SHOWN: usize = 6;

/// How a story is shown.
pub struct StoryStyle<'a> {
    /// A time of the trace's clock as text.
    pub time: &'a dyn Fn(i64) -> String,
}

impl Story {
    /// The screenful.
    pub fn text(&self, look: &StoryStyle<'_>) -> String {
        let mut text = wrap(&self.headline, "") + &self.when(look);
        for (head, part) in [
            ("", self.cpus.iter().map(|line| format!("  {line}\n")).collect::<String>()),
            ("where the time went", self.budget_text()),
            ("who was waited for", self.chain_text()),
            ("what happened", self.rows_text()),
            ("doubtful", list(&self.doubts)),
            ("not in the trace", self.missing_text()),
            ("what to try", self.advice_text()),
        ] {
            if !part.is_empty() {
                text += &if head.is_empty() { format!("\n{part}") } else { format!("\n{head}:\n{part}") };
            }
        }
        text
    }

    fn when(&self, look: &StoryStyle<'_>) -> String {
        let cpu = self.cpu.map_or(String::new(), |cpu| format!(", cpu {cpu}"));
        let to = if self.to > self.from { format!(" to {}", (look.time)(self.to)) } else { String::new() };
        format!("{}{to}{cpu}\n", (look.time)(self.from))
    }

    fn budget_text(&self) -> String {
        let whole = self.to.abs_diff(self.from).max(1);
        let line = |slice: &Slice| {
            let share = slice.ns as f64 / whole as f64;
            let bar = "#".repeat((share * BAR as f64).ceil() as usize);
            let pieces = if slice.pieces > 1 { format!(" ({} times)", slice.pieces) } else { String::new() };
            let marks = marks(slice.doubt);
            let percent = 100.0 * share;
            format!("  {:>8} {percent:>5.1} %  {bar:<BAR$}  {}{pieces}{marks}\n", duration(slice.ns), slice.text)
        };
        let mut text: String = self.budget.iter().take(SLICES_SHOWN).map(line).collect();
        let rest = self.budget.iter().skip(SLICES_SHOWN);
        let (count, ns) = rest.fold((0, 0), |(count, ns), slice| (count + 1, ns + slice.ns));
        if count > 0 {
            text += &format!("  {:>8}          {:BAR$}  {count} more parts\n", duration(ns), "");
        }
        text
    }

    fn chain_text(&self) -> String {
        let line = |link: &Link| {
            let (at, long) = (offset(link.from, self.from), duration(link.to.abs_diff(link.from)));
            let indent = "  ".repeat(link.depth.min(10));
            format!("  {at:>9}  {long:>8}  {indent}{}{}\n", link.text, marks(link.doubt))
        };
        let mut text: String = self.chain.iter().map(line).collect();
        if self.chain_left_out > 0 {
            let (count, long) = (self.chain_left_out, duration(self.chain_left_out_ns));
            text += &format!("  {:>9}  {long:>8}  {count} shorter links are not shown\n", "");
        }
        text
    }

    fn rows_text(&self) -> String {
        let mut text = String::new();
        let mut place = StretchSide::Before;
        for row in &self.rows {
            match row {
                StoryRow::Moment(moment) => {
                    if moment.place != place && moment.place == StretchSide::After {
                        text += "  - then -\n";
                    } else if moment.place != place && !text.is_empty() {
                        text += "  - it begins -\n";
                    }
                    place = moment.place;
                    text += &self.moment_text(moment);
                }
                StoryRow::Gap(gap) => {
                    if place == StretchSide::Before && !text.is_empty() {
                        text += "  - it begins -\n";
                    }
                    place = if place == StretchSide::Before { StretchSide::Inside } else { place };
                    let long = duration(gap.to.abs_diff(gap.from));
                    text += &format!("  {:>9}  >>> {long}: {} <<<\n", offset(gap.from, self.from), gap.text);
                }
                StoryRow::Skipped(count) => text += &format!("  {:>9}  ({count} more)\n", ""),
            }
        }
        text
    }

    fn moment_text(&self, moment: &Moment) -> String {
        let cpu = moment.cpu.map_or("  ".to_owned(), |cpu| format!("{cpu:>2}"));
        let who = if moment.who.is_empty() { String::new() } else { format!("{}: ", moment.who) };
        let mut text = format!("  {:>9} {cpu}  {who}{}\n", offset(moment.time, self.from), moment.text);
        for frame in moment.stack.iter().take(FRAMES_SHOWN) {
            text += &format!("  {:>9}       in {frame}\n", "");
        }
        text
    }

    fn missing_text(&self) -> String {
        let events: Vec<String> = self.missing_events.iter().map(|missing| missing.text.clone()).collect();
        list(&events) + &list(&self.blind)
    }

    fn advice_text(&self) -> String {
        let line = |advice: &Advice| wrap(&advice.because, "  ") + &wrap(&advice.try_this, "    ");
        self.advice.iter().map(line).collect()
    }
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| wrap(line, "  ")).collect()
}

/// A text in lines of a screen's width, broken at blanks.
pub(super) fn wrap(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && indent.len() + line + 1 + word.chars().count() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}

/// What is doubtful, in brackets behind a line; empty where nothing is.
pub(super) fn marks(doubt: Doubt) -> String {
    if doubt.is_none() { String::new() } else { format!("  [{doubt}]") }
}

/// `+12.3us`, `-7ns`: from the begin.
fn offset(time: i64, from: i64) -> String {
    let sign = if time < from { "-" } else { "+" };
    format!("{sign}{}", duration(time.abs_diff(from)))
}
