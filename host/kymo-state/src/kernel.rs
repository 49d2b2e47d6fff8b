// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel: which one, and how it is set where latency depends on it. Settings that this kernel or our permissions
//! do not show are empty texts.
//!
//! What /dev/cpu_dma_latency holds is left out: to ask is to open the device, which makes a request of one's own.

use crate::access::Trees;
use crate::build_id;
use crate::class::StateRecordClass;
use crate::record::Sink;
use crate::setting::{SETTINGS, SettingSource};
use crate::text::tidy;

/// Dumps the one record of the kernel.
pub(crate) fn dump(trees: &Trees, sink: &mut Sink<'_>) {
    let values = SETTINGS.map(|field| match field.source {
        SettingSource::Proc(path) => tidy(&trees.proc_bytes(path)),
        SettingSource::Sys(path) => tidy(&trees.sys_bytes(path)),
        SettingSource::Choice(path) => choice(&tidy(&trees.sys_bytes(path)), ('[', ']')),
        SettingSource::Preemption => preemption(trees),
    });
    let build_id = build_id::of_kernel(&trees.sys_bytes("kernel/notes"));
    sink.emit(StateRecordClass::Kernel, 0, |payload| {
        for value in &values {
            payload.text(value.as_bytes());
        }
        payload.blob(build_id.as_ref().map_or(b"", |id| id.bytes()));
    });
}

/// What stands between the first pair of brackets; the whole text where there is none.
fn choice(text: &str, (open, close): (char, char)) -> String {
    let inside = text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
    inside.map_or(text, |(inside, _)| inside).to_owned()
}

/// The preemption model in force: `none`, `voluntary`, `full`, `lazy`, `rt`, or `dynamic` where only the scheduler's
/// debug file could tell which.
fn preemption(trees: &Trees) -> String {
    let debug = tidy(&trees.sys_bytes("kernel/debug/sched/preempt"));
    if debug.contains('(') {
        return choice(&debug, ('(', ')'));
    }
    let version = tidy(&trees.proc_bytes("sys/kernel/version"));
    let is_rt = tidy(&trees.sys_bytes("kernel/realtime")) == "1";
    model(&version, &tidy(&trees.proc_bytes("cmdline")), is_rt).to_owned()
}

/// The model as far as version and command line tell it.
fn model<'a>(version: &str, cmdline: &'a str, is_rt: bool) -> &'a str {
    let has = |word: &str| version.split_ascii_whitespace().any(|part| part == word);
    if is_rt || has("PREEMPT_RT") {
        "rt"
    } else if has("PREEMPT_DYNAMIC") {
        let mut asked = cmdline.split_ascii_whitespace().filter_map(|word| word.strip_prefix("preempt="));
        asked.next_back().unwrap_or("dynamic")
    } else if has("PREEMPT_LAZY") {
        "lazy"
    } else if has("PREEMPT") {
        "full"
    } else {
        // Both say nothing of themselves in the version.
        "none or voluntary"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models() {
        let check =
            |version, cmdline, expect| assert_eq!(model(version, cmdline, false), expect, "{version} {cmdline}");
        check("#1 SMP PREEMPT_DYNAMIC Debian 6.1", "quiet preempt=none preempt=full", "full");
        check("#1 SMP PREEMPT_DYNAMIC Debian 6.1", "quiet", "dynamic");
        check("#1 SMP PREEMPT_RT Debian 6.1", "preempt=none", "rt");
        check("#1 SMP PREEMPT Mon", "", "full");
        check("#1 SMP PREEMPT_LAZY Mon", "", "lazy");
        check("#1 SMP Mon", "", "none or voluntary");
        assert_eq!(model("#1 SMP", "", true), "rt");
    }

    #[test]
    fn choices() {
        assert_eq!(choice("always [madvise] never", ('[', ']')), "madvise");
        assert_eq!(choice("none voluntary (full)", ('(', ')')), "full");
        assert_eq!(choice("never", ('[', ']')), "never");
        assert_eq!(choice("]a[", ('[', ']')), "]a[");
    }
}
