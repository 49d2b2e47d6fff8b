// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a kernel lets itself be preempted: fixed when it is built, or, with PREEMPT_DYNAMIC, chosen by `preempt=` and
//! in debugfs. The last one that has a say is asked first.

use std::fmt;

use crate::kernel_config::{config, is_realtime};
use crate::{Machine, Unread};

/// What runs now, and can be changed.
const IN_FORCE: &str = "/sys/kernel/debug/sched/preempt";
/// Names as the kernel has them.
const MODELS: [&str; 4] = ["none", "voluntary", "lazy", "full"];

/// The model, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    /// `none`, `voluntary`, `none or voluntary`, `lazy`, `full`, `PREEMPT_RT`.
    pub(crate) model: String,
    by: &'static str,
    /// What can be changed while the kernel runs was not seen; why.
    unseen: Option<Unread>,
}

impl Preemption {
    /// The kernel works on for others before it lets a real-time thread run.
    pub(crate) fn is_late(&self) -> bool {
        self.model.contains("none") || self.model.contains("voluntary")
    }
}

impl fmt::Display for Preemption {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}, {}", self.model, self.by)?;
        match &self.unseen {
            None => Ok(()),
            Some(reason) => write!(to, "; a later change would be in {IN_FORCE}, which cannot be read: {}", reason.0),
        }
    }
}

/// Of the kernel that runs.
///
/// # Errors
/// Nothing that says it can be read.
pub(crate) fn preemption(machine: &Machine) -> Result<Preemption, Unread> {
    let known = |model: &str, by, unseen| Ok(Preemption { model: model.to_owned(), by, unseen });
    let unseen = match machine.text(IN_FORCE) {
        Ok(text) => match text.split(['(', ')']).nth(1) {
            Some(chosen) if is_realtime(machine) => return known(&format!("PREEMPT_RT, {chosen}"), "as it runs", None),
            Some(chosen) => return known(chosen, "as it runs", None),
            None => Unread(format!("{text:?} names none")),
        },
        Err(reason) => reason,
    };
    if is_realtime(machine) {
        return known("PREEMPT_RT", "as built", None);
    }
    let version = machine.text("/proc/sys/kernel/version").map_err(|reason| reason.of("/proc/sys/kernel/version"))?;
    let has = |word: &str| version.split_whitespace().any(|one| one == word);
    let release = machine.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let config = config(machine, &release);
    let is_set = |option: &str| config.as_ref().is_some_and(|config| config.get(option).is_some_and(|set| set == "y"));
    let options = [("PREEMPT_NONE", 0), ("PREEMPT_VOLUNTARY", 1), ("PREEMPT_LAZY", 2), ("PREEMPT", 3)];
    let built = options.into_iter().find(|(option, _)| is_set(option)).map(|(_, at)| MODELS[at]);
    if !has("PREEMPT_DYNAMIC") && !is_set("PREEMPT_DYNAMIC") {
        let by_version = if has("PREEMPT") { "full" } else { "none or voluntary" };
        return known(built.unwrap_or(by_version), "as built", None);
    }
    let command_line = machine.text("/proc/cmdline").map_err(|reason| reason.of("/proc/cmdline"))?;
    let mut asked = command_line.split_whitespace().rev().filter_map(|word| word.strip_prefix("preempt="));
    match (asked.find(|model| MODELS.contains(model)), built) {
        (Some(asked), _) => known(asked, "by preempt= on the command line", Some(unseen)),
        (None, Some(built)) => known(built, "as built, without preempt= on the command line", Some(unseen)),
        (None, None) => Err(Unread(format!(
            "PREEMPT_DYNAMIC, without preempt= on the command line; {IN_FORCE}: {} (mount debugfs), and no configuration",
            unseen.0
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a machine of these files.
    fn check(files: &[(&str, &str)], expect: Result<(&str, bool), &str>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = preemption(&Machine::at(root.path()));
        match (found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!((found.to_string().as_str(), found.is_late()), expect, "{files:?}"),
            (Err(reason), Err(part)) => assert!(reason.0.contains(part), "{files:?}: {}", reason.0),
            (found, expect) => panic!("{files:?}: {found:?}, not {expect:?}"),
        }
    }

    #[test]
    fn the_one_who_has_the_last_say_is_asked_first() {
        const VERSION: &str = "/proc/sys/kernel/version";
        let dynamic = (VERSION, "#1 SMP PREEMPT_DYNAMIC Debian");
        let release = ("/proc/sys/kernel/osrelease", "6.12.1");
        let config = |text| ("/boot/config-6.12.1", text);
        let cmdline = |text| ("/proc/cmdline", text);
        let lazy = config("CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y\n");
        check(&[(IN_FORCE, "none (voluntary) full"), dynamic], Ok(("voluntary, as it runs", true)));
        check(&[(IN_FORCE, "none voluntary (full)"), dynamic], Ok(("full, as it runs", false)));
        let later = format!("; a later change would be in {IN_FORCE}, which cannot be read: absent");
        let by = |text: &str| format!("{text}{later}");
        let asked = by("full, by preempt= on the command line");
        check(&[dynamic, cmdline("quiet preempt=none preempt=full")], Ok((asked.as_str(), false)));
        let asked = by("none, by preempt= on the command line");
        check(&[dynamic, release, lazy, cmdline("preempt=none preempt=bogus")], Ok((asked.as_str(), true)));
        let built = by("lazy, as built, without preempt= on the command line");
        check(&[dynamic, release, lazy, cmdline("quiet")], Ok((built.as_str(), false)));
        check(&[dynamic, cmdline("quiet")], Err("mount debugfs"));
        check(&[dynamic], Err("/proc/cmdline: absent"));
        // Fixed when it was built: preempt= has no effect.
        check(&[(VERSION, "#1 SMP PREEMPT Debian"), cmdline("preempt=none")], Ok(("full, as built", false)));
        check(&[(VERSION, "#1 SMP Debian"), cmdline("preempt=full")], Ok(("none or voluntary, as built", true)));
        let voluntary = config("CONFIG_PREEMPT_VOLUNTARY=y\n# CONFIG_PREEMPT_NONE is not set\n");
        check(&[(VERSION, "#1 SMP Debian"), release, voluntary], Ok(("voluntary, as built", true)));
        check(&[(VERSION, "#1 SMP PREEMPT_RT Debian")], Ok(("PREEMPT_RT, as built", false)));
        check(&[], Err("/proc/sys/kernel/version: absent"));
    }
}
