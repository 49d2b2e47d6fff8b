// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of an index: pieces of bytes with checksums, found through a head that is written last [spec/index.md 3].

pub(crate) mod bits;
pub(crate) mod checksum;
pub(crate) mod head;
pub(crate) mod identity;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;

use kymo_analyze::compact::{Put, Take};

use crate::file::checksum::checksum;

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"kymo-idx";
/// Of this layout and of all that is in the pieces.
pub const VERSION: u32 = 9;
/// Magic, version, 4 bytes of 0, head's offset, bytes and checksum, bytes of the file, checksum of the seven before.
const FRONT_BYTES: usize = 56;
/// A head with more is none: names and counts of ten thousand streams have less.
const HEAD_BYTES_MAX: u64 = 256 << 20;

/// Where a piece is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    offset: u64,
    /// Its size.
    pub bytes: u64,
    checksum: u64,
}

impl Piece {
    /// As part of another piece.
    pub fn put(&self, put: &mut Put) {
        [self.offset, self.bytes, self.checksum].iter().for_each(|number| put.number(*number));
    }

    /// The same again.
    pub fn take(take: &mut Take<'_>) -> Option<Piece> {
        Some(Piece { offset: take.number()?, bytes: take.number()?, checksum: take.number()? })
    }
}

/// Writes an index.
pub struct Writer<'f> {
    file: &'f File,
    to: BufWriter<&'f File>,
    at: u64,
}

impl<'f> Writer<'f> {
    /// Into an empty file.
    pub fn new(file: &'f File) -> io::Result<Writer<'f>> {
        let mut to = BufWriter::with_capacity(1 << 18, file);
        to.write_all(&[0; FRONT_BYTES])?;
        Ok(Writer { file, to, at: FRONT_BYTES as u64 })
    }

    /// Adds a piece.
    pub fn piece(&mut self, bytes: &[u8]) -> io::Result<Piece> {
        let piece = Piece { offset: self.at, bytes: bytes.len() as u64, checksum: checksum(bytes) };
        self.to.write_all(bytes)?;
        self.at += piece.bytes;
        Ok(piece)
    }

    /// How many there are by now.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Makes it whole. Its size.
    pub fn finish(mut self, head: &[u8]) -> io::Result<u64> {
        let piece = self.piece(head)?;
        self.to.flush()?;
        let mut front = Vec::with_capacity(FRONT_BYTES);
        front.extend(MAGIC);
        front.extend(VERSION.to_le_bytes());
        front.extend([0; 4]);
        for number in [piece.offset, piece.bytes, piece.checksum, self.at] {
            front.extend(number.to_le_bytes());
        }
        front.extend(checksum(&front).to_le_bytes());
        self.file.write_all_at(&front, 0)?;
        Ok(self.at)
    }
}

/// Reads an index.
#[derive(Debug)]
pub struct Pieces {
    /// Where they are.
    pub file: File,
    /// Its size.
    pub bytes: u64,
}

impl Pieces {
    /// The file, and its head. The error says what is wrong with it.
    pub fn open(file: File) -> Result<(Pieces, Vec<u8>), String> {
        let bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let mut front = [0; FRONT_BYTES];
        file.read_exact_at(&mut front, 0).map_err(|_| "it has no head".to_owned())?;
        let word = |at: usize| u64::from_le_bytes(front[at..at + 8].try_into().unwrap_or_default());
        if front[..8] != MAGIC {
            return Err("it is no index".into());
        }
        if word(8) != u64::from(VERSION) {
            return Err("it is of another version of kymo".into());
        }
        if word(48) != checksum(&front[..48]) || word(40) != bytes || word(24) > HEAD_BYTES_MAX {
            return Err("it is torn".into());
        }
        let pieces = Pieces { file, bytes };
        let head = pieces.read(&Piece { offset: word(16), bytes: word(24), checksum: word(32) });
        head.map(|head| (pieces, head)).ok_or_else(|| "it is damaged".into())
    }

    /// The bytes of a piece; `None` where they are not what they were.
    pub fn read(&self, piece: &Piece) -> Option<Vec<u8>> {
        if piece.offset.checked_add(piece.bytes)? > self.bytes {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(piece.bytes).ok()?];
        self.file.read_exact_at(&mut bytes, piece.offset).ok()?;
        (checksum(&bytes) == piece.checksum).then_some(bytes)
    }
}
