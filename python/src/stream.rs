// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record batches on their way to Python. A thread of its own makes them, two ahead at most, so that memory stays
//! bounded however long the trace is. Who takes them waits without the GIL, and sees Ctrl-C.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::KymoError;
use crate::wait::LOOK;

/// Batches that wait to be taken.
const AHEAD: usize = 2;

/// What makes batches: called in a thread of its own until it has no more, or nobody wants more.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// What taker and maker of batches share.
#[derive(Default)]
pub struct StreamState {
    /// Nobody wants more.
    pub cancelled: Arc<AtomicBool>,
    /// Ends whoever makes them where that does not look at `cancelled`: it may wait for another process.
    end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    rows: AtomicU64,
    /// What a signal handler or the progress callback raised.
    raised: Mutex<Option<PyErr>>,
}

impl StreamState {
    /// With what ends whoever makes the batches.
    pub fn ending(end: Box<dyn FnOnce() + Send>) -> StreamState {
        StreamState { end: Mutex::new(Some(end)), ..StreamState::default() }
    }

    /// Nobody wants more.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        end.into_iter().for_each(|end| end());
    }

    fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Called with the batch that is handed over, or none while there is none, and the rows so far.
type Progress = Py<PyAny>;

/// Batches as they are made.
struct Pump {
    schema: SchemaRef,
    /// Batches, then nothing once: a channel that is closed without it was broken off.
    receiver: Receiver<Option<Result<RecordBatch, String>>>,
    state: Arc<StreamState>,
    progress: Option<Progress>,
    /// Whoever takes them shows only that something was raised, not what: the signal is sent once more, so that
    /// KeyboardInterrupt is raised as soon as Python runs again.
    is_foreign: bool,
    looked: Instant,
    is_over: bool,
}

impl Pump {
    fn new(
        schema: SchemaRef,
        batches: Batches,
        state: Arc<StreamState>,
        progress: Option<Progress>,
        is_foreign: bool,
    ) -> Result<Pump, std::io::Error> {
        let (sender, receiver) = mpsc::sync_channel(AHEAD);
        let cancelled = Arc::clone(&state.cancelled);
        let pump = move |batches: Batches| {
            for batch in batches {
                let is_last = batch.is_err() || cancelled.load(Ordering::Relaxed);
                if sender.send(Some(batch)).is_err() || is_last {
                    break;
                }
            }
            // Who does not take it wants no batches either.
            let _ = sender.send(None);
        };
        // A panic closes the channel.
        let work = move || drop(catch_unwind(AssertUnwindSafe(|| pump(batches))));
        thread::Builder::new().name("kymotrace".to_owned()).spawn(work)?;
        Ok(Pump { schema, receiver, state, progress, is_foreign, looked: Instant::now(), is_over: false })
    }

    /// The next batch, with a look at signals and progress every now and then. The GIL is asked for only then, or where
    /// there is nothing to do but to wait: it is another's meanwhile, even if the caller has it.
    fn receive(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.looked.elapsed() < LOOK {
            match self.receiver.try_recv() {
                Ok(batch) => return self.hand_over(batch),
                Err(TryRecvError::Disconnected) => return Err(broken_off()),
                Err(TryRecvError::Empty) => {}
            }
        }
        loop {
            let receiver = &mut self.receiver;
            let looked = Python::try_attach(|py| {
                py.check_signals()?;
                Ok(py.detach(move || receiver.recv_timeout(LOOK)))
            });
            self.looked = Instant::now();
            let received = match looked {
                Some(Ok(received)) => received,
                Some(Err(raised)) => return Err(self.stop(raised)),
                // The interpreter is ending.
                None => self.receiver.recv_timeout(LOOK),
            };
            match received {
                Ok(batch) => return self.hand_over(batch),
                Err(RecvTimeoutError::Disconnected) => return Err(broken_off()),
                Err(RecvTimeoutError::Timeout) => self.tell(None)?,
            }
        }
    }

