// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things are: the repository, libkymo and the `kymo` command. What is missing is built, once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The top of the repository.
pub fn repository() -> &'static Path {
    tests().parent().expect("tests/ is in the repository")
}

/// The folder with the tests.
fn tests() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the harness is in tests/")
}

/// The folder with kymo's headers.
pub fn include() -> PathBuf {
    repository().join("emit/include")
}

/// The folder with C programs.
pub fn programs() -> PathBuf {
    tests().join("programs")
}

/// The folder with libkymo.a and libkymo.so.
pub fn library() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        if let Some(given) = std::env::var_os("KYMO_LIB") {
            return PathBuf::from(given);
        }
        // Programs are compiled with the headers as they are now: a library of other headers would not fit them.
        run(Command::new("make").arg("-s").arg("-C").arg(repository().join("emit")));
        repository().join("build/emit")
    })
}

/// The `kymo-sql` command, which lies beside `kymo`.
pub fn kymo_sql() -> PathBuf {
    kymo().with_file_name("kymo-sql")
}

/// The `kymo` command.
pub fn kymo() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("KYMO") {
            return PathBuf::from(given);
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
        let binary = repository().join(target).join("release/kymo");
        for package in ["kymo", "kymo-sql"].into_iter().filter(|name| !binary.with_file_name(name).exists()) {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            run(cargo.args(["build", "--release", "-p", package]).current_dir(repository()));
        }
        binary
    })
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
}
