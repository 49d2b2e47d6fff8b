// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a session by its name and asking it: the verbs that change or end one.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use kymo_collect::{AskError, Remote, Request, remotes};
use kymo_command::{figures, unknown};
use serde_json::Value;

use super::args::{RotateArgs, SelectArgs, SnapshotArgs, StopArgs};
use crate::verbs::record::options::ring_bytes;
use crate::verbs::record::text;

/// A session answers what it knows within this.
pub const QUICK: Duration = Duration::from_secs(5);
/// What writes files may take this long.
const SLOW: Duration = Duration::from_secs(120);

/// A session that is not there: an exit status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoSession(String);

/// The answer to `then`, or the exit status 1 where there is no such session.
pub fn or_absent(result: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    result.or_else(|error| match error.downcast_ref::<NoSession>() {
        Some(absent) => {
            eprintln!("kymo: {absent}");
            Ok(ExitCode::from(1))
        }
        None => Err(error),
    })
}

/// Whether an error is that there is no such session.
pub fn is_absent(error: &anyhow::Error) -> bool {
    error.is::<NoSession>()
}

/// Asks the session `name`. This user's is meant where several users have one of that name.
pub fn ask(name: &str, request: &Request, patience: Duration) -> anyhow::Result<Value> {
    let own = rustix_uid();
    let mut found: Vec<Remote> = remotes()?.into_iter().filter(|remote| remote.name() == name).collect();
    found.sort_by_key(|remote| remote.uid() != own);
    if let [first, second, ..] = &found[..] {
        let (first, second) = (first.uid(), second.uid());
        anyhow::ensure!(
            first == own,
            "users {first} and {second} both have a session {name}; set KYMO_RUNTIME_DIR to the directory of one"
        );
    }
    for remote in found {
        match remote.ask(request, patience) {
            Ok(answer) => return Ok(answer),
            // Its socket is gone now; another of that name may live.
            Err(AskError::Dead) => continue,
            Err(AskError::Refused(text)) => anyhow::bail!("{text}"),
            Err(error) => anyhow::bail!("session {name} (collector: process {}): {error}", remote.pid()),
        }
    }
    Err(NoSession(absent(name)?).into())
}

fn rustix_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// That there is no such session, and which there are.
fn absent(name: &str) -> anyhow::Result<String> {
    let mut names: Vec<String> = remotes()?.iter().map(|remote| remote.name().to_owned()).collect();
    names.dedup();
    Ok(match names.is_empty() {
        true => format!("there is no session {name}; none is running (kymo session start NAME starts one)"),
        false => format!("there is no session {name}; running: {}", names.join(", ")),
    })
}

