// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo docs`: writes man pages and shell completions from the command line's own definition.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

/// Write man pages and shell completions into a directory (used by make install)
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Directory that receives man1/, bash/, zsh/ and fish/
    dir: PathBuf,
}

/// Writes all pages and scripts below `args.dir`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let man = args.dir.join("man1");
    std::fs::create_dir_all(&man).with_context(|| format!("cannot make {}", man.display()))?;
    let mut command = crate::Cli::command();
    clap_mangen::generate_to(command.clone(), &man).with_context(|| format!("cannot write to {}", man.display()))?;
    for (shell, folder) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let dir = args.dir.join(folder);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        clap_complete::generate_to(shell, &mut command, "kymo", &dir)
            .with_context(|| format!("cannot write to {}", dir.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
