// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that a probe at a function's return would crash: the kernel replaces the return address on the stack, and
//! somebody who reads the stack finds an address that it does not know [spec/kernel.md 8.3].

use std::fs::File;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache};

/// Bit of x86's feature note: the program asks for a shadow stack.
const SHADOW_STACK: u32 = 1 << 1;
/// Type of that note's property.
const X86_FEATURES: u32 = 0xc000_0002;
/// From this kernel on probes at returns write to the shadow stack, too.
const KERNEL_WITH_SHADOW_STACKS: (u32, u32) = (6, 11);

type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// Names of sections that only Go's linker makes.
const GO_SECTIONS: [&str; 4] = [".note.go.buildid", ".go.buildinfo", ".gopclntab", ".data.rel.ro.gopclntab"];

/// Functions that tell a runtime which walks or moves stacks: the symbol, and what is said of it.
const RUNTIMES: [(&str, &str); 7] = [
    (
        "__morestack",
        "its stacks are split and grow (-fsplit-stack, gccgo), and return through an address that would be replaced",
    ),
    ("caml_startup_code_begin", OCAML),
    ("caml_main", OCAML),
    ("hs_main", "Haskell's runtime keeps no return addresses where the kernel looks for them"),
    ("hs_init_ghc", "Haskell's runtime keeps no return addresses where the kernel looks for them"),
    ("graal_create_isolate", "its garbage collector walks the stack by return addresses (native image)"),
    ("RhpGcPoll", "its garbage collector walks the stack by return addresses (.NET native)"),
];
const OCAML: &str = "OCaml's garbage collector walks the stack by return addresses";

/// Functions that only programs with exceptions or panics have, or call.
const THROWERS: [&str; 3] = ["__cxa_throw", "__cxa_rethrow", "rust_eh_personality"];
/// The same where another file has them; a static program of C has them, too, for the end of threads.
const UNWINDERS: [&str; 2] = ["_Unwind_RaiseException", "_Unwind_Resume"];

/// Why a probe at a return can crash the program; `None` if nothing is known against it.
pub fn of_returns(elf: &Elf<'_>) -> Option<String> {
    let has_section = |wanted: &&str| elf.sections().any(|section| section.name() == Ok(wanted));
    if GO_SECTIONS.iter().any(has_section) {
        return Some(
            "it is a Go program, whose runtime moves stacks and walks them by return addresses: it would end with 'unexpected return pc'"
                .to_owned(),
        );
    }
    let mut unwinds = false;
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let Ok(name) = symbol.name() else { continue };
        let name = name.split('@').next().unwrap_or_default();
        if let Some((_, why)) = RUNTIMES.iter().find(|(known, _)| *known == name) {
            return Some((*why).to_owned());
        }
        unwinds |= THROWERS.contains(&name) || (symbol.is_undefined() && UNWINDERS.contains(&name));
    }
    if unwinds {
        return Some(
            "it has exceptions (C++) or panics (Rust), and one that leaves the function, or passes through it, would end the program"
                .to_owned(),
        );
    }
    (wants_shadow_stack(elf) && machine_has_shadow_stacks() && !kernel_knows_shadow_stacks()).then(|| {
        "it runs with a shadow stack, which this kernel (before 6.11) does not change along with the return address"
            .to_owned()
    })
}

/// Whether the program's note asks for a shadow stack.
fn wants_shadow_stack(elf: &Elf<'_>) -> bool {
    let section = elf.section_by_name(".note.gnu.property");
    let data = section.and_then(|section| section.data().ok().map(<[u8]>::to_vec)).unwrap_or_default();
    features(&data) & SHADOW_STACK != 0
}

/// x86's features in a `.note.gnu.property` of a 64-bit program: notes of (name size, content size, type, "GNU"), each
/// with properties of (type, size, data), padded to 8 bytes.
fn features(note: &[u8]) -> u32 {
    let word = |at: usize| {
        let bytes = note.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let mut at = 16;
    while let (Some(kind), Some(size)) = (word(at), word(at + 4)) {
        if kind == X86_FEATURES {
            return word(at + 8).unwrap_or(0);
        }
        let Some(next) = at.checked_add(8 + (size as usize).next_multiple_of(8)) else { break };
        at = next;
    }
    0
}

fn machine_has_shadow_stacks() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split(' ').any(|flag| flag == "user_shstk"))
}

fn kernel_knows_shadow_stacks() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release).is_none_or(|version| version >= KERNEL_WITH_SHADOW_STACKS)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("6.10.3-arch1"), Some((6, 10)));
        assert_eq!(version("5.4"), Some((5, 4)));
        assert_eq!(version("odd"), None);
        assert!(
            (6, 10) < KERNEL_WITH_SHADOW_STACKS
                && (6, 18) > KERNEL_WITH_SHADOW_STACKS
                && (7, 0) > KERNEL_WITH_SHADOW_STACKS
        );
    }

    #[test]
    fn features_of_a_note() {
        let note = |properties: &[(u32, u32)]| {
            let mut bytes = vec![4, 0, 0, 0, 16, 0, 0, 0, 5, 0, 0, 0, b'G', b'N', b'U', 0];
            for (kind, value) in properties {
                bytes.extend_from_slice(&kind.to_le_bytes());
                bytes.extend_from_slice(&4_u32.to_le_bytes());
                bytes.extend_from_slice(&value.to_le_bytes());
                bytes.extend_from_slice(&[0; 4]);
            }
            bytes
        };
        assert_eq!(features(&note(&[(X86_FEATURES, 3)])), 3);
        assert_eq!(features(&note(&[(0xc000_8002, 1), (X86_FEATURES, 2)])), 2);
        assert_eq!(features(&note(&[(0xc000_8002, 1)])), 0);
        for length in 0..32 {
            features(&note(&[(X86_FEATURES, 3)])[..length]);
        }
        assert_eq!(features(&[0xff; 64]), 0);
    }
}
