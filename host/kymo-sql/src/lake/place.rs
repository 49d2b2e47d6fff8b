// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a lake is: a directory or a prefix of an object store, behind one interface [spec/lake.md 7].

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use url::Url;

use super::pace::Pace;

/// Schemes of object stores: the feature that each needs, and whether it is compiled.
const CLOUDS: [(&str, &str, bool); 7] = [
    ("s3", "aws", cfg!(feature = "aws")),
    ("s3a", "aws", cfg!(feature = "aws")),
    ("gs", "gcp", cfg!(feature = "gcp")),
    ("az", "azure", cfg!(feature = "azure")),
    ("azure", "azure", cfg!(feature = "azure")),
    ("abfs", "azure", cfg!(feature = "azure")),
    ("abfss", "azure", cfg!(feature = "azure")),
];

/// Where files on their way are, below the lake.
pub const STAGING: &str = "_kymo/staging";

/// A lake's place.
#[derive(Clone, Debug)]
pub struct Place {
    /// As it was named.
    text: String,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The directory, if it is one.
    dir: Option<Arc<LocalFileSystem>>,
    /// Bytes a second at most.
    pace: Option<Arc<Pace>>,
}

/// What a text names.
enum NamedPlace {
    Directory(PathBuf),
    Cloud(Url),
}

fn named(text: &str) -> anyhow::Result<NamedPlace> {
    ensure!(!text.is_empty(), "the lake has no name: give a directory or a URL");
    let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(NamedPlace::Directory(text.into()));
    };
    let cloud = CLOUDS.iter().find(|(known, ..)| *known == scheme);
    if cloud.is_none() && scheme != "file" && !rest.starts_with("//") {
        // A directory with a colon in its name.
        return Ok(NamedPlace::Directory(text.into()));
    }
    ensure!(rest.starts_with("//"), "{text}: a URL has two slashes behind its scheme: {scheme}://...");
    let url = Url::parse(text).with_context(|| format!("{text} is no URL"))?;
    match cloud {
        None if scheme == "file" => match url.to_file_path() {
            Ok(path) => Ok(NamedPlace::Directory(path)),
            Err(()) => bail!("{text}: a file URL has three slashes, and no host: file:///srv/lake"),
        },
        None => bail!("{text}: a lake is a directory, or below file://, s3://, gs:// or az://; not {scheme}://"),
        Some((_, feature, false)) => bail!(
            "{text}: this kymo-sql was built without the feature {feature}, which {scheme}:// needs: build it with \
             cargo build --release -p kymo -p kymo-sql --features kymo-sql/{feature}"
        ),
        Some(_) => Ok(NamedPlace::Cloud(url)),
    }
}

fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
}

impl Place {
    /// A place to read from.
    ///
    /// # Errors
    /// A text that names none; a directory that is not there; a scheme that was not compiled.
    pub fn open(text: &str) -> anyhow::Result<Place> {
        match named(text)? {
            NamedPlace::Directory(dir) => {
                ensure!(dir.exists(), "{text}: there is no such directory; kymo lake add TRACE --to {text} makes it");
                ensure!(dir.is_dir(), "{text} is a file; a lake is a directory or a URL");
                Place::of_directory(text, &dir)
            }
            NamedPlace::Cloud(url) => Place::of_cloud(text, &url),
        }
    }

    /// A place to write to: the directory is made.
    ///
    /// # Errors
    /// As of [`Place::open`]; the directory cannot be made.
    pub fn create(text: &str) -> anyhow::Result<Place> {
        if let NamedPlace::Directory(dir) = named(text)? {
            ensure!(!dir.exists() || dir.is_dir(), "{text} is a file; a lake is a directory or a URL");
            std::fs::create_dir_all(&dir).with_context(|| format!("cannot make the directory {text}"))?;
        }
        Place::open(text)
    }

    /// Any store: files become visible when their uploads are completed.
    pub fn of_store(text: &str, store: Arc<dyn ObjectStore>) -> Place {
        Place { text: text.to_owned(), store, prefix: Path::default(), dir: None, pace: None }
    }

    /// A directory whose files are read and written through `store`.
    ///
    /// # Errors
    /// The directory is not there.
    pub fn of_directory_through(
        dir: &FilePath,
        through: impl FnOnce(Arc<LocalFileSystem>) -> Arc<dyn ObjectStore>,
    ) -> anyhow::Result<Place> {
        let place = Place::of_directory(&dir.to_string_lossy(), dir)?;
        let local = place.dir.clone().context("a directory")?;
        Ok(Place { store: through(local), ..place })
    }

    fn of_directory(text: &str, dir: &FilePath) -> anyhow::Result<Place> {
        let store = LocalFileSystem::new_with_prefix(dir).with_context(|| format!("cannot open {text}"))?;
        let store = Arc::new(store.with_automatic_cleanup(true));
        Ok(Place { text: text.to_owned(), store: store.clone(), prefix: Path::default(), dir: Some(store), pace: None })
    }

    fn of_cloud(text: &str, url: &Url) -> anyhow::Result<Place> {
        let (store, prefix) =
            object_store::parse_url_opts(url, std::env::vars()).with_context(|| format!("cannot open {text}"))?;
        Ok(Place { text: text.trim_end_matches('/').to_owned(), store: store.into(), prefix, dir: None, pace: None })
    }

    /// The same, with so many bytes a second at most.
    #[must_use]
    pub fn paced(self, bytes_per_s: u64, goes_on: fn() -> bool) -> Place {
        Place { pace: Some(Arc::new(Pace::new(bytes_per_s, goes_on))), ..self }
    }

