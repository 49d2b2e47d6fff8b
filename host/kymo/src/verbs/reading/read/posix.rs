// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logs of POSIX Trace streams, given in the place of a trace's directory: turned into CTF in memory, or in a
//! directory.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use kymo_ctf::read::{Content, Decoded, Error, Files, Trace};
use kymo_posix::{Caveat, Log};

const STREAM_NAME: &str = "posix_0";

/// Whether `path` is a file that begins like a log.
pub fn is_log(path: &Path) -> bool {
    let mut head = Vec::new();
    path.is_file()
        && File::open(path).and_then(|file| file.take(8).read_to_end(&mut head)).is_ok()
        && kymo_posix::is_log(&head)
}

/// The files of a trace that a log becomes.
struct Converted<'a> {
    label: String,
    log: &'a Log<'a>,
}

impl Files for Converted<'_> {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn metadata(&self) -> Result<Content, Error> {
        Ok(Content::Owned(self.log.metadata().into_bytes()))
    }

    fn streams(&self) -> Result<Vec<String>, Error> {
        Ok(vec![STREAM_NAME.to_owned()])
    }

    fn open(&self, _: &str) -> Result<Content, Error> {
        Ok(Content::Owned(self.log.stream()))
    }
}

/// What is wrong with a log, on standard error. Returns how many of it is damage.
fn say(label: &str, log: &Log<'_>) -> u64 {
    for caveat in &log.caveats {
        eprintln!("kymo: {label}: {caveat}");
    }
    if log.end.is_some_and(|end| end.overrun) {
        eprintln!("kymo: {label}: the stream lost events; the log does not say how many");
    }
    let is_damage = |caveat: &&Caveat| !matches!(caveat, Caveat::Unfinished | Caveat::NoFrequency);
    log.caveats.iter().filter(is_damage).count() as u64
}

/// Opens a log as a trace. What is damaged is said, and added to `damaged`.
pub fn open(path: &Path, damaged: &mut u64) -> anyhow::Result<Decoded<Trace>> {
    let label = path.display().to_string();
    let bytes = fs::read(path).with_context(|| format!("cannot read {label}"))?;
    let log = Log::read(&label, &bytes)?;
    *damaged += say(&label, &log);
    Ok(Trace::from_files(&Converted { label, log: &log })?)
}

/// `--to-ctf`: writes one log as a trace directory.
pub fn write_ctf(paths: &[PathBuf], to: &Path) -> anyhow::Result<ExitCode> {
    let [path] = paths else { anyhow::bail!("--to-ctf takes one log") };
    let label = path.display().to_string();
    let bytes = fs::read(path).with_context(|| format!("cannot read {label}"))?;
    ensure!(kymo_posix::is_log(&bytes), "{label} is no log of a POSIX Trace stream; a CTF trace needs no --to-ctf");
    let log = Log::read(&label, &bytes)?;
    fs::create_dir(to).with_context(|| format!("cannot make the directory {}", to.display()))?;
    let write = |name: &str, bytes: &[u8]| {
        let file = to.join(name);
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))
    };
    write(STREAM_NAME, &log.stream())?;
    write("metadata", log.metadata().as_bytes())?;
    Ok(ExitCode::from(u8::from(say(&label, &log) > 0)))
}

/// The exit status of a trace whose logs are damaged: as of any other damage.
pub fn conclude(code: ExitCode, damaged: u64) -> ExitCode {
    if damaged > 0 { ExitCode::from(1) } else { code }
}