/// `enable` and `disable`.
pub(super) fn select(args: &SelectArgs, on: bool) -> anyhow::Result<ExitCode> {
    let (patterns, kernel) = (args.patterns.clone(), args.kernel.clone());
    let patience = if kernel.is_empty() { QUICK } else { SLOW };
    let request = if on { Request::Enable { patterns, kernel } } else { Request::Disable { patterns, kernel } };
    or_absent(ask(&args.name, &request, patience).map(|answer| {
        if args.out.json {
            println!("{answer:#}");
            return ExitCode::SUCCESS;
        }
        if let Some(events) = answer["kernel"]["events"].as_array() {
            let what = if on { "on" } else { "off" };
            let new = if answer["kernel"]["is_new"] == true { "; the session has kernel rings now" } else { "" };
            eprintln!("kymo: {} {what}{new}", figures::plural(events.len() as u64, "kernel event"));
        }
        if args.patterns.is_empty() {
            return ExitCode::SUCCESS;
        }
        let events: Vec<&str> = answer["events"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let what = if on { "on" } else { "off" };
        match (events.len(), answer["hint"].as_str()) {
            (0, hint) => eprintln!(
                "kymo: no running program has an event that matches; those of programs that come are switched {what}{}",
                hint.map(|hint| format!(" ({hint})")).unwrap_or_default()
            ),
            (count, _) => eprintln!(
                "kymo: {} {what}, in {}",
                figures::plural(count as u64, "event"),
                figures::plural(answer["programs"].as_u64().unwrap_or(0), "program")
            ),
        }
        ExitCode::SUCCESS
    }))
}

/// `add`.
pub fn add(name: &str, ring_size: u64, running: bool, json: bool) -> anyhow::Result<ExitCode> {
    let ring_bytes = ring_bytes(ring_size, false)?;
    or_absent(ask(name, &Request::Add { ring_bytes, running }, QUICK).map(|answer| {
        match json {
            true => println!("{answer:#}"),
            false if running => eprintln!("kymo: {}", rings_changed(&answer, ring_bytes)),
            false => eprintln!(
                "kymo: programs that come get rings of {}; the {} attached now keep theirs",
                figures::bytes(ring_bytes.into()),
                figures::plural(answer["keep"].as_u64().unwrap_or(0), "program")
            ),
        }
        ExitCode::SUCCESS
    }))
}

/// What became of the rings of programs that run.
fn rings_changed(answer: &Value, ring_bytes: u32) -> String {
    let number = |key: &str| answer[key].as_u64().unwrap_or(0);
    let mut text = format!(
        "programs that come get rings of {}; of those that run {} changed to them",
        figures::bytes(ring_bytes.into()),
        number("changed")
    );
    for (key, what) in [
        ("same", "had rings of that size, or of the largest that --memory allows"),
        ("deaf", "cannot (KYMO_NO_THREAD=1)"),
        ("no_memory", "cannot: --memory is used up by two sets of rings"),
        ("refused", "could not take them (`kymo session stop` says why)"),
        ("late", "did not answer yet"),
    ] {
        if number(key) > 0 {
            text += &format!("; {} {what}", number(key));
        }
    }
    text
}

/// `snapshot`.
pub(super) fn snapshot(args: SnapshotArgs) -> anyhow::Result<ExitCode> {
    let dir = args.output.map(std::path::absolute).transpose().context("cannot find the working directory")?;
    let before_ns = args.before.map(|before| u64::try_from(before.as_nanos()).unwrap_or(u64::MAX));
    let request = Request::Snapshot { dir, reason: args.reason, before_ns, wait: args.wait };
    or_absent(ask(&args.name, &request, SLOW).map(|answer| {
        if args.out.json {
            println!("{answer:#}");
            return ExitCode::SUCCESS;
        }
        let dir = answer["dir"].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| answer[key].as_u64().unwrap_or(0);
        match args.wait {
            false => eprintln!("kymo: a snapshot is being written into {dir}"),
            true => eprintln!(
                "kymo: {} in {}, {} overwritten since the snapshot before, taken in {:.3} s; next: kymo read {}",
                figures::plural(number("records"), "record"),
                figures::bytes(number("bytes")),
                figures::plural(number("overwritten"), "record"),
                answer["took"].as_f64().unwrap_or(0.0),
                figures::quoted(dir.as_ref())
            ),
        }
        let write_error = answer["write_error"].as_str();
        if let Some(error) = write_error {
            eprintln!("kymo: THE SNAPSHOT IS NOT COMPLETE: writing ended: {error}");
        }
        for caveat in answer["caveats"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            eprintln!("kymo: note: {caveat}");
        }
        ExitCode::from(u8::from(write_error.is_some()))
    }))
}

/// `rotate`.
pub(super) fn rotate(args: &RotateArgs) -> anyhow::Result<ExitCode> {
    let time_ms = args.rotate_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let request = Request::Rotate { bytes: args.rotate_size, time_ms, keep: args.keep };
    or_absent(ask(&args.name, &request, SLOW).map(|answer| {
        if args.out.json {
            println!("{answer:#}");
            return ExitCode::SUCCESS;
        }
        let chunk = &answer["chunk"];
        let Some(dir) = chunk["dir"].as_str() else {
            eprintln!("kymo: the trace is cut {}", text::rotation(&answer["rotation"]));
            return ExitCode::SUCCESS;
        };
        let number = |key: &str| chunk[key].as_u64().unwrap_or(0);
        eprintln!(
            "kymo: chunk {} is closed: {}, {}, {} lost; next: kymo read {}",
            number("number"),
            figures::plural(number("records"), "record"),
            figures::bytes(number("bytes")),
            figures::count(number("lost")),
            figures::quoted(dir.as_ref())
        );
        if let Some(error) = chunk["write_error"].as_str() {
            eprintln!("kymo: note: it is not complete: {error}");
        }
        ExitCode::SUCCESS
    }))
}

/// `stop`.
pub(super) fn stop(args: &StopArgs) -> anyhow::Result<ExitCode> {
    or_absent(ask(&args.name, &Request::Stop, SLOW).map(|answer| {
        if args.out.json {
            println!("{:#}", answer["summary"]);
        }
        let lines = answer["text"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for line in lines.filter(|_| !args.quiet) {
            eprintln!("kymo: {line}");
        }
        if args.quiet {
            for line in unknown::errors_of(&answer["summary"]) {
                eprintln!("kymo: {line}");
            }
        }
        let _ = std::io::stdout().flush();
        let is_known = answer["summary"]["unknown_count"].as_u64().unwrap_or(0) == 0;
        let has_trace = answer["summary"]["trace_error"].is_null();
        ExitCode::from(if !has_trace {
            2
        } else if is_known {
            0
        } else {
            unknown::STATUS
        })
    }))
}
