// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the programs of the laboratory are, and on which CPUs they may run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// A program of lab/ by its name: where `variable` says, installed, or built.
///
/// # Errors
/// It is in none of the places.
pub(crate) fn find(name: &str, variable: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(path.into());
    }
    let exe = std::env::current_exe().unwrap_or_default();
    let mut places = kymo_command::programs::places(&exe);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = exe.ancestors().nth(3).filter(|dir| dir.join("lab/probe").is_dir()).map(Path::to_owned);
    places.extend(repository.into_iter().chain(source.canonicalize()).map(|root| root.join("build/lab")));
    let found = places.iter().map(|place| place.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        let list: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        format!("{name} is not in {}; `make install` puts it there, or {variable} names it", list.join(", "))
    })
}

/// CPUs that were asked for, which must be online; else all that this process may use.
///
/// # Errors
/// One does not exist or is offline.
pub(crate) fn cpus(asked: Option<&[u32]>) -> anyhow::Result<Vec<u32>> {
    let cpus = match asked {
        Some(cpus) => cpus.to_vec(),
        None => {
            let own = rustix::thread::sched_getaffinity(None).context("cannot read the affinity of this process")?;
            (0..rustix::thread::CpuSet::MAX_CPU as u32).filter(|cpu| own.is_set(*cpu as usize)).collect()
        }
    };
    if let Some(online) = online() {
        if let Some(missing) = cpus.iter().find(|cpu| !online.contains(cpu)) {
            bail!("CPU {missing} does not exist or is offline; online: {}", list(&online));
        }
    }
    Ok(cpus)
}

/// `0,2,3`.
pub(crate) fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// CPUs that are online, as the kernel lists them.
fn online() -> Option<Vec<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    crate::verbs::units::cpus(text.trim()).ok().map(|cpus| cpus.0)
}
