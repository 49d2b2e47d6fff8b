// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--with`: the preload helpers that give unmodified programs events.

use std::path::{Path, PathBuf};

use anyhow::bail;

/// What can be recorded of an unmodified program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Helper {
    /// malloc, calloc, realloc, free and the aligned ones
    Malloc,
    /// mutexes, read-write locks and condition variables
    Pthread,
    /// Entries and exits of functions, of programs compiled with -finstrument-functions
    Functions,
}

impl Helper {
    fn file(self) -> &'static str {
        match self {
            Helper::Malloc => "libkymo-malloc.so",
            Helper::Pthread => "libkymo-pthread.so",
            Helper::Functions => "libkymo-functions.so",
        }
    }
}

/// The directories in which the helpers are looked for, in this order.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = std::env::var_os("KYMO_LIBDIR").map(PathBuf::from).into_iter().collect();
    let exe = std::env::current_exe().unwrap_or_default();
    if let Some(above) = exe.parent().and_then(Path::parent) {
        places.extend([above.join("lib/kymo"), above.join("lib")]);
    }
    // Run from the build tree: target/PROFILE/kymo, wherever target is.
    let profile = exe.parent().and_then(Path::file_name);
    let is_built = profile.is_some_and(|name| name == "debug" || name == "release" || name == "demo");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = exe.ancestors().nth(3).filter(|dir| dir.join("emit").is_dir()).map(Path::to_owned);
    if is_built {
        places.extend(repository.into_iter().chain(source.canonicalize()).map(|root| root.join("build/emit")));
    }
    places
}

/// Where the library of `helper` is.
pub(crate) fn find(helper: Helper) -> anyhow::Result<PathBuf> {
    let file = helper.file();
    let places = places();
    let found = places.iter().map(|place| place.join(file)).find(|path| path.is_file());
    let Some(found) = found else {
        let list: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        bail!("{file} is not in {}; `make install` puts it there, or KYMO_LIBDIR names its directory", list.join(", "));
    };
    // The dynamic linker splits the list at spaces and colons.
    let found = found.canonicalize().unwrap_or(found);
    if found.as_os_str().to_string_lossy().contains([' ', ':']) {
        bail!("{} cannot be preloaded: its path has a space or a colon", found.display());
    }
    Ok(found)
}
