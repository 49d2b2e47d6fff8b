// SPDX-License-Identifier: MIT OR Apache-2.0
//! The child process that answers: started again when it ended, and asked several questions at a time.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use kymo_query::Stop;
use kymo_serve::{LakeAnswer, LakeError};
use serde_json::{Value, json};

use crate::verbs::sql;

/// How long a question may go on that nobody waits for.
const LOOK: Duration = Duration::from_millis(50);

/// Bytes of an answer at most: a child that says more is not taken for one of ours.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

type Answered = Result<LakeAnswer, LakeError>;

/// Who waits for an answer, by id.
type Waiting = Arc<Mutex<HashMap<u64, Sender<Answered>>>>;

/// A child that runs, or ran.
struct Running {
    child: Child,
    input: ChildStdin,
    waiting: Waiting,
    has_ended: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its answers are for nobody; it is waited for so that nothing stays of it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process that answers questions about a lake.
pub struct AskedProcess {
    program: PathBuf,
    url: String,
    ids: AtomicU64,
    running: Mutex<Option<Running>>,
}

impl AskedProcess {
    /// Starts it, and waits until it has read the manifests.
    ///
    /// # Errors
    /// `kymo-sql` is not there; the place is no lake, or cannot be read.
    pub fn start(url: &str) -> anyhow::Result<AskedProcess> {
        AskedProcess::of_program(sql::program("kymo view --lake")?, url)
    }

    fn of_program(program: PathBuf, url: &str) -> anyhow::Result<AskedProcess> {
        let running = Mutex::new(Some(begin(&program, url)?));
        Ok(AskedProcess { program, url: url.to_owned(), ids: AtomicU64::new(1), running })
    }

    /// Asks, and waits until the answer is there or nobody wants it any more.
    ///
    /// # Errors
    /// There is no answer.
    pub fn ask(&self, question: &str, parameters: Vec<(String, String)>, json: bool, stop: &Stop) -> Answered {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = channel();
        let line = json!({ "id": id, "question": question, "parameters": parameters, "json": json });
        self.send(id, sender, &line)?;
        self.wait(id, &answer, stop)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a question, to a new child if the old one has ended.
    fn send(&self, id: u64, sender: Sender<Answered>, line: &Value) -> Result<(), LakeError> {
        let mut running = self.lock();
        if running.as_ref().is_none_or(|running| running.has_ended.load(Ordering::Acquire)) {
            // The old one is reaped first.
            *running = None;
            let anew = begin(&self.program, &self.url);
            *running = Some(anew.map_err(|error| LakeError::new("lake", &format!("{error:#}")))?);
        }
        let Some(running) = running.as_mut() else { return Err(ended()) };
        waiting(&running.waiting).insert(id, sender);
        if running.has_ended.load(Ordering::Acquire) || put(&mut running.input, line).is_err() {
            waiting(&running.waiting).remove(&id);
            running.has_ended.store(true, Ordering::Release);
            return Err(ended());
        }
        Ok(())
    }

    fn wait(&self, id: u64, answer: &Receiver<Answered>, stop: &Stop) -> Answered {
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                // Who read for it is gone.
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                Err(RecvTimeoutError::Timeout) if stop.goes_on() => {}
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(running) = self.lock().as_mut() {
                        waiting(&running.waiting).remove(&id);
                        let _ = put(&mut running.input, &json!({ "cancel": id }));
                    }
                    return Err(LakeError::new("stopped", "nobody waits for the answer"));
                }
            }
        }
    }
}

fn ended() -> LakeError {
    LakeError::new("ended", "kymo-sql, which answers questions about the lake, has ended; it is started again")
}

fn waiting(of: &Waiting) -> MutexGuard<'_, HashMap<u64, Sender<Answered>>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(input: &mut ChildStdin, line: &Value) -> std::io::Result<()> {
    input.write_all(format!("{line}\n").as_bytes())?;
    input.flush()
}

