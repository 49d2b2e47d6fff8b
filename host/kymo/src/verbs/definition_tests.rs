// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the definition of the command line promises: one meaning for each common option, `--json` for every verb,
//! examples that parse, references to pages that are installed, and old spellings that still work.

use clap::{Arg, ArgAction, Command};

use crate::verbs::docs::pages;
use crate::{help, old_spellings};

/// Verbs without `--json`, and why.
const WITHOUT_JSON: [(&str, &str); 4] = [
    ("docs", "hidden: writes files for `make install`"),
    ("__complete", "hidden: answers to shells, one candidate a line"),
    ("shield", "its standard output is that of the command"),
    ("lake serve", "hidden: its answers are JSON, or columns where that is asked for"),
];

/// Common options: the name of the value, which stands for one form and one meaning.
const COMMON: [(&str, &[&str]); 10] = [
    ("from", &["TIME"]),
    ("to", &["TIME"]),
    ("at", &["TIME"]),
    ("duration", &["TIME"]),
    ("cpu", &["CPUS"]),
    ("format", &["FORMAT"]),
    ("limit", &["N"]),
    ("by", &["LIST"]),
    ("event", &["GLOB"]),
    ("filter", &["EXPR"]),
];

/// Options of a verb that are called as common ones and mean something else: where traces are added to.
const OTHERWISE: [(&str, &str, &[&str]); 2] = [("lake add", "to", &["URL"]), ("lake ship", "to", &["URL"])];

/// All verbs with what was typed to reach them, `session start` as two words.
fn verbs() -> Vec<(String, Command)> {
    let mut cli = help::command();
    cli.build();
    let mut all = Vec::new();
    for verb in cli.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let below: Vec<&Command> = verb.get_subcommands().filter(|below| below.get_name() != "help").collect();
        match below.is_empty() {
            true => all.push((verb.get_name().to_owned(), verb.clone())),
            false => all.extend(
                below.iter().map(|below| (format!("{} {}", verb.get_name(), below.get_name()), (*below).clone())),
            ),
        }
    }
    all
}

fn option<'a>(verb: &'a Command, name: &str) -> Option<&'a Arg> {
    verb.get_arguments().find(|arg| arg.get_long() == Some(name))
}

/// All that the help of a verb says.
fn help_of(verb: &Command) -> String {
    verb.clone().render_long_help().to_string()
}

#[test]
fn every_verb_has_json() {
    for (name, verb) in verbs() {
        let has_json = option(&verb, "json").is_some_and(|arg| matches!(arg.get_action(), ArgAction::SetTrue));
        let is_excused = WITHOUT_JSON.iter().any(|(without, _)| *without == name);
        assert!(has_json != is_excused, "kymo {name}: --json {has_json}, excused {is_excused}");
    }
}

#[test]
fn common_options_are_the_same_in_every_verb() {
    for (name, verb) in verbs() {
        for (option_name, expect) in COMMON {
            let Some(arg) = option(&verb, option_name) else { continue };
            let values: Vec<&str> =
                arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
            let is_it = |(verb, option, _): &&(&str, &str, &[&str])| *verb == name && *option == option_name;
            let expect = OTHERWISE.iter().find(is_it).map_or(expect, |(_, _, values)| values);
            assert_eq!(values, expect, "kymo {name} --{option_name}");
        }
        for arg in verb.get_arguments() {
            // One spelling: an alias that is shown would be a second one.
            assert!(arg.get_visible_aliases().unwrap_or_default().is_empty(), "kymo {name}: {}", arg.get_id());
            for (short, long) in [('c', "cpu"), ('d', "duration"), ('o', "output"), ('q', "quiet"), ('p', "pid")] {
                let is_other = arg.get_short() == Some(short) && arg.get_long() != Some(long);
                let is_prio = short == 'p' && arg.get_long() == Some("prio");
                assert!(!is_other || is_prio, "kymo {name} -{short} is --{long} elsewhere");
            }
        }
    }
}

#[test]
fn values_of_common_options_have_one_form() {
    let check = |line: &str, is_right: bool| {
        let words = shell_words(line);
        let result = help::command().try_get_matches_from(words);
        assert_eq!(result.is_ok(), is_right, "{line}: {:?}", result.err().map(|error| error.to_string()));
    };
    for verb in ["read t", "stats t", "top t", "latency t", "critical t --thread 1", "explain t --thread 1"] {
        check(&format!("kymo {verb} --from +1s --to -1ms"), true);
        check(&format!("kymo {verb} --to perfetto"), false);
    }
    check("kymo export t --format csv -o x --from +1s --to -1s", true);
    for verb in
        ["read t", "top t", "state t --at 1", "explain t", "wakeup", "load none", "maxrate", "record", "eval -o x"]
    {
        check(&format!("kymo {verb} --cpu 0,2-3"), true);
        check(&format!("kymo {verb} --cpu one"), false);
    }
    for verb in ["record", "collect --source -", "wakeup", "load none", "maxrate", "eval -o x"] {
        check(&format!("kymo {verb} --duration 1h"), true);
        check(&format!("kymo {verb} --duration soon"), false);
    }
}

