// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo sql` [spec/tables.md 5]: the tables of kymo-tables in DataFusion, which parses, plans and computes. What is
//! read is decided here from a query's columns and conditions; what rows have is decided in kymo-tables.

pub mod functions;
pub mod output;
pub mod prompt;
pub mod provider;
pub mod pushdown;
pub mod session;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use datafusion::execution::SendableRecordBatchStream;
use kymo_command::interrupt::is_over;
use kymo_command::sql::{Asked, SqlArgs, SqlFormat};
use kymo_tables::{OpenOptions, Source};

use output::{Output, Written};
use session::Session;

/// Runs the verb.
///
/// # Errors
/// Words that make no sense, traces that cannot be opened, queries that fail, output that cannot be written.
pub fn run(args: &SqlArgs) -> anyhow::Result<ExitCode> {
    let format = args.format()?;
    let (paths, asked) = args.asked()?;
    let options = OpenOptions { ignore_uuid: args.ignores_uuid(), ..OpenOptions::default() };
    let source = Arc::new(Source::open(&paths, &options)?);
    let session = Session::new(Arc::clone(&source), args.threads(), args.memory_bytes())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(args.threads()).enable_time().build()?;
    match asked {
        Asked::Prompt => prompt::run(&session, &runtime, format)?,
        Asked::Query(text) => runtime.block_on(queries(&session, &text, args, format))?,
    }
    say_of_losses(&source);
    Ok(ExitCode::SUCCESS)
}

/// Runs queries one behind the other; to a file goes the result of the last one.
async fn queries(session: &Session, text: &str, args: &SqlArgs, format: SqlFormat) -> anyhow::Result<()> {
    let all = session.statements(text)?;
    let last = all.len().checked_sub(1).context("the query is empty")?;
    for (position, statement) in all.into_iter().enumerate() {
        let stream = session.run(statement).await?;
        match args.output().filter(|_| position == last) {
            Some(path) => say(path, &to_file(path, stream, format).await?),
            None => {
                let mut output = Output::stdout(format, stream.schema())?;
                output.write_all(stream, &|| false).await?;
                output.close()?;
            }
        }
    }
    Ok(())
}

/// Writes a result to a file, which appears under its name when it is whole.
async fn to_file(path: &Path, stream: SendableRecordBatchStream, format: SqlFormat) -> anyhow::Result<Written> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let mut output = Output::file(part, format, stream.schema())?;
    let written = tokio::select! {
        written = output.write_all(stream, &is_over) => written,
        () = prompt::interrupted() => Err(anyhow::anyhow!("interrupted; nothing was left at {}", path.display())),
    };
    let rename = || std::fs::rename(part, path).with_context(|| format!("cannot write {}", path.display()));
    let done = written.and_then(|written| output.close().and_then(|()| rename()).map(|()| written));
    if done.is_err() {
        // What is not whole does not stay.
        let _ = std::fs::remove_file(part);
    }
    done
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
