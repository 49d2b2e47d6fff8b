// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps a probe from being made.

use std::io;
use std::path::PathBuf;

/// Every message names the cause and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// An argument of `-U` that cannot be understood.
    #[error(
        "probe {argument:?}: {why}; write 'BINARY:FUNCTION[+OFFSET][%return] ARGS', or BINARY:PROVIDER:NAME; \
             an argument is NAME=%REGISTER:TYPE, the name of a parameter, or $params"
    )]
    Syntax {
        /// As it was given.
        argument: String,
        /// What is wrong.
        why: String,
    },
    /// A probe at a return that could crash the program.
    #[error(
        "a probe at the return of {function:?} can crash {}: {why}. Probe the entry of the function, or say --force-return",
        path.display()
    )]
    Hazard {
        /// The program.
        path: PathBuf,
        /// Asked for.
        function: String,
        /// What would happen.
        why: String,
    },
    /// A parameter that cannot be fetched.
    #[error("{function:?} in {}: {why}", path.display())]
    Argument {
        /// The program.
        path: PathBuf,
        /// The function.
        function: String,
        /// Why not.
        why: String,
    },
    /// A pattern that means more functions than can be probed.
    #[error(
        "{function:?} means {found} functions of {} ({}, ...), and one -U has at most {limit}: use a narrower pattern",
        path.display(), some.join(", ")
    )]
    TooManyFunctions {
        /// The program.
        path: PathBuf,
        /// Asked for.
        function: String,
        /// How many it means.
        found: usize,
        /// How many it may.
        limit: usize,
        /// The first of them.
        some: Vec<String>,
    },
    /// The program cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a program.
    #[error("{}: {why}; a probe needs a 64-bit ELF program or library", path.display())]
    NotProgram {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The program was stripped.
    #[error(
        "{} is stripped, so only its {exported} exported functions can be found, and {function:?} is none of them{}; \
         install its debug symbols (found by build id below /usr/lib/debug), or build it without strip",
        path.display(), near_text(near)
    )]
    Stripped {
        /// The program.
        path: PathBuf,
        /// Asked for.
        function: String,
        /// Functions in `.dynsym`.
        exported: usize,
        /// At most 5, the nearest first.
        near: Vec<String>,
    },
    /// No such function.
    #[error(
        "{} has no function {function:?}{}; it may be inlined, or be part of a library that the program loads",
        path.display(), near_text(near)
    )]
    UnknownFunction {
        /// The program.
        path: PathBuf,
        /// Asked for.
        function: String,
        /// At most 5, the nearest first.
        near: Vec<String>,
    },
    /// Code that only chooses code.
    #[error(
        "{function:?} in {} is chosen among several when the program starts (ifunc): probe one of those that do the \
         work",
        path.display()
    )]
    Indirect {
        /// The program.
        path: PathBuf,
        /// Asked for.
        function: String,
    },
    /// An offset behind the function's end.
    #[error("{function:?} in {} has {bytes} bytes, so +{offset} is not in it", path.display())]
    OffsetOutside {
        /// The program.
        path: PathBuf,
        /// Asked for.
        function: String,
        /// Its size.
        bytes: u64,
        /// Asked for.
        offset: u64,
    },
    /// An address that no executable part of the file holds.
    #[error("{}: {what} is at address {address:#x}, which the file does not load {as_what}", path.display())]
    NotLoaded {
        /// The program.
        path: PathBuf,
        /// A function or probe.
        what: String,
        /// Where it would be.
        address: u64,
        /// As code or data.
        as_what: &'static str,
    },
    /// The program has no USDT probes at all.
    #[error("{} has no USDT probes (no section .note.stapsdt): is it built with them?", path.display())]
    NoUsdt {
        /// The program.
        path: PathBuf,
    },
    /// No such USDT probe.
    #[error("{} has no USDT probe {probe:?}{}", path.display(), near_text(near))]
    UnknownUsdt {
        /// The program.
        path: PathBuf,
        /// Asked for.
        probe: String,
        /// At most 5, the nearest first.
        near: Vec<String>,
    },
    /// The kernel refused the probe.
    #[error("the kernel refuses the probe {event} on {}:\n{words}", path.display())]
    Refused {
        /// The event's name.
        event: String,
        /// The program.
        path: PathBuf,
        /// The kernel's own lines, caret included; else the error number's text.
        words: String,
    },
    /// Too many probes want one name.
    #[error("more than {limit} probes want the name {event:?}: choose fewer functions")]
    TooMany {
        /// The name.
        event: String,
        /// How many may have it, with suffixes.
        limit: usize,
    },
}

fn near_text(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; near it: {}", near.join(", ")),
    }
}
