//! `kymo import`: results of other tools as records of the latency laboratory.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_lab::{Record, import};

/// Largest file that is read, bytes.
const FILE_MAX: u64 = 256 << 20;

/// Turn results of cyclictest, oslat, rtla, rteval, ... into records
///
/// A record has the histogram in nanoseconds, what the file left out of it, and what makes the numbers doubtful. The format is found by
/// content: cyclictest (text, JSON), oslat (text, JSON), rtla timerlat hist, rtla osnoise hist, rteval XML (summary.xml), jitterdebugger
/// JSON, npt, latency_hist. A file that was cut keeps what it has, and its record says so.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo import cyclictest.json > result.json\n  kymo import -o results/ runs/*.txt\n\n\
    Exit status: 0 all were read, 1 some were not, 2 none, or errors."
)]
pub struct Args {
    /// Files to read; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write DIR/NAME.json for each file, NAME being its own without its ending; otherwise one record a line on standard output
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(dir) = &args.output {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let mut failed = 0;
    for file in &args.files {
        if let Err(error) = one(file, args.output.as_deref()) {
            eprintln!("kymo: {error:#}");
            failed += 1;
        }
    }
    Ok(ExitCode::from(match failed {
        0 => 0,
        failed if failed < args.files.len() => 1,
        _ => 2,
    }))
}

fn one(file: &Path, output: Option<&Path>) -> anyhow::Result<()> {
    let record = import(&file.to_string_lossy(), &content(file)?)?;
    say(file, &record);
    let mut text = serde_json::to_vec(&record)?;
    text.push(b'\n');
    let Some(dir) = output else {
        return std::io::stdout().write_all(&text).context("cannot write to standard output");
    };
    let mut name = file.file_stem().filter(|_| file != Path::new("-")).unwrap_or("stdin".as_ref()).to_owned();
    name.push(".json");
    let path = dir.join(name);
    let to = File::options().write(true).create_new(true).open(&path);
    let mut to = to.with_context(|| format!("cannot make {} (an existing file is not replaced)", path.display()))?;
    to.write_all(&text).with_context(|| format!("cannot write {}", path.display()))
}

/// A whole file, or standard input.
pub(super) fn content(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(FILE_MAX + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|from| from.take(FILE_MAX + 1).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", file.display()))?;
    if bytes.len() as u64 > FILE_MAX {
        bail!("{}: larger than {} MiB; no result of a latency test is", file.display(), FILE_MAX >> 20);
    }
    Ok(bytes)
}

/// One line for the file, and one for each caveat.
fn say(file: &Path, record: &Record) {
    let format = record.source.as_ref().map_or(kymo_lab::SCHEMA, |source| &source.format);
    let samples: u64 = record.series.iter().map(|series| series.count).fold(0, u64::saturating_add);
    eprintln!("kymo: {}: {format}, {} series, {samples} samples", file.display(), record.series.len());
    for caveat in &record.caveats {
        eprintln!("kymo:   {}: {}; {}", caveat.id, caveat.text, caveat.next);
    }
}