    /// What bounds the bytes a second.
    pub(super) fn pace(&self) -> Option<Arc<Pace>> {
        self.pace.clone()
    }

    /// As it was named.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Whether files are written somewhere else first, and renamed.
    pub fn stages(&self) -> bool {
        self.dir.is_some()
    }

    /// The place of `below` as others can name it: an absolute path, or a URL.
    pub fn absolute(&self, below: &str) -> String {
        let local = self.dir.as_ref().and_then(|dir| dir.path_to_filesystem(&self.path(below)).ok());
        local.map_or_else(|| format!("{}/{below}", self.text), |path| path.to_string_lossy().into_owned())
    }

    /// The object `below` the lake. Names in it are written so that they need no change ([`super::names::escaped`]).
    pub fn path(&self, below: &str) -> Path {
        let parts = below.split('/').filter(|part| !part.is_empty());
        let raw = self.prefix.parts().map(|part| part.as_ref().to_owned()).chain(parts.map(str::to_owned));
        Path::parse(raw.collect::<Vec<_>>().join("/")).unwrap_or_else(|_| Path::from(below))
    }

    /// The path below the lake of an object.
    pub fn below(&self, path: &Path) -> String {
        let own: Option<Vec<String>> =
            path.prefix_match(&self.prefix).map(|parts| parts.map(|part| part.as_ref().to_owned()).collect());
        own.unwrap_or_default().join("/")
    }

    /// The bytes of an object; none where there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn get(&self, below: &str) -> anyhow::Result<Option<Bytes>> {
        let path = self.path(below);
        let read = async { self.store.get(&path).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {below} in the lake {}", self.text)),
        }
    }

    /// All objects below a prefix.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn list(&self, below: &str) -> anyhow::Result<Vec<ObjectMeta>> {
        let mut all: Vec<ObjectMeta> = self
            .store
            .list(Some(&self.path(below)))
            .try_collect()
            .await
            .with_context(|| format!("cannot list {below} in the lake {}", self.text))?;
        all.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(all)
    }

    /// Removes objects; those that are not there are no error.
    ///
    /// # Errors
    /// One cannot be removed.
    pub async fn remove(&self, below: &[String]) -> anyhow::Result<()> {
        let paths: Vec<object_store::Result<Path>> = below.iter().map(|below| Ok(self.path(below))).collect();
        let mut removed = self.store.delete_stream(futures::stream::iter(paths).boxed());
        let mut failed = None;
        while let Some(result) = removed.next().await {
            match result {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err).with_context(|| format!("cannot remove files in the lake {}", self.text))
    }

    /// Removes what is staged in a directory below the lake, also what a killed process was just writing, which the
    /// store does not list.
    ///
    /// # Errors
    /// It cannot be removed.
    pub async fn remove_staged(&self, staging: &str) -> anyhow::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let listed = self.list(staging).await?.iter().map(|meta| self.below(&meta.location)).collect::<Vec<_>>();
        self.remove(&listed).await?;
        // A rename needs the directory to stay: it is removed last, with what the store hides.
        let path = dir.path_to_filesystem(&self.path(staging)).context("a path")?;
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => {
                // Of others that are on their way, if there are any.
                let _ = path.parent().map(std::fs::remove_dir);
                Ok(())
            }
        }
    }

    /// Names of the directories where runs stage files.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn staging(&self) -> anyhow::Result<Vec<String>> {
        if !self.stages() {
            return Ok(Vec::new());
        }
        let listed = self.store.list_with_delimiter(Some(&self.path(STAGING))).await;
        let listed = listed.with_context(|| format!("cannot list {STAGING} in the lake {}", self.text))?;
        Ok(listed.common_prefixes.iter().filter_map(Path::filename).map(str::to_owned).collect())
    }

    /// Waits until the bytes of a staged file are on the disk.
    pub(crate) fn synchronize(&self, path: &Path) -> anyhow::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let path = dir.path_to_filesystem(path)?;
        let sync = std::fs::File::open(&path).and_then(|file| file.sync_all());
        sync.with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_place_is_refused_with_the_next_step() {
        for (text, parts) in [
            ("", &["no name"][..]),
            ("/no/such/lake", &["no such directory", "kymo lake add"]),
            ("/proc/version", &["is a file"]),
            ("ftp://host/lake", &["not ftp://", "s3://"]),
            ("s3:/bucket/lake", &["two slashes", "s3://"]),
            ("file://host/lake", &["three slashes"]),
            #[cfg(not(feature = "aws"))]
            ("s3://bucket/lake", &["without the feature aws", "--features kymo-sql/aws"]),
            #[cfg(not(feature = "gcp"))]
            ("gs://bucket/lake", &["without the feature gcp"]),
            #[cfg(not(feature = "azure"))]
            ("abfss://container/lake", &["without the feature azure"]),
        ] {
            let error = Place::open(text).map(drop).unwrap_err().to_string();
            parts.iter().for_each(|part| assert!(error.contains(part), "{text}: {part} in {error}"));
        }
    }

    #[test]
    fn directories_are_named_in_several_ways() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a b:c");
        let plain = dir.to_str().unwrap().to_owned();
        for text in [plain.clone(), Url::from_file_path(&dir).unwrap().to_string()] {
            let place = Place::create(&text).unwrap();
            assert!(place.stages() && dir.is_dir(), "{text}");
            assert_eq!(place.absolute("t/host=a%2Fb"), format!("{plain}/t/host=a%2Fb"));
        }
    }
}
