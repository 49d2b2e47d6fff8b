// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a large trace of a machine that there is not, for measurements: `cargo run --release -p kymo-index --example
//! make_trace DIR MIB [SHARE]`. SHARE: records of a program in percent of all, three of four begin or end spans;
//! without it there are a thousand. With 7 % its records take as long as those of the kernel.

use std::path::Path;

#[path = "../tests/common/mod.rs"]
mod common;

/// Bytes of a record of a kernel, about.
const RECORD_BYTES: u64 = 29;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (dir, mib, share) = match &arguments[..] {
        [_, dir, mib] => (dir, mib, None),
        [_, dir, mib, share] => (dir, mib, share.parse::<u64>().ok()),
        _ => {
            eprintln!("usage: make_trace DIR MIB [SHARE]");
            std::process::exit(2);
        }
    };
    let mib: u64 = mib.parse().unwrap_or(64);
    let cpus = 4;
    let all = (mib << 20) / RECORD_BYTES;
    let user = share.map_or(1000, |share| all * share.min(90) / 100);
    let records = all.saturating_sub(share.map_or(0, |_| user)) / u64::from(cpus);
    let (spans, unended) = (share.map_or(0, |_| 8), 100_000);
    let plan = common::Plan {
        cpus,
        threads: 400,
        records,
        packet: 2000,
        lossy: 5000,
        user,
        spans,
        unended,
        ..Default::default()
    };
    std::fs::create_dir_all(dir)?;
    common::write(Path::new(dir), &plan)
}
