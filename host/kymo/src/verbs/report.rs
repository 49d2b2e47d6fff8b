//! `kymo report`: results as text, SVG or one HTML file. What they look like is `kymo_lab::report`'s.

use std::path::PathBuf;
use std::process::ExitCode;

use kymo_lab::{Record, report};

use super::{lab, results};

/// Show results of latency tests again, or draw them
///
/// Prints each result as the test printed it, with a histogram. With --html or --svg all of them are drawn: histograms
/// laid over each other, by
/// CPU, the tail, the worst samples over time. What was lost or lies beyond a tool's histogram is in the picture.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  kymo report night.json\n  kymo report --html night.html results/\n\n\
    The HTML file needs nothing else: no network, no other file.\n\nExit status: 0 shown or written, 2 errors.")]
pub struct Args {
    /// Results: files, or directories with *.json
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write one HTML file with pictures and tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the pictures as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let records = results::named(&args.files)?;
    let named: Vec<(String, &Record)> = records.iter().map(|(name, record)| (name.clone(), record)).collect();
    if let Some(path) = &args.html {
        results::write(path, &report::html(&named))?;
        eprintln!("kymo: {} in {}", report::counted(named.len() as u64, "result"), path.display());
    }
    if let Some(path) = &args.svg {
        results::write(path, &report::svg(&named))?;
        eprintln!("kymo: {} in {}", report::counted(named.len() as u64, "result"), path.display());
    }
    if args.html.is_none() && args.svg.is_none() {
        for (at, (name, record)) in records.iter().enumerate() {
            if records.len() > 1 {
                println!("{}{}:", if at > 0 { "\n" } else { "" }, report::plain(name));
            }
            lab::text(record).iter().for_each(|line| println!("{line}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
