// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of a session as words of a command line and as a TOML file. The definition of `kymo session start` is
//! the only one: a key of the file is the long name of an option, a value what stands behind it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args as _, Command};
use kymo_collect::{Answer, Request, Rotation};
use serde_json::{Value, json};

use super::ask;
use super::definition::{DefinitionArgs, OF_THE_START};

/// Options by their long names; `name` and `command` are the positional ones.
type Table = BTreeMap<String, Value>;

/// The command line of the collector: what was said to `start`, and what is said in the file of --definition and not
/// there.
pub fn words_of_the_collector(args: &DefinitionArgs) -> anyhow::Result<Vec<OsString>> {
    let definition = definition();
    let mut table = match &args.definition {
        Some(file) => read_file(file, &definition)?,
        None => Table::new(),
    };
    table.extend(given(&definition, &matches_of_this_process()?)?);
    let mut words: Vec<OsString> = ["session", "start", "--detached"].map(OsString::from).into();
    let name = table.remove("name");
    let name = name
        .as_ref()
        .and_then(Value::as_str)
        .context("the session has no name; say one, or `name = ...` in the file")?;
    let command = table.remove("command");
    words.extend(table.iter().flat_map(|(key, value)| words_of(key, value)));
    words.push(name.into());
    if let Some(Value::Array(command)) = command {
        words.push("--".into());
        words.extend(command.iter().filter_map(Value::as_str).map(OsString::from));
    }
    Ok(words)
}

/// One option as words.
fn words_of(key: &str, value: &Value) -> Vec<OsString> {
    match value {
        Value::Bool(true) => vec![format!("--{key}").into()],
        Value::Bool(false) | Value::Null | Value::Object(_) => Vec::new(),
        Value::Array(values) => values.iter().flat_map(|value| words_of(key, value)).collect(),
        Value::String(text) => vec![format!("--{key}={text}").into()],
        Value::Number(number) => vec![format!("--{key}={number}").into()],
    }
}

/// How `kymo session start` is defined.
fn definition() -> Command {
    let mut start = DefinitionArgs::augment_args(Command::new("start"));
    start.build();
    start
}

/// This process is a `kymo session start ...`.
fn matches_of_this_process() -> anyhow::Result<ArgMatches> {
    Ok(definition().try_get_matches_from(std::env::args_os().skip(2))?)
}

/// What was given on the command line.
fn given(definition: &Command, matches: &ArgMatches) -> anyhow::Result<Table> {
    let mut table = Table::new();
    for arg in definition.get_arguments() {
        let id = arg.get_id().as_str();
        let is_given =
            matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine);
        let key = arg.get_long().unwrap_or(id);
        if !is_given || OF_THE_START.contains(&key) {
            continue;
        }
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            table.insert(key.to_owned(), true.into());
            continue;
        }
        let mut values = Vec::new();
        for raw in matches.get_raw(id).into_iter().flatten() {
            let text = raw.to_str().with_context(|| format!("{}: only UTF-8 can be kept", raw.to_string_lossy()))?;
            values.push(Value::from(text));
        }
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        let value = if is_list { Value::Array(values) } else { values.into_iter().next().unwrap_or_default() };
        table.insert(key.to_owned(), value);
    }
    Ok(table)
}

/// The table of a file, whose keys must be options.
fn read_file(file: &Path, definition: &Command) -> anyhow::Result<Table> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let table: Table = toml::from_str(&text).with_context(|| format!("{} is no TOML", file.display()))?;
    let is_of_session = |arg: &&clap::Arg| arg.get_long().is_some_and(|long| !OF_THE_START.contains(&long));
    let options: Vec<&clap::Arg> = definition.get_arguments().filter(is_of_session).collect();
    let earlier: Vec<&str> = options.iter().filter_map(|arg| arg.get_all_aliases()).flatten().collect();
    let mut known: Vec<&str> = options.iter().filter_map(|arg| arg.get_long()).collect();
    known.extend(["name", "command"]);
    for (key, value) in &table {
        if !known.contains(&key.as_str()) && !earlier.contains(&key.as_str()) {
            bail!("{}: there is no option {key:?}; options are {}", file.display(), known.join(", "));
        }
        let is_plain = |value: &Value| !value.is_array() && !value.is_object();
        let is_fine = is_plain(value) || value.as_array().is_some_and(|values| values.iter().all(is_plain));
        anyhow::ensure!(is_fine, "{}: the value of {key} is neither plain nor a list of plain values", file.display());
        let is_right = match key.as_str() {
            "name" => value.is_string(),
            "command" => value.as_array().is_some_and(|words| words.iter().all(Value::is_string)),
            _ => true,
        };
        anyhow::ensure!(is_right, "{}: name is a text, and command a list of texts", file.display());
    }
    Ok(table.into_iter().map(|(key, value)| (name_now(key, definition), value)).collect())
}

