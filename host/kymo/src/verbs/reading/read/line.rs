// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line under construction: room is made once for several pieces, and short pieces are stored as whole words, of
//! which only the bytes in use count.

use kymo_export::digits::{DIGITS_MAX, eight_digits, nine_digits, word_digits};

/// Eight digits are made at a time.
const WORD: u64 = 100_000_000;

/// Bytes that are stored at a time of text.
const CHUNK: usize = 16;

/// Room that [`Line::label`], [`Line::unsigned`] and [`Line::nine`] ask for before they are called, together.
pub const PIECES: usize = 2 * CHUNK + 2 * DIGITS_MAX;

/// The bytes of a line so far.
#[derive(Default)]
pub struct Line {
    /// Longer than the line: all of it may be written to.
    room: Vec<u8>,
    len: usize,
}

/// A short text that many lines have.
pub struct Label {
    all: Box<[u8]>,
    /// The same, where it is short enough.
    chunk: Option<[u8; CHUNK]>,
}

impl Label {
    pub fn new(text: &[u8]) -> Self {
        let mut chunk = [0; CHUNK];
        let chunk = chunk.get_mut(..text.len()).map(|head| head.copy_from_slice(text)).map(|()| chunk);
        Self { all: text.into(), chunk }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The text.
    pub fn bytes(&self) -> &[u8] {
        &self.all
    }
}

impl Line {
    pub fn clear(&mut self) {
        self.len = 0;
    }

    pub fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }

    /// Makes room for so many bytes more.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        if self.room.len() - self.len < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.room.resize((self.len + bytes).max(256).next_power_of_two(), 0);
    }

    /// Stores all bytes, of which `used` count. There must be room.
    #[inline]
    fn store<const N: usize>(&mut self, bytes: [u8; N], used: usize) {
        self.room[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += used;
    }

    /// There must be room.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.store([byte], 1);
    }

    /// There must be room.
    #[inline]
    pub fn short<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.store(*bytes, N);
    }

    /// There must be room, and a chunk more.
    #[inline]
    pub fn label(&mut self, label: &Label) {
        match label.chunk {
            Some(chunk) => self.store(chunk, label.all.len()),
            None => self.slice(&label.all),
        }
    }

    /// Makes room by itself. For texts that are mostly of one to four chunks: a call for each would cost more than the
    /// copy.
    #[inline]
    pub fn chunks(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len() + CHUNK);
        let mut rest = bytes;
        while let Some((chunk, behind)) = rest.split_first_chunk::<CHUNK>() {
            self.store(*chunk, CHUNK);
            rest = behind;
        }
        // What is left again as a whole chunk, with bytes that are there already in front of it.
        match bytes.last_chunk::<CHUNK>() {
            Some(last) => {
                self.len -= CHUNK - rest.len();
                self.store(*last, CHUNK);
            }
            None => {
                while let Some((word, behind)) = rest.split_first_chunk::<4>() {
                    self.store(*word, 4);
                    rest = behind;
                }
                rest.iter().for_each(|&byte| self.byte(byte));
            }
        }
    }

    /// Makes room by itself.
    #[inline]
    pub fn slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.room[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Decimal digits. There must be room for [`DIGITS_MAX`] bytes and a word.
    #[inline]
    pub fn unsigned(&mut self, value: u64) {
        if value < WORD {
            let (word, digits) = word_digits(value);
            self.store(word, digits);
        } else {
            self.long(value);
        }
    }

    /// More than eight digits.
    #[inline(never)]
    fn long(&mut self, value: u64) {
        let high = value / WORD;
        if high < WORD {
            let (word, digits) = word_digits(high);
            self.store(word, digits);
        } else {
            let (word, digits) = word_digits(high / WORD);
            self.store(word, digits);
            self.store(eight_digits(high % WORD), 8);
        }
        self.store(eight_digits(value % WORD), 8);
    }

    /// The same, with a sign where it is negative.
    #[inline]
    pub fn signed(&mut self, value: i64) {
        if value < 0 {
            self.byte(b'-');
        }
        self.unsigned(value.unsigned_abs());
    }

    /// The number, below 10^9, as nine decimal digits. There must be room.
    #[inline]
    pub fn nine(&mut self, number: u32) {
        self.store(nine_digits(number), 9);
    }

    /// Lower-case hexadecimal digits behind `0x`. There must be room for [`DIGITS_MAX`] bytes.
    pub fn hex(&mut self, value: u64) {
        self.short(b"0x");
        let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digits).rev() {
            self.byte(b"0123456789abcdef"[(value >> (4 * place) & 15) as usize]);
        }
    }

    /// A float that is a whole number, with `.0` behind it: false where it is none, or so large that it is shown with
    /// an exponent. There must be room for [`DIGITS_MAX`] bytes and a word.
    #[inline]
    pub fn whole(&mut self, value: f64) -> bool {
        const EXACT: u64 = 1 << 53;
        let whole = value as i64;
        if whole as f64 != value || whole.unsigned_abs() >= EXACT || whole == 0 && value.is_sign_negative() {
            return false;
        }
        self.signed(whole);
        self.short(b".0");
        true
    }

    /// Text between quotes, as it is; false, and nothing is there, where a byte of it must be shown as something else.
    /// Makes room by itself.
    #[inline]
    pub fn quoted(&mut self, text: &[u8]) -> bool {
        self.reserve(text.len() + CHUNK);
        let begin = self.len;
        self.byte(b'"');
        let mut rest = text;
        while let Some((word, behind)) = rest.split_first_chunk::<8>() {
            if !is_plain(u64::from_le_bytes(*word)) {
                self.len = begin;
                return false;
            }
            self.store(*word, 8);
            rest = behind;
        }
        let last = last_word(rest);
        if !is_plain(last) {
            self.len = begin;
            return false;
        }
        self.store(last.to_le_bytes(), rest.len());
        self.byte(b'"');
        true
    }

    /// Takes away spaces and colons at the end.
    #[inline]
    pub fn trim(&mut self) {
        while self.len > 0 && matches!(self.room[self.len - 1], b' ' | b':') {
            self.len -= 1;
        }
    }
}

