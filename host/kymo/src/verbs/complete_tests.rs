// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every command has beside its code [docs/extending.md]. A message names the step that is missing.

use std::path::Path;

use clap::CommandFactory as _;
use kymo_analyze::What;

#[test]
fn every_command_is_complete() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let table = readme.split("\n## ").find(|section| section.starts_with("All commands")).unwrap();
    let mut missing = Vec::new();
    let mut step = |number, name: &str, what: &str| {
        missing.push(format!("{name}: docs/extending.md, a command, step {number}: {what}"))
    };
    for verb in crate::Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = verb.get_name();
        if verb.get_about().is_none() {
            step(1, name, "Args has no comment, which is the first line of its help");
        }
        let about = verb.get_arguments().find(|argument| !argument.is_hide_set() && argument.get_help().is_none());
        if let Some(argument) = about {
            step(1, name, &format!("its argument {} has no comment, which is its help", argument.get_id()));
        }
        if !table.contains(&format!("`{name}`")) {
            step(4, name, "the table \"All commands\" of README.md has no row of it");
        }
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn latency_help_names_each_latency() {
    let mut command = crate::Cli::command();
    let latency = command.find_subcommand_mut("latency").unwrap();
    let what = latency.get_arguments().find(|argument| argument.get_id() == "what").unwrap();
    let help = [what.get_help(), what.get_long_help()].into_iter().flatten().map(ToString::to_string);
    let help = help.collect::<String>() + &latency.render_long_help().to_string();
    let words: Vec<&str> = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    for (_, name) in What::ALL.iter().filter(|(what, _)| *what != What::Span) {
        let missing = "docs/extending.md, a latency, step 5: the help of `kymo latency --what` does not name it";
        assert!(words.contains(name), "{name}: {missing}");
    }
}

#[test]
fn import_help_names_each_format() {
    let mut command = crate::Cli::command();
    let help = command.find_subcommand_mut("import").unwrap().render_long_help().to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for format in kymo_export::import::FORMATS {
        let missing = "docs/extending.md, a trace format, step 5: the help of `kymo import` does not name it";
        assert!(help.contains(format.name), "{}: {missing}", format.name);
    }
}