/// As they were spelled before, and as they are now. Both must mean the same.
const RENAMED: [(&str, &str); 39] = [
    ("record --for 1s -- x", "record --duration 1s -- x"),
    ("record --cpus 0 -- x", "record --cpu 0 -- x"),
    ("record --state none -- x", "record --state-dump none -- x"),
    ("record --ctf2 -- x", "record --format ctf2 -- x"),
    ("session start a --for 1s", "session start a --duration 1s"),
    ("session start a --cpus 0", "session start a --cpu 0"),
    ("session start a --state none", "session start a --state-dump none"),
    ("session start a --ctf2", "session start a --format ctf2"),
    ("session start --load f", "session start --definition f"),
    ("session rotate a --size 1M", "session rotate a --rotate-size 1M"),
    ("session rotate a --time 1s", "session rotate a --rotate-time 1s"),
    ("list --events", "list --verbose"),
    ("list -k --fields", "list -k --verbose"),
    ("collect --from -", "collect --source -"),
    ("stats t --fields", "stats t --values"),
    ("stats t --top 3", "stats t --limit 3"),
    ("latency t --worst 3", "latency t --limit 3"),
    ("explain t --lines 9", "explain t --limit 9"),
    ("functions t --top 3", "functions t --limit 3"),
    ("export t --to csv -o x", "export t --format csv -o x"),
    ("export t --to=csv -o x", "export t --format csv -o x"),
    ("export t --to csv -o x --until +1s", "export t --format csv -o x --to +1s"),
    ("wakeup --cpus 0", "wakeup --cpu 0"),
    ("npt --cpus 0", "npt --cpu 0"),
    ("hwlat --cpus 0", "hwlat --cpu 0"),
    ("hwlat --kernel", "hwlat --kernel-tracer"),
    ("preempt --cpus 0", "preempt --cpu 0"),
    ("pi --cpus 0", "pi --cpu 0"),
    ("slots --cpu 0 --slot 1s -- npt", "slots --cpu 0 --duration 1s -- npt"),
    ("load --cpus 0 none", "load --cpu 0 none"),
    ("maxrate --cpus 0", "maxrate --cpu 0"),
    ("maxrate --for 1s", "maxrate --duration 1s"),
    ("eval -o x --cpus 0", "eval -o x --cpu 0"),
    ("eval -o x --load-cpus 0", "eval -o x --load-cpu 0"),
    ("eval -o x --limit 1ms", "eval -o x --deadline 1ms"),
    ("compare --per-cpu a -- b", "compare --by cpu a -- b"),
    ("doctor --prove x --runs 5", "doctor --prove x --rounds 5"),
    ("read t --from +1s --to +2s", "read t --from +1s --to +2s"),
    ("mark --session 12 text", "mark --session 12 text"),
];

#[test]
fn old_spellings_mean_what_they_meant() {
    let values = |line: &str| {
        let words = old_spellings::current(shell_words(&format!("kymo {line}")).into_iter().map(Into::into));
        let matches = help::command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        let (mut name, mut matches) = matches.subcommand().expect("a verb");
        while let Some(below) = matches.subcommand() {
            (name, matches) = below;
        }
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for id in matches.ids().map(clap::Id::as_str) {
            let is_given = matches.try_get_raw(id).is_ok()
                && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
            let raw = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
            if is_given {
                all.push((id.to_owned(), raw.map(|raw| raw.to_string_lossy().into_owned()).collect()));
            }
        }
        all.sort();
        (name.to_owned(), all)
    };
    for (old, new) in RENAMED {
        let (old_values, new_values) = (values(old), values(new));
        // Flags that an option with a value replaces: their verbs take both.
        let is_flag = old.contains("--ctf2") || old.contains("--per-cpu");
        assert!(old_values == new_values || is_flag, "{old}: {old_values:?}\n{new}: {new_values:?}");
    }
}

#[test]
fn old_spellings_are_not_shown() {
    let shown = verbs().iter().map(|(_, verb)| help_of(verb)).collect::<String>();
    for word in ["--cpus", "--until", "--per-cpu", "--ctf2", "--top ", "--load-cpus", "--slot ", "--for "] {
        assert!(!shown.contains(word), "{word} is shown by a help text");
    }
}

