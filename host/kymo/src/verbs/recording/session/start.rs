// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo session start`, as the user sees it: makes the collector and waits until it is ready or says why not.

use std::ffi::OsString;
use std::io::Read as _;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use serde_json::Value;

use super::definition::DefinitionArgs;
use super::settings;

/// Runs the verb.
pub fn run(args: &DefinitionArgs) -> anyhow::Result<ExitCode> {
    let words = settings::words_of_the_collector(args)?;
    let answer = make_collector(&words)?;
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        eprintln!("kymo: {error}");
        let status = answer["status"].as_u64().and_then(|status| u8::try_from(status).ok());
        return Ok(ExitCode::from(status.unwrap_or(2)));
    }
    if args.out.json {
        println!("{answer:#}");
    } else if !args.quiet {
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        eprintln!(
            "kymo: session {} runs (collector: process {}), {} into {}; `kymo session stop {}` ends it",
            text("name"),
            answer["pid"],
            if answer["mode"] == "flight" { "snapshots" } else { "recording" },
            text("output"),
            text("name")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts this program again as the collector, and reads its one line.
fn make_collector(words: &[OsString]) -> anyhow::Result<Value> {
    let mut child = Command::new("/proc/self/exe")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the collector")?;
    let mut line = Vec::new();
    let mut from = child.stdout.take().context("the collector has no standard output")?;
    let mut byte = [0];
    // No further: what the collector starts may hold the pipe open.
    while from.read(&mut byte).context("cannot read from the collector")? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    if let Ok(answer) = serde_json::from_slice(&line) {
        return Ok(answer);
    }
    let status = child.wait().context("cannot wait for the collector")?;
    match status.code() {
        // The command line was refused in the same words as on this side; they stand above.
        Some(code) if line.is_empty() && code == 2 => anyhow::bail!("the session was not started"),
        _ => anyhow::bail!("the collector ended ({status}) before it was ready"),
    }
}
