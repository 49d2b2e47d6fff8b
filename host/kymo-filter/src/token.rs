// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text to tokens [spec/filter.md 1]. Every token knows its place.

use crate::ast::CONTEXTS;
use crate::error::{Error, Span, either, near};
use crate::units;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name, or a word of the language.
    Word(String),
    /// A name between back quotes: never a word of the language.
    Quoted(String),
    /// `$cpu`, without the dollar sign.
    Dollar(String),
    /// A name with a colon or a glob in it: `motor:*`.
    Pattern(String),
    /// An integer, with its unit already applied.
    Int(u64),
    /// A number with a point or an exponent, and without a unit.
    Float(f64),
    /// Text between quotes.
    Text(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub token: Token,
    pub span: Span,
}

/// Longest first: the first that fits is taken.
const SIGNS: [&str; 29] = [
    "&&", "||", "==", "!=", "!~", "<=", ">=", "<<", ">>", "<", ">", "~", "!", "=", "+", "-", "*", "/", "%", "&", "|",
    "^", "(", ")", "[", "]", ",", ".", ":",
];

/// All tokens of `text`, the last one `End`.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed>, Error> {
    let mut lexer = Lexer { text, at: 0, out: Vec::new() };
    loop {
        lexer.blanks();
        let start = lexer.at;
        let token = lexer.token()?;
        let end = token == Token::End;
        lexer.out.push(Placed { token, span: Span::new(start, lexer.at) });
        if end {
            return Ok(lexer.out);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    out: Vec<Placed>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn blanks(&mut self) {
        self.take(char::is_whitespace);
    }

    fn error(&self, start: usize, message: impl Into<String>, help: impl Into<String>) -> Error {
        Error::new(self.text, Span::new(start, self.at), message, help)
    }

    fn token(&mut self) -> Result<Token, Error> {
        let Some(first) = self.rest().chars().next() else { return Ok(Token::End) };
        match first {
            'A'..='Z' | 'a'..='z' | '_' => Ok(self.word()),
            '*' | '?' if !self.after_operand() => self.glob(),
            '0'..='9' => self.number(),
            '"' | '\'' => self.string(first),
            '`' => self.quoted(),
            '$' => self.dollar(),
            _ => self.sign(first),
        }
    }

    /// Whether what was read last is an operand, so that `*` multiplies.
    fn after_operand(&self) -> bool {
        match self.out.last().map(|placed| &placed.token) {
            None | Some(Token::Sign(_) | Token::End) => {
                matches!(self.out.last(), Some(Placed { token: Token::Sign(")" | "]"), .. }))
            }
            Some(_) => true,
        }
    }

    /// A name; a pattern where a colon follows without a blank. The colon of a selector is a token of its own.
    fn word(&mut self) -> Token {
        let start = self.at;
        let run = self.take(|c| is_word(c) || matches!(c, '*' | '?' | ':'));
        if !run.contains(':') {
            self.at = start;
            return Token::Word(self.take(is_word).to_owned());
        }
        let pattern = run.strip_suffix(':').unwrap_or(run);
        self.at = start + pattern.len();
        if pattern.bytes().all(|b| is_word(b.into())) {
            return Token::Word(pattern.to_owned());
        }
        Token::Pattern(pattern.to_owned())
    }

    fn glob(&mut self) -> Result<Token, Error> {
        let start = self.at;
        let run = self.take(|c| is_word(c) || matches!(c, '*' | '?' | ':'));
        let pattern = run.strip_suffix(':').unwrap_or(run);
        self.at = start + pattern.len();
        Ok(Token::Pattern(pattern.to_owned()))
    }

    fn quoted(&mut self) -> Result<Token, Error> {
        let start = self.at;
        self.at += 1;
        let name = self.take(|c| c != '`' && !c.is_control()).to_owned();
        if !self.rest().starts_with('`') {
            return Err(self.error(start, "the name has no end", "add the missing back quote"));
        }
        self.at += 1;
        if name.is_empty() {
            return Err(self.error(start, "an empty name", "write the field's name between the back quotes"));
        }
        Ok(Token::Quoted(name))
    }

    fn dollar(&mut self) -> Result<Token, Error> {
        let start = self.at;
        self.at += 1;
        let name = self.take(is_word).to_owned();
        if name.is_empty() {
            let help = format!("contexts are {CONTEXTS}; in a shell, put the filter in single quotes");
            return Err(self.error(start, "`$` without a name", help));
        }
        Ok(Token::Dollar(name))
    }

    fn sign(&mut self, first: char) -> Result<Token, Error> {
        let start = self.at;
        if let Some(sign) = SIGNS.iter().find(|sign| self.rest().starts_with(**sign)) {
            self.at += sign.len();
            return Ok(Token::Sign(sign));
        }
        self.at += first.len_utf8();
        let help = match first {
            '?' => "there is no conditional operator; write `a && b || !a && c`",
            '{' | '}' => "group with `(` and `)`",
            ';' => "join conditions with `&&` or `||`",
            '\u{201c}' | '\u{201d}' | '\u{2018}' | '\u{2019}' | '\u{ab}' | '\u{bb}' => "text stands between \" and \"",
            _ => {
                "names of fields that are not letters, digits and `_` stand between back quotes; text between \" and \""
            }
        };
        Err(self.error(start, format!("{first:?} has no meaning here"), help))
    }

    fn number(&mut self) -> Result<Token, Error> {
        let start = self.at;
        for (prefix, radix, name) in [("0x", 16, "hexadecimal"), ("0b", 2, "binary"), ("0o", 8, "octal")] {
            if self.rest().starts_with(prefix) {
                self.at += prefix.len();
                return self.radix(start, radix, name);
            }
        }
        let decimal = self.decimal();
        let unit_start = self.at;
        let unit = self.take(is_word);
        if unit.is_empty() {
            return self.plain(start, &decimal);
        }
        let Some(factor) = units::factor(unit) else {
            let near = near(unit, units::names());
            let help = match near.is_empty() {
                true => format!("units are {}", units::LIST),
                false => format!("did you mean {}? Units are {}", either(&near), units::LIST),
            };
            return Err(self.error(unit_start, format!("there is no unit `{unit}`"), help));
        };
        match units::exact(&decimal, factor) {
            Ok(value) => Ok(Token::Int(value)),
            Err(units::Inexact::Large) => {
                Err(self.error(start, "the number does not fit in 64 bits", "use a smaller one"))
            }
            Err(units::Inexact::Fraction) => {
                let base = units::base(unit);
                Err(self.error(start, format!("this is not a whole number of {base}"), "use fewer digits"))
            }
        }
    }

    fn radix(&mut self, start: usize, radix: u32, name: &str) -> Result<Token, Error> {
        let digits = self.take(is_word).replace('_', "");
        match u64::from_str_radix(&digits, radix) {
            Ok(value) => Ok(Token::Int(value)),
            Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
                Err(self.error(start, "the number does not fit in 64 bits", "use a smaller one"))
            }
            Err(_) => {
                let help = "write a unit only behind a decimal number";
                Err(self.error(start, format!("this is not a {name} number"), help))
            }
        }
    }

    /// Digits, point, exponent; without `_`.
    fn decimal(&mut self) -> String {
        let is_digit = |c: char| c.is_ascii_digit() || c == '_';
        let mut text = self.take(is_digit).to_owned();
        let follows = |rest: &str, skip: usize| rest.as_bytes().get(skip).is_some_and(u8::is_ascii_digit);
        if self.rest().starts_with('.') && follows(self.rest(), 1) {
            self.at += 1;
            text.push('.');
            text.push_str(self.take(is_digit));
        }
        if self.rest().starts_with(['e', 'E']) {
            let signed = usize::from(matches!(self.rest().as_bytes().get(1), Some(b'-' | b'+')));
            if follows(self.rest(), 1 + signed) {
                text.push_str(&self.rest()[..1 + signed]);
                self.at += 1 + signed;
                text.push_str(self.take(is_digit));
            }
        }
        text.replace('_', "")
    }

    fn plain(&self, start: usize, decimal: &str) -> Result<Token, Error> {
        if decimal.contains(['.', 'e', 'E']) {
            return match decimal.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Token::Float(value)),
                _ => Err(self.error(start, "the number is beyond 64-bit floats", "use a smaller one")),
            };
        }
        decimal
            .parse()
            .map(Token::Int)
            .map_err(|_| self.error(start, "the number does not fit in 64 bits", "use a smaller one"))
    }

    fn string(&mut self, quote: char) -> Result<Token, Error> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.error(start, "the text has no end", format!("add the missing {quote}")));
            };
            let here = self.at;
            self.at += c.len_utf8();
            match c {
                '\\' => text.push(self.escape(here)?),
                c if c == quote => return Ok(Token::Text(text)),
                c => text.push(c),
            }
        }
    }

    /// Behind a backslash.
    fn escape(&mut self, start: usize) -> Result<char, Error> {
        const HELP: &str = "escapes are \\n \\t \\r \\0 \\\\ \\\" \\' \\xNN (up to 7f) and \\u{NNNN}";
        let c = self.rest().chars().next();
        self.at += c.map_or(0, char::len_utf8);
        let code = match c {
            Some('n') => return Ok('\n'),
            Some('t') => return Ok('\t'),
            Some('r') => return Ok('\r'),
            Some('0') => return Ok('\0'),
            Some(c @ ('\\' | '"' | '\'')) => return Ok(c),
            Some('x') => {
                let digits = self.rest().get(..2).unwrap_or("");
                self.at += digits.len();
                u32::from_str_radix(digits, 16).ok().filter(|&code| code < 0x80 && !digits.contains('+'))
            }
            Some('u') if self.rest().starts_with('{') => {
                self.at += 1;
                let digits = self.take(|c| c.is_ascii_hexdigit());
                let closed = self.rest().starts_with('}');
                self.at += usize::from(closed);
                u32::from_str_radix(digits, 16).ok().filter(|_| closed)
            }
            _ => None,
        };
        code.and_then(char::from_u32).ok_or_else(|| self.error(start, "there is no such escape", HELP))
    }
}

