// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of `-U`: a file, a place in it, and arguments.

use std::path::PathBuf;

use super::fetch;
use super::spec::{ProbeSpec, ProbeTarget};

/// Reads one argument of `-U`. BINARY has no colon (a link can stand for one that has).
pub fn parse(arg: &str) -> Result<ProbeSpec, String> {
    let (binary, rest) = arg.split_once(':').ok_or("there is no colon")?;
    if binary.is_empty() {
        return Err("the program is missing".to_owned());
    }
    let (place, args) = split_place(rest.trim());
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    // The kernel takes the first for a comment and the others for the end of its line.
    if args.iter().any(|arg| arg.chars().any(|char| char == '#' || char.is_control())) {
        return Err("an argument has a '#' or a control character".to_owned());
    }
    let place = match provider(place) {
        Some(_) if !args.is_empty() => return Err("the arguments of a USDT probe come from the program".to_owned()),
        Some((provider, name)) => usdt(provider, name)?,
        None => function(place, args)?,
    };
    Ok(ProbeSpec { binary: PathBuf::from(binary), place, force: false })
}

/// The place, which ends at the first space that is not within brackets: names of C++ have some.
fn split_place(text: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(char) = text[at..].chars().next() {
        if depth == 0 && ends_word(&text[..at], "operator") {
            // Signs of the operator are no brackets; `operator new` goes on behind the space.
            let rest = &text[at..];
            let signs = rest.len() - rest.trim_start_matches(|c: char| "<>-=+*/%&|^!~,[]".contains(c)).len();
            let spaces = rest.len() - rest.trim_start_matches(' ').len();
            let skipped = match (signs, spaces) {
                (0, 0) if rest.starts_with("()") => 2,
                (0, 0) => 0,
                (0, spaces) => spaces,
                (signs, _) => signs,
            };
            if skipped > 0 {
                at += skipped;
                continue;
            }
        }
        match char {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && char.is_whitespace() => return (&text[..at], &text[at..]),
            _ => {}
        }
        at += char.len_utf8();
    }
    (text, "")
}

fn ends_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word).is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// `PROVIDER:NAME`: split at a colon that is not one of two, and outside of brackets.
fn provider(place: &str) -> Option<(&str, &str)> {
    let bytes = place.as_bytes();
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate() {
        let is_double = bytes.get(at + 1) == Some(&b':') || (at > 0 && bytes[at - 1] == b':');
        match byte {
            b'(' | b'<' => depth += 1,
            b')' | b'>' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && !is_double => return Some((&place[..at], &place[at + 1..])),
            _ => {}
        }
    }
    None
}

fn usdt(provider: &str, name: &str) -> Result<ProbeTarget, String> {
    let why = match (provider, name) {
        ("", _) | (_, "") => "the provider or the name of the probe is missing",
        _ if name.contains(':') => "there is a colon too many",
        _ if name.ends_with("%return") => "a USDT probe has no return",
        _ => return Ok(ProbeTarget::Usdt { provider: provider.to_owned(), name: name.to_owned() }),
    };
    Err(why.to_owned())
}

fn function(place: &str, args: Vec<String>) -> Result<ProbeTarget, String> {
    let is_operator = place.contains("operator");
    let (place, at_return) = match place.rsplit_once('%') {
        Some((place, "return")) => (place, true),
        Some(_) if !is_operator => return Err("only %return may follow the function".to_owned()),
        _ => (place, false),
    };
    let (name, offset) = match place.rsplit_once('+') {
        None => (place, 0),
        Some((name, offset)) => match number(offset) {
            Some(offset) => (name, offset),
            None if is_operator => (place, 0),
            None => return Err("the offset is not a number".to_owned()),
        },
    };
    if name.is_empty() {
        return Err("the function is missing".to_owned());
    }
    if at_return && offset > 0 {
        return Err("a return has no offset".to_owned());
    }
    let args = args.iter().map(|arg| fetch::parse(arg)).collect::<Result<Vec<_>, _>>()?;
    let is_named = args.iter().any(fetch::Fetch::is_by_name);
    match (at_return, offset) {
        (true, _) if is_named => {
            Err("arguments are gone when the function returns: probe its entry for them, and take $retval here"
                .to_owned())
        }
        (_, 1..) if is_named => {
            Err("names stand for what arguments are at the function's entry: at an offset, name registers".to_owned())
        }
        _ => Ok(ProbeTarget::Function { name: name.to_owned(), offset, at_return, args }),
    }
}

/// Decimal, or hexadecimal behind `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(arg: &str) -> ProbeTarget {
        parse(arg).unwrap_or_else(|why| panic!("{arg}: {why}")).place
    }

    #[test]
    fn both_forms() {
        let check = |arg: &str, name: &str, offset, at_return, args: &[&str]| {
            let args = args.iter().map(|arg| fetch::parse(arg).unwrap()).collect();
            assert_eq!(place(arg), ProbeTarget::Function { name: name.to_owned(), offset, at_return, args }, "{arg}");
        };
        check("./x:work", "work", 0, false, &[]);
        check("/a b/x:work+0x10", "work", 16, false, &[]);
        check("x:work+8 a=%di:s32  b=+8(%si):string", "work", 8, false, &["a=%di:s32", "b=+8(%si):string"]);
        check("x:work%return r=$retval", "work", 0, true, &["r=$retval"]);
        check("x:work n text:str", "work", 0, false, &["n", "text:str"]);
        check("x:a::b", "a::b", 0, false, &[]);
        check("x:a::b(int, char*) n=%di", "a::b(int, char*)", 0, false, &["n=%di"]);
        check("x:a<int, long>::b%return", "a<int, long>::b", 0, true, &[]);
        check("x:operator new(unsigned long) n", "operator new(unsigned long)", 0, false, &["n"]);
        check("x:a::operator<<(int) n", "a::operator<<(int)", 0, false, &["n"]);
        check("x:a::operator+ n=%di", "a::operator+", 0, false, &["n=%di"]);
        check("x:a::operator()(int) n=%di", "a::operator()(int)", 0, false, &["n=%di"]);
        check("x:main.(*T).run", "main.(*T).run", 0, false, &[]);
        check("x:work_*", "work_*", 0, false, &[]);
        let usdt = |provider: &str, name: &str| ProbeTarget::Usdt { provider: provider.into(), name: name.into() };
        assert_eq!(place("x:app:go"), usdt("app", "go"));
        assert_eq!(place("x:app:*"), usdt("app", "*"));
    }

    #[test]
    fn what_cannot_be_understood() {
        let check = |arg: &str, part: &str| {
            let message = parse(arg).unwrap_err();
            assert!(message.contains(part), "{arg}: {message}");
        };
        check("x", "no colon");
        check(":f", "program is missing");
        check("x:", "function is missing");
        check("x:+3", "function is missing");
        check("x:f+y", "offset");
        check("x:f%exit", "%return");
        check("x:f+1%return", "no offset");
        check("x:p:n a=%di", "come from the program");
        check("x:p:n%return", "no return");
        check("x:p:n:m", "colon too many");
        check("x::n", "missing");
        check("x:f a=%di#", "'#'");
        check("x:f%return n", "$retval");
        check("x:f+4 n", "entry");
        check("x:f n:u128", "u128");
        check("x:f n=%di:f64", "floating");
    }

    proptest::proptest! {
        #[test]
        fn no_argument_panics(arg in "\\PC{0,30}", hard in "[a:+%# x0(<operat>)]{0,24}") {
            let _ = (parse(&arg), parse(&hard));
        }
    }
}
