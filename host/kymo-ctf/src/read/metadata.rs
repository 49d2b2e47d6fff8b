// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file `metadata`: which format it is in, and packetised text taken out of its packets.

use super::class::Metadata;
use super::ctf2;
use super::error::{Caveat, Damage, Decoded, Error};
use super::tsdl::{self, Fault};

/// First word of each packet of packetised metadata.
const PACKET_MAGIC: u32 = 0x75D1_1D57;
/// Bytes of such a packet's header: magic, uuid, checksum, content and packet size, four single bytes, two of version.
const PACKET_HEADER: usize = 37;

/// Understands the bytes of the metadata file, which messages call `file`.
pub fn parse_metadata(file: &str, bytes: &[u8]) -> Result<Decoded<Metadata>, Error> {
    let mut caveats = Vec::new();
    let text = match unpacked(file, bytes) {
        None => bytes.to_vec(),
        Some((text, torn)) => {
            caveats.extend(torn);
            text
        }
    };
    let torn = |what: String| Error::Torn { file: file.into(), what };
    let content = text.trim_ascii_start();
    let value = match content.first() {
        None => return Err(torn("it is empty".into())),
        Some(0x1E) => ctf2::metadata(file, content)?,
        Some(b'{') => {
            return Err(Error::Fragment {
                file: file.into(),
                fragment: 1,
                what: "a fragment of CTF 2 begins with the byte 0x1E".into(),
            });
        }
        Some(_) => of_text(file, &String::from_utf8_lossy(&text), &mut caveats)?,
    };
    Ok(Decoded { value, caveats })
}

/// CTF 1.8. What was passed over is among the caveats.
fn of_text(file: &str, text: &str, caveats: &mut Vec<Caveat>) -> Result<Metadata, Error> {
    let (metadata, remarks) = tsdl::metadata(text).map_err(|fault| {
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
    caveats.extend(remarks.into_iter().map(remark).map(caveat));
    Ok(metadata)
}

/// The text of packetised metadata, and the damage that ended it early. `None` when it is not packetised.
fn unpacked(file: &str, bytes: &[u8]) -> Option<(Vec<u8>, Option<Caveat>)> {
    let little = bytes.starts_with(&PACKET_MAGIC.to_le_bytes());
    if !little && !bytes.starts_with(&PACKET_MAGIC.to_be_bytes()) {
        return None;
    }
    let magic = if little { PACKET_MAGIC.to_le_bytes() } else { PACKET_MAGIC.to_be_bytes() };
    let word = |at: usize| -> Option<usize> {
        let field = bytes.get(at..at + 4)?.try_into().ok()?;
        let value = if little { u32::from_le_bytes(field) } else { u32::from_be_bytes(field) };
        Some(value as usize)
    };
    let (mut text, mut at, mut packet) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let whole = (|| {
            let (content, size) = (word(at + 24)? / 8, word(at + 28)? / 8);
            let sane = bytes[at..].starts_with(&magic) && content >= PACKET_HEADER && content <= size;
            let part = sane.then(|| bytes.get(at + PACKET_HEADER..at + content)).flatten()?;
            (at + size <= bytes.len()).then_some((part, size))
        })();
        let Some((part, size)) = whole else {
            let caveat =
                Caveat { file: file.into(), packet: Some(packet), at: at as u64, damage: Damage::TornMetadata };
            return Some((text, Some(caveat)));
        };
        text.extend_from_slice(part);
        at += size;
        packet += 1;
    }
    Some((text, None))
}
