// SPDX-License-Identifier: MIT OR Apache-2.0
//! The help of `kymo` itself: verbs by what they are for, and three examples. Each verb's own help is beside its code.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Verbs by what they are for. A test checks that each visible verb is in one group.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Record", &["record", "session", "mark", "list", "collect", "recover"]),
    ("Look", &["view", "read", "stats", "top", "state", "functions", "heap", "sql", "lake", "index"]),
    ("Explain", &["latency", "critical", "explain"]),
    (
        "Measure",
        &[
            "wakeup", "npt", "hwlat", "preempt", "pi", "slots", "load", "eval", "maxrate", "compare", "report",
            "doctor", "shield",
        ],
    ),
    ("Exchange", &["export", "import"]),
];

const EXAMPLES: &str = "Examples:
  kymo record -k sched,irq -o t -- ./program    record a program and the scheduler
  kymo read t --from -1s                        print the last second of the trace
  kymo explain t                                say why the latest wake-up was late

Each verb has --help and a man page: man kymo-record. Exit status of every verb: 2 for errors.";

/// The definition of the command line, with this help.
pub fn command() -> Command {
    let command = Cli::command();
    let template =
        format!("{{about}}\n\nUsage: kymo VERB [OPTIONS]\n{}\n\nOptions:\n{{options}}{{after-help}}", groups(&command));
    command.help_template(template).after_help(EXAMPLES)
}

/// A part for each group, a line for each verb.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        let _ = write!(text, "\n{title}:");
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about).map(ToString::to_string);
            let _ = write!(text, "\n  {verb:<10}{}", about.unwrap_or_default());
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_is_in_one_group() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let cli = Cli::command();
        let mut there: Vec<&str> =
            cli.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect();
        listed.sort_unstable();
        there.sort_unstable();
        assert_eq!(listed, there, "docs/extending.md, a command, step 3: each visible verb is in one of GROUPS");
    }

    #[test]
    fn the_help_fits_a_terminal_and_names_the_groups() {
        let text = command().render_help().to_string();
        for (title, _) in GROUPS {
            assert!(text.contains(&format!("\n{title}:\n")), "{title} in {text}");
        }
        let is_example = |line: &&str| line.starts_with("  kymo ");
        assert_eq!(text.lines().filter(is_example).count(), 3);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
    }
}
