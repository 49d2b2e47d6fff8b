// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo-sql lake serve`: answers the questions of `kymo view --lake` through pipes, and ends with its standard input
//! [spec/view.md 11.5].

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use kymo_command::lake::LakeServeArgs;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::ask::{AskError, Desk};
use super::place::Place;

/// Of the threads that plan queries: plans are trees.
const STACK_BYTES: usize = 16 << 20;

/// Of operators that keep rows; what is more goes to temporary files.
const MEMORY_BYTES: usize = 256 << 20;

/// A line of standard input.
#[derive(Deserialize)]
#[serde(untagged)]
enum PipeLine {
    Cancel { cancel: u64 },
    Question { id: u64, question: String, parameters: Vec<(String, String)>, json: bool },
}

/// What is being answered, by id.
type Running = Arc<Mutex<HashMap<u64, AbortHandle>>>;

/// Runs the verb.
///
/// # Errors
/// The place is no lake, or cannot be read.
pub fn run(args: &LakeServeArgs) -> anyhow::Result<ExitCode> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(2))
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?;
    let desk = Arc::new(runtime.block_on(Desk::open(Place::open(&args.lake)?, threads, MEMORY_BYTES))?);
    let running = Running::default();
    put(&json!({ "ready": true }), &[]).context("cannot write to standard output")?;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("cannot read standard input")?;
        let asked: PipeLine = serde_json::from_str(&line).context("a line of standard input is no question")?;
        match asked {
            PipeLine::Cancel { cancel } => {
                if let Some(task) = lock(&running).remove(&cancel) {
                    task.abort();
                }
            }
            PipeLine::Question { id, question, parameters, json } => {
                let (desk, own) = (Arc::clone(&desk), Arc::clone(&running));
                // Kept before it can end.
                let mut all = lock(&running);
                let task = runtime.spawn(async move {
                    let said = answer(&desk, &question, parameters, json).await;
                    lock(&own).remove(&id);
                    say(id, said);
                });
                all.insert(id, task.abort_handle());
            }
        }
    }
    // Nobody is there any more for whom a question that runs now could be of use.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

fn lock(running: &Running) -> std::sync::MutexGuard<'_, HashMap<u64, AbortHandle>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of an answer.
struct Said {
    kind: &'static str,
    bytes: Vec<u8>,
}

async fn answer(
    desk: &Desk,
    question: &str,
    mut parameters: Vec<(String, String)>,
    json: bool,
) -> Result<Said, AskError> {
    if question == "locate" {
        let trace = parameters.pop().filter(|(name, _)| name == "trace").map(|(_, trace)| trace);
        let path = desk.locate(&trace.unwrap_or_default()).await?;
        let Some(path) = path.to_str() else {
            return Err(AskError::Here(format!("{} is no text: use kymo view", path.display())));
        };
        return Ok(Said { kind: "json", bytes: json!({ "path": path }).to_string().into_bytes() });
    }
    let answer = desk.answer(question, parameters).await?;
    Ok(match json {
        true => Said { kind: "json", bytes: answer.json().to_string().into_bytes() },
        false => Said { kind: "frame", bytes: answer.frame() },
    })
}

fn say(id: u64, said: Result<Said, AskError>) {
    let (head, bytes) = match said {
        Ok(said) => {
            let head = json!({ "id": id, "status": "answer", "kind": said.kind, "bytes": said.bytes.len() });
            (head, said.bytes)
        }
        Err(error) => {
            let mut head = error.json();
            head["id"] = json!(id);
            (head, Vec::new())
        }
    };
    // Who is gone ends this process by closing its input.
    let _ = put(&head, &bytes);
}

/// A line, and bytes behind it; nothing of another answer comes in between.
fn put(head: &Value, bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{head}\n").as_bytes())?;
    out.write_all(bytes)?;
    out.flush()
}
