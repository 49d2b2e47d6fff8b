// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo report`: results as text, SVG or one HTML file. What they look like is `kymo_lab::report`'s.

use std::path::PathBuf;
use std::process::ExitCode;

use kymo_lab::{Record, report};
use serde_json::json;

use super::{probe, results};
use crate::verbs::args::OutputArgs;
use kymo_command::terminal::{Style, paint};

/// Report of test results: text, histograms, HTML or SVG
///
/// Prints each result as the test printed it, with a histogram. With --html or --svg all of them are drawn: histograms
/// laid over each other, by CPU, the tail, the worst samples over time. What was lost or lies beyond a tool's histogram
/// is in the picture.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo report night.json\n  kymo report --html night.html results/\n  kymo report --extreme results/          what may still come\n\n\
    The HTML file needs nothing else: no network, no other file.\n\nExit status: 0 shown or written, 2 errors."
)]
pub struct ReportArgs {
    /// Results: files, or directories with *.json
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Estimate the extremes of all runs of a test together: the value that is exceeded once in ten times as many
    /// samples, and once in a day. If that is not possible, the reason is printed
    #[arg(long)]
    extreme: bool,
    /// Write one HTML file with pictures and tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the pictures as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    show: OutputArgs,
}

/// Runs the verb.
pub fn run(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let records = results::named(&args.files)?;
    args.show.begin();
    if args.show.json() {
        args.show.print(&document(&records, args.extreme)?)?;
    } else if args.extreme {
        args.show.print(&lines(extremes(&records)))?;
    }
    let named: Vec<(String, &Record)> = records.iter().map(|(name, record)| (name.clone(), record)).collect();
    if let Some(path) = &args.html {
        results::write(path, &report::html(&named))?;
        eprintln!("kymo: {} in {}", report::counted(named.len() as u64, "result"), path.display());
    }
    if let Some(path) = &args.svg {
        results::write(path, &report::svg(&named))?;
        eprintln!("kymo: {} in {}", report::counted(named.len() as u64, "result"), path.display());
    }
    if args.html.is_none() && args.svg.is_none() && !args.extreme && !args.show.json() {
        let mut text = String::new();
        for (at, (name, record)) in records.iter().enumerate() {
            if records.len() > 1 {
                let head = format!("{}:", report::plain(name));
                text += &format!("{}{}\n", if at > 0 { "\n" } else { "" }, paint(Style::Heading, &head));
            }
            text += &lines(probe::text(record));
        }
        args.show.print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(lines: Vec<String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}

/// All results by the names of their files, as `kymo-report-1`.
fn document(records: &[(String, Record)], with_extremes: bool) -> anyhow::Result<String> {
    let results: Vec<_> = records.iter().map(|(name, record)| json!({ "name": name, "result": record })).collect();
    let mut all = json!({ "schema": "kymo-report-1", "results": results });
    if with_extremes {
        all["extremes"] = extremes(records).into();
    }
    Ok(serde_json::to_string(&all)? + "\n")
}

/// What may still come, of each test and series in all of these runs.
fn extremes(records: &[(String, Record)]) -> Vec<String> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for (_, record) in records {
        for series in &record.series {
            if !keys.contains(&(&record.test, &series.name)) {
                keys.push((&record.test, &series.name));
            }
        }
    }
    let of = |(test, name): (&str, &str)| {
        let runs: Vec<&Record> = records.iter().map(|(_, run)| run).filter(|run| run.test == test).collect();
        let beyond = kymo_lab::stats::extreme::beyond(&runs, |series| series.name == name);
        let head = format!("{test}, {name}: {}", report::counted(runs.len() as u64, "run"));
        let lines = report::extremes(&beyond).into_iter().map(|line| format!("  {line}"));
        std::iter::once(report::plain(&head)).chain(lines).collect::<Vec<_>>()
    };
    keys.into_iter().flat_map(of).collect()
}
