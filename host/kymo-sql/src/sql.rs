// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo sql` [spec/tables.md 5]: the tables of kymo-tables in DataFusion, which parses, plans and computes. What is
//! read is decided here from a query's columns and conditions; what rows have is decided in kymo-tables.

pub mod functions;
pub mod output;
pub mod plan;
pub mod progress;
pub mod prompt;
pub mod provider;
pub mod pushdown;
pub mod session;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use datafusion::execution::SendableRecordBatchStream;
use kymo_command::interrupt::{is_over, take_signals};
use kymo_command::process::survive_closed_pipes;
use kymo_command::sql::{Asked, SqlArgs, SqlFormat};
use kymo_command::terminal::{ReadingProgress, is_output_elsewhere};
use kymo_tables::{OpenOptions, Source, Watcher};

use output::{Output, Written};
use progress::until_first_row;
use session::{Data, Session};

use crate::lake::catalog::Lake;
use crate::lake::place::Place;

/// Of the threads that plan queries: plans are trees.
const STACK_BYTES: usize = 16 << 20;

/// How long the end waits for what reads and computes.
const END_WAIT: Duration = Duration::from_secs(2);

/// The exit status of who is ended by a closed pipe, as a shell has it, and of who is interrupted.
const CLOSED_PIPE: u8 = 141;
const INTERRUPTED: u8 = 130;

/// Runs the verb.
///
/// # Errors
/// Words that make no sense, traces that cannot be opened, queries that fail, output that cannot be written.
pub fn run(args: &SqlArgs) -> anyhow::Result<ExitCode> {
    let format = args.format()?;
    let (paths, asked) = args.asked()?;
    let progress = Arc::new(ReadingProgress::of_queries());
    let watch = Some(Watcher(progress.clone()));
    let options = OpenOptions { ignore_uuid: args.ignores_uuid(), watch, ..OpenOptions::default() };
    if matches!(asked, Asked::Query(_)) {
        // Of what is interrupted nothing stays: neither temporary files nor a file that is not whole.
        take_signals();
        survive_closed_pipes();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(args.threads())
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?;
    let data = match args.lake() {
        Some(lake) => Data::Lake(Arc::new(runtime.block_on(Lake::open(Place::open(lake)?))?)),
        None => Data::Traces(Arc::new(Source::open(&paths, &options)?)),
    };
    let session = Session::of(data.clone(), args.threads(), args.memory_bytes())?;
    let done = match asked {
        Asked::Prompt => {
            // Who types sees what is typed.
            progress.quiet();
            prompt::run(&session, &runtime, format)
        }
        Asked::Query(text) => {
            end_though_stuck()?;
            runtime.block_on(queries(&session, &text, args, format, &progress))
        }
    };
    progress.quiet();
    // Operators remove their temporary files; a reader that looks at nothing but its trace is not waited for.
    runtime.shutdown_timeout(END_WAIT);
    if done.is_err() && output::is_stdout_closed() {
        return Ok(ExitCode::from(CLOSED_PIPE));
    }
    done?;
    match &data {
        Data::Traces(source) => say_of_losses(source),
        Data::Lake(lake) => say_of_losses_in(lake),
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the process some time after Ctrl-C, where a write to standard output waits for whoever reads that.
fn end_though_stuck() -> std::io::Result<()> {
    let wait = || {
        while !is_over() {
            std::thread::sleep(prompt::LOOK);
        }
        std::thread::sleep(2 * END_WAIT);
        std::process::exit(i32::from(INTERRUPTED));
    };
    std::thread::Builder::new().name("kymo-interrupt".to_owned()).spawn(wait).map(drop)
}

/// Runs queries one behind the other; to a file goes the result of the last one.
async fn queries(
    session: &Session,
    text: &str,
    args: &SqlArgs,
    format: SqlFormat,
    progress: &Arc<ReadingProgress>,
) -> anyhow::Result<()> {
    let all = session.statements(text)?;
    let last = all.len().checked_sub(1).context("the query is empty")?;
    for (position, statement) in all.into_iter().enumerate() {
        let path = args.output().filter(|_| position == last);
        progress.restart();
        let work = async {
            let stream = session.run(statement).await?;
            match path {
                Some(path) => {
                    let written = to_file(path, stream, format).await?;
                    // With a limit, readers may still be on their way.
                    progress.quiet();
                    say(path, &written);
                }
                None => {
                    let is_alone = is_output_elsewhere();
                    let stream = if is_alone { stream } else { until_first_row(stream, Arc::clone(progress)) };
                    let mut output = Output::stdout(format, stream.schema())?;
                    output.write_all(stream, &is_over).await?;
                    output.close()?;
                }
            }
            anyhow::Ok(())
        };
        // Temporary files and what is not whole do not stay.
        tokio::select! {
            biased;
            () = prompt::until_over() => match path {
                Some(path) => anyhow::bail!("interrupted; nothing was left at {}", path.display()),
                None => anyhow::bail!(plan::INTERRUPTED),
            },
            done = work => done?,
        }
    }
    Ok(())
}

/// A file on its way, which is removed unless it becomes whole.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // Once it is whole it has another name.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a result to a file, which appears under its name when it is whole.
async fn to_file(path: &Path, stream: SendableRecordBatchStream, format: SqlFormat) -> anyhow::Result<Written> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Part(part.into());
    let mut output = Output::file(&part.0, format, stream.schema())?;
    let written = output.write_all(stream, &is_over).await?;
    output.close()?;
    std::fs::rename(&part.0, path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(written)
}

fn say(path: &Path, written: &Written) {
    let _ = writeln!(std::io::stderr(), "kymo: {} rows in {}", written.rows, path.display());
}

/// Traces that could not be opened, and what indexes tell of losses, on standard error: a result may be short of them.
fn say_of_losses(source: &Source) {
    for (path, why) in source.unreadable() {
        let path = path.display();
        let _ = writeln!(std::io::stderr(), "kymo: without {path}, which cannot be opened: {why} (table losses)");
    }
    if let Some(records) = source.known_losses().filter(|records| *records > 0) {
        let _ = writeln!(
            std::io::stderr(),
            "kymo: in the trace {records} records or packets are missing; the table losses has when and where"
        );
    }
}

/// The same of a lake, by its manifests.
fn say_of_losses_in(lake: &Lake) {
    let lost = lake.lost();
    let missing = lost.records.saturating_add(lost.packets);
    if missing > 0 || lost.damaged > 0 {
        let traces = lake.additions().len();
        let _ = writeln!(
            std::io::stderr(),
            "kymo: in the {traces} traces of the lake {missing} records or packets are missing, and {} places are \
             damaged or doubtful; the table losses has when and where",
            lost.damaged
        );
    }
}
