// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an address stays a number.

/// Why there is no function for an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No mapping holds the address.
    #[error("no file was mapped at that address")]
    NotMapped,
    /// Two files were mapped there, one after the other.
    #[error(
        "two files were mapped at one address of a process, one after the other, and the trace does not tell in which of \
         them some addresses were: they stay numbers"
    )]
    Remapped,
    /// The file was deleted while it was mapped, and cannot be recognized.
    #[error("{path} was deleted while the program ran, and has no build id to find it by: link with --build-id")]
    Deleted {
        /// As the process saw it.
        path: String,
    },
    /// The file is not there, nor a debug file of it.
    #[error(
        "{path} is not on this machine, nor a debug file with its build id: copy it here, or install its debug package"
    )]
    NoFile {
        /// As the process saw it.
        path: String,
    },
    /// Another build.
    #[error(
        "{path} on this machine is another build ({found}) than the one that ran ({wanted}): no line of it would be \
         right"
    )]
    OtherBuild {
        /// As the process saw it.
        path: String,
        /// Its build id here.
        found: String,
        /// The build id that the trace has.
        wanted: String,
    },
    /// It cannot be known whether it is the same build.
    #[error("{path} has no build id to hold against that of the trace ({wanted}): link with --build-id")]
    NoBuildId {
        /// As the process saw it.
        path: String,
        /// The build id that the trace has.
        wanted: String,
    },
    /// Not an ELF file, or a broken one.
    #[error("{path} cannot be read as an ELF file: {why}")]
    Broken {
        /// As the process saw it.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// No DWARF and no symbol there.
    #[error("{path} has neither debug information nor a symbol for that address: it was stripped")]
    NoSymbol {
        /// As the process saw it.
        path: String,
    },
    /// A kernel's text that cannot be used.
    #[error("{0}")]
    Kernel(String),
}
