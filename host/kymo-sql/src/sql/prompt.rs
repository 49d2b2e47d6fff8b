// SPDX-License-Identifier: MIT OR Apache-2.0
//! The prompt of `kymo sql`: lines are edited, kept from session to session, and completed by names of tables, columns
//! and functions.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kymo_command::interrupt::is_over;
use kymo_command::sql::SqlFormat;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};
use tokio::runtime::Runtime;

use super::functions::{FUNCTIONS, OF_TRACES};
use super::output::Output;
use super::session::{Data, Session};

/// How long Ctrl-C may go unseen.
pub const LOOK: Duration = Duration::from_millis(50);

/// Words of SQL that are completed.
const WORDS: &str = "SELECT FROM WHERE GROUP ORDER BY HAVING LIMIT OFFSET JOIN LEFT ON AS AND OR NOT IN BETWEEN LIKE IS NULL \
                     DISTINCT UNION ALL WITH CASE WHEN THEN ELSE END DESC ASC COUNT SUM AVG MIN MAX EXPLAIN DESCRIBE SHOW \
                     TABLES COLUMNS OVER PARTITION INTERVAL";

const HELP: &str = "\
A query ends with ; and may have several lines. Tab completes names. Ctrl-C ends a query, Ctrl-D the prompt.
  SHOW TABLES;  DESCRIBE wakeups;  EXPLAIN SELECT ...;
  .tables           all tables, each with what its rows are
  .columns TABLE    its columns, each with what it holds
  .functions        functions that kymo has beside those of DataFusion
  .format FORMAT    table, json, jsonl, csv
  .help  .quit";

/// Completes, and knows when a query is whole.
pub struct Names(BTreeSet<String>);

impl Names {
    /// Of the tables and functions of a session.
    pub fn of(data: &Data) -> Names {
        let mut names: BTreeSet<String> = WORDS.split_whitespace().map(str::to_owned).collect();
        names.extend(functions(data).filter_map(|(usage, _)| Some(format!("{}(", usage.split_once('(')?.0))));
        for table in data.tables() {
            names.extend(table.schema.fields().iter().map(|field| quoted(field.name())));
            names.insert(quoted(&table.name));
        }
        names.extend([".tables", ".columns ", ".functions", ".format ", ".help", ".quit"].map(str::to_owned));
        Names(names)
    }

