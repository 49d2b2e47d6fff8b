// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table that several threads read: parts of it, some in front of others, handed on in their order. The rows, and
//! their order, are those that one thread reads.

use std::collections::VecDeque;

use crate::emit::{Emit, Ended};
use crate::error::Error;
use crate::partition::Partition;
use crate::scan::Batches;

/// Hands on the rows of all parts. `read` begins with one, and keeps what it has read until it is taken.
pub(crate) fn in_order(
    parts: Vec<Partition>,
    threads: usize,
    emit: &mut Emit,
    read: impl Fn(Partition) -> Result<Batches, Error>,
) -> Result<(), Ended> {
    let mut parts = parts.into_iter();
    let mut begun: VecDeque<Batches> = VecDeque::new();
    loop {
        // One that is read to its end and waits takes no thread, but memory.
        while begun.len() <= threads && begun.iter().filter(|part| !part.is_read()).count() < threads {
            let Some(part) = parts.next() else { break };
            begun.push_back(read(part)?);
        }
        let Some(first) = begun.front_mut() else { return Ok(()) };
        match first.next() {
            Some(Ok(batch)) => emit.send(batch)?,
            Some(Err(error)) => return Err(Ended::Failed(error)),
            None => drop(begun.pop_front()),
        }
    }
}
