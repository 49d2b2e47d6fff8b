// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo import`: results of other tools as records of the latency laboratory, and traces of other tools as traces.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_command::interrupt::{is_over, take_signals};
use kymo_command::terminal::Progress;
use kymo_ctf::read::Files as _;
use kymo_export::import::ImportedSoFar;
use kymo_lab::{Record, import};
use serde_json::Value;

use crate::verbs::args::JsonArgs;

/// Largest file that is read, bytes.
const FILE_MAX: u64 = 256 << 20;

/// Import traces of trace-cmd, ftrace, perf, and results of cyclictest, oslat, rtla
///
/// A trace: trace.dat of trace-cmd (versions 6 and 7), ftrace text (trace, trace_pipe, trace-cmd report), perf script
/// text, kernel log (dmesg). It becomes the trace directory DIR of -o, under the names that `kymo record -k` gives
/// (kymo-exchange(7)).
///
/// A result: its record has the histogram in nanoseconds, what the file left out of it, and what makes the numbers
/// doubtful. The format is found by content: cyclictest (text, JSON), oslat (text, JSON), rtla timerlat hist, rtla
/// osnoise hist, rteval XML (summary.xml), jitterdebugger JSON, npt, latency_hist. A file that was cut keeps what it
/// has, and its record says so.
#[derive(clap::Args)]
#[command(
    mut_arg("json", |arg| arg.requires("output").help("Print what was taken of each file, and what was not, as one JSON document; needs -o")),
    after_help = "Examples:\n  kymo import trace.dat -o t && kymo latency t\n  perf script | kymo import - -o t\n  \
    kymo import cyclictest.txt -o result.json\n  kymo import -o results/ runs/*.txt\n\n\
    Ctrl-C ends it, and leaves no trace or record that is not whole.\n\n\
    Exit status: 0 all were read, 1 some were not, 2 none, or errors."
)]
pub struct ImportArgs {
    /// Files to read; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Of a trace: make DIR (of several files DIR/NAME). Of a result: write FILE.json, or DIR/NAME.json, NAME being the
    /// file's own without its ending; otherwise one record a line on standard output
    #[arg(short, long, value_name = "DIR|FILE.json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: JsonArgs,
}

/// Runs the verb.
pub fn run(args: ImportArgs) -> anyhow::Result<ExitCode> {
    let mut failed = 0;
    let are_several = args.files.len() > 1;
    let output = args.output.as_deref().map(|path| Output::named(path, are_several)).transpose()?;
    let mut told = Vec::new();
    for file in &args.files {
        if is_over() {
            bail!("interrupted; {} and what follows were not read", file.display());
        }
        match one(file, output, are_several) {
            Ok(one) => told.push(one),
            Err(error) => {
                eprintln!("kymo: {error:#}");
                told.push(serde_json::json!({ "file": file.to_string_lossy(), "error": format!("{error:#}") }));
                failed += 1;
            }
        }
    }
    if args.out.json {
        println!("{}", serde_json::json!({ "schema": "kymo-import-1", "files": told }));
    }
    Ok(ExitCode::from(match failed {
        0 => 0,
        failed if failed < args.files.len() => 1,
        _ => 2,
    }))
}

/// What `-o` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output<'a> {
    Dir(&'a Path),
    /// Of a record, as JSON.
    File(&'a Path),
}

/// Endings by which a name is that of a file. Those of JSON can be written.
const JSON: [&str; 3] = ["json", "jsonl", "ndjson"];
const OTHERS: [&str; 22] = [
    "csv", "tsv", "txt", "text", "log", "dat", "hist", "html", "htm", "svg", "png", "pdf", "md", "xml", "yaml", "yml",
    "pftrace", "parquet", "gz", "xz", "zst", "zip",
];

impl Output<'_> {
    /// By its ending, unless there is such a directory already.
    fn named(path: &Path, are_several: bool) -> anyhow::Result<Output<'_>> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
        let is_file = !path.as_os_str().as_encoded_bytes().ends_with(b"/") && !path.is_dir();
        match is_file {
            true if JSON.contains(&ending.as_str()) && are_several => bail!(
                "-o {} names one file, and there are several to read: name a directory, in which each has its own",
                path.display()
            ),
            true if JSON.contains(&ending.as_str()) => Ok(Output::File(path)),
            true if OTHERS.contains(&ending.as_str()) => bail!(
                "-o {}: kymo import writes no .{ending} file. A result becomes a file NAME.json, a trace a directory; \
                 other formats are made of these by kymo report (HTML, SVG) and kymo export (CSV and others)",
                path.display()
            ),
            _ => Ok(Output::Dir(path)),
        }
    }
}

/// A trace or a result, by its content. What came of it, as JSON.
fn one(file: &Path, output: Option<Output<'_>>, are_several: bool) -> anyhow::Result<Value> {
    let bytes = Bytes::of(file)?;
    match kymo_export::import::format_of(&bytes) {
        Some(format) if format.is_marked || !is_result(&bytes) => trace(file, &bytes, output, are_several),
        _ => result(file, &bytes, output),
    }
}

/// Texts of the laboratory's tools may hold what looks like a line of a trace; their own marks decide.
fn is_result(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(1 << 16)];
    kymo_lab::import("", head).is_ok()
}

