// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the session records goes to a lake [spec/lake.md 8]: a process of its own, `kymo-sql`, which outlives the
//! collector until all is there. It is never waited for.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use kymo_command::lake::check_labels;

use super::definition::LakeOptions;
use crate::verbs::sql;

/// Whether a session can be shipped as it is asked for.
///
/// # Errors
/// A label that is none; `kymo-sql` is not there; the lake cannot be made.
pub fn check(of: &LakeOptions) -> anyhow::Result<()> {
    let Some(url) = &of.url else { return Ok(()) };
    check_labels(&of.labels)?;
    let mut command = Command::new(sql::program("--lake")?);
    // Nothing is shipped yet: the directory may be any.
    command.args(words(of, url, Path::new("/"))).arg("--check").stdin(Stdio::null());
    let checked = command.output().context("cannot start kymo-sql for --lake")?;
    let said = String::from_utf8_lossy(&checked.stderr);
    ensure!(
        checked.status.success(),
        "--lake: {}",
        said.trim().trim_start_matches("kymo: ").trim_start_matches("error: ")
    );
    Ok(())
}

/// Starts to ship the session of this process, if that is asked for. Remarks go where this process' go: to the log.
///
/// # Errors
/// It cannot be started.
pub fn start(of: &LakeOptions, output: &Path) -> anyhow::Result<Option<u32>> {
    let Some(url) = &of.url else { return Ok(None) };
    let mut command = Command::new(sql::program("--lake")?);
    command.args(words(of, url, output)).stdin(Stdio::null());
    // Signals to the collector's group are not for it.
    command.process_group(0);
    let child = command.spawn().context("cannot start kymo-sql for --lake")?;
    Ok(Some(child.id()))
}

fn words(of: &LakeOptions, url: &str, output: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["lake", "ship"].map(OsString::from).into();
    words.push(output.into());
    words.push(format!("--to={url}").into());
    words.push(format!("--recorder={}", std::process::id()).into());
    words.extend(of.labels.iter().map(|label| format!("--label={label}").into()));
    words.extend(of.with_trace.then(|| "--with-trace".into()));
    words.extend(of.remove.then(|| "--remove".into()));
    words.extend(of.bandwidth.map(|bytes| format!("--bandwidth={bytes}").into()));
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kymo_command::lake::LakeShipArgs;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: LakeShipArgs,
    }

    #[test]
    fn the_words_are_those_of_kymo_lake_ship() {
        let (labels, bandwidth) = (vec!["board=-x y".to_owned()], Some(5000));
        let of = LakeOptions { url: None, labels, with_trace: true, remove: true, bandwidth };
        let words = words(&of, "-odd", Path::new("/t"));
        let args = Cli::try_parse_from(words.into_iter().skip(1)).unwrap().args;
        assert_eq!((args.dir.as_path(), args.of.to.as_str()), (Path::new("/t"), "-odd"));
        assert_eq!(args.of.labels().unwrap()["board"], "-x y");
        assert_eq!((args.bandwidth, args.recorder), (Some(5000), Some(std::process::id())));
        assert!(args.remove && args.of.with_trace);
    }
}
