// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of C++ and Rust as they were written.

/// Longer names are left as they are: they take long, and nobody reads them.
const NAME_MAX: usize = 16_384;
/// Characters of a name that is shown.
const SHOWN_MAX: usize = 300;

/// The name as it was written; other names as they are.
pub fn demangle(name: &str) -> String {
    let plain = match name.len() {
        ..NAME_MAX if is_rust(name) => addr2line::demangle(name, addr2line::gimli::DW_LANG_Rust),
        ..NAME_MAX if name.starts_with("_Z") => {
            cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok())
        }
        _ => None,
    };
    let plain = plain.unwrap_or_else(|| name.to_owned());
    plain.chars().take(SHOWN_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `_R...`, or the older form: a C++ name that ends in a hash of 16 digits.
fn is_rust(name: &str) -> bool {
    let hash = |name: &str| {
        let digits = name.strip_suffix('E').and_then(|name| name.rsplit_once("17h")).map(|(_, digits)| digits);
        digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    name.starts_with("_R") || (name.starts_with("_ZN") && hash(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_they_were_written() {
        for (name, expect) in [
            ("main", "main"),
            ("_ZN5motor4stepEi", "motor::step(int)"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6kymo_x4main", "kymo_x::main"),
            ("_Znonsense", "_Znonsense"),
            ("a\x1bb", "a\u{fffd}b"),
        ] {
            assert_eq!(demangle(name), expect);
        }
    }
}
