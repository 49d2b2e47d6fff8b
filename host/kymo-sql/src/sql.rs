// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo sql` [spec/tables.md 5]: the tables of kymo-tables in DataFusion, which parses, plans and computes. What is read
//! is decided here from a query's columns and conditions; what rows have is decided in kymo-tables.

pub mod functions;
pub mod output;
pub mod prompt;
pub mod provider;
pub mod pushdown;
pub mod session;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use kymo_command::sql::{Asked, SqlArgs, SqlFormat};
use kymo_tables::{OpenOptions, Source};

use output::{Output, Written};
use session::Session;

/// Runs the verb.
///
/// # Errors
/// Words that make no sense, traces that cannot be opened, queries that are none or fail, output that cannot be written.
pub fn run(args: &SqlArgs) -> anyhow::Result<ExitCode> {
    let format = args.format()?;
    let (paths, asked) = args.asked()?;
    let options = OpenOptions { ignore_uuid: args.ignores_uuid(), ..OpenOptions::default() };
    let source = Arc::new(Source::open(&paths, &options)?);
    let session = Session::new(Arc::clone(&source), args.threads(), args.memory_bytes())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(args.threads()).build()?;
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
            Some(path) => {
                let mut output = Output::file(path, format, stream.schema())?;
                let written = output.write_all(stream, &|| false).await.and_then(|written| output.close().map(|()| written));
                if written.is_err() {
                    // What is not whole does not stay.
                    let _ = std::fs::remove_file(path);
                }
                say(path, &written?);
            }
            None => {
                let mut output = Output::stdout(format, stream.schema())?;
                output.write_all(stream, &|| false).await?;
                output.close()?;
            }
        }
    }
    Ok(())
}

fn say(path: &std::path::Path, written: &Written) {
    let _ = writeln!(std::io::stderr(), "kymo: {} rows in {}", written.rows, path.display());
}

/// What indexes tell of losses, on standard error: a result may be short of them.
fn say_of_losses(source: &Source) {
    let _ = match source.known_losses() {
        Some(0) => Ok(()),
        Some(records) => writeln!(
            std::io::stderr(),
            "kymo: in the trace {records} records or packets are missing; the table losses has when and where"
        ),
        None => writeln!(
            std::io::stderr(),
            "kymo: without an index (kymo index) all is read; what the trace has lost is in the table losses"
        ),
    };
}
