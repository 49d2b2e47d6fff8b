// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's functions: /proc/kallsyms or System.map.

use crate::missing::Missing;

/// Bytes of a text that are read: the largest kernels' stay below this.
const BYTES_MAX: usize = 64 << 20;
/// A function is taken to end so far behind its begin at last, where no symbol follows.
const FUNCTION_MAX: u64 = 1 << 20;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    address: u64,
    /// Place of its name in the text.
    name: std::ops::Range<u32>,
    /// Place of its module's name; empty: the kernel itself.
    module: std::ops::Range<u32>,
}

/// The functions of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    text: String,
    /// By address.
    functions: Vec<Function>,
    text_begin: Option<u64>,
}

impl Kernel {
    /// From lines `ffffffff81000000 T name [module]`; lines of any other form are passed over.
    ///
    /// # Errors
    /// [`Missing::Kernel`] where it has no function, or the kernel has hidden the addresses.
    pub fn parse(text: &str) -> Result<Kernel, Missing> {
        let end = (0..=BYTES_MAX.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let text = &text[..end];
        let mut kernel = Kernel::default();
        let mut hidden = 0u64;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if !matches!(kind, "t" | "T" | "w" | "W" | "i") {
                continue;
            }
            hidden += u64::from(address == 0);
            if name == "_stext" {
                kernel.text_begin = Some(address);
            }
            let place = |word: &str| {
                let begin = word.as_ptr() as usize - text.as_ptr() as usize;
                begin as u32..(begin + word.len()) as u32
            };
            let module = words.next().map_or(0..0, |word| place(word.trim_matches(['[', ']'])));
            kernel.functions.push(Function { address, name: place(name), module });
        }
        let count = kernel.functions.len() as u64;
        if count == 0 {
            return Err(Missing::Kernel("no function in it: lines are ADDRESS TYPE NAME, as in /proc/kallsyms".into()));
        }
        if hidden * 2 > count {
            let why = "the kernel hides its addresses: read /proc/kallsyms as root (kernel.kptr_restrict)";
            return Err(Missing::Kernel(why.into()));
        }
        // Of several names of one address the first one is kept, as the kernel does.
        kernel.functions.sort_by_key(|function| function.address);
        kernel.functions.dedup_by_key(|function| function.address);
        kernel.text = text.to_owned();
        Ok(kernel)
    }

    /// `name+0x12`, `name+0x12 [module]`.
    pub fn find(&self, address: u64) -> Option<String> {
        let behind = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions[..behind].last()?;
        let offset = address - function.address;
        if offset >= FUNCTION_MAX || function.address == 0 {
            return None;
        }
        let word = |range: &std::ops::Range<u32>| &self.text[range.start as usize..range.end as usize];
        let module = word(&function.module);
        let module = if module.is_empty() { String::new() } else { format!(" [{module}]") };
        let name = crate::demangle(word(&function.name));
        Some(if offset == 0 { format!("{name}{module}") } else { format!("{name}+{offset:#x}{module}") })
    }

    /// Where a function of the kernel itself begins. Of several of that name, the first.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let word = |range: &std::ops::Range<u32>| &self.text[range.start as usize..range.end as usize];
        let is_it =
            |function: &&Function| function.address != 0 && function.module.is_empty() && word(&function.name) == name;
        self.functions.iter().find(is_it).map(|function| function.address)
    }

    /// Where its text begins (`_stext`): events of interrupts off tell places from there on.
    pub fn text_begin(&self) -> Option<u64> {
        self.text_begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 t do_one\n\
        ffffffff81000180 D some_data\nffffffff81000200 W do_two\nnonsense\nffffffffc0000000 t probe_it\t[e1000]\n";

    #[test]
    fn functions_by_address() {
        let kernel = Kernel::parse(TEXT).unwrap();
        for (address, expect) in [
            (0xffff_ffff_8100_0000, Some("_stext")),
            (0xffff_ffff_8100_01ff, Some("do_one+0xff")),
            (0xffff_ffff_8100_0200, Some("do_two")),
            (0xffff_ffff_c000_0010, Some("probe_it+0x10 [e1000]")),
            (0xffff_ffff_9000_0000, None),
            (0x40_0000, None),
            (u64::MAX, None),
        ] {
            assert_eq!(kernel.find(address).as_deref(), expect, "{address:#x}");
        }
        assert_eq!(kernel.text_begin(), Some(0xffff_ffff_8100_0000));
        let addresses = ["do_one", "do_on", "do_two", "probe_it", "some_data"].map(|name| kernel.address_of(name));
        let (one, two) = (0xffff_ffff_8100_0100, 0xffff_ffff_8100_0200);
        assert_eq!(
            addresses,
            [Some(one), None, Some(two), None, None],
            "functions of the kernel itself, by whole names"
        );
    }

    #[test]
    fn texts_that_cannot_be_used() {
        let why = |text: &str| Kernel::parse(text).unwrap_err().to_string();
        assert!(why("").contains("no function"), "{}", why(""));
        let hidden = TEXT.replace("ffffffff81000", "0000000000000").replace("ffffffffc", "000000000");
        let hidden = hidden.lines().map(|line| format!("0000000000000000{}\n", &line[line.len().min(16)..]));
        let hidden: String = hidden.collect();
        assert!(why(&hidden).contains("as root"), "{}", why(&hidden));
    }
}
