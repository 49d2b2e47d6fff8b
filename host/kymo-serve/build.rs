// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the built page (view/dist) into the library, where it is there. Without it the library builds as well, and
//! serves a page that says what is missing. Files in folders of it are left out: a page is a few files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What a browser takes a file for, by the end of its name; other files are left out.
const KINDS: [(&str, &str); 8] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("json", "application/json"),
];

fn main() -> io::Result<()> {
    let dist = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../view/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files: Vec<PathBuf> = match fs::read_dir(&dist) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    let mut text = String::from("pub static FILES: &[(&str, &str, &[u8])] = &[\n");
    for path in files {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let path = fs::canonicalize(&path)?;
        if let (Some((_, kind)), Some(path)) = (KINDS.iter().find(|(known, _)| *known == end), path.to_str()) {
            let _ = writeln!(text, "    ({name:?}, {kind:?}, include_bytes!({path:?})),");
        }
    }
    text.push_str("];\n");
    fs::write(Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("page.rs"), text)
}
