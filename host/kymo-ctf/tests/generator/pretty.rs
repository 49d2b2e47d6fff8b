// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of babeltrace and babeltrace2 back to values: `{ name = value, ... }`, `[ [0] = value, ... ]`,
//! `( "label" : container = 1 )`, strings in quotes, numbers and words.

use super::seen::Seen;

/// A record as text output has it, with all names on.
#[derive(Clone, Debug)]
pub struct Line {
    /// Digits, as they are shown; empty where there is no time.
    pub time: String,
    pub event: String,
    /// By the names that they are shown with.
    pub parts: Vec<(String, Seen)>,
}

/// Parts, as `--names=all` calls them.
const PARTS: [&str; 4] = ["stream.packet.context", "stream.event.context", "event.context", "event.fields"];

/// The records of an output. Strings may hold line ends.
pub fn lines(text: &str) -> Result<Vec<Line>, String> {
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

fn line(text: &str) -> Result<Line, String> {
    let (time, rest) = match text.strip_prefix("timestamp = ") {
        Some(rest) => rest.split_once(", ").ok_or_else(|| format!("no name: {text}"))?,
        None => ("", text),
    };
    let rest = rest.split_once("name = ").map(|(_, rest)| rest).ok_or_else(|| format!("no name: {text}"))?;
    let begins = PARTS.iter().filter_map(|part| rest.find(&format!(", {part} = ")));
    let (event, rest) = rest.split_at(begins.min().unwrap_or(rest.len()));
    let mut parser = Parser { rest: rest.strip_prefix(", ").unwrap_or(rest) };
    let mut parts = Vec::new();
    while !parser.rest.is_empty() {
        let name = parser.until(" = ")?;
        parts.push((name, parser.value()?));
        parser.pass(", ");
    }
    Ok(Line { time: time.into(), event: event.into(), parts })
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn pass(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn need(&mut self, text: &str) -> Result<(), String> {
        if self.pass(text) { Ok(()) } else { Err(format!("expected {text:?} before {:?}", self.rest)) }
    }

    fn until(&mut self, end: &str) -> Result<String, String> {
        let (text, rest) = self.rest.split_once(end).ok_or_else(|| format!("expected {end:?} in {:?}", self.rest))?;
        self.rest = rest;
        Ok(text.into())
    }

    fn value(&mut self) -> Result<Seen, String> {
        match self.rest.as_bytes().first() {
            Some(b'{') => self.braces(),
            Some(b'[') => self.brackets(),
            Some(b'(') => self.labelled(),
            Some(b'"') => self.text().map(Seen::Text),
            _ => {
                let end = self.rest.find([',', ' ']).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                if word.is_empty() {
                    return Err(format!("no value before {rest:?}"));
                }
                let word = Seen::Word(word.into());
                // The flags of a bit map.
                if self.pass(" { ") { Ok(Seen::Labelled(word.into(), self.flags()?)) } else { Ok(word) }
            }
        }
    }

    fn braces(&mut self) -> Result<Seen, String> {
        self.need("{ ")?;
        let mut members = Vec::new();
        while !self.pass("}") {
            let word = self.rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            if !self.rest[word..].starts_with(" = ") {
                return self.braced();
            }
            let name = self.until(" = ")?;
            members.push((name, self.value()?));
            let _ = self.pass(", ") || self.pass(" ");
        }
        Ok(Seen::Struct(members))
    }

    /// One value, or the bytes of a BLOB.
    fn braced(&mut self) -> Result<Seen, String> {
        let value = self.value()?;
        if self.pass(" }") {
            return Ok(Seen::Braced(value.into()));
        }
        let (Seen::Word(first), rest) = (value, self.until("}")?) else { return Err("more than a value".into()) };
        let words = [first.as_str()].into_iter().chain(rest.split_whitespace());
        let bytes: Result<Vec<u8>, _> = words.map(|word| u8::from_str_radix(word, 16)).collect();
        bytes.map(Seen::Bytes).map_err(|error| error.to_string())
    }

    fn flags(&mut self) -> Result<Vec<String>, String> {
        let mut flags = Vec::new();
        while !self.pass("}") {
            flags.push(self.text()?);
            let _ = self.pass(", ") || self.pass(" ");
        }
        Ok(flags)
    }

    fn brackets(&mut self) -> Result<Seen, String> {
        self.need("[ ")?;
        let mut elements = Vec::new();
        while !self.pass("]") {
            self.need("[")?;
            self.until("] = ")?;
            elements.push(self.value()?);
            let _ = self.pass(", ") || self.pass(" ");
        }
        Ok(Seen::List(elements))
    }

    fn labelled(&mut self) -> Result<Seen, String> {
        self.need("( ")?;
        let mut labels = Vec::new();
        if !self.pass("<unknown>") {
            self.pass("{ ");
            while self.rest.starts_with('"') {
                labels.push(self.text()?);
                self.pass(", ");
            }
            self.pass(" }");
        }
        self.need(" : container = ")?;
        let value = self.value()?;
        self.need(" )")?;
        Ok(Seen::Labelled(value.into(), labels))
    }

    fn text(&mut self) -> Result<String, String> {
        self.need("\"")?;
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => text.push(match characters.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, 't')) => '\t',
                    Some((_, other)) => other,
                    None => return Err("a string without its end".into()),
                }),
                other => text.push(other),
            }
        }
        Err(format!("a string without its end: {:?}", self.rest))
    }
}