    fn hand_over(&mut self, batch: Option<Result<RecordBatch, String>>) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(batch) = batch else { return Ok(None) };
        let batch = batch.map_err(|message| ArrowError::ExternalError(message.into()))?;
        self.state.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        self.tell(Some(&batch))?;
        Ok(Some(batch))
    }

    /// How far it is: of the time column, where the batch begins with one.
    fn tell(&mut self, batch: Option<&RecordBatch>) -> Result<(), ArrowError> {
        let Some(progress) = &self.progress else { return Ok(()) };
        let rows = self.state.rows.load(Ordering::Relaxed);
        let last = batch.and_then(last_time);
        let told = Python::try_attach(|py| progress.call1(py, (rows, last)).map(drop));
        match told {
            Some(Err(raised)) => Err(self.stop(raised)),
            _ => Ok(()),
        }
    }

    fn stop(&mut self, raised: PyErr) -> ArrowError {
        self.state.cancel();
        let text = raised.to_string();
        let is_signal = Python::try_attach(|py| raised.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py));
        if self.is_foreign && is_signal == Some(true) {
            // SAFETY: it only notes that the signal came, and may be called from any thread at any time.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        }
        *self.state.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
        ArrowError::ComputeError(text)
    }
}

impl Iterator for Pump {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        if self.is_over {
            return None;
        }
        let next = self.receive().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl RecordBatchReader for Pump {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.state.cancel();
    }
}

/// What breaks off must not look like the end.
fn broken_off() -> ArrowError {
    ArrowError::ExternalError("the reader broke off: what was read so far is not all".into())
}

/// The last time of a batch, ns: of `time`, or of `from`, by which derived tables are ordered.
fn last_time(batch: &RecordBatch) -> Option<i64> {
    use arrow_array::{Array as _, TimestampNanosecondArray};
    let times = batch.column_by_name("time").or_else(|| batch.column_by_name("from"))?;
    let times = times.as_any().downcast_ref::<TimestampNanosecondArray>()?;
    let last = times.len().checked_sub(1)?;
    (!times.is_null(last)).then(|| times.value(last))
}

/// A stream of record batches that nobody has taken yet. It can be taken once.
#[pyclass(module = "kymotrace._native", frozen)]
pub struct ArrowStream {
    schema: SchemaRef,
    batches: Mutex<Option<Batches>>,
    progress: Option<Progress>,
    state: Arc<StreamState>,
}

impl ArrowStream {
    /// Of these batches; `state` ends whoever makes them.
    pub fn new(
        schema: SchemaRef,
        batches: Batches,
        state: Arc<StreamState>,
        progress: Option<Progress>,
    ) -> ArrowStream {
        ArrowStream { schema, batches: Mutex::new(Some(batches)), progress, state }
    }

    fn capsule<'py>(&self, py: Python<'py>, is_foreign: bool) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batches =
            batches.ok_or_else(|| PyValueError::new_err("this stream was taken already: ask for a new one"))?;
        let progress = self.progress.as_ref().map(|progress| progress.clone_ref(py));
        let pump = Pump::new(Arc::clone(&self.schema), batches, Arc::clone(&self.state), progress, is_foreign);
        let pump = pump.map_err(|error| KymoError::new_err(format!("no thread to read with: {error}")))?;
        let stream = FFI_ArrowArrayStream::new(Box::new(pump));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

#[pymethods]
impl ArrowStream {
    /// The Arrow PyCapsule interface: the stream itself.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // It is the asker's wish only: who asks casts what is left.
        drop(requested_schema);
        self.capsule(py, true)
    }

    /// The same for the package's own methods, which raise what was raised ([`ArrowStream::raise_pending`]).
    fn own_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.capsule(py, false)
    }

    /// The Arrow PyCapsule interface: names and types of the columns.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Raises what ended the stream: KeyboardInterrupt, or what the progress callback raised.
    fn raise_pending(&self) -> PyResult<()> {
        self.state.raised().map_or(Ok(()), Err)
    }

    /// Ends it: no further batch is made.
    fn cancel(&self) {
        self.state.cancel();
    }

    /// Rows that were handed over.
    #[getter]
    fn rows(&self) -> u64 {
        self.state.rows.load(Ordering::Relaxed)
    }
}

/// A schema for Python.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| KymoError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
