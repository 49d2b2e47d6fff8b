// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of `kymo sql`: one definition for the help, man page and completion of `kymo`, and for `kymo-sql`, which
//! runs it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use crate::args::JsonArgs;

/// SQL queries of traces: events, states, latencies and losses as tables
///
/// A table for each event, named as it is ("motor:step", or motor.step), and tables that follow from the records:
/// records, thread_state, cpu_state, wakeups, latencies, locks, slices, losses, threads, processes, hosts, traces,
/// marks, lab_results. SHOW TABLES lists them, DESCRIBE shows columns, EXPLAIN shows what is read. Conditions on time,
/// end_time, cpu, tid and event choose what is read: with an index (kymo index) only that part of the trace. Without
/// a query: a prompt. The SQL is that of DataFusion; times are written at('+1.5s').
#[derive(clap::Args)]
#[command(mut_arg("json", |arg| arg.conflicts_with("format").help("Print the result as a JSON array of objects: the same as \
    --format json")))]
#[command(after_help = "Examples:\n  kymo sql t 'SHOW TABLES'\n  \
    kymo sql t 'SELECT axis, count(*), max(position) FROM \"motor:step\" GROUP BY axis'\n  \
    kymo sql t \"SELECT * FROM wakeups WHERE time >= at('+1s') AND duration_ns > ns('100us') ORDER BY duration_ns DESC LIMIT 10\"\n  \
    kymo sql t 'SELECT kind, quantile(duration_ns, 0.99) FROM latencies GROUP BY kind'\n  \
    kymo sql t \"SELECT * FROM span('req:begin', 'req:end', 'id') ORDER BY duration_ns DESC LIMIT 5\"\n  \
    kymo sql t 'SELECT * FROM records' --format parquet -o records.parquet\n  \
    kymo sql host1 host2 'SELECT host, sum(records) FROM losses GROUP BY host'\n  \
    kymo sql --lake lake 'SELECT host, day, max(duration_ns) FROM wakeups GROUP BY host, day'\n  \
    kymo sql t     a prompt: .help lists its commands\n\n\
    Exit status: 0 fine, 2 errors. Damage of a trace and lost records are rows of the table losses.")]
pub struct SqlArgs {
    /// Trace directories, or directories with traces below, and the query; without a query: a prompt
    #[arg(required_unless_present = "lake", value_name = "TRACE|QUERY")]
    words: Vec<String>,
    /// Ask this lake instead of traces: a directory or a URL, as in kymo lake
    #[arg(long, value_name = "URL", conflicts_with = "ignore_uuid")]
    lake: Option<String>,
    /// Run the queries in this file; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The format of the result [default: table; of -o, by the end of the file's name]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<SqlFormat>,
    /// Write the result to this file; it is replaced [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: JsonArgs,
    /// Memory for sorting, grouping and joining, MiB; beyond it, temporary files are used, else the query fails
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: usize,
    /// Threads that read and compute [default: one for each CPU]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Read also packets whose UUID is not that of the metadata: they may belong to another trace
    #[arg(long)]
    ignore_uuid: bool,
}

/// What results are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SqlFormat {
    /// A table of text
    Table,
    /// One JSON array of objects
    Json,
    /// JSON objects, one a line
    Jsonl,
    /// RFC 4180, with a line of names
    Csv,
    /// Apache Parquet
    Parquet,
    /// Arrow's IPC file format (Feather 2); to standard output the format of streams
    Arrow,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// These queries, separated by semicolons.
    Query(String),
    /// At a prompt.
    Prompt,
}

impl SqlArgs {
    /// The traces, and what is asked of them. The last word is a query unless it is a path that exists.
    ///
    /// # Errors
    /// No trace; a file that cannot be read; a word that is neither a path nor looks like SQL.
    pub fn asked(&self) -> anyhow::Result<(Vec<PathBuf>, Asked)> {
        let paths = |words: &[String]| words.iter().map(PathBuf::from).collect::<Vec<PathBuf>>();
        if self.lake.is_some() {
            return Ok((Vec::new(), self.asked_of_lake()?));
        }
        if let Some(file) = &self.file {
            return Ok((paths(&self.words), Asked::Query(read(file)?)));
        }
        let Some((last, before)) = self.words.split_last() else { bail!("no trace was given") };
        if Path::new(last).exists() {
            return Ok((paths(&self.words), Asked::Prompt));
        }
        if !last.contains(char::is_whitespace) && !last.contains(';') {
            bail!(
                "{last}: there is no such trace, and it is no query: a query is one word in quotes, as 'SHOW TABLES'"
            );
        }
        if before.is_empty() {
            bail!("no trace was given: kymo sql TRACE... 'QUERY'");
        }
        Ok((paths(before), Asked::Query(last.clone())))
    }

