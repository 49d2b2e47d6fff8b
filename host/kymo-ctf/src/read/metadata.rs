// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file `metadata`: which format it is in, and packetised text or JSON taken out of its packets.

use super::class::Metadata;
use super::ctf2;
use super::error::{Caveat, Damage, Decoded, Error};
use super::parsed::Parsed;
use super::tsdl::{self, Fault};

/// First word of each packet of packetised metadata.
const PACKET_MAGIC: u32 = 0x75D1_1D57;
/// Bytes of such a packet's header: magic, uuid, checksum, content and packet size, four single bytes, two of version.
const PACKET_HEADER: usize = 37;
/// Where the sizes are in it, bits; and the single bytes: compression, encryption, checksum, version.
const CONTENT_SIZE: usize = 24;
const PACKET_SIZE: usize = 28;
const SCHEMES: usize = 32;

/// Understands the bytes of the metadata file, which messages call `file`.
pub fn parse_metadata(file: &str, bytes: &[u8]) -> Result<Decoded<Metadata>, Error> {
    let Parsed { metadata, caveats, .. } = parse(file, bytes)?;
    Ok(Decoded { value: metadata, caveats })
}

/// The same, with the work that it took.
pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Parsed, Error> {
    let (text, torn) = match Packets::of(bytes) {
        None => (bytes.to_vec(), None),
        Some(packets) => packets.unpack(file)?,
    };
    let torn_here = |what: String| Error::Torn { file: file.into(), what };
    let content = text.trim_ascii_start();
    let mut parsed = match content.first() {
        None => return Err(torn_here("it is empty".into())),
        Some(0x1E) => ctf2::metadata(file, content)?,
        Some(b'{') => {
            return Err(Error::Fragment {
                file: file.into(),
                fragment: 1,
                what: "a fragment of CTF 2 begins with the byte 0x1E".into(),
            });
        }
        Some(_) => of_text(file, &String::from_utf8_lossy(&text))?,
    };
    drop(parsed.caveats.splice(0..0, torn));
    Ok(parsed)
}

/// CTF 1.8. What was passed over is among the caveats.
fn of_text(file: &str, text: &str) -> Result<Parsed, Error> {
    let (metadata, remarks, steps) = tsdl::metadata(text).map_err(|fault| {
        let (line, column, what) = (fault.pos.line, fault.pos.column, fault.what);
        match fault.torn {
            true => {
                let what = format!("the text stops at line {line}, column {column}: {what}");
                Error::Torn { file: file.into(), what }
            }
            false => Error::Text { file: file.into(), line, column, what },
        }
    })?;
    let remark = |of: Fault| Damage::Remark { line: of.pos.line, column: of.pos.column, what: of.what };
    let caveat = |damage| Caveat { file: file.into(), packet: None, at: 0, damage };
    Ok(Parsed { metadata, caveats: remarks.into_iter().map(remark).map(caveat).collect(), steps })
}

/// Packetised metadata.
struct Packets<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl<'a> Packets<'a> {
    /// `None` when it is not packetised.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let is_little = bytes.starts_with(&PACKET_MAGIC.to_le_bytes());
        (is_little || bytes.starts_with(&PACKET_MAGIC.to_be_bytes())).then_some(Self { bytes, is_little })
    }

    fn word(&self, at: usize) -> Option<u32> {
        let field = self.bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.is_little { u32::from_le_bytes(field) } else { u32::from_be_bytes(field) })
    }

    /// Content of the packet at `at`, and its size in bytes. `None` where it is not all there.
    fn packet(&self, at: usize) -> Option<(&'a [u8], usize)> {
        let (content, size) = (self.word(at + CONTENT_SIZE)? / 8, self.word(at + PACKET_SIZE)? / 8);
        let (content, size) = (content as usize, size as usize);
        let is_sane = self.word(at) == Some(PACKET_MAGIC) && content >= PACKET_HEADER && content <= size;
        let part = is_sane.then(|| self.bytes.get(at + PACKET_HEADER..at + content)).flatten()?;
        (at + size <= self.bytes.len()).then_some((part, size))
    }

    /// Contents of all packets, and the damage that ended them early.
    fn unpack(&self, file: &str) -> Result<(Vec<u8>, Option<Caveat>), Error> {
        let (mut text, mut at, mut packet) = (Vec::new(), 0, 0u64);
        while at < self.bytes.len() {
            let Some((part, size)) = self.packet(at) else {
                let damage = Damage::TornMetadata;
                return Ok((text, Some(Caveat { file: file.into(), packet: Some(packet), at: at as u64, damage })));
            };
            self.check_schemes(at).map_err(|what| Error::Packet { file: file.into(), packet, what })?;
            text.extend_from_slice(part);
            at += size;
            packet += 1;
        }
        Ok((text, None))
    }

    /// What is compressed or encrypted cannot be read; a version that is not known may have another header.
    fn check_schemes(&self, at: usize) -> Result<(), String> {
        match self.bytes[at + SCHEMES..at + PACKET_HEADER] {
            [0, 0, _, 1 | 2, _] => Ok(()),
            [0, 0, _, major, minor] => Err(format!("version {major}.{minor} of CTF is not known")),
            [compression, ..] if compression != 0 => {
                Err(format!("it is compressed (scheme {compression}), which is not supported"))
            }
            [_, encryption, ..] => Err(format!("it is encrypted (scheme {encryption}), which is not supported")),
            _ => Ok(()),
        }
    }
}
