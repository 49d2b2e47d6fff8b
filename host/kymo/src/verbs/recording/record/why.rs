// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why nothing was recorded, or a pattern matched nothing: the reason, and what to do.

use kymo_collect::{Cause, Outcome, Patterns, RuntimeDir, Summary, near, other_users_dirs, why_not_found};

use super::preload::Helper;
use crate::verbs::list;

/// Names that are listed.
const NAMES_SHOWN: usize = 12;

/// Patterns that match no event that was seen, with what may have been meant.
pub(crate) fn unmatched(patterns: &Patterns, summary: &Summary) -> Vec<String> {
    let names: Vec<String> = summary.events.iter().map(|event| event.name.clone()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let missing = patterns.matches(&names).filter(|(_, matched)| !matched);
    missing
        .map(|(pattern, _)| {
            let near = near(pattern, &names, 3);
            let hint = if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) };
            format!("pattern '{pattern}' matches none of the {} events that were seen{hint}", names.len())
        })
        .collect()
}

fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMES_SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names[..names.len() - more].join(", "))
}

/// Processes that were chosen and will not be found, as far as that can be seen.
pub(crate) fn unreachable(pids: &[u32]) -> Vec<String> {
    if pids.is_empty() {
        return Vec::new();
    }
    let mut dirs: Vec<RuntimeDir> = RuntimeDir::own().into_iter().collect();
    dirs.extend(other_users_dirs());
    pids.iter().filter_map(|pid| why_not_found(*pid, &dirs)).collect()
}

/// Why a trace has no record. `pids` are the processes that were to be recorded, where such were chosen; `helpers` what
/// they were to be given.
pub(crate) fn nothing(patterns: &Patterns, summary: &Summary, pids: &[u32], helpers: &[Helper]) -> Vec<String> {
    if let Some(error) = &summary.write_error {
        return vec![format!(
            "nothing was recorded: the trace could not be written ({error}); choose another place with -o"
        )];
    }
    let outcome =
        |wanted: fn(&Outcome) -> bool| summary.processes.iter().filter(move |process| wanted(&process.outcome));
    let refused: Vec<_> = outcome(|outcome| matches!(outcome, Outcome::Refused(_))).collect();
    let attached = outcome(|outcome| *outcome == Outcome::Attached).count();
    let mut lines = Vec::new();
    for process in refused.iter().take(NAMES_SHOWN) {
        let Outcome::Refused(reason) = &process.outcome else { continue };
        lines.push(format!("{}[{}] was not recorded: {reason}", process.comm, process.pid));
    }
    if attached > 0 {
        let mut lost = summary.lost_counted;
        if lost.total() > 0 {
            let most = Cause::ALL.into_iter().max_by_key(|cause| *lost.of(*cause)).unwrap_or(Cause::Full);
            lines.push(format!("nothing was recorded: all records were lost ({})", most.text()));
            return lines;
        }
        let wanted: Vec<&str> =
            summary.events.iter().filter(|event| event.wanted).map(|event| event.name.as_str()).collect();
        lines.push(format!(
            "nothing was recorded: the wanted events were switched on, but none was executed: {}",
            listed(&wanted)
        ));
        if helpers.contains(&Helper::Functions) {
            let hint = "--with functions sees programs that were compiled with -finstrument-functions: compile it so, or probe functions of \
                        the program as it is with -U";
            lines.push(hint.to_owned());
        }
        return lines;
    }
    if !refused.is_empty() {
        return lines;
    }
    if !summary.events.is_empty() {
        let names: Vec<&str> = summary.events.iter().map(|event| event.name.as_str()).collect();
        let excluded = if patterns.exclusions().is_empty() { "" } else { " (or -x takes them away)" };
        lines.push(format!(
            "nothing was recorded: no event matches the pattern{excluded}. Programs have: {}",
            listed(&names)
        ));
        return lines;
    }
    let outside = outcome(|outcome| *outcome == Outcome::OutOfScope).count();
    lines.push("nothing was recorded: no program with tracepoints of kymo was seen".to_owned());
    if outside > 0 {
        lines.push(format!("{outside} programs with tracepoints were outside of what was to be recorded"));
    }
    let unreachable = unreachable(pids);
    lines.extend(if unreachable.is_empty() { of_command(summary, helpers) } else { unreachable });
    lines
}

