// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a large trace of a machine that there is not, for measurements: `cargo run --release -p kymo-index --example
//! make_trace DIR MIB`.

use std::path::Path;

#[path = "../tests/common/mod.rs"]
mod common;

/// Bytes of a record of a kernel, about.
const RECORD_BYTES: u64 = 29;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, mib] = &arguments[..] else {
        eprintln!("usage: make_trace DIR MIB");
        std::process::exit(2);
    };
    let mib: u64 = mib.parse().unwrap_or(64);
    let cpus = 4;
    let records = (mib << 20) / RECORD_BYTES / u64::from(cpus);
    let plan =
        common::Plan { cpus, threads: 400, records, packet: 2000, lossy: 5000, user: 1000, ..Default::default() };
    std::fs::create_dir_all(dir)?;
    common::write(Path::new(dir), &plan)
}
