// SPDX-License-Identifier: MIT OR Apache-2.0
//! USDT notes: their layout, and their arguments as the kernel fetches them.

/// Of a note named `stapsdt`.
pub const NOTE_TYPE: u32 = 3;

/// One site of a USDT probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where the code is, as the program headers count.
    pub address: u64,
    /// Where the semaphore is; 0 if there is none.
    pub semaphore: u64,
    pub provider: String,
    pub name: String,
    /// `SIZE@OPERAND`, separated by spaces, in the assembler's language.
    pub args: String,
}

/// Arguments for the kernel, and what was left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// `argN=PLACE:TYPE`, numbered from 1 as in the note.
    pub args: Vec<String>,
    pub caveats: Vec<String>,
}

/// Reads a note's content of a 64-bit program: three addresses (code, base, semaphore) and three texts.
/// `base` is where the section `.stapsdt.base` is now: what it differs by from the note's is how far all moved.
pub fn parse_note(content: &[u8], little_endian: bool, base: Option<u64>) -> Option<Note> {
    let address = |index: usize| {
        let bytes: [u8; 8] = content.get(8 * index..8 * index + 8)?.try_into().ok()?;
        Some(if little_endian { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    };
    let (code, noted_base, semaphore) = (address(0)?, address(1)?, address(2)?);
    let moved = base.filter(|_| noted_base != 0).map_or(0, |base| base.wrapping_sub(noted_base));
    let mut texts = content.get(24..)?.split(|&byte| byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    let (provider, name, args) = (text()?, text()?, text()?);
    let semaphore = if semaphore == 0 { 0 } else { semaphore.wrapping_add(moved) };
    Some(Note { address: code.wrapping_add(moved), semaphore, provider, name, args })
}

/// The arguments of a note for the kernel. Those that it cannot fetch are left out, with a caveat each.
pub fn fetch(args: &str, x86_64: bool) -> Fetched {
    let mut fetched = Fetched::default();
    for (index, text) in args.split_ascii_whitespace().enumerate() {
        let number = index + 1;
        let result = if x86_64 { argument(text) } else { Err("arguments are only known for x86-64") };
        match result {
            Ok(place) => fetched.args.push(format!("arg{number}={place}")),
            Err(why) => fetched.caveats.push(format!("argument {number} ({text}) is left out: {why}")),
        }
    }
    fetched
}

/// `SIZE@OPERAND` as `PLACE:TYPE`.
fn argument(text: &str) -> Result<String, &'static str> {
    let (size, operand) = match text.split_once('@') {
        Some((size, operand)) => (kind(size)?, operand),
        None => ("u64", text),
    };
    Ok(format!("{}:{size}", place(operand)?))
}

/// Negative sizes are signed.
fn kind(size: &str) -> Result<&'static str, &'static str> {
    Ok(match size {
        "1" => "u8",
        "2" => "u16",
        "4" => "u32",
        "8" => "u64",
        "-1" => "s8",
        "-2" => "s16",
        "-4" => "s32",
        "-8" => "s64",
        _ if size.ends_with('f') => return Err("the kernel fetches no floating-point numbers"),
        _ => return Err("a size that the kernel does not have"),
    })
}

fn place(operand: &str) -> Result<String, &'static str> {
    if let Some(constant) = operand.strip_prefix('$') {
        return Ok(format!("\\{}", integer(constant).ok_or("a constant that is not a number")?));
    }
    if let Some((_, _)) = operand.split_once(':') {
        return Err("memory of a segment register");
    }
    if operand.starts_with('%') {
        return Ok(format!("%{}", register(operand)?));
    }
    let memory = operand.strip_suffix(')').and_then(|rest| rest.split_once('('));
    let Some((offset, base)) = memory else { return Err("a global variable, which the kernel cannot find") };
    if base.contains(',') {
        return Err("an index register, which the kernel cannot add");
    }
    if base == "%rip" || base == "%eip" {
        return Err("a global variable, which the kernel cannot find");
    }
    let offset = if offset.is_empty() { Some(0) } else { integer(offset) };
    let offset = offset.ok_or("a global variable, which the kernel cannot find")?;
    Ok(format!("{offset:+}(%{})", register(base)?))
}

/// Decimal or hexadecimal, with a sign or not.
fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    // Signs within the digits would be taken by the standard library.
    if !digits.starts_with(|char: char| char.is_ascii_digit()) {
        return None;
    }
    let magnitude = match digits.strip_prefix("0x") {
        // Constants are written without a sign up to 64 bits.
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    match negative {
        true => 0_i64.checked_sub_unsigned(magnitude),
        false => Some(i64::from_le_bytes(magnitude.to_le_bytes())),
    }
}

/// The kernel's name of a register, or of the one that it is the low part of.
fn register(operand: &str) -> Result<String, &'static str> {
    let name = operand.strip_prefix('%').ok_or("not a register")?;
    if let Some(number) = name.strip_prefix('r') {
        let digits = number.trim_end_matches(['d', 'w', 'b', 'l']);
        if let Ok(number @ 8..=15) = digits.parse::<u8>() {
            return Ok(format!("r{number}"));
        }
    }
    Ok(match name {
        "rax" | "eax" | "ax" | "al" => "ax",
        "rbx" | "ebx" | "bx" | "bl" => "bx",
        "rcx" | "ecx" | "cx" | "cl" => "cx",
        "rdx" | "edx" | "dx" | "dl" => "dx",
        "rsi" | "esi" | "si" | "sil" => "si",
        "rdi" | "edi" | "di" | "dil" => "di",
        "rbp" | "ebp" | "bp" | "bpl" => "bp",
        "rsp" | "esp" | "sp" | "spl" => "sp",
        "rip" | "eip" => "ip",
        "ah" | "bh" | "ch" | "dh" => return Err("the high half of a 16-bit register"),
        _ if name.starts_with("xmm") || name.starts_with("ymm") || name.starts_with("st") => {
            return Err("a floating-point register, which the kernel does not fetch");
        }
        _ => return Err("a register that the kernel does not fetch"),
    }
    .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(argument: &str, expect: &str) {
        let fetched = fetch(argument, true);
        assert_eq!((fetched.args, fetched.caveats), (vec![format!("arg1={expect}")], vec![]), "{argument}");
    }

    #[test]
    fn every_form_that_the_kernel_fetches() {
        check("8@%rdi", "%di:u64");
        check("-4@%eax", "%ax:s32");
        check("2@%ax", "%ax:u16");
        check("-1@%sil", "%si:s8");
        check("1@%r10b", "%r10:u8");
        check("4@%r8d", "%r8:u32");
        check("-8@%r15", "%r15:s64");
        check("-4@-20(%rbp)", "-20(%bp):s32");
        check("8@16(%rsp)", "+16(%sp):u64");
        check("8@(%rax)", "+0(%ax):u64");
        check("8@0x10(%r12)", "+16(%r12):u64");
        check("-4@$-5", "\\-5:s32");
        check("4@$1234", "\\1234:u32");
        check("8@$0xffffffffffffffff", "\\-1:u64");
        check("8@$18446744073709551615", "\\-1:u64");
        check("%rdi", "%di:u64");
    }

    #[test]
    fn what_it_cannot_fetch_is_left_out_and_said() {
        let fetched =
            fetch("8@8(%rax,%rbx,4) 4@%edi 8@sym(%rip) 8f@%xmm0 -4@sym 8@%xmm1 1@%ah 16@%rax 8@%fs:0x10", true);
        assert_eq!(fetched.args, ["arg2=%di:u32"]);
        let parts = ["index", "global", "floating-point", "global", "floating-point", "high half", "size", "segment"];
        assert_eq!(fetched.caveats.len(), parts.len());
        for (caveat, part) in fetched.caveats.iter().zip(parts) {
            assert!(caveat.contains(part), "{caveat}");
        }
        assert!(fetched.caveats[1].starts_with("argument 3 (8@sym(%rip)) is left out"), "{}", fetched.caveats[1]);
        assert_eq!(fetch("8@x0", false).caveats.len(), 1);
    }

    #[test]
    fn notes_and_how_far_they_moved() {
        let mut bytes = Vec::new();
        for address in [0x1000_u64, 0x2000, 0x3000] {
            bytes.extend_from_slice(&address.to_le_bytes());
        }
        bytes.extend_from_slice(b"app\0go\0-4@%edi\0\0");
        let note = parse_note(&bytes, true, Some(0x2100)).unwrap();
        assert_eq!((note.address, note.semaphore), (0x1100, 0x3100));
        assert_eq!((&*note.provider, &*note.name, &*note.args), ("app", "go", "-4@%edi"));
        assert_eq!(parse_note(&bytes, true, None).unwrap().address, 0x1000);
        for length in 0..bytes.len() {
            let cut = parse_note(&bytes[..length], true, None);
            assert!(cut.is_none() || length > 24 + 6, "{length}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(content: Vec<u8>, args in "[-0-9a-z@%$(), +:x]{0,40}") {
            let _ = (parse_note(&content, true, Some(1)), fetch(&args, true));
        }
    }
}