/// What the command's file says of it.
fn of_command(summary: &Summary, helpers: &[Helper]) -> Vec<String> {
    let Some(command) = summary.command.first() else {
        return vec![
            "`kymo list` shows the programs that can be recorded now; a program of another user is found by root only"
                .to_owned(),
        ];
    };
    let found = kymo_command::programs::in_path(command);
    let events = found.as_deref().and_then(|path| list::events_in_file(path).ok());
    if events.as_ref().is_some_and(|events| !events.is_empty()) {
        return vec![format!(
            "{command} has tracepoints but did not find this session: does it run as another user (set-user-ID, sudo), with \
             another KYMO_RUNTIME_DIR or XDG_RUNTIME_DIR, or in a container?"
        )];
    }
    let linkage = found.as_deref().map_or(Linkage::Unknown, linkage);
    if let Some(why) = linkage.why_no_preload() {
        let preloaded = match helpers.is_empty() {
            true => format!("--with cannot add them: {command} {why}"),
            false => format!("--with had no effect: {command} {why}"),
        };
        return vec![
            format!("{command} has no tracepoints of kymo, and {preloaded}"),
            format!(
                "put tracepoints into it (#include <kymo/tracepoint.h>, link with -lkymo), link it dynamically, or probe its functions from \
                 outside, as root: kymo record -U '{command}:FUNCTION' -- {command} (`kymo list {command}` names them)"
            ),
        ];
    }
    if !helpers.is_empty() {
        return vec![format!(
            "{command} was to load the libraries of --with and did not reach this session: does it run set-user-ID or with capabilities \
             (then LD_PRELOAD is ignored), as another user, with another KYMO_RUNTIME_DIR or LD_PRELOAD, or in a container?"
        )];
    }
    let what = match (&found, &events) {
        (Some(_), None) => format!("{command} is not an ELF file; what it runs has none either"),
        _ => format!("{command} and what it runs are not instrumented"),
    };
    vec![
        format!("{what}: put tracepoints into it (#include <kymo/tracepoint.h>, link with -lkymo), or record"),
        "an unmodified program with --with malloc, --with pthread or --with functions (not for static or set-user-ID programs)"
            .to_owned(),
    ]
}

/// How a program is put together, as far as it decides whether libraries can be preloaded into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    /// The dynamic linker loads it, or it is a script, whose interpreter is what counts.
    Unknown,
    /// No dynamic linker takes part.
    Static,
    /// It cannot load libraries of this machine's own word size.
    OtherClass,
}

impl Linkage {
    fn why_no_preload(self) -> Option<&'static str> {
        match self {
            Linkage::Unknown => None,
            Linkage::Static => {
                Some("is linked statically, and only the dynamic linker loads a library into a program (LD_PRELOAD)")
            }
            Linkage::OtherClass => Some("is of another architecture or word size than the libraries of --with"),
        }
    }
}

/// What the file's headers say.
fn linkage(path: &std::path::Path) -> Linkage {
    use object::Object as _;
    use object::read::elf::ProgramHeader as _;
    let Ok(bytes) = std::fs::read(path) else { return Linkage::Unknown };
    let Ok(file) = object::File::parse(&*bytes) else { return Linkage::Unknown };
    let own = if cfg!(target_arch = "aarch64") { object::Architecture::Aarch64 } else { object::Architecture::X86_64 };
    match file {
        object::File::Elf64(elf) if elf.architecture() == own => {
            let endian = elf.endian();
            let has_linker =
                elf.elf_program_headers().iter().any(|header| header.p_type(endian) == object::elf::PT_INTERP);
            if has_linker { Linkage::Unknown } else { Linkage::Static }
        }
        object::File::Elf64(_) | object::File::Elf32(_) => Linkage::OtherClass,
        _ => Linkage::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_preloaded() {
        assert_eq!(linkage(std::path::Path::new("/bin/sh")), Linkage::Unknown);
        assert_eq!(linkage(std::path::Path::new("/etc/passwd")), Linkage::Unknown);
        assert_eq!(linkage(std::path::Path::new("/no/such/file")), Linkage::Unknown);
    }
}
