// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo sql`, and what else is done by `kymo-sql`: a command of its own for what needs Arrow, Parquet and DataFusion,
//! which take longer to build than all the rest.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use kymo_command::programs;

/// Its file.
const PROGRAM: &str = "kymo-sql";

pub use kymo_command::sql::SqlArgs;

/// Runs the verb, whose words on the command line are `words`: `kymo-sql` does all of it.
pub fn run(args: &SqlArgs, words: &[OsString]) -> anyhow::Result<ExitCode> {
    // What is wrong with the words is said also where kymo-sql is missing.
    args.format()?;
    Err(become_kymo_sql(words, "kymo sql"))
}

/// Becomes `kymo-sql` with the words of a verb: process id, terminal, signals and exit status are the same. `wanted` is
/// what needs it.
///
/// Returns why it could not be done.
pub fn become_kymo_sql(words: &[OsString], wanted: &str) -> anyhow::Error {
    let program = match program(wanted) {
        Ok(program) => program,
        Err(error) => return error,
    };
    let error = Command::new(&program).args(words).exec();
    anyhow::anyhow!("{wanted}: cannot start {}: {error}; make sql builds it anew", program.display())
}

/// The file of `kymo-sql`; `wanted` is what needs it.
///
/// # Errors
/// It is not there.
pub fn program(wanted: &str) -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().unwrap_or_default();
    programs::of_kymo(PROGRAM, &exe).ok_or_else(|| anyhow::anyhow!(missing(&exe, wanted)))
}

fn missing(exe: &Path, wanted: &str) -> String {
    let places: Vec<String> = programs::places(exe).iter().map(|place| place.display().to_string()).collect();
    format!(
        "{wanted} needs the command {PROGRAM}, which is not in {}, nor in PATH: build it with `make sql` in kymo's source, \
         and install it with `make install`",
        places.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_next_step() {
        let text = missing(Path::new("/opt/kymo/bin/kymo"), "--format parquet");
        for part in
            ["--format parquet", "kymo-sql", "/opt/kymo/bin,", "/opt/kymo/lib/kymo,", "make sql", "make install"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
