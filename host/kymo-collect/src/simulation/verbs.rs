// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions that a session's owner asks while it runs, and whether the answers are right when they come: how full the
//! rings are, and events of the kernel that the metadata is to have.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use kymo_ctf::write::{EventClass, Field, FieldClass, Number};
use kymo_ftrace::Naming;

use super::disk::Disk;
use super::rings::Books;
use crate::Error;
use crate::control::ToControl;
use crate::drain::{RingUse, ToDrain};

/// Ids of simulated events of the kernel are counted from here.
const FIRST_ID: u16 = 100;

/// Whether the metadata has an event of the kernel: directory and uuid of the trace.
type EventWritten = Result<(PathBuf, [u8; 16]), Error>;

/// What was asked and not answered yet, and what was answered.
#[derive(Debug, Default)]
pub(super) struct Questions {
    looks: Vec<Receiver<Vec<RingUse>>>,
    kernel: Vec<(String, Receiver<EventWritten>)>,
    /// Events of the kernel so far.
    events: u16,
    /// Those that the metadata has.
    pub known: Vec<String>,
    /// Rings in answers.
    pub rings: u64,
}

impl Questions {
    /// How full are the rings?
    pub(super) fn look(&mut self) -> ToDrain {
        let (reply, answer) = channel();
        self.looks.push(answer);
        ToDrain::Look(reply)
    }

    /// One more event of the kernel is switched on.
    pub(super) fn kernel_event(&mut self) -> ToControl {
        let (reply, answer) = channel();
        let name = format!("simulated_{}", self.events);
        let fields = vec![Field { name: "n".to_owned(), class: FieldClass::Number(Number::signed(32)) }];
        let class = EventClass { id: FIRST_ID + self.events, name: name.clone(), file: String::new(), line: 0, fields };
        let naming = (self.events == 0).then_some(Naming::Kernel);
        self.events += 1;
        self.kernel.push((name, answer));
        ToControl::KernelEvents { classes: vec![class], naming, reply }
    }

    /// Whether there is nothing to wait for.
    pub(super) fn are_answered(&self) -> bool {
        self.looks.is_empty() && self.kernel.is_empty()
    }

    /// Looks at the answers that have come. `dirs`: where the trace has been written to so far.
    pub(super) fn check(&mut self, books: &Books, disk: &Disk, dirs: &[PathBuf], disk_was_bad: bool, who: &str) {
        for answer in std::mem::take(&mut self.looks) {
            match answer.try_recv() {
                Ok(rings) => {
                    self.rings += rings.len() as u64;
                    rings.iter().for_each(|ring| check_ring(ring, books, who));
                }
                Err(_) => self.looks.push(answer),
            }
        }
        for (name, answer) in std::mem::take(&mut self.kernel) {
            match answer.try_recv() {
                Ok(Ok((dir, _))) => {
                    assert!(dirs.contains(&dir), "{who}: the trace is not written to {}", dir.display());
                    self.known.push(name);
                    self.check_metadata(disk, &dir, who);
                }
                Ok(Err(error)) => assert!(disk_was_bad, "{who}: {name} was refused on a good disk: {error}"),
                Err(_) => self.kernel.push((name, answer)),
            }
        }
    }

    /// The metadata of a trace has all events of the kernel that were switched on before it was written.
    fn check_metadata(&self, disk: &Disk, dir: &Path, who: &str) {
        let metadata = disk.text(&dir.join("metadata"));
        for name in &self.known {
            assert!(metadata.contains(&format!("\"{name}\"")), "{who}: the metadata in {} lacks {name}", dir.display());
        }
    }
}

/// A ring has no more than was written into it: the answer is older than the books.
fn check_ring(ring: &RingUse, books: &Books, who: &str) {
    let what = format!("{who}: {ring:?}");
    let book = books.get(&ring.serial).unwrap_or_else(|| panic!("{what}: nobody has this memory"));
    let published = book.published.get(&ring.lane).map_or(0, |tokens| tokens.len() as u64);
    assert_eq!(ring.ring_bytes, book.ring_bytes, "{what}");
    assert!(ring.records <= published && ring.bytes <= ring.ring_bytes, "{what}: {published} were written");
    assert!(ring.lost <= book.lost_full + published, "{what}: {} had no room", book.lost_full);
}