/// The name of an option that a file may have under an earlier one.
fn name_now(key: String, definition: &Command) -> String {
    let had_name = |arg: &&clap::Arg| arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&key.as_str()));
    let long = definition.get_arguments().find(had_name).and_then(clap::Arg::get_long);
    long.map_or(key.clone(), str::to_owned)
}

/// The options with which this process was started, and what was changed since.
pub fn of_this_process(
    ring_size: &str,
    (changes, kernel_changes): (&[String], &[String]),
    rotation: Option<&Rotation>,
) -> anyhow::Result<Value> {
    let mut table = given(&definition(), &matches_of_this_process()?)?;
    if let Some(Rotation { bytes, time, keep }) = rotation {
        let time = time.map(|time| format!("{}ms", time.as_millis()));
        table.extend(bytes.map(|bytes| ("rotate-size".to_owned(), Value::from(bytes))));
        table.extend(time.map(|time| ("rotate-time".to_owned(), Value::from(time))));
        table.extend(keep.map(|keep| ("keep".to_owned(), Value::from(keep))));
    }
    table.insert("ring-size".to_owned(), ring_size.into());
    if !kernel_changes.is_empty() {
        table.insert("kernel-change".to_owned(), kernel_changes.into());
    }
    if !changes.is_empty() {
        table.insert("change".to_owned(), changes.into());
    }
    if let Some(Value::String(output)) = table.get_mut("output") {
        *output = std::path::absolute(&*output)?.to_string_lossy().into_owned();
    }
    Ok(json!(table))
}

/// Writes a file, all of it or none: one that was there stays when that fails.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let result = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
    if result.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    result
}

/// `kymo session save`.
pub fn save(name: &str, file: Option<&Path>, is_json: bool) -> anyhow::Result<ExitCode> {
    let answer: Answer = match ask::ask(name, &Request::Settings, ask::QUICK) {
        Ok(answer) => Ok(answer),
        Err(error) => return ask::or_absent(Err(error)),
    };
    let table = answer.map_err(anyhow::Error::msg)?;
    let text = match is_json {
        true => format!("{table:#}\n"),
        false => toml::to_string(&table).context("the options cannot be written as TOML")?,
    };
    match file {
        None => print!("{text}"),
        Some(file) => {
            replace(file, &text).with_context(|| format!("cannot write {}", file.display()))?;
            eprintln!("kymo: written; next: kymo session start --definition {}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(line: &[&str]) -> Table {
        let matches = definition().try_get_matches_from(["start"].iter().chain(line)).unwrap();
        given(&definition(), &matches).unwrap()
    }

    #[test]
    fn a_command_line_becomes_a_file_and_a_command_line_again() {
        let line = [
            "motor",
            "-u",
            "motor:*",
            "-u",
            "a:b",
            "--ring-size",
            "64K",
            "--flight",
            "--change=-motor:tick",
            "-q",
            "--cpu",
            "0-1",
            "-k",
            "sched:sched_switch[prev_prio < 50]",
            "--",
            "./program",
            "--its",
            "-x",
        ];
        let table = table_of(&line);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("motor.toml");
        std::fs::write(&file, toml::to_string(&table).unwrap()).unwrap();
        let mut read = read_file(&file, &definition()).unwrap();
        assert_eq!(read, table);
        assert!(!read.contains_key("quiet"));
        let (name, command) = (read.remove("name").unwrap(), read.remove("command").unwrap());
        let words: Vec<OsString> = read.iter().flat_map(|(key, value)| words_of(key, value)).collect();
        let mut again: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        again.push(name.as_str().unwrap());
        again.push("--");
        again.extend(command.as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        assert_eq!(table_of(&again), table);
    }

    #[test]
    fn files_with_earlier_names_of_options_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("old.toml");
        std::fs::write(&file, "for = '1h'\ncpus = '0-1'\nctf2 = true\nstate = 'none'\n").unwrap();
        let table = read_file(&file, &definition()).unwrap();
        let words: Vec<OsString> = table.iter().flat_map(|(key, value)| words_of(key, value)).collect();
        assert_eq!(words, ["--cpu=0-1", "--ctf2", "--duration=1h", "--state-dump=none"]);
    }

    #[test]
    fn files_that_are_wrong_say_where() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bad.toml");
        let check = |text: &str, part: &str| {
            std::fs::write(&file, text).unwrap();
            let error = kymo_command::process::message(&read_file(&file, &definition()).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        };
        check("ring-sise = 4", "ring-sise");
        check("load = 'x'", "no option \"load\"");
        check("name = ", "TOML");
        check("name = 3", "name is a text");
        check("command = 'a b'", "command a list");
        check("[user]\na = 1", "neither plain");
    }
}