/// Part of a name.
pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[Token]) {
        let found: Vec<Token> = tokens(text).unwrap().into_iter().map(|placed| placed.token).collect();
        assert_eq!(found.split_last().unwrap(), (&Token::End, expect), "{text}");
    }

    #[test]
    fn words_and_patterns() {
        let word = |text: &str| Token::Word(text.into());
        let pattern = |text: &str| Token::Pattern(text.into());
        check("a*b", &[word("a"), Token::Sign("*"), word("b")]);
        check("motor:*: a", &[pattern("motor:*"), Token::Sign(":"), word("a")]);
        check("sched_switch: a", &[word("sched_switch"), Token::Sign(":"), word("a")]);
        check("sys_*: a", &[pattern("sys_*"), Token::Sign(":"), word("a")]);
        check("*: a", &[pattern("*"), Token::Sign(":"), word("a")]);
        check("motor:step.duration", &[pattern("motor:step"), Token::Sign("."), word("duration")]);
        check("`in` $cpu", &[Token::Quoted("in".into()), Token::Dollar("cpu".into())]);
        check("(a)*b", &[Token::Sign("("), word("a"), Token::Sign(")"), Token::Sign("*"), word("b")]);
    }

    #[test]
    fn numbers_and_texts() {
        for (text, value) in [
            ("0", 0),
            ("1_000", 1000),
            ("0xff", 255),
            ("0b101", 5),
            ("0o17", 15),
            ("200us", 200_000),
            ("1.5ms", 1_500_000),
            ("2min", 120_000_000_000),
            ("1e3us", 1_000_000),
            ("4KiB", 4096),
            ("2M", 2 << 20),
            ("18446744073709551615", u64::MAX),
        ] {
            check(text, &[Token::Int(value)]);
        }
        check("0.5", &[Token::Float(0.5)]);
        check("1e3", &[Token::Float(1000.0)]);
        check(r#""a\"\x41\u{fc}\n""#, &[Token::Text("a\"Aü\n".into())]);
        check("'it\"s'", &[Token::Text("it\"s".into())]);
    }
}
