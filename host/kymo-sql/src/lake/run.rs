// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `kymo lake add`, `kymo lake list` and `kymo lake ship`.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use kymo_command::interrupt::{is_over, take_signals};
use kymo_command::lake::{AdditionArgs, LakeAddArgs, LakeListArgs, LakeShipArgs};
use kymo_command::named::named;
use kymo_command::process;
use kymo_command::terminal::Progress;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::add::{Added, Order, Outcome, Outside, Step, add as add_trace};
use super::list::{Listing, about, addition};
use super::manifest::make_lake;
use super::place::{Place, STAGING};
use super::ship::{ShipNews, Shipped, Shipping, ship as ship_session};

/// The exit status if a trace could not be opened, or is not there any more.
const UNREADABLE: u8 = 3;

/// Threads that write while the trace is read.
const THREADS: usize = 2;

fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?)
}

/// Lists a lake.
///
/// # Errors
/// It cannot be read.
pub fn list(args: &LakeListArgs) -> anyhow::Result<ExitCode> {
    let listing = runtime()?.block_on(Listing::read(&Place::open(&args.lake)?))?;
    let text = if args.out.json { format!("{:#}\n", listing.json()) } else { listing.text() };
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Adds traces to a lake.
///
/// # Errors
/// Words that make no sense; what is no trace, before anything is written; a trace that cannot be added: those before
/// it are.
pub fn add(args: &LakeAddArgs) -> anyhow::Result<ExitCode> {
    let order = order(&args.of)?;
    let dirs = traces(args)?;
    take_signals();
    let place = Place::create(&args.of.to)?;
    let runtime = runtime()?;
    let mut done = Vec::new();
    for (position, dir) in dirs.iter().enumerate() {
        let outside = outside(&format!("trace {} of {}", position + 1, dirs.len()));
        let added = runtime.block_on(add_trace(&place, dir, &order, &outside));
        drop(outside);
        let added = added.with_context(|| remark(&done, dirs.len()))?;
        if !args.out.json && !args.quiet {
            tell(&added)?;
        }
        if let Some(why) = &added.unreadable {
            say(&format!("kymo: {} cannot be opened, and is a row of losses: {why}", dir.display()));
        }
        if !added.manifest.has_wall_clock && added.unreadable.is_none() {
            let dir = dir.display();
            say(&format!("kymo: the clock of {dir} does not count from 1970: its rows have no day"));
        }
        done.push(added);
    }
    if args.out.json {
        let traces: Vec<Value> = done.iter().map(json_of).collect();
        let text = format!("{:#}\n", json!({ "lake": place.text(), "traces": traces }));
        std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")?;
    }
    check_wanted(&order.wanted, &done)?;
    let is_short = done.iter().any(|added| added.unreadable.is_some());
    Ok(if is_short { ExitCode::from(UNREADABLE) } else { ExitCode::SUCCESS })
}

fn order(of: &AdditionArgs) -> anyhow::Result<Order> {
    Ok(Order { labels: of.labels()?, wanted: of.tables.clone(), with_trace: of.with_trace, ..Order::default() })
}

/// Ships a session to a lake.
///
/// # Errors
/// Words that make no sense; a directory that is none of a session; it was interrupted before all was in the lake.
pub fn ship(args: &LakeShipArgs) -> anyhow::Result<ExitCode> {
    let of = Shipping {
        dir: args.dir.clone(),
        order: order(&args.of)?,
        remove: args.remove,
        recorder: args.recorder,
        look: Duration::from_secs(1),
        goes_on: || !is_over(),
    };
    let mut place = Place::create(&args.of.to)?;
    if args.check {
        runtime()?.block_on(make_lake(&place, &format!("{STAGING}/check-{}", token())))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(bytes) = args.bandwidth {
        place = place.paced(bytes, of.goes_on);
    }
    take_signals();
    process::step_back();
    let mut tell_now = |told: ShipNews<'_>| match told {
        ShipNews::Added(added) => {
            if let Some(why) = &added.unreadable {
                say(&format!("kymo: {} cannot be opened, and is a row of losses: {why}", added.manifest.place));
            }
            // Whoever reads it may be gone, and shipping goes on.
            if !args.out.json && !args.quiet {
                let _ = tell(added);
            }
        }
        ShipNews::Failed(part, error, wait) => {
            let (after, why) = (wait.as_secs(), in_a_line(error));
            say(&format!("kymo: {part} is not in the lake yet, and tried again in {after} s: {why}"));
        }
        ShipNews::Missing(parts) => {
            say(&format!("kymo: removed before they were in the lake: {}", parts.join(" ")));
        }
    };
    let shipped = runtime()?.block_on(ship_session(&place, &of, &outside, &mut tell_now))?;
    if args.out.json {
        let added: Vec<Value> = shipped.added.iter().map(json_of).collect();
        let (missing, waiting, unclosed) = (&shipped.missing, &shipped.waiting, &shipped.unclosed);
        let all = json!({
            "lake": place.text(), "dir": of.dir, "traces": added, "missing": missing, "waiting": waiting,
            "unclosed": unclosed,
        });
        std::io::stdout()
            .lock()
            .write_all(format!("{all:#}\n").as_bytes())
            .context("cannot write to standard output")?;
    }
    conclude(&of, &shipped)
}

/// What is to be known at the end.
fn conclude(of: &Shipping, shipped: &Shipped) -> anyhow::Result<ExitCode> {
    if !shipped.waiting.is_empty() {
        let (count, dir) = (shipped.waiting.len(), of.dir.display());
        bail!("interrupted: {count} closed parts of {dir} are not in the lake; kymo lake ship goes on with them");
    }
    if !shipped.unclosed.is_empty() {
        say(&format!(
            "kymo: the recorder of {} is gone, and did not close {}: kymo lake add adds what is there",
            of.dir.display(),
            shipped.unclosed.join(" ")
        ));
    }
    let is_unreadable = shipped.added.iter().any(|added| added.unreadable.is_some());
    let is_short = is_unreadable || !shipped.missing.is_empty() || !shipped.unclosed.is_empty();
    Ok(if is_short { ExitCode::from(UNREADABLE) } else { ExitCode::SUCCESS })
}

/// How far it came before an error.
fn remark(done: &[Added], of: usize) -> String {
    format!("{} of {of} traces are in the lake", done.len())
}

/// The directories of the traces.
fn traces(args: &LakeAddArgs) -> anyhow::Result<Vec<PathBuf>> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for named in named(&args.traces) {
        let dir = named.dir.display();
        if !named.dir.exists() {
            bail!("{dir}: there is no such trace");
        }
        let is_trace = named.dir.is_file() || named.parts.iter().any(|part| part.join("metadata").is_file());
        if !is_trace {
            bail!("{dir} is no trace, and has none below: there is no file metadata");
        }
        if !dirs.contains(&named.dir) {
            dirs.push(named.dir);
        }
    }
    Ok(dirs)
}