    /// What the word in front of `position` may become: from which byte on, and the words.
    pub fn complete_at(&self, line: &str, position: usize) -> (usize, Vec<&str>) {
        let before = line.get(..position).unwrap_or(line);
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '$' | '"');
        let begin =
            before.rfind(|c| !is_part(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = &before[begin..];
        if word.is_empty() {
            return (begin, Vec::new());
        }
        let bare = word.trim_start_matches('"').to_lowercase();
        let fits = |name: &&String| {
            let name = name.trim_start_matches('"').to_lowercase();
            name.starts_with(&bare) || name.split_once(':').is_some_and(|(_, rest)| rest.starts_with(&bare))
        };
        (begin, self.0.iter().filter(fits).map(String::as_str).collect())
    }
}

/// The functions of a session: how they are used, and what they give.
fn functions(data: &Data) -> impl Iterator<Item = (&'static str, &'static str)> {
    let has_traces = matches!(data, Data::Traces(_));
    let is_there = move |(usage, _): &(&str, &str)| {
        has_traces || !OF_TRACES.iter().any(|name| usage.split('(').next() == Some(*name))
    };
    FUNCTIONS.into_iter().filter(is_there)
}

/// A name as it is written in SQL.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (begin, names) = self.complete_at(line, position);
        let pair = |name: &str| Pair { display: name.to_owned(), replacement: name.to_owned() };
        Ok((begin, names.into_iter().map(pair).collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Borrowed(line)
    }
}

impl Validator for Names {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let is_whole = is_whole(context.input());
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Helper for Names {}

/// Whether a text can be run: a command of the prompt, nothing, or a query with its semicolon.
fn is_whole(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with('.') || text.ends_with(';')
}

/// Where lines are kept: `$XDG_STATE_HOME/kymo/sql-history`, else below `~/.local/state`.
fn history() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = of("XDG_STATE_HOME").or_else(|| of("HOME").map(|home| home.join(".local/state")))?.join("kymo");
    std::fs::create_dir_all(&dir).ok()?;
    Some(dir.join("sql-history"))
}

/// Runs the prompt until its end.
///
/// # Errors
/// The terminal cannot be read.
pub fn run(session: &Session, runtime: &Runtime, mut format: SqlFormat) -> anyhow::Result<()> {
    let mut editor: Editor<Names, DefaultHistory> = Editor::new()?;
    editor.set_helper(Some(Names::of(session.data())));
    let history = history();
    if let Some(history) = &history {
        // The first time there is none.
        let _ = editor.load_history(history);
    }
    outln(&format!("{} tables; .help lists commands", session.data().tables().len()));
    loop {
        let line = match editor.readline("kymo> ") {
            Ok(line) => line,
            // What was typed is thrown away.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        if line.trim().is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(line.as_str());
        if line.trim() == ".quit" {
            break;
        }
        if let Err(error) = one(session, runtime, &mut format, line.trim()) {
            outln(&format!("error: {error}"));
        }
    }
    if let Some(history) = &history {
        // Where it cannot be kept, the next session has the one before.
        let _ = editor.save_history(history);
    }
    Ok(())
}

fn outln(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// One line: a command, or queries.
fn one(session: &Session, runtime: &Runtime, format: &mut SqlFormat, line: &str) -> anyhow::Result<()> {
    if line.starts_with('.') {
        outln(&command(session.data(), format, line)?);
        return Ok(());
    }
    let begun = std::time::Instant::now();
    let mut rows = 0;
    for statement in session.statements(line)? {
        rows += runtime.block_on(async {
            let work = async {
                let stream = session.run(statement).await?;
                let mut output = Output::stdout(*format, stream.schema())?;
                let written = output.write_all(stream, &is_over).await?;
                output.close()?;
                anyhow::Ok(written.rows)
            };
            tokio::select! {
                written = work => written,
                () = interrupted() => Err(anyhow::anyhow!("stopped")),
            }
        })?;
    }
    outln(&format!("{rows} rows in {:.3} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

/// Ctrl-C: ends what waits for it, and not the process.
pub async fn interrupted() {
    kymo_command::interrupt::take_signals_anew();
    until_over().await;
}

/// The same, where signals are taken already. A thread looks: timers stand still while all of tokio's threads compute.
pub async fn until_over() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let look = move || {
        // Until Ctrl-C, or until nobody waits for it any more.
        while !is_over() && !tell.is_closed() {
            std::thread::sleep(LOOK);
        }
        let _ = tell.send(());
    };
    match std::thread::Builder::new().name("kymo-ctrl-c".to_owned()).spawn(look) {
        Ok(_) => drop(told.await),
        // Without it a query runs to its end.
        Err(_) => std::future::pending().await,
    }
}

/// A command that begins with a dot.
fn command(data: &Data, format: &mut SqlFormat, line: &str) -> anyhow::Result<String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word {
        ".help" => Ok(HELP.to_owned()),
        ".tables" => {
            let line = |table: kymo_tables::TableInfo| format!("{}  {}", quoted(&table.name), table.about);
            Ok(data.tables().into_iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        ".columns" => {
            let name = rest.trim().trim_end_matches(';').trim_matches('"');
            let schema = data.schema(name)?;
            let line = |field: &arrow_schema::FieldRef| {
                let about = field.metadata().get("about").map_or("", String::as_str);
                format!("{}  {}  {about}", quoted(field.name()), field.data_type())
            };
            Ok(schema.fields().iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        ".functions" => {
            Ok(functions(data).map(|(usage, about)| format!("{usage}  {about}")).collect::<Vec<_>>().join("\n"))
        }
        ".format" => {
            *format = match rest.trim() {
                "table" => SqlFormat::Table,
                "json" => SqlFormat::Json,
                "jsonl" => SqlFormat::Jsonl,
                "csv" => SqlFormat::Csv,
                other => anyhow::bail!("{other:?}: at the prompt results are table, json, jsonl or csv"),
            };
            Ok(String::new())
        }
        _ => anyhow::bail!("there is no command {word}; .help lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_end_with_a_semicolon() {
        for (text, expect) in
            [("", true), (".tables", true), ("select 1", false), ("select 1; ", true), ("a\nb;", true)]
        {
            assert_eq!(is_whole(text), expect, "{text:?}");
        }
    }

    #[test]
    fn names_are_completed_where_they_begin() {
        let names = ["\"motor:step\"", "wakeups", "WHERE", "duration_ns"];
        let names = Names(names.iter().map(|name| (*name).to_owned()).collect());
        for (line, expect) in [
            ("select * from mo", (14, vec!["\"motor:step\""])),
            ("select * from \"mo", (14, vec!["\"motor:step\""])),
            ("select * from step", (14, vec!["\"motor:step\""])),
            ("from wakeups w", (13, vec!["WHERE", "wakeups"])),
            ("select max(dur", (11, vec!["duration_ns"])),
            ("select ", (7, vec![])),
        ] {
            assert_eq!(names.complete_at(line, line.len()), expect, "{line}");
        }
    }
}