/// Up to seven bytes as a word, with spaces behind them.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    const SPACES: u64 = 0x2020_2020_2020_2020;
    let len = bytes.len().min(7);
    let word = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // Where the two overlap they are the same.
        (Some(head), Some(tail)) => {
            u64::from(u32::from_le_bytes(*head)) | u64::from(u32::from_le_bytes(*tail)) << (8 * (len - 4))
        }
        _ => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word | SPACES << (8 * len)
}

/// Whether all eight bytes are printable characters of ASCII that are shown as themselves between quotes.
#[inline]
fn is_plain(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
    let is = |byte: u64| below(word ^ (ONES * byte), 1);
    let quote_or_more = is(u64::from(b'"')) | is(u64::from(b'\\')) | is(0x7F);
    (word | below(word, 0x20) | quote_or_more) & HIGH == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(make: impl FnOnce(&mut Line)) -> String {
        let mut line = Line::default();
        line.slice(b"x");
        line.reserve(PIECES);
        make(&mut line);
        String::from_utf8(line.bytes().to_vec()).unwrap()
    }

    #[test]
    fn texts_of_all_lengths_and_all_bytes() {
        for len in 0..40 {
            let text: Vec<u8> = (0..len).map(|i| b'a' + i as u8 % 26).collect();
            let quoted = made(|line| assert!(line.quoted(&text)));
            assert_eq!(quoted, format!("x\"{}\"", String::from_utf8(text.clone()).unwrap()));
            for at in 0..len {
                for byte in 0..=255u8 {
                    let mut text = text.clone();
                    text[at] = byte;
                    let is_plain = (0x20..0x7F).contains(&byte) && byte != b'"' && byte != b'\\';
                    let mut line = Line::default();
                    assert_eq!(line.quoted(&text), is_plain, "{len} {at} {byte}");
                    assert_eq!(line.bytes().is_empty(), !is_plain);
                }
            }
        }
    }

    #[test]
    fn whole_floats_are_as_the_general_writer_shows_them() {
        let edges = [0.0, -0.0, 0.5, 1e15, 1e16, 9_007_199_254_740_991.0, 9_007_199_254_740_992.0, f64::MAX, f64::NAN];
        let powers = (0..70).flat_map(|i| [1u64 << i.min(63), (1u64 << i.min(63)) - 1]).map(|value| value as f64);
        let scaled = (0..100_000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (i % 60)) as f64 / 4.0);
        let mut whole = 0;
        for value in edges.into_iter().chain(powers).chain(scaled).flat_map(|value| [value, -value]) {
            let shown = made(|line| {
                if line.whole(value) {
                    whole += 1;
                } else {
                    line.slice(serde_json::to_string(&value).unwrap().as_bytes());
                }
            });
            assert_eq!(shown, format!("x{}", serde_json::to_string(&value).unwrap()));
        }
        assert!(whole > 10_000, "{whole}");
    }

    #[test]
    fn numbers() {
        for power in 0..64 {
            for value in [(1u64 << power) - 1, 1 << power, u64::MAX - (1 << power)] {
                assert_eq!(made(|line| line.unsigned(value)), format!("x{value}"));
                assert_eq!(made(|line| line.signed(value as i64)), format!("x{}", value as i64));
                assert_eq!(made(|line| line.hex(value)), format!("x{value:#x}"));
                let part = (value % 1_000_000_000) as u32;
                assert_eq!(made(|line| line.nine(part)), format!("x{part:09}"));
            }
        }
    }

    #[test]
    fn labels_of_all_lengths() {
        for len in 0..40 {
            let text = "abcdefghijklmnopqrstuvwxyz0123456789ABCD".as_bytes()[..len].to_vec();
            let shown = made(|line| line.label(&Label::new(&text)));
            assert_eq!(shown.as_bytes()[1..], text);
        }
        for len in 0..80 {
            let text: Vec<u8> = (0..len).map(|i| b'A' + i as u8 % 50).collect();
            assert_eq!(made(|line| line.chunks(&text)).as_bytes()[1..], text);
        }
        assert_eq!(made(|line| line.slice(b": x: :")), "x: x: :");
        assert_eq!(
            made(|line| {
                line.slice(b": :");
                line.trim();
            }),
            "x"
        );
    }
}