    fn asked_of_lake(&self) -> anyhow::Result<Asked> {
        match (&self.file, &self.words[..]) {
            (Some(file), []) => Ok(Asked::Query(read(file)?)),
            (None, []) => Ok(Asked::Prompt),
            (None, [query]) => Ok(Asked::Query(query.clone())),
            (_, [first, ..]) => {
                bail!("{first}: with --lake there is one query, in quotes, and no trace; kymo lake add adds traces")
            }
        }
    }

    /// The lake that is asked, instead of traces.
    pub fn lake(&self) -> Option<&str> {
        self.lake.as_deref()
    }

    /// The format of results.
    ///
    /// # Errors
    /// A file's name that ends in none.
    pub fn format(&self) -> anyhow::Result<SqlFormat> {
        if let Some(format) = self.format.or(self.out.json.then_some(SqlFormat::Json)) {
            return Ok(format);
        }
        let Some(output) = self.output() else { return Ok(SqlFormat::Table) };
        match output.extension().and_then(|end| end.to_str()).unwrap_or_default() {
            "txt" => Ok(SqlFormat::Table),
            "json" => Ok(SqlFormat::Json),
            "jsonl" | "ndjson" => Ok(SqlFormat::Jsonl),
            "csv" => Ok(SqlFormat::Csv),
            "parquet" => Ok(SqlFormat::Parquet),
            "arrow" | "feather" | "ipc" => Ok(SqlFormat::Arrow),
            _ => bail!("{}: which format? give --format, or a name that ends in .csv, .parquet, ...", output.display()),
        }
    }

    /// Where results are written to; none: standard output.
    pub fn output(&self) -> Option<&Path> {
        self.output.as_deref().filter(|output| output.as_os_str() != "-")
    }

    /// Bytes for operators that keep rows.
    pub fn memory_bytes(&self) -> usize {
        self.memory.saturating_mul(1 << 20)
    }

    /// Threads that read and compute.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
    }

    /// Whether packets are read whatever their UUID.
    pub fn ignores_uuid(&self) -> bool {
        self.ignore_uuid
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() == "-" {
        return std::io::read_to_string(std::io::stdin()).context("cannot read standard input");
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: SqlArgs,
    }

    fn asked(words: &[&str]) -> Result<(usize, Asked), String> {
        let cli = Cli::try_parse_from([&["kymo-sql"], words].concat()).map_err(|error| error.to_string())?;
        cli.args.asked().map(|(paths, asked)| (paths.len(), asked)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_last_word_is_the_query() {
        let query = |text: &str| Asked::Query(text.to_owned());
        assert_eq!(asked(&["a", "SHOW TABLES"]), Ok((1, query("SHOW TABLES"))));
        assert_eq!(asked(&["a", "b", "SELECT 1"]), Ok((2, query("SELECT 1"))));
        assert_eq!(asked(&["."]), Ok((1, Asked::Prompt)));
        assert!(asked(&["no-such-trace"]).unwrap_err().contains("no such trace"));
        assert!(asked(&["SELECT 1"]).unwrap_err().contains("no trace was given"));
        assert_eq!(asked(&["--lake", "l", "SELECT 1"]), Ok((0, query("SELECT 1"))));
        assert_eq!(asked(&["--lake", "l"]), Ok((0, Asked::Prompt)));
        assert!(asked(&["--lake", "l", "t", "SELECT 1"]).unwrap_err().contains("no trace; kymo lake add"));
    }

    #[test]
    fn formats_follow_from_names() {
        let format = |words: &[&str]| {
            Cli::try_parse_from([&["kymo-sql", "t"], words].concat()).unwrap().args.format().map_err(drop)
        };
        assert_eq!(format(&[]), Ok(SqlFormat::Table));
        assert_eq!(format(&["--json"]), Ok(SqlFormat::Json));
        assert_eq!(format(&["-o", "a.parquet"]), Ok(SqlFormat::Parquet));
        assert_eq!(format(&["-o", "a.xyz"]), Err(()));
        assert_eq!(format(&["-o", "a.xyz", "--format", "csv"]), Ok(SqlFormat::Csv));
    }
}
