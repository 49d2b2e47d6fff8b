// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which functions of a program a name or pattern means. Names of C++ and Rust count as they were written, too.

use kymo_names::glob_matches;
use kymo_symbols::demangle;

/// What `-U` says in the place of a function.
pub struct WantedSymbol<'a> {
    text: &'a str,
    /// Without spaces, as demanglers differ in them.
    dense: String,
    is_pattern: bool,
}

impl<'a> WantedSymbol<'a> {
    pub fn new(text: &'a str) -> WantedSymbol<'a> {
        WantedSymbol { text, dense: dense(text), is_pattern: text.contains(['*', '?']) && !text.contains("operator") }
    }

    /// Whether it may mean many functions.
    pub fn is_pattern(&self) -> bool {
        self.is_pattern
    }

    /// The name by which a symbol is meant; `None` if it is not.
    pub fn meant(&self, symbol: &str) -> Option<String> {
        if symbol == self.text {
            return Some(shown(symbol));
        }
        let is_mangled = symbol.starts_with("_Z") || symbol.starts_with("_R");
        // Most symbols need no demangling, and most names none of C++ or Rust.
        if self.is_pattern {
            // A cold part is jumped to, not called.
            let is_part = symbol.ends_with(".cold");
            // A mangled name has the types of its parameters in it: it counts where the pattern begins as one.
            let is_plain = !is_mangled || self.text.starts_with("_Z") || self.text.starts_with("_R");
            let fits = if is_plain { glob_matches(self.text, symbol) } else { self.fits(symbol) };
            return (!is_part && fits).then(|| shown(symbol));
        }
        (is_mangled && self.fits(symbol)).then(|| shown(symbol))
    }

    fn fits(&self, symbol: &str) -> bool {
        let whole = demangle(symbol);
        let (whole, base) = (dense(&whole), dense(base(&whole)));
        match self.is_pattern {
            // Parameters count where the pattern speaks of them.
            true => glob_matches(&self.dense, if self.dense.contains('(') { &whole } else { &base }),
            false => self.dense == whole || self.dense == base,
        }
    }
}

/// A symbol as people write it, without parameters.
pub fn shown(symbol: &str) -> String {
    if !symbol.starts_with("_Z") && !symbol.starts_with("_R") {
        return symbol.to_owned();
    }
    base(&demangle(symbol)).to_owned()
}

fn dense(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace()).collect()
}

/// The name in a demangled signature: without result, parameters, and what follows them.
fn base(signature: &str) -> &str {
    let bytes = signature.as_bytes();
    // The parameters are the last pair of round brackets that nothing encloses.
    let (mut depth, mut open) = (0_usize, None);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' => {
                if depth == 0 {
                    open = Some(at);
                }
                depth += 1;
            }
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let left = open.filter(|at| *at > 0).map_or(signature, |at| &signature[..at]);
    // The result of a template stands in front, behind a space.
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, byte) in left.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'{' => depth += 1,
            b'>' | b')' | b'}' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 && !left[..at].ends_with("operator") && !left[..at].contains("operator ") => {
                begin = at + 1
            }
            _ => {}
        }
    }
    &left[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_parameters() {
        for (signature, expect) in [
            ("main", "main"),
            ("motor::step(int)", "motor::step"),
            ("motor::step(int) const", "motor::step"),
            ("void motor::turn<int>(int, void (*)(int))", "motor::turn<int>"),
            ("operator new(unsigned long)", "operator new"),
            ("(anonymous namespace)::hidden(int)", "(anonymous namespace)::hidden"),
            ("core::fmt::Write::write_fmt", "core::fmt::Write::write_fmt"),
        ] {
            assert_eq!(base(signature), expect, "{signature}");
        }
    }

    #[test]
    fn what_is_meant() {
        let check = |wanted: &str, symbol: &str, expect: Option<&str>| {
            assert_eq!(WantedSymbol::new(wanted).meant(symbol).as_deref(), expect, "{wanted} for {symbol}");
        };
        check("main", "main", Some("main"));
        check("mai", "main", None);
        check("motor::step", "_ZN5motor4stepEi", Some("motor::step"));
        check("motor::step(int)", "_ZN5motor4stepEi", Some("motor::step"));
        check("motor::step(long)", "_ZN5motor4stepEi", None);
        check("_ZN5motor4stepEi", "_ZN5motor4stepEi", Some("motor::step"));
        check("motor::*", "_ZN5motor4stepEi", Some("motor::step"));
        check("*step*", "_ZN5motor4stepEi", Some("motor::step"));
        check("*int*", "_ZN5motor4stepEi", None);
        check("*Axis*", "_ZplRKN5motor4AxisEi", None);
        check("_Z*Axis*", "_ZplRKN5motor4AxisEi", Some("operator+"));
        check("*(int*", "_ZN5motor4stepEi", Some("motor::step"));
        check("work_*", "work_a", Some("work_a"));
        check("work_*", "work_a.cold", None);
        check("work_a.cold", "work_a.cold", Some("work_a.cold"));
        check("w?rk", "work", Some("work"));
        check("main.(*T).run", "main.(*T).run", Some("main.(*T).run"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(signature in "\\PC{0,30}", hard in "[a<>() :{}]{0,20}") {
            let _ = (base(&signature), base(&hard), WantedSymbol::new(&hard).meant(&signature));
        }
    }
}
