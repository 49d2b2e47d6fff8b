// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo compare`: two groups of runs. What is said of them is `kymo_lab::compare`'s.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kymo_lab::{CompareOptions, Outcome, compare, report};

use super::results;
use crate::verbs::units;

/// Compare two groups of runs: did something change, and how small a change would have been seen
///
/// Each run is one result file of a test (kymo wakeup -o FILE); at least 5 runs a side, made alternately: A B B A. All
/// metrics are tested
/// together, over choices of runs, so that one false difference among all of them has a probability of 5 % at most.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo compare before/*.json -- after/*.json\n  \
    kymo compare --deadline 100us before -- after    all *.json of two directories, deadline misses first\n\n\
    Runs in the order A B B A, with a change between them:\n  \
    for i in 1 2 3 4; do\n    off; kymo wakeup -o a/$i.json; on; kymo wakeup -o b/$i.json\n    \
    kymo wakeup -o b/$i-.json; off; kymo wakeup -o a/$i-.json\n  done\n\n\
    Exit status: 0 no difference, 1 a difference, 2 errors, 3 not enough data.",
    override_usage = "kymo compare [OPTIONS] <A>... -- <B>..."
)]
pub struct Args {
    /// Results of the first group: files, or directories with *.json
    #[arg(required = true, value_name = "A")]
    a: Vec<PathBuf>,
    /// Results of the second group, behind --
    #[arg(last = true, required = true, value_name = "B")]
    b: Vec<PathBuf>,
    /// Samples above this are misses, and misses are compared: 100us, 2ms
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    deadline: Option<Duration>,
    /// Each CPU for itself, instead of all series of a name together
    #[arg(long)]
    per_cpu: bool,
    /// Estimate what may still come in each group: the value that is exceeded once in ten times as many samples, and in
    /// a day
    ///
    /// From the largest samples of all runs of a group (peaks over a threshold), and from the maxima of its runs, of
    /// which it takes 30. Where the conditions of an estimate do not hold, the reason is printed instead.
    #[arg(long)]
    extreme: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write one HTML file: both groups in one picture, and all that is said of them
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(option) = args.b.iter().find(|path| path.to_string_lossy().starts_with("--") && !path.exists()) {
        bail!(
            "{} stands behind --, where files of B are; options come first: kymo compare OPTIONS A... -- B...",
            option.display()
        );
    }
    let (a, b) = (results::read(&args.a)?, results::read(&args.b)?);
    let deadline_ns = args.deadline.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let comparison = compare(&a, &b, CompareOptions { deadline_ns, per_cpu: args.per_cpu, extreme: args.extreme });
    if let Some(path) = &args.html {
        results::write(path, &report::comparison_html(&comparison, &a, &b))?;
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&comparison).context("cannot write the comparison as JSON")?),
        false => report::comparison(&comparison).iter().for_each(|line| println!("{line}")),
    }
    Ok(ExitCode::from(match comparison.outcome {
        Outcome::NoDifference => 0,
        Outcome::Better | Outcome::Worse | Outcome::Mixed => 1,
        Outcome::NotEnoughData => 3,
    }))
}
