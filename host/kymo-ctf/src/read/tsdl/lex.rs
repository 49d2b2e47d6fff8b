// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSDL text to tokens. Comments and white space end here.

use super::fault::{Fault, Pos};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Int(i128),
    Text(String),
    Punct(&'static str),
    End,
}

impl Token<'_> {
    /// For messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("`{word}`"),
            Self::Int(value) => format!("`{value}`"),
            Self::Text(text) => format!("the string {text:?}"),
            Self::Punct(punct) => format!("`{punct}`"),
            Self::End => "the end of the file".into(),
        }
    }
}

/// Longer ones first.
const PUNCTUATION: [&str; 19] =
    ["...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", ",", "=", ".", "*", "-", "+"];

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    pos: Pos,
}

/// All tokens with their places; the last is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, Pos)>, Fault> {
    let mut lexer = Lexer { text, at: 0, pos: Pos { line: 1, column: 1 } };
    let mut out = Vec::with_capacity(text.len() / 5);
    loop {
        lexer.space()?;
        let pos = lexer.pos;
        let token = lexer.token()?;
        let end = token == Token::End;
        out.push((token, pos));
        if end {
            return Ok(out);
        }
    }
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Passes `bytes` bytes, which end at a character boundary.
    fn pass(&mut self, bytes: usize) -> &'a str {
        let passed = &self.rest()[..bytes];
        for c in passed.chars() {
            if c == '\n' {
                self.pos = Pos { line: self.pos.line.saturating_add(1), column: 1 };
            } else {
                self.pos.column = self.pos.column.saturating_add(1);
            }
        }
        self.at += bytes;
        passed
    }

    fn space(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\0').len();
            if blank > 0 {
                self.pass(blank);
            } else if rest.starts_with("//") {
                self.pass(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                let begin = self.pos;
                let end =
                    rest.find("*/").ok_or_else(|| Fault { torn: true, ..begin.fault("a comment without its end") })?;
                self.pass(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Token<'a>, Fault> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(Token::Word(self.pass(run(rest, |c| c.is_ascii_alphanumeric() || c == '_'))));
        }
        if first.is_ascii_digit() {
            return self.int();
        }
        if first == '"' || first == '\'' {
            return self.quoted(first);
        }
        match PUNCTUATION.iter().find(|punct| rest.starts_with(**punct)) {
            Some(punct) => {
                self.pass(punct.len());
                Ok(Token::Punct(punct))
            }
            None => Err(self.pos.fault(format!("{first:?} has no meaning here"))),
        }
    }

    fn int(&mut self) -> Result<Token<'a>, Fault> {
        let pos = self.pos;
        let word = self.pass(run(self.rest(), |c| c.is_ascii_alphanumeric()));
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            i128::from_str_radix(hex, 16)
        } else if digits.len() > 1 && digits.starts_with('0') {
            i128::from_str_radix(&digits[1..], 8)
        } else {
            digits.parse()
        };
        match value {
            Ok(value) if value <= i128::from(u64::MAX) => Ok(Token::Int(value)),
            _ => Err(pos.fault(format!("`{word}` is not a 64-bit integer"))),
        }
    }

    /// A string, or a character constant, which is the integer of its one character.
    fn quoted(&mut self, quote: char) -> Result<Token<'a>, Fault> {
        let begin = self.pos;
        self.pass(1);
        let mut bytes = Vec::new();
        loop {
            let rest = self.rest();
            let stop = rest
                .find(['\\', '\n', quote])
                .ok_or_else(|| Fault { torn: true, ..begin.fault("a string without its end") })?;
            bytes.extend_from_slice(self.pass(stop).as_bytes());
            match self.pass(1) {
                "\\" => self.escape(&mut bytes)?,
                "\n" => return Err(begin.fault("a string without its end on the line")),
                _ => break,
            }
        }
        if quote == '"' {
            return Ok(Token::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
        match bytes[..] {
            [byte] => Ok(Token::Int(i128::from(byte))),
            _ => Err(begin.fault("a character constant must have one character")),
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        let pos = self.pos;
        let rest = self.rest();
        let first = rest.chars().next().ok_or_else(|| Fault { torn: true, ..pos.fault("a string without its end") })?;
        let simple = match first {
            'n' => b'\n',
            't' => b'\t',
            'r' => b'\r',
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'v' => 11,
            '\\' | '"' | '\'' | '?' => first as u8,
            'x' => {
                self.pass(1);
                let digits = self.pass(run(self.rest(), |c| c.is_ascii_hexdigit()).min(2));
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| pos.fault("\\x without digits"))?);
                return Ok(());
            }
            '0'..='7' => {
                let digits = self.pass(run(rest, |c| matches!(c, '0'..='7')).min(3));
                bytes.push(u8::from_str_radix(digits, 8).map_err(|_| pos.fault(format!("\\{digits} is not a byte")))?);
                return Ok(());
            }
            _ => return Err(pos.fault(format!("\\{first} is not an escape sequence"))),
        };
        self.pass(1);
        bytes.push(simple);
        Ok(())
    }
}

/// Bytes at the start of `text` whose characters are all `kind`, which must hold for ASCII only.
fn run(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|c| !kind(c)).unwrap_or(text.len())
}
