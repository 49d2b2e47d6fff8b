// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of system calls by their names: [`crate::calls`] the other way round.

use std::collections::HashMap;

use crate::calls::Architecture;

/// All numbers are below.
const NUMBER_MAX: u16 = 1024;

/// Events that are named for the kernel's function, where that is not the call's name.
const ALIASES: [(&str, &str); 7] = [
    ("newstat", "stat"),
    ("newlstat", "lstat"),
    ("newfstat", "fstat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
    ("fadvise64_64", "fadvise64"),
];

/// The numbers of one machine's system calls.
#[derive(Clone, Debug)]
pub struct CallNumbers {
    architecture: Architecture,
    by_name: HashMap<&'static str, u16>,
}

impl CallNumbers {
    /// Of a machine, as `uname -m` names it; `None` where its numbers are not known.
    pub fn of_machine(machine: &str) -> Option<CallNumbers> {
        let architecture = Architecture::of_machine(machine)?;
        let named = |number: u16| architecture.call(number.into()).map(|name| (name, number));
        Some(CallNumbers { architecture, by_name: (0..NUMBER_MAX).filter_map(named).collect() })
    }

    /// The number of a call, by its own name or that of the kernel's function.
    pub fn number(&self, name: &str) -> Option<u16> {
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, name)| *name);
        self.by_name.get(name).or_else(|| self.by_name.get(alias()?)).copied()
    }

    /// The name of a call.
    pub fn name(&self, number: u16) -> Option<&'static str> {
        self.architecture.call(number.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_number() {
        let x86 = CallNumbers::of_machine("x86_64").unwrap();
        for (name, number) in [("read", 0), ("rt_sigreturn", 15), ("execve", 59), ("openat", 257), ("statx", 332)] {
            assert_eq!((x86.number(name), x86.name(number)), (Some(number), Some(name)));
        }
        let arm = CallNumbers::of_machine("aarch64").unwrap();
        for (name, number) in [("read", 63), ("rt_sigreturn", 139), ("execve", 221), ("openat", 56), ("rseq", 293)] {
            assert_eq!((arm.number(name), arm.name(number)), (Some(number), Some(name)));
        }
        assert_eq!((x86.number("clone3"), arm.number("clone3")), (Some(435), Some(435)));
        // By the name of the kernel's function.
        assert_eq!((x86.number("newfstat"), x86.number("umount")), (Some(5), Some(166)));
        assert_eq!((x86.number("nothing"), x86.name(4000), arm.number("open")), (None, None, None));
        assert!(CallNumbers::of_machine("sparc").is_none());
        assert_eq!(Architecture::X86_64.call(i128::from(NUMBER_MAX)), None, "the table ends below");
    }
}
