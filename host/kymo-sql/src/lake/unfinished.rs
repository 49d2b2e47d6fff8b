// SPDX-License-Identifier: MIT OR Apache-2.0
//! Additions that are on their way, or that killed runs left: whose they are, and how they are settled
//! [spec/lake.md 3].

use std::time::{Duration, SystemTime};

use super::manifest::{Adding, Manifest, Owner};
use super::place::{Place, STAGING};

/// How long a run of another host may be silent: it tells of itself each minute.
const SILENT_MAX: Duration = Duration::from_secs(3600);

impl Owner {
    /// This process.
    pub fn this() -> Owner {
        let pid = std::process::id();
        Owner { host: host(), boot: boot(), pid, started: started(pid).unwrap_or(0) }
    }

    /// Whether the process is there; none if this host cannot know.
    fn lives_here(&self) -> Option<bool> {
        if self.host != host() {
            return None;
        }
        Some(self.boot == boot() && started(self.pid) == Some(self.started))
    }
}

/// The host's name.
pub fn host() -> String {
    read("/proc/sys/kernel/hostname")
}

fn boot() -> String {
    read("/proc/sys/kernel/random/boot_id")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// When a process started, in ticks since the boot.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may have any characters; the 20th word behind it is the start.
    let (_, words) = stat.rsplit_once(')')?;
    words.split_whitespace().nth(19)?.parse().ok()
}

/// Whether a run is on its way.
///
/// # Errors
/// The lake cannot be read.
pub async fn lives(place: &Place, adding: &Adding) -> anyhow::Result<bool> {
    if adding.abandoned {
        return Ok(false);
    }
    if let Some(lives) = adding.owner.lives_here() {
        return Ok(lives);
    }
    let put = place.list("_kymo/adding").await?.into_iter().find(|meta| place.below(&meta.location) == adding.path());
    let put = put.map(|meta| SystemTime::from(meta.last_modified));
    let silent = put.map(|put| SystemTime::now().duration_since(put).unwrap_or_default());
    Ok(silent.is_some_and(|silent| silent < SILENT_MAX))
}

/// Runs that add a trace, but `own`.
///
/// # Errors
/// The lake cannot be read.
pub async fn others(place: &Place, trace: &str, own: Option<&str>) -> anyhow::Result<Vec<Adding>> {
    let all = Adding::all(place).await?.into_iter();
    Ok(all.filter(|adding| adding.trace == trace && Some(adding.token.as_str()) != own).collect())
}

/// Removes what runs of a trace left that were ended before they told of themselves.
///
/// # Errors
/// The lake cannot be read, or files cannot be removed.
pub async fn sweep(place: &Place, trace: &str) -> anyhow::Result<()> {
    let known: Vec<String> = others(place, trace, None).await?.iter().map(Adding::name).collect();
    for name in place.staging().await? {
        let is_of_trace = name.strip_prefix(trace).is_some_and(|token| token.starts_with('-'));
        if is_of_trace && !known.contains(&name) {
            place.remove_staged(&format!("{STAGING}/{name}")).await?;
        }
    }
    Ok(())
}

/// Removes what a dead run left.
///
/// # Errors
/// It cannot be removed; it is tried again the next time.
pub async fn recover(place: &Place, dead: &Adding) -> anyhow::Result<()> {
    // If it only seemed dead, it sees this before it tells that it is done, or its manifest is seen here.
    Adding { abandoned: true, ..dead.clone() }.put(place).await?;
    settle(place, dead).await.map(drop)
}

/// Ends a run, done or not: its files stay if the lake has its manifest, else they go. Whether they stay.
///
/// # Errors
/// The lake cannot be read, or files cannot be removed: then it stays unfinished.
pub async fn settle(place: &Place, adding: &Adding) -> anyhow::Result<bool> {
    let manifest = Manifest::read(place, &adding.trace).await?;
    let is_done = manifest.is_some_and(|manifest| manifest.token == adding.token);
    place.remove(if is_done { &adding.replaces } else { &adding.files }).await?;
    place.remove_staged(&adding.staging()).await?;
    place.remove(&[adding.path()]).await?;
    Ok(is_done)
}

/// Whether nobody took a run for dead.
///
/// # Errors
/// The lake cannot be read.
pub async fn is_ours(place: &Place, adding: &Adding) -> anyhow::Result<bool> {
    let Some(bytes) = place.get(&adding.path()).await? else { return Ok(false) };
    Ok(serde_json::from_slice::<Adding>(&bytes).is_ok_and(|known| !known.abandoned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let this = Owner::this();
        assert_eq!(this.lives_here(), Some(true));
        for other in [
            Owner { started: this.started + 1, ..this.clone() },
            Owner { boot: "another".to_owned(), ..this.clone() },
            Owner { pid: 0, ..this.clone() },
        ] {
            assert_eq!(other.lives_here(), Some(false), "{other:?}");
        }
        assert_eq!(Owner { host: "another".to_owned(), ..this }.lives_here(), None);
    }
}
