// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of hosts and days, lakes of them, and stores that stop working.

#![allow(dead_code, reason = "each user needs its part")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kymo_sql::day::day_number;
use kymo_sql::lake::add::{Added, Order, Outside, add};
use kymo_sql::lake::manifest::{Adding, Manifest};
use kymo_sql::lake::place::Place;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

use super::common::Made;
use super::queries::runtime;

/// The second of these days begins in the middle of a trace.
pub const DAYS: [&str; 2] = ["2026-11-27", "2026-11-28"];

/// Writes a trace of a host whose clock counts from 1970; the second day begins at `midnight` of its own times, ns.
pub fn write(made: &Made, dir: &Path, host: &str, midnight: i64) {
    std::fs::create_dir_all(dir).unwrap();
    made.write(dir);
    let metadata = std::fs::read_to_string(dir.join("metadata")).unwrap();
    let offset = day_number(DAYS[1]).unwrap() * 86_400 * 1_000_000_000 - midnight;
    let (seconds, rest) = (offset.div_euclid(1_000_000_000), offset.rem_euclid(1_000_000_000));
    let clock = format!(
        "env {{ hostname = {host:?}; }};\nclock {{ name = c; freq = 1000000000; offset_s = {seconds}; offset = {rest}; \
         absolute = TRUE; }};"
    );
    let other = metadata.replace("clock { name = c; freq = 1000000000; };", &clock);
    assert_ne!(metadata, other);
    std::fs::write(dir.join("metadata"), other).unwrap();
}

static TOKENS: AtomicU32 = AtomicU32::new(1);

/// Runs are numbered.
pub fn outside() -> Outside {
    let token = format!("{:08x}", TOKENS.fetch_add(1, Ordering::Relaxed));
    Outside { goes_on: || true, progress: Arc::new(|_| {}), now: 1_795_000_000, token, ended: Vec::new() }
}

pub fn order(labels: &[(&str, &str)], wanted: &[&str]) -> Order {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Order { labels, wanted: wanted.iter().map(|name| (*name).to_owned()).collect(), ..Order::default() }
}

pub fn try_add(place: &Place, dir: &Path, order: &Order) -> anyhow::Result<Added> {
    runtime().block_on(add(place, dir, order, &outside()))
}

#[track_caller]
pub fn add_one(place: &Place, dir: &Path, order: &Order) -> Added {
    try_add(place, dir, order).unwrap_or_else(|error| panic!("{error:#}"))
}

/// All files below a directory, with their bytes.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => drop(all.insert(path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    all
}

/// Checks that a lake has the files of its manifests and its own, and nothing else.
#[track_caller]
pub fn assert_clean(place: &Place) {
    let (manifests, adding, objects) = runtime().block_on(async {
        let all = place.list("").await.unwrap();
        let names: Vec<String> = all.iter().map(|meta| place.below(&meta.location)).collect();
        (Manifest::all(place).await.unwrap(), Adding::all(place).await.unwrap(), names)
    });
    assert_eq!(adding, [], "unfinished");
    let mut expect: Vec<String> = manifests.iter().flat_map(Manifest::paths).collect();
    expect.extend(manifests.iter().map(|manifest| Manifest::path(&manifest.trace)));
    expect.push("_kymo/lake.json".to_owned());
    expect.sort();
    let mut objects = objects;
    objects.sort();
    assert_eq!(objects, expect);
}

/// A store of which everything fails after some requests, as if the process was killed there.
#[derive(Debug)]
pub struct Dying {
    inner: Arc<dyn ObjectStore>,
    left: Arc<AtomicUsize>,
}

impl Dying {
    /// Dies after so many requests.
    pub fn after(inner: Arc<dyn ObjectStore>, requests: usize) -> (Arc<dyn ObjectStore>, Arc<AtomicUsize>) {
        let left = Arc::new(AtomicUsize::new(requests));
        (Arc::new(Dying { inner, left: Arc::clone(&left) }), left)
    }

    fn one(&self) -> Result<()> {
        one(&self.left)
    }
}

fn one(left: &AtomicUsize) -> Result<()> {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    let dead = |_| Error::Generic { store: "Dying", source: "the process is dead".into() };
    taken.map(drop).map_err(dead)
}

impl std::fmt::Display for Dying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dying")
    }
}

#[async_trait]
impl ObjectStore for Dying {
    async fn put_opts(&self, location: &ObjectPath, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.one()?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.one()?;
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(DyingUpload { inner, left: Arc::clone(&self.left) }))
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        self.one()?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &ObjectPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.one()?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        // Each is a request of its own: some may be removed, and others not.
        let left = Arc::clone(&self.left);
        let locations = locations.map(move |location| one(&left).and(location)).boxed();
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.one() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.one()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<()> {
        self.one()?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<()> {
        self.one()?;
        self.inner.rename_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct DyingUpload {
    inner: Box<dyn MultipartUpload>,
    left: Arc<AtomicUsize>,
}

#[async_trait]
impl MultipartUpload for DyingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match one(&self.left) {
            Ok(()) => self.inner.put_part(data),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        one(&self.left)?;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        one(&self.left)?;
        self.inner.abort().await
    }
}
