// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `kymo-sql`: verbs of `kymo` that need Arrow and Parquet. `kymo` becomes this program for them, with the
//! same words, and has checked these. It does no work of its own.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Parser, Subcommand};
use kymo_command::export::{self, ExportArgs, ExportFormat, ExportWriter};
use kymo_command::interrupt::take_signals;
use kymo_command::lake::LakeArgs;
use kymo_command::process;
use kymo_command::sql::SqlArgs;
use kymo_ctf::read::Trace;
use kymo_sql::parquet::Tables;

/// Commands of kymo that need Arrow and Parquet. kymo starts it where it is needed.
#[derive(Parser)]
#[command(name = "kymo-sql", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Export(ExportArgs),
    Lake(LakeArgs),
    Sql(SqlArgs),
}

fn main() -> ExitCode {
    // A reader such as `head` that closes the pipe ends us quietly.
    process::default_sigpipe();
    process::survive_file_limits();
    let verb = Cli::parse().verb;
    process::log_to_stderr();
    process::exit_code(match verb {
        Verb::Export(args) => run_export(&args),
        Verb::Lake(args) => kymo_sql::lake::run(&args),
        Verb::Sql(args) => kymo_sql::sql::run(&args),
    })
}

fn run_export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    if args.format() != ExportFormat::Parquet {
        bail!("kymo-sql writes no other format than parquet: kymo export writes all");
    }
    export::run(args, |traces| writer(args, traces))
}

fn writer<'t>(args: &ExportArgs, traces: &'t [Trace]) -> anyhow::Result<ExportWriter<'t>> {
    take_signals();
    let tables = Tables::new(traces, args.output())?;
    // Columns have addresses as they were recorded.
    Ok(ExportWriter { exporter: Box::new(tables), unnamed: Box::new(Vec::<String>::new) })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_holds() {
        Cli::command().debug_assert();
    }

    #[test]
    fn it_writes_what_kymo_leaves_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("o");
        let run = |format: &str| {
            let words = ["kymo-sql", "export", "no-such-trace", "--format", format, "-o", output.to_str().unwrap()];
            let Verb::Export(args) = Cli::try_parse_from(words).unwrap().verb else { panic!("another verb") };
            (args.format().of_kymo_export().is_some(), run_export(&args).unwrap_err().to_string())
        };
        for format in ["csv", "chrome", "perfetto", "speedscope", "collapsed", "ctf"] {
            let (is_of_kymo, error) = run(format);
            assert!(is_of_kymo && error.contains("no other format than parquet"), "{format}: {error}");
        }
        let (is_of_kymo, error) = run("parquet");
        assert!(!is_of_kymo && error.contains("no-such-trace"), "{error}");
    }
}