fn trace(file: &Path, bytes: &[u8], output: Option<Output<'_>>, are_several: bool) -> anyhow::Result<Value> {
    let dir = match output {
        Some(Output::Dir(dir)) => dir,
        None => bail!("{} is a trace: name the directory that it becomes with -o DIR", file.display()),
        Some(Output::File(path)) => bail!(
            "{} is a trace, which becomes a directory, and {} is the name of a JSON file: -o DIR; then kymo read DIR --json, \
             or kymo export DIR --format chrome",
            file.display(),
            path.display()
        ),
    };
    let stem = file.file_stem().filter(|_| file != Path::new("-")).unwrap_or("stdin".as_ref());
    let dir = if are_several { dir.join(stem) } else { dir.to_owned() };
    // Only now: reading standard input must end by Ctrl-C as ever.
    take_signals();
    let progress = RefCell::new(Progress::new());
    let goes_on = |so_far: ImportedSoFar| {
        let text = || format!("{:.1} million records", so_far.records as f64 / 1e6);
        progress.borrow_mut().show_share(so_far.share, text);
        !is_over()
    };
    let imported = kymo_export::import::import(bytes, &file.to_string_lossy(), &dir, &goes_on);
    progress.borrow_mut().end();
    let (format, imported) = imported.with_context(|| file.display().to_string())?;
    let lost = if imported.lost > 0 { format!(", {} lost", imported.lost) } else { String::new() };
    eprintln!("kymo: {}: {}, {} records{lost}, in {}", file.display(), format.name, imported.records, dir.display());
    for (what, count) in &imported.not_taken {
        eprintln!("kymo:   not taken: {what}: {count}");
    }
    imported.notes.iter().for_each(|note| eprintln!("kymo:   {note}"));
    Ok(serde_json::json!({
        "file": file.to_string_lossy(), "format": format.name, "output": dir.to_string_lossy(),
        "records": imported.records, "lost": imported.lost, "not_taken": imported.not_taken, "notes": imported.notes,
    }))
}

/// The bytes of a file: mapped, or of standard input.
enum Bytes {
    Owned(Vec<u8>),
    Mapped(kymo_ctf::read::Content),
}

impl Bytes {
    fn of(file: &Path) -> anyhow::Result<Bytes> {
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        match name.filter(|_| file.is_file()) {
            Some(name) => Ok(Bytes::Mapped(kymo_ctf::read::Directory(dir).open(&name)?)),
            None => Ok(Bytes::Owned(content(file)?)),
        }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped(content) => content,
        }
    }
}

fn result(file: &Path, bytes: &[u8], output: Option<Output<'_>>) -> anyhow::Result<Value> {
    if bytes.len() as u64 > FILE_MAX {
        bail!("{}: larger than {} MiB; no result of a latency test is", file.display(), FILE_MAX >> 20);
    }
    let record = import(&file.to_string_lossy(), bytes).map_err(|error| match error {
        kymo_lab::ImportError::Unknown { .. } => anyhow::anyhow!("{error}; traces: {}", kymo_export::import::list()),
        other => other.into(),
    })?;
    if let Some(Output::Dir(dir)) = output {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    say(file, &record);
    let mut text = serde_json::to_vec(&record)?;
    text.push(b'\n');
    let path = match output {
        None => {
            std::io::stdout().write_all(&text).context("cannot write to standard output")?;
            return Ok(Value::Null);
        }
        Some(Output::File(path)) => path.to_owned(),
        Some(Output::Dir(dir)) => {
            let mut name = file.file_stem().filter(|_| file != Path::new("-")).unwrap_or("stdin".as_ref()).to_owned();
            name.push(".json");
            dir.join(name)
        }
    };
    let to = File::options().write(true).create_new(true).open(&path);
    let mut to = to.with_context(|| format!("cannot make {} (an existing file is not replaced)", path.display()))?;
    if let Err(error) = to.write_all(&text) {
        // Half a record is none.
        let _ = std::fs::remove_file(&path);
        return Err(error).with_context(|| format!("cannot write {}", path.display()));
    }
    let format = record.source.as_ref().map_or(kymo_lab::SCHEMA, |source| &source.format);
    Ok(serde_json::json!({
        "file": file.to_string_lossy(), "format": format, "output": path.to_string_lossy(), "series": record.series.len(),
        "samples": samples(&record), "caveats": record.caveats.iter().map(|caveat| &caveat.text).collect::<Vec<_>>(),
    }))
}

/// A whole file, or standard input.
pub(crate) fn content(file: &Path) -> anyhow::Result<Vec<u8>> {
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

fn samples(record: &Record) -> u64 {
    record.series.iter().map(|series| series.count).fold(0, u64::saturating_add)
}

/// One line for the file, and one for each caveat.
fn say(file: &Path, record: &Record) {
    let format = record.source.as_ref().map_or(kymo_lab::SCHEMA, |source| &source.format);
    eprintln!("kymo: {}: {format}, {} series, {} samples", file.display(), record.series.len(), samples(record));
    for caveat in &record.caveats {
        eprintln!("kymo:   {}: {}; {}", caveat.id, caveat.text, caveat.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_what_its_name_says() {
        let dir = tempfile::tempdir().unwrap();
        let known = dir.path().join("runs.json");
        std::fs::create_dir(&known).unwrap();
        let known = known.to_str().unwrap();
        for (name, expect) in
            [("x.json", "file"), ("a/x.JSONL", "file"), ("runs", "dir"), ("x.json/", "dir"), (known, "dir")]
        {
            let found = Output::named(Path::new(name), false).unwrap();
            assert_eq!(matches!(found, Output::File(_)), expect == "file", "{name}: {found:?}");
        }
        // A trace that is called by the time it was made at.
        assert!(matches!(Output::named(Path::new("t.2026-11-23"), true), Ok(Output::Dir(_))));
        for name in ["x.csv", "x.html", "a/x.PFTRACE"] {
            assert!(Output::named(Path::new(name), false).unwrap_err().to_string().contains("writes no ."), "{name}");
        }
        assert!(Output::named(Path::new("x.json"), true).unwrap_err().to_string().contains("name a directory"));
    }
}
