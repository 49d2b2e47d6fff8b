// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo docs`: writes man pages and shell completions: those of the verbs from the command line's own definition, the
//! others ([`pages`]) from the project's Markdown.

mod man1;
pub mod pages;
mod roff;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::completion::scripts;

/// Write man pages and shell completions into a directory (used by make install)
#[derive(clap::Args)]
#[command(hide = true)]
pub struct DocsArgs {
    /// Directory that receives man1/, man3/, man7/, bash/, zsh/ and fish/
    dir: PathBuf,
    /// The source tree, for man3/ and man7/
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
}

/// Writes all pages and scripts below `args.dir`.
pub fn run(args: DocsArgs, definition: clap::Command) -> anyhow::Result<ExitCode> {
    man1::write(definition, &args.dir.join("man1"))?;
    if let Some(root) = &args.sources {
        pages::write(root, &args.dir)?;
    }
    for (folder, name, script) in scripts::ALL {
        let dir = args.dir.join(folder);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let path = dir.join(name);
        std::fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