fn outside(which: &str) -> Outside {
    let progress = Mutex::new(Progress::new());
    let which = which.to_owned();
    let show = move |step: &Step<'_>| {
        if let Ok(mut progress) = progress.lock() {
            let done = step.position as f64 / step.tables.max(1) as f64;
            progress.show_share(done, || format!("{which}, table {}: {} rows", step.table, step.rows));
        }
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Outside {
        goes_on: || !is_over(),
        progress: Arc::new(show),
        now: now.as_secs() as i64,
        token: token(),
        ended: Vec::new(),
    }
}

/// A name for a run: 8 digits that no other run has.
fn token() -> String {
    // The standard library draws its keys from the system.
    let drawn = RandomState::new().build_hasher().finish();
    format!("{:08x}", drawn as u32)
}

/// An error with its causes. Those of object stores have the texts of their own causes in them: these are not repeated.
fn in_a_line(error: &anyhow::Error) -> String {
    let mut all: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !all.iter().any(|known| known.contains(&cause)) {
            all.push(cause);
        }
    }
    all.join(": ")
}

/// Says something on standard error.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Added => "added",
        Outcome::Replaced => "replaced",
        Outcome::Already => "already there",
    }
}

fn tell(added: &Added) -> anyhow::Result<()> {
    let line = format!("{}: {}\n  {}\n", word(added.outcome), added.manifest.place, about(&added.manifest));
    std::io::stdout().lock().write_all(line.as_bytes()).context("cannot write to standard output")
}

fn json_of(added: &Added) -> Value {
    let mut value = addition(&added.manifest);
    value["outcome"] = word(added.outcome).into();
    value["unreadable"] = added.unreadable.clone().into();
    value
}

/// A name or glob that no trace has a table for is a mistake.
fn check_wanted(wanted: &[String], done: &[Added]) -> anyhow::Result<()> {
    let matched: BTreeSet<&String> = done.iter().flat_map(|added| &added.matched).collect();
    let missing: Vec<&str> = wanted.iter().filter(|name| !matched.contains(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        bail!(
            "no trace has a table {}; kymo sql TRACE 'SHOW TABLES' lists them. All else was added",
            missing.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn causes_that_were_told_are_not_told_again() {
        let error =
            Err::<(), _>(anyhow!("no route")).context("S3: POST: no route").context("cannot write a").unwrap_err();
        assert_eq!(in_a_line(&error), "cannot write a: S3: POST: no route");
    }
}
