// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo view --save`: a stretch of a trace as one file. What is in it is for kymo-serve.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use kymo_query::Opened;
use kymo_serve::{SaveLimits, Saved, save};

use crate::verbs::analyze::feed::ReadRange;
use crate::verbs::analyze::show::duration;

/// Where a page is saved.
#[derive(clap::Args)]
pub struct SaveArgs {
    /// Save the stretch of --from and --to as one HTML file, which opens without kymo and without a network, and do not
    /// serve it. Zooming in it shows what was saved; what was left out is listed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "no_open", "json"])]
    save: Option<PathBuf>,
    /// Maximum size of the file of --save, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16, requires = "save", value_parser = clap::value_parser!(u16).range(1..=512))]
    save_size: u16,
}

impl SaveArgs {
    /// Whether a page is saved.
    pub fn is_given(&self) -> bool {
        self.save.is_some()
    }
}

/// Saves it.
pub fn run(args: &SaveArgs, opened: &Opened, stretch: Option<ReadRange>) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.save else { return Ok(ExitCode::SUCCESS) };
    let window = stretch.map_or(opened.whole(), |stretch| (stretch.from, stretch.to));
    let limits = SaveLimits { bytes_max: u64::from(args.save_size) << 20 };
    let saved = save(opened, window, limits)?;
    write(path, &saved.html).with_context(|| format!("cannot write {}", path.display()))?;
    say(path, &saved, window);
    Ok(ExitCode::SUCCESS)
}

/// Whole or not at all.
fn write(path: &Path, html: &str) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As other files that a user makes: less the umask.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".kymo-save-").permissions(mode).tempfile_in(dir)?;
    file.write_all(html.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn say(path: &Path, saved: &Saved, (from, to): (i64, i64)) {
    let mib = saved.html.len() as f64 / f64::from(1 << 20);
    let stretch = duration(to.abs_diff(from));
    let exact = match saved.is_exact {
        true => "every state of it is exact at every zoom".to_owned(),
        false => format!("down to {} a pixel where it is dense", duration(saved.finest_ns.ceil() as u64)),
    };
    let path = path.display();
    eprintln!("kymo: {path}: {stretch} of the trace in {mib:.1} MiB, {} answers; {exact}", saved.answers);
    saved.left_out.iter().for_each(|what| eprintln!("kymo: not in it: {what}"));
}
