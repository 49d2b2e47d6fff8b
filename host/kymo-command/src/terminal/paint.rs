// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colours: few, for what the eye looks for first. The text is the same without them.

use std::sync::atomic::{AtomicBool, Ordering};

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The head of a table or of a part.
    Heading,
    /// Names of events.
    Name,
    /// What is lost, wrong or late.
    Alarm,
}

impl Style {
    /// The escape sequence that begins it.
    pub fn code(self) -> &'static str {
        match self {
            Style::Heading => "\x1b[1m",
            Style::Name => "\x1b[36m",
            Style::Alarm => "\x1b[1;31m",
        }
    }
}

/// Ends every style.
pub const END: &str = "\x1b[0m";

/// Whether standard output has colours. Off until [`set_color`].
static HAS_COLOR: AtomicBool = AtomicBool::new(false);

/// Decides about colours: `None` is by the terminal and the environment.
pub fn set_color(wanted: Option<bool>) {
    let has_color = wanted.unwrap_or_else(|| by_environment(super::is_on_terminal(), |name| std::env::var(name).ok()));
    HAS_COLOR.store(has_color, Ordering::Relaxed);
}

/// NO_COLOR counts where it is not empty, as its convention says (<https://no-color.org>).
fn by_environment(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    is_terminal
        && variable("NO_COLOR").is_none_or(|value| value.is_empty())
        && variable("TERM").is_none_or(|term| term != "dumb")
}

/// Whether text is to have colours.
#[inline]
pub fn has_color() -> bool {
    HAS_COLOR.load(Ordering::Relaxed)
}

/// The text in its style, or as it is where there are no colours.
pub fn paint(style: Style, text: &str) -> String {
    painted(has_color(), style, text)
}

fn painted(has_color: bool, style: Style, text: &str) -> String {
    match has_color && !text.is_empty() {
        true => format!("{}{text}{END}", style.code()),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals() {
        let check = |is_terminal: bool, variables: &[(&str, &str)], expect: bool| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(by_environment(is_terminal, variable), expect, "{is_terminal} {variables:?}");
        };
        check(true, &[("TERM", "xterm")], true);
        check(true, &[], true);
        check(true, &[("NO_COLOR", "")], true);
        check(true, &[("NO_COLOR", "1")], false);
        check(true, &[("TERM", "dumb")], false);
        check(false, &[("TERM", "xterm")], false);
    }

    #[test]
    fn without_colours_the_text_is_as_it_was() {
        assert_eq!(painted(false, Style::Alarm, "lost"), "lost");
        assert_eq!(painted(true, Style::Alarm, "lost"), "\x1b[1;31mlost\x1b[0m");
        assert_eq!(painted(true, Style::Alarm, ""), "");
    }
}
