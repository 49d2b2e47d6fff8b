// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state dump in a file of the kernel's stream class [spec/kernel.md 6].

use std::path::Path;

use kymo_abi::record_head;
use kymo_ftrace::Batch;
use kymo_state::Options;

use crate::clock::ClockSource;
use crate::stream::{Class, Packet, Refusal, Stream, Streams};
use crate::trace_dir::DiskDir;
use crate::written::Written;

use super::{STATE_FIRST_ID, StateSummary};

/// Writes state dumps.
#[derive(Debug)]
pub(crate) struct StateDump {
    options: Options,
    source: ClockSource,
    pub streams: Streams,
    slot: Option<Stream>,
    newest: u64,
    summary: StateSummary,
}

impl StateDump {
    pub(crate) fn new(options: Options, source: ClockSource, dir: &Path, uuid: [u8; 16]) -> StateDump {
        let streams = Streams::new(DiskDir::boxed(dir), uuid, source);
        StateDump { options, source, streams, slot: None, newest: 0, summary: StateSummary::default() }
    }

    /// Dumps the state as it is now, as one packet.
    pub(crate) fn dump(&mut self) {
        let (source, mut newest) = (self.source, self.newest);
        let begun = source.read();
        let mut batch = Batch::default();
        let report = kymo_state::dump(&self.options, STATE_FIRST_ID, &mut |event| {
            // The thread may have moved to a CPU whose clock is a little behind.
            newest = newest.max(source.read());
            batch.bytes.extend_from_slice(&record_head(event.id, newest));
            batch.bytes.extend_from_slice(&event.tid.to_le_bytes());
            batch.bytes.extend_from_slice(&[0, 0]);
            batch.bytes.extend_from_slice(event.payload);
            batch.records += 1;
        });
        self.newest = newest;
        let summary = &mut self.summary;
        summary.dumps += 1;
        summary.records += batch.records;
        (summary.processes, summary.threads) = (report.processes, report.threads);
        (summary.files, summary.maps) = (report.files, report.maps);
        summary.caveats = report.caveats;
        let piece = libc::iovec { iov_base: batch.bytes.as_ptr().cast_mut().cast(), iov_len: batch.bytes.len() };
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let packet = Packet {
            begin: begun.min(newest),
            end: newest,
            lost: 0,
            program: None,
            thread: None,
            pieces: [piece, nothing],
        };
        match self.streams.append(&mut self.slot, Class::State, &packet, newest) {
            Ok(()) => summary.bytes += batch.bytes.len() as u64,
            Err(Refusal::Stopped) => {}
            Err(error) => summary.caveats.push(format!("a state dump was not written: {error:?}")),
        }
    }

    /// The trace goes on in another directory, which gets a dump of its own.
    pub(crate) fn go_on_in(&mut self, dir: &Path, uuid: [u8; 16]) -> Written {
        if let Some(stream) = self.slot.take() {
            self.streams.release(stream);
        }
        let written = self.streams.go_on_in(dir, uuid);
        self.dump();
        written
    }

    /// Gives the file back.
    pub(crate) fn finish(&mut self) {
        if let Some(stream) = self.slot.take() {
            self.streams.release(stream);
        }
        self.streams.finish();
    }

    pub(crate) fn summary(&self) -> StateSummary {
        self.summary.clone()
    }
}
