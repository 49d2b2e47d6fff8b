// SPDX-License-Identifier: MIT OR Apache-2.0
//! The beginning that every session has: directory, signals, collector, command.

use std::path::PathBuf;

use anyhow::Context as _;
use kymo_collect::{Config, Session};

use super::options::{Checked, Options};
use super::output::Output;
use crate::verbs::command::{self, Happened, Watcher};

/// A session that runs.
pub struct Begun {
    pub session: Session,
    pub output: Output,
    /// Process id of the command.
    pub child: Option<u32>,
}

/// The command could not be run. What was made for it is gone.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {program}: {error}")]
pub struct CannotRun {
    program: String,
    error: std::io::Error,
}

impl CannotRun {
    /// The exit status that shells give.
    pub fn status(&self) -> u8 {
        if self.error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// Signals and limits as a session needs them, and as its command had them.
pub struct Prepared {
    limits: command::Limits,
    watcher: Watcher,
}

/// Before any thread exists, so that none takes a signal that is for the watcher.
pub fn prepare() -> anyhow::Result<Prepared> {
    let limits = command::Limits::take();
    Ok(Prepared { limits, watcher: Watcher::prepare().context("cannot watch for signals")? })
}

/// Begins a session of `checked` options, into `output`, and runs the command. `adjust` has the last word on the
/// settings. What happens to command and collector goes to `tell`, which says whether it wants more. After an error
/// nothing is left.
pub fn begin(
    options: &Options,
    Prepared { limits, watcher }: Prepared,
    checked: Checked,
    output: Output,
    adjust: impl FnOnce(&mut Config),
    tell: impl Fn(Happened) -> bool + Clone + Send + 'static,
) -> anyhow::Result<Begun> {
    let Checked { mut config, helpers } = checked;
    config.output = output.path().to_owned();
    adjust(&mut config);
    let mut session = Session::start(config).inspect_err(|_| output.discard())?;
    let child = match options.command.is_empty() {
        true => None,
        false => match spawn(options, &helpers, &limits, &mut session) {
            Ok(pid) => Some(pid),
            Err(error) => {
                drop(session);
                output.discard();
                let program = options.command[0].to_string_lossy().into_owned();
                return Err(CannotRun { program, error }.into());
            }
        },
    };
    watcher.start(child, tell).context("cannot start a thread")?;
    Ok(Begun { session, output, child })
}

fn spawn(
    options: &Options,
    helpers: &[PathBuf],
    limits: &command::Limits,
    session: &mut Session,
) -> std::io::Result<u32> {
    let extras = command::Extras { marker: session.marker().map(Into::into), child_files: session.child_files() };
    command::spawn(&options.command, helpers, limits, extras)
}