/// Starts a child, and waits for its first line. What it says on standard error is an error of ours, or goes there.
fn begin(program: &std::path::Path, url: &str) -> anyhow::Result<Running> {
    let mut command = Command::new(program);
    // A URL may begin with a dash.
    command.args(["lake", "serve", "--", url]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let (Some(input), Some(output)) = (input, output) else { bail!("{} has no pipes", program.display()) };
    let mut output = BufReader::new(output);
    let mut line = String::new();
    output.read_line(&mut line).context("cannot read from kymo-sql")?;
    let is_ready = serde_json::from_str::<Value>(&line).is_ok_and(|line| line["ready"] == json!(true));
    let mut errors = child.stderr.take();
    if !is_ready {
        let mut said = String::new();
        drop(input);
        if let Some(errors) = errors.as_mut() {
            let _ = errors.read_to_string(&mut said);
        }
        let _ = child.wait();
        let said = said.trim().trim_start_matches("kymo: ").trim_start_matches("error: ");
        bail!("{}", if said.is_empty() { "kymo-sql ended before it was ready" } else { said });
    }
    let (own, has_ended) = (Waiting::default(), Arc::new(AtomicBool::new(false)));
    let (theirs, ends) = (Arc::clone(&own), Arc::clone(&has_ended));
    let read = move || {
        // At its end, and where it says what no child of ours says.
        while let Some((id, answer)) = next(&mut output) {
            let sender = waiting(&theirs).remove(&id);
            // Who does not wait any more is gone.
            let _ = sender.map(|sender| sender.send(answer));
        }
        ends.store(true, Ordering::Release);
        // Whoever waits is told by the end of its channel.
        waiting(&theirs).clear();
    };
    std::thread::Builder::new().name("kymo-lake".to_owned()).spawn(read)?;
    let tell = move || {
        let _ = errors.map(|mut errors| std::io::copy(&mut errors, &mut std::io::stderr()));
    };
    std::thread::Builder::new().name("kymo-lake-errors".to_owned()).spawn(tell)?;
    Ok(Running { child, input, waiting: own, has_ended })
}

/// The next answer; none at the end.
fn next(output: &mut BufReader<ChildStdout>) -> Option<(u64, Answered)> {
    let mut line = String::new();
    output.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut head: Value = serde_json::from_str(&line).ok()?;
    let id = head["id"].as_u64()?;
    if head["status"] != json!("answer") {
        let error = head["error"].take();
        let kind = error["kind"].as_str()?.to_owned();
        return Some((id, Err(LakeError { kind, error })));
    }
    let bytes = head["bytes"].as_u64().filter(|bytes| *bytes <= ANSWER_BYTES_MAX)?;
    let mut body = Vec::new();
    output.by_ref().take(bytes).read_to_end(&mut body).ok()?;
    let is_whole = body.len() as u64 == bytes;
    is_whole.then(|| (id, Ok(LakeAnswer { is_json: head["kind"] == json!("json"), bytes: body })))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use kymo_testing::copy_program;

    use super::*;

    /// A program that behaves as the script says.
    fn child(dir: &Path, script: &str) -> PathBuf {
        let (text, path) = (dir.join("text"), dir.join("child"));
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        copy_program(&text, &path);
        path
    }

    const READY: &str = "echo '{\"ready\": true}'";

    fn kind(answer: Answered) -> String {
        answer.map_or_else(|error| error.kind, |answer| String::from_utf8(answer.bytes).unwrap())
    }

    #[test]
    fn what_a_child_says_before_it_is_ready_is_the_error() {
        let dir = tempfile::tempdir().unwrap();
        for (script, part) in
            [("echo 'kymo: /l is no lake' >&2; exit 2", "/l is no lake"), ("exit 0", "before it was ready")]
        {
            let error = AskedProcess::of_program(child(dir.path(), script), "/l").map(drop).unwrap_err();
            assert!(error.to_string().starts_with(part) || error.to_string().contains(part), "{error}");
        }
        let error = AskedProcess::of_program(dir.path().join("none"), "/l").map(drop).unwrap_err();
        assert!(error.to_string().contains("cannot start"), "{error}");
    }

    #[test]
    fn a_child_that_ends_fails_its_questions_and_is_started_again() {
        let dir = tempfile::tempdir().unwrap();
        // It answers one question, in order of the ids, and ends with the next one.
        let script = format!(
            "{READY}; read -r line; id=$(echo \"$line\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/'); \
             echo \"{{\\\"id\\\":$id,\\\"status\\\":\\\"answer\\\",\\\"kind\\\":\\\"json\\\",\\\"bytes\\\":5}}\"; printf '[1\\n]'; echo; read -r line"
        );
        let script = script.replace("printf '[1\\n]'; echo;", "printf '[ 1 ]';");
        let process = AskedProcess::of_program(child(dir.path(), &script), "/l").unwrap();
        let ask = || kind(process.ask("contents", Vec::new(), true, &Stop::default()));
        for _ in 0..3 {
            assert_eq!(ask(), "[ 1 ]");
            assert_eq!(ask(), "ended");
        }
    }

    #[test]
    fn what_no_child_says_is_its_end_and_who_does_not_wait_gets_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for said in [
            "no JSON",
            "{\\\"id\\\":1,\\\"status\\\":\\\"answer\\\",\\\"kind\\\":\\\"json\\\",\\\"bytes\\\":99999999999}",
            "{\\\"id\\\":1,\\\"status\\\":\\\"answer\\\",\\\"kind\\\":\\\"json\\\",\\\"bytes\\\":9}",
        ] {
            let program = child(dir.path(), &format!("{READY}; read -r line; echo \"{said}\""));
            let process = AskedProcess::of_program(program, "/l").unwrap();
            assert_eq!(kind(process.ask("contents", Vec::new(), true, &Stop::default())), "ended", "{said}");
        }
        let log = dir.path().join("log");
        let program = child(
            dir.path(),
            &format!("{READY}; while read -r line; do printf '%s\\n' \"$line\" >>{}; done", log.display()),
        );
        let process = AskedProcess::of_program(program, "/l").unwrap();
        let stop = Stop::default();
        stop.set();
        assert_eq!(
            kind(process.ask("worst", vec![("is".to_owned(), "host=a'b\"\n".to_owned())], true, &stop)),
            "stopped"
        );
        let has_cancel = || fs::read_to_string(&log).is_ok_and(|text| text.contains("{\"cancel\":1}"));
        let begun = std::time::Instant::now();
        while !has_cancel() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not cancelled");
            std::thread::yield_now();
        }
        let text = fs::read_to_string(&log).unwrap();
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(line["parameters"], json!([["is", "host=a'b\"\n"]]));
    }
}
