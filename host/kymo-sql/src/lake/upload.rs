// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file on its way into a lake: written where no reader sees it, made visible later [spec/lake.md 3].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt as _, PutPayload};
use tokio::task::JoinSet;

use super::pace::Pace;
use super::place::Place;

/// Bytes of a part. Object stores want 5 MiB at least, and all parts but the last one of one size.
const PART_BYTES: usize = 8 << 20;

/// Parts on their way at once.
const PARTS_MAX: usize = 4;

/// Files that were staged by this process: their names there.
static STAGED: AtomicU64 = AtomicU64::new(0);

/// A file that is being written.
pub struct Upload {
    below: String,
    /// Where it will be.
    path: Path,
    /// Where it is meanwhile.
    staged: Option<Path>,
    upload: Box<dyn MultipartUpload>,
    buffer: Vec<u8>,
    parts: JoinSet<object_store::Result<()>>,
    bytes: u64,
    pace: Option<Arc<Pace>>,
}

/// A file that is written, and not yet visible.
pub struct Ready {
    /// Its path below the lake.
    pub below: String,
    /// Its size.
    pub bytes: u64,
    path: Path,
    hidden: Hidden,
}

enum Hidden {
    Staged(Path),
    Uploaded(Box<dyn MultipartUpload>),
}

impl Upload {
    /// Begins the file `below`; on file systems it is in the directory `staging` meanwhile.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn begin(place: &Place, below: &str, staging: &str) -> anyhow::Result<Upload> {
        let path = place.path(below);
        let number = || STAGED.fetch_add(1, Ordering::Relaxed);
        let staged = place.stages().then(|| place.path(&format!("{staging}/{}", number())));
        let upload = place.store().put_multipart(staged.as_ref().unwrap_or(&path)).await;
        let upload = upload.with_context(|| format!("cannot write {below} in the lake {}", place.text()))?;
        let (buffer, parts) = (Vec::new(), JoinSet::new());
        let pace = place.pace();
        Ok(Upload { below: below.to_owned(), path, staged, upload, buffer, parts, bytes: 0, pace })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// A part could not be written.
    pub async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= PART_BYTES {
            let rest = self.buffer.split_off(PART_BYTES);
            let part = std::mem::replace(&mut self.buffer, rest);
            self.put(part).await?;
        }
        Ok(())
    }

    async fn put(&mut self, part: Vec<u8>) -> anyhow::Result<()> {
        if self.parts.len() >= PARTS_MAX {
            self.next_part().await?;
        }
        if let Some(pace) = &self.pace {
            pace.wait(part.len()).await?;
        }
        self.bytes += part.len() as u64;
        self.parts.spawn(self.upload.put_part(PutPayload::from(part)));
        Ok(())
    }

    async fn next_part(&mut self) -> anyhow::Result<()> {
        let Some(done) = self.parts.join_next().await else { return Ok(()) };
        done.context("an upload broke off")?.with_context(|| format!("cannot write {}", self.below))
    }

    /// Writes what is left. The file is not visible yet.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn finish(mut self) -> anyhow::Result<Ready> {
        // A file has a part, also one without bytes.
        let rest = std::mem::take(&mut self.buffer);
        if !rest.is_empty() || self.bytes == 0 {
            self.put(rest).await?;
        }
        while !self.parts.is_empty() {
            self.next_part().await?;
        }
        let hidden = match &self.staged {
            // Nobody reads there.
            Some(staged) => {
                self.upload.complete().await.with_context(|| format!("cannot write {}", self.below))?;
                Hidden::Staged(staged.clone())
            }
            None => Hidden::Uploaded(self.upload),
        };
        Ok(Ready { below: self.below, bytes: self.bytes, path: self.path, hidden })
    }

    /// Removes what was written of it. What cannot be removed is removed with its directory later.
    pub async fn abort(mut self) {
        self.parts.abort_all();
        while self.parts.join_next().await.is_some() {}
        let _ = self.upload.abort().await;
    }
}

impl Ready {
    /// Makes it visible.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn publish(self, place: &Place) -> anyhow::Result<()> {
        let published = match self.hidden {
            Hidden::Staged(staged) => {
                place.synchronize(&staged)?;
                place.store().rename(&staged, &self.path).await
            }
            Hidden::Uploaded(mut upload) => upload.complete().await.map(drop),
        };
        published.with_context(|| format!("cannot write {} in the lake {}", self.below, place.text()))
    }

    /// Removes it. What is staged is removed with its directory.
    pub async fn discard(self) {
        if let Hidden::Uploaded(mut upload) = self.hidden {
            let _ = upload.abort().await;
        }
    }
}

/// Writes a small object, which appears whole.
///
/// # Errors
/// It cannot be written.
pub async fn put(place: &Place, below: &str, bytes: Vec<u8>, staging: &str) -> anyhow::Result<()> {
    if !place.stages() {
        let put = place.store().put(&place.path(below), PutPayload::from(bytes)).await;
        return put.map(drop).with_context(|| format!("cannot write {below} in the lake {}", place.text()));
    }
    let mut upload = Upload::begin(place, below, staging).await?;
    upload.write(&bytes).await?;
    upload.finish().await?.publish(place).await
}
