// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heads of records whose id and time lie in one word, as kymo's own and the short ones of LTTng do: one load has both.

use super::class::Order;
use super::plan::{Header, Piece, aligned};

/// A fixed head, or the first of several layouts, whose id and time lie in its first 64 bits, little endian.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadWord {
    align: u32,
    bits: u64,
    /// Of several layouts: distance and mask of the tag, and its lowest and highest value for this one.
    tag: Option<(u32, u64, u64, u64)>,
    /// Of the id: distance and mask; a mask of 0 where there is none.
    id: (u32, u64),
    /// Of the time: distance, mask and bits.
    time: Option<(u32, u64, u8)>,
}

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamped {
    pub id: u64,
    /// The bits of the time stamp, and how many they are.
    pub time: Option<(u64, u8)>,
    /// Where the fields begin: bits from the packet's first.
    pub fields: u64,
}

impl HeadWord {
    /// `None` where the head is not such a one.
    pub fn new(header: &Header) -> Option<Self> {
        let (stamp, align, choice) = match header {
            Header::Fixed(stamp) => (stamp, stamp.align, None),
            // The first one that has the tag's value is chosen, so that no other one can be.
            Header::Tagged { align, tag, options } => match &options.first()?.0[..] {
                [range] => (&options.first()?.1, *align, Some((*tag, *range))),
                _ => return None,
            },
            Header::Any(_) => return None,
        };
        let place = |piece: Piece| {
            let is_simple = piece.order == Order::Little && !piece.signed && piece.bits > 0;
            let is_inside = u64::from(piece.delta_bits) + u64::from(piece.bits) <= 64;
            (is_simple && is_inside).then(|| (piece.delta_bits, u64::MAX >> (64 - u32::from(piece.bits)), piece.bits))
        };
        let id = match stamp.id {
            Some(id) => place(id).map(|(delta, mask, _)| (delta, mask))?,
            None => (0, 0),
        };
        let time = match stamp.time {
            Some(time) => Some(place(time)?),
            None => None,
        };
        let tag = match choice {
            Some((tag, (low, high))) => {
                let (delta, mask, _) = place(tag)?;
                Some((delta, mask, u64::try_from(low).ok()?, u64::try_from(high).ok()?))
            }
            None => None,
        };
        Some(Self { align, bits: stamp.bits.into(), tag, id, time })
    }

    /// The head at bit `at` of a packet that begins at bit `origin` of `data`. `None` where it begins within a byte,
    /// fewer than 64 bits of `data` are left, or it has another layout. It may lie behind the packet's end.
    #[inline]
    pub fn read(&self, data: &[u8], origin: u64, at: u64) -> Option<Stamped> {
        let begin = aligned(at, self.align);
        let bit = origin + begin;
        let window = data.get((bit / 8) as usize..)?.first_chunk::<8>()?;
        if bit % 8 != 0 {
            return None;
        }
        let word = u64::from_le_bytes(*window);
        if let Some((delta, mask, low, high)) = self.tag {
            if !(low..=high).contains(&(word >> delta & mask)) {
                return None;
            }
        }
        let time = self.time.map(|(delta, mask, bits)| (word >> delta & mask, bits));
        Some(Stamped { id: word >> self.id.0 & self.id.1, time, fields: begin + self.bits })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Stamp;
    use super::*;

    fn piece(delta_bits: u32, bits: u8) -> Piece {
        Piece { delta_bits, bits, signed: false, order: Order::Little }
    }

    fn word(align: u32, id: Option<Piece>, time: Option<Piece>, bits: u32) -> Option<HeadWord> {
        HeadWord::new(&Header::Fixed(Stamp { align, id, time, bits }))
    }

    /// A head in one word says what its pieces say, wherever it lies, and nothing where it cannot.
    #[test]
    fn a_head_in_one_word_is_its_pieces() {
        let data: Vec<u8> = (0..64u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for (id, time, bits) in [
            (Some(piece(0, 16)), Some(piece(16, 48)), 64),
            (Some(piece(0, 5)), Some(piece(5, 27)), 32),
            (None, Some(piece(0, 64)), 64),
            (Some(piece(32, 32)), None, 64),
        ] {
            let word = word(8, id, time, bits).unwrap();
            for (origin, at) in (0..3u64).flat_map(|byte| (0..500u64).map(move |at| (byte * 8, at))) {
                let begin = aligned(at, 8);
                let fits = (origin + begin) / 8 + 8 <= data.len() as u64;
                let expect = fits.then(|| Stamped {
                    id: id.map_or(0, |id| id.read(&data, origin + begin)),
                    time: time.map(|time| (time.read(&data, origin + begin), time.bits)),
                    fields: begin + u64::from(bits),
                });
                assert_eq!(word.read(&data, origin, at), expect, "{origin} {at}");
            }
        }
    }

    /// LTTng's short heads: the tag is the id, and its highest value says that both follow in full.
    #[test]
    fn the_first_of_several_layouts_has_a_word() {
        let full = Stamp { align: 8, id: Some(piece(8, 32)), time: Some(piece(40, 64)), bits: 104 };
        let short = Stamp { align: 8, id: Some(piece(0, 5)), time: Some(piece(5, 27)), bits: 32 };
        let options = |low: i128| vec![(vec![(low, 30)].into(), short), (vec![(31, 31)].into(), full)];
        let header = |low, tag| Header::Tagged { align: 8, tag, options: options(low) };
        let word = HeadWord::new(&header(0, piece(0, 5))).unwrap();
        let bytes = |id: u32| (id | 77 << 5).to_le_bytes().into_iter().chain([0xFF; 4]).collect::<Vec<u8>>();
        for id in 0..=30 {
            let expect = Stamped { id: id.into(), time: Some((77, 27)), fields: 32 };
            assert_eq!(word.read(&bytes(id), 0, 0), Some(expect), "{id}");
        }
        assert_eq!(word.read(&bytes(31), 0, 0), None);
        assert!(HeadWord::new(&header(-1, piece(0, 5))).is_none());
        assert!(HeadWord::new(&header(0, Piece { signed: true, ..piece(0, 5) })).is_none());
    }

    #[test]
    fn other_heads_have_no_word() {
        assert_eq!(word(1, None, Some(piece(0, 8)), 8).unwrap().read(&[0; 16], 0, 3), None);
        assert!(word(8, None, Some(piece(32, 33)), 65).is_none());
        assert!(word(8, Some(Piece { order: Order::Big, ..piece(0, 16) }), None, 16).is_none());
        assert!(word(8, Some(Piece { signed: true, ..piece(0, 16) }), None, 16).is_none());
        assert!(HeadWord::new(&Header::Any(0)).is_none());
    }
}
