// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Arrow stream that a command prints: `kymo sql ... --format arrow`. DataFusion is larger than all of kymo: it
//! stays in the command `kymo-sql` instead of in each wheel.

use std::ffi::OsString;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use kymo_command::process::ask_to_end;
use pyo3::prelude::*;

use crate::error::KymoError;
use crate::stream::{ArrowStream, StreamState};
use crate::wait::interruptible;

/// Bytes of what a command says of its errors that are kept.
const SAID_MAX: u64 = 64 << 10;

/// Runs a command that prints an Arrow stream. `notes` is called with what it says on standard error, once it has ended
/// well; otherwise that is the text of the error.
#[pyfunction]
#[pyo3(signature = (command, progress=None, notes=None))]
pub fn run_arrow(
    py: Python<'_>,
    command: Vec<OsString>,
    progress: Option<Py<PyAny>>,
    notes: Option<Py<PyAny>>,
) -> PyResult<ArrowStream> {
    let mut words = command.into_iter();
    let program = words.next().ok_or_else(|| KymoError::new_err("no command"))?;
    let mut command = Command::new(&program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    let child = child
        .map_err(|error| KymoError::new_err(format!("cannot start {}: {error}", Path::new(&program).display())))?;
    let running = Running::new(child).map_err(KymoError::new_err)?;
    let (killer, at_end) = (running.killer(), running.killer());
    let state = Arc::new(StreamState::ending(Box::new(move || at_end.kill())));
    let opened = interruptible(py, move || running.open(), || killer.kill())?;
    let (reader, running) = opened.map_err(KymoError::new_err)?;
    let schema = reader.schema();
    let batches = Printed { reader, running, cancelled: Arc::clone(&state.cancelled), notes, is_over: false };
    Ok(ArrowStream::new(schema, Box::new(batches), state, progress))
}

/// A command that runs, and what it said so far on standard error.
struct Running {
    child: Arc<Mutex<Child>>,
    said: Option<JoinHandle<String>>,
}

/// Ends the command from another thread.
struct Killer(Arc<Mutex<Child>>);

impl Killer {
    /// Does not wait for its end.
    fn kill(&self) {
        let child = Arc::clone(&self.0);
        let end = move || end(&child);
        if thread::Builder::new().name("kymotrace".to_owned()).spawn(end).is_err() {
            // It may have ended by itself.
            let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
        }
    }
}

/// Asks the command to end, so that it can remove its temporary files; some time later it is killed.
fn end(child: &Mutex<Child>) {
    let child = || child.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = Instant::now();
    let mut is_asked = false;
    loop {
        let mut child = child();
        // It may have ended by itself.
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        if begun.elapsed() >= END_WAIT {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        if !std::mem::replace(&mut is_asked, true) {
            ask_to_end(&child);
        }
        drop(child);
        thread::sleep(WAIT);
    }
}

type Reader = StreamReader<BufReader<ChildStdout>>;

impl Running {
    fn new(mut child: Child) -> Result<Running, String> {
        let stderr = child.stderr.take();
        let read = move || {
            let mut said = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = stderr.by_ref().take(SAID_MAX).read_to_end(&mut said);
                // Nothing blocks the command because nobody reads.
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            }
            String::from_utf8_lossy(&said).trim().to_owned()
        };
        let said = thread::Builder::new().name("kymotrace".to_owned()).spawn(read);
        let said = said.map_err(|error| format!("no thread to read with: {error}"))?;
        Ok(Running { child: Arc::new(Mutex::new(child)), said: Some(said) })
    }

    fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.child))
    }

    /// Waits for the columns' names and types.
    fn open(mut self) -> Result<(Reader, Running), String> {
        let stdout = self.child.lock().unwrap_or_else(PoisonError::into_inner).stdout.take();
        let stdout = stdout.ok_or("no output to read")?;
        match StreamReader::try_new(BufReader::new(stdout), None) {
            Ok(reader) => Ok((reader, self)),
            Err(error) => {
                Err(self.end().err().unwrap_or_else(|| format!("its output is not an Arrow stream: {error}")))
            }
        }
    }

    /// Waits for its end; meanwhile others can kill it.
    fn wait(&self) -> std::io::Result<ExitStatus> {
        loop {
            let ended = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait()?;
            match ended {
                Some(status) => return Ok(status),
                None => thread::sleep(WAIT),
            }
        }
    }

    /// What it said, once it has ended well (1: well, but the trace is damaged).
    fn end(&mut self) -> Result<String, String> {
        let status = self.wait();
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        match status.map(|status| (status.code(), status)) {
            Ok((Some(0 | 1), _)) => Ok(said),
            Ok((_, status)) => Err(why(&said, status)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// How long the command has to remove what it leaves otherwise.
const END_WAIT: Duration = Duration::from_secs(2);

/// How long it is asleep between two looks whether the command has ended.
const WAIT: Duration = Duration::from_millis(5);

fn why(said: &str, status: ExitStatus) -> String {
    if said.is_empty() { format!("kymo ended with {status}") } else { said.to_owned() }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody wants the rest.
        end(&self.child);
    }
}

/// The batches that it prints.
struct Printed {
    reader: Reader,
    running: Running,
    cancelled: Arc<AtomicBool>,
    notes: Option<Py<PyAny>>,
    is_over: bool,
}

impl Printed {
    /// What is wrong at the end.
    fn conclude(&mut self) -> Option<String> {
        match self.running.end() {
            Ok(said) => {
                let notes = self.notes.take().filter(|_| !said.is_empty());
                if let Some(notes) = notes {
                    // What somebody does with a note is no error of the stream.
                    Python::try_attach(|py| notes.call1(py, (said,)).err().map(|error| error.print(py)));
                }
                None
            }
            Err(why) => Some(why),
        }
    }
}

impl Iterator for Printed {
    type Item = Result<RecordBatch, String>;

    fn next(&mut self) -> Option<Result<RecordBatch, String>> {
        if self.is_over || self.cancelled.load(Ordering::Relaxed) {
            return None;
        }
        let next = self.reader.next().map(|batch| batch.map_err(|error| error.to_string()));
        match next {
            Some(Ok(batch)) => Some(Ok(batch)),
            // A stream that was cut short looks like one that has ended: how the command ended tells them apart.
            Some(Err(error)) => {
                self.is_over = true;
                Some(Err(self.conclude().unwrap_or(error)))
            }
            None => {
                self.is_over = true;
                self.conclude().map(Err)
            }
        }
    }
}
