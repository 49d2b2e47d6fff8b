// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo compare`: two groups of runs. What is said of them is `kymo_lab::compare`'s.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kymo_lab::{CompareOptions, Outcome, compare, report};

use super::results;
use crate::verbs::args::OutputArgs;
use crate::verbs::units;

/// Comparison of two groups of results: is there a difference, and how large
///
/// Each run is one result file of a test (kymo wakeup -o FILE). Make at least 5 runs of each group, alternately:
/// A B B A. It also prints how small a change would have been found. All metrics are tested together, by permutation of
/// the runs: the probability of one false difference among all of them is 5 % at most.
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
pub struct CompareArgs {
    /// Results of the first group: files, or directories with *.json
    #[arg(required = true, value_name = "A")]
    a: Vec<PathBuf>,
    /// Results of the second group, behind --
    #[arg(last = true, required = true, value_name = "B")]
    b: Vec<PathBuf>,
    /// Samples above this are misses, and misses are compared: 100us, 2ms
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    deadline: Option<Duration>,
    /// Group by cpu: compare each CPU separately, instead of all series of a name together
    #[arg(long, value_name = "LIST", value_parser = ["cpu"])]
    by: Option<String>,
    /// The same as --by cpu
    #[arg(long, hide = true)]
    per_cpu: bool,
    /// Estimate the extremes of each group: the value that is exceeded once in ten times as many samples, and once in a
    /// day
    ///
    /// Uses the largest samples of all runs of a group (peaks over a threshold), and the maxima of its runs (at least
    /// 30 runs). If the conditions of an estimate are not met, the reason is printed instead.
    #[arg(long)]
    extreme: bool,
    #[command(flatten)]
    show: OutputArgs,
    /// Write one HTML file with both groups in one picture and the result of the comparison
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: CompareArgs) -> anyhow::Result<ExitCode> {
    if let Some(option) = args.b.iter().find(|path| path.to_string_lossy().starts_with("--") && !path.exists()) {
        bail!(
            "{} stands behind --, where files of B are; options come first: kymo compare OPTIONS A... -- B...",
            option.display()
        );
    }
    let (a, b) = (results::read(&args.a)?, results::read(&args.b)?);
    let deadline_ns = args.deadline.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let comparison = compare(
        &a,
        &b,
        CompareOptions { deadline_ns, per_cpu: args.per_cpu || args.by.is_some(), extreme: args.extreme },
    );
    if let Some(path) = &args.html {
        results::write(path, &report::comparison_html(&comparison, &a, &b))?;
    }
    args.show.begin();
    let text = match args.show.json() {
        true => serde_json::to_string(&comparison).context("cannot write the comparison as JSON")? + "\n",
        false => report::comparison(&comparison).iter().map(|line| format!("{line}\n")).collect(),
    };
    args.show.print(&text)?;
    Ok(ExitCode::from(match comparison.outcome {
        Outcome::NoDifference => 0,
        Outcome::Better | Outcome::Worse | Outcome::Mixed => 1,
        Outcome::NotEnoughData => 3,
    }))
}