/// The words of a line as a shell would split it: blanks, quotes and backslashes only.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                is_word = true;
                word.extend(chars.by_ref().take_while(|inner| *inner != c));
            }
            '\\' => word.extend(chars.next()),
            c if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                is_word = true;
                word.push(c);
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

/// Commands of kymo in the lines behind `Examples:`. What a line says behind three blanks is for people.
fn examples(help: &str) -> Vec<String> {
    let Some((_, examples)) = help.split_once("\nExamples:\n") else { return Vec::new() };
    // What a backslash continues is one line.
    let examples = examples.split("\n\n").next().unwrap_or_default();
    let lines: Vec<String> = examples.split("\\\n").map(|part| part.trim_start().to_owned()).collect();
    let examples = lines.join("");
    let of_line = |line: &str| -> Vec<String> {
        let line = line.trim_start();
        let end = line.find("   ").unwrap_or(line.len());
        let commands = line[..end].split([';', '|', '&']).map(str::trim);
        let is_kymo = |command: &&str| command.starts_with("kymo ");
        // What is redirected is the shell's.
        commands.filter(is_kymo).map(|command| without_redirections(command).to_owned()).collect()
    };
    examples.lines().flat_map(of_line).collect()
}

fn without_redirections(command: &str) -> &str {
    let mut quote = None;
    for (at, c) in command.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '>') => return command[..at].trim_end(),
            _ => {}
        }
    }
    command
}

#[test]
fn every_help_has_examples_that_parse() {
    let mut top = help::command();
    let mut all = vec![("kymo".to_owned(), top.render_help().to_string())];
    all.extend(verbs().into_iter().filter(|(_, verb)| !verb.is_hide_set()).map(|(name, verb)| (name, help_of(&verb))));
    for (name, help) in all {
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{name}: no EXAMPLES in\n{help}");
        for example in examples {
            let result = help::command().try_get_matches_from(shell_words(&example));
            assert!(
                result.is_ok(),
                "{name}: {example}\n{}",
                result.err().map(|error| error.to_string()).unwrap_or_default()
            );
        }
    }
}

#[test]
fn examples_are_found_in_a_help() {
    let help = "x\n\nExamples:\n  kymo a 'b;c' > f   why\n  x && kymo d --e | less\n  kymo f -- \\\n    g\n\nkymo no\n";
    // A separator between quotes would cut the command: the examples have none.
    assert_eq!(examples(&help.replace("b;c", "b")), ["kymo a 'b'", "kymo d --e", "kymo f -- g"]);
}

/// `kymo-NAME(SECTION)` in a text.
fn references(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (at, _) in text.match_indices("kymo-") {
        let rest = &text[at + "kymo-".len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let section = rest[end..].strip_prefix('(').and_then(|rest| rest.split_once(')'));
        if let Some((section, _)) = section.filter(|(section, _)| section.len() == 1) {
            all.push((rest[..end].to_owned(), section.to_owned()));
        }
    }
    all
}

#[test]
fn help_refers_to_pages_that_are_installed() {
    let mut seen = 0;
    for (name, verb) in verbs() {
        let help = help_of(&verb);
        for folder in ["spec/", "docs/", ".md"] {
            assert!(!help.contains(folder), "kymo {name}: {folder} is not installed\n{help}");
        }
        for (page, section) in references(&help) {
            seen += 1;
            let is_installed =
                pages::PAGES.iter().any(|known| known.name == page && known.section.to_string() == section);
            assert!(is_installed, "kymo {name}: kymo-{page}({section}) is not installed");
        }
    }
    assert!(seen >= 8, "{seen} references were found");
}

#[test]
fn pages_are_made_without_loss_of_their_parts() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in &pages::PAGES {
        let source =
            std::fs::read_to_string(root.join(page.source)).unwrap_or_else(|error| panic!("{}: {error}", page.source));
        let roff = page.render(&source, "0.0.0");
        let parts = source.lines().filter(|line| line.starts_with("## ")).count();
        let made = roff.lines().filter(|line| line.starts_with(".SH ")).count();
        // NAME, DESCRIPTION for what is in front of the first part, and SEE ALSO.
        assert!((parts + 2..=parts + 3).contains(&made), "{}: {parts} parts, {made} in the page", page.source);
        let is_left = |line: &str| line.starts_with("## ") || line.starts_with("|--") || line.starts_with("- ");
        assert!(!roff.lines().any(is_left), "{}: Markdown is left", page.source);
    }
}
