// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a trace of the lake is on this machine [spec/lake.md 9].

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::AskError;
use crate::lake::identity::TraceFiles;
use crate::lake::manifest::Manifest;
use crate::lake::place::Place;
use crate::lake::unfinished;

/// The directory in which a trace would be; whether its files are there.
pub fn expected(place: &Place, manifest: &Manifest) -> Option<PathBuf> {
    let path = match manifest.is_copy {
        // A lake may be mounted elsewhere than where the copy was written.
        true if place.stages() => PathBuf::from(place.absolute(&copy(manifest)?)),
        true => return None,
        false if manifest.added_on == unfinished::host() => PathBuf::from(&manifest.place),
        false => return None,
    };
    (path.is_absolute() && path.exists()).then_some(path)
}

/// The directory of the copy, below the lake: `_kymo/traces/TRACE-TOKEN/NAME`.
fn copy(manifest: &Manifest) -> Option<String> {
    let below = format!("_kymo/traces/{}-{}/", manifest.trace, manifest.token);
    let name = manifest.copied.iter().find_map(|path| path.strip_prefix(&below)?.split('/').next())?;
    let is_plain = matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
    is_plain.then(|| format!("{below}{name}"))
}

/// Tells a thread that nobody waits for it.
struct EndOnDrop(Arc<AtomicBool>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The directory of a trace, whose files are those that were added.
pub async fn locate(place: &Place, manifest: &Manifest) -> Result<PathBuf, AskError> {
    let (at, on) = (&manifest.place, &manifest.added_on);
    let Some(path) = expected(place, manifest) else {
        let why = match manifest.is_copy {
            true => format!("its copy is at {at}: download it, then use kymo view"),
            false if *on == unfinished::host() => format!("it is not at {at} any more"),
            false => format!("it is at {at} on the host {on}"),
        };
        return Err(AskError::Here(format!("the trace is not on this machine: {why}")));
    };
    let end = EndOnDrop(Arc::default());
    let (is_over, files) = (Arc::clone(&end.0), path.clone());
    let identity =
        tokio::task::spawn_blocking(move || TraceFiles::of(&files)?.identity(&|| !is_over.load(Ordering::Relaxed)));
    let identity = identity.await.map_err(|error| AskError::Here(format!("reading the trace broke off: {error}")))?;
    drop(end);
    match identity {
        Ok(identity) if identity == manifest.trace => Ok(path),
        Ok(_) => Err(AskError::Here(format!(
            "{} is another trace than the one that was added: it was changed or recorded anew since",
            path.display()
        ))),
        Err(error) => Err(AskError::Here(kymo_command::process::message(&error))),
    }
}
