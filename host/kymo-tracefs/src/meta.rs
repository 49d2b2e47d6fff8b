// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first page of a mapped ring, in which the kernel describes it: `struct trace_buffer_meta` of
//! `linux/trace_mmap.h` (Linux 6.10) [spec/kernel.md 4.1]. Pure. Little endian only: who opens the ring refuses others.
//!
//! What does not change is checked once, and each index that does is checked each time.

/// Bytes of the description, up to the last field that is used.
pub const META_BYTES: usize = 32;

/// More are in no ring: with the smallest sub-buffers these are 4 TiB for one CPU.
const SUBBUFS_MAX: u32 = 1 << 30;

/// What in a description does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// An older or damaged description.
    #[error("the description of the mapped ring has {bytes} bytes, and {needed} are needed", needed = META_BYTES)]
    Short {
        /// As it says.
        bytes: u32,
    },
    /// The sub-buffers do not begin at a page.
    #[error("the sub-buffers of the mapped ring begin at byte {begin}, which is not at a page of {page} bytes")]
    Begin {
        /// As it says.
        begin: u32,
        /// Bytes of a page.
        page: usize,
    },
    /// Sub-buffers of another size than those of the instance.
    #[error("the mapped ring has sub-buffers of {found} bytes, and those of the instance have {expected}")]
    SubbufBytes {
        /// As it says.
        found: u32,
        /// As the instance says.
        expected: usize,
    },
    /// No or too many sub-buffers.
    #[error("the mapped ring has {count} sub-buffers, which is not possible")]
    Count {
        /// As it says.
        count: u32,
    },
    /// An index that is none.
    #[error("sub-buffer {index} is said to be the reader's, and the mapped ring has {count}")]
    Reader {
        /// As it says.
        index: u32,
        /// Sub-buffers.
        count: u32,
    },
    /// More was read than there is room for.
    #[error("{bytes} bytes are said to be read of a sub-buffer with room for {room}")]
    Read {
        /// As it says.
        bytes: u32,
        /// Behind the head.
        room: usize,
    },
}

/// What stays the same for as long as a ring is mapped: a mapped ring cannot be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Where the sub-buffers begin, from the beginning of the mapping.
    pub begin: u64,
    /// Bytes of each.
    pub subbuf_bytes: usize,
    /// How many, the reader's included.
    pub count: u32,
}

/// What the kernel says when it was asked for the reader's sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderPlace {
    /// Which sub-buffer.
    pub index: u32,
    /// Bytes of its records that count as read, from the first one on.
    pub bytes: usize,
    /// Events that were overwritten in front of it, as far as its own head does not tell.
    pub lost_events: u64,
}

impl RingShape {
    /// From the description. `page`: bytes of a page of memory; `expected`: bytes of a sub-buffer of the instance.
    pub fn parse(meta: &[u8; META_BYTES], page: usize, expected: usize) -> Result<RingShape, MetaError> {
        let [begin, bytes, found, count] = [0, 4, 8, 12].map(|at| word(meta, at));
        if (bytes as usize) < META_BYTES {
            return Err(MetaError::Short { bytes });
        }
        if begin == 0 || page == 0 || begin as usize % page != 0 {
            return Err(MetaError::Begin { begin, page });
        }
        if found as usize != expected || expected == 0 || expected % page != 0 {
            return Err(MetaError::SubbufBytes { found, expected });
        }
        let shape = RingShape { begin: begin.into(), subbuf_bytes: expected, count };
        // One that is written to and the reader's.
        if !(2..=SUBBUFS_MAX).contains(&count) || shape.data_bytes().is_none() {
            return Err(MetaError::Count { count });
        }
        Ok(shape)
    }

    /// Bytes of all sub-buffers; `None` where they do not fit into memory.
    pub fn data_bytes(&self) -> Option<usize> {
        let bytes = self.subbuf_bytes.checked_mul(self.count as usize)?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }

    /// The reader's place of the description. `head`: bytes of a sub-buffer in front of its records.
    pub fn reader(&self, meta: &[u8; META_BYTES], head: usize) -> Result<ReaderPlace, MetaError> {
        let lost_events = u64::from(word(meta, 16)) | u64::from(word(meta, 20)) << 32;
        let [index, bytes] = [24, 28].map(|at| word(meta, at));
        if index >= self.count {
            return Err(MetaError::Reader { index, count: self.count });
        }
        let room = self.subbuf_bytes.saturating_sub(head);
        if bytes as usize > room {
            return Err(MetaError::Read { bytes, room });
        }
        Ok(ReaderPlace { index, bytes: bytes as usize, lost_events })
    }
}

fn word(meta: &[u8; META_BYTES], at: usize) -> u32 {
    meta.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// A good description with one of its words changed: place and value.
    fn meta(changes: &[(usize, u32)]) -> [u8; META_BYTES] {
        let mut meta = [0; META_BYTES];
        let good = [(0, 16384), (4, 80), (8, 16384), (12, 65), (16, 3), (20, 1), (24, 64), (28, 100)];
        for (at, value) in good.iter().chain(changes) {
            meta[*at..*at + 4].copy_from_slice(&u32::to_le_bytes(*value));
        }
        meta
    }

    fn shape(changes: &[(usize, u32)]) -> Result<RingShape, MetaError> {
        RingShape::parse(&meta(changes), PAGE, 16384)
    }

    #[test]
    fn a_good_description() {
        let found = shape(&[]).unwrap();
        assert_eq!(found, RingShape { begin: 16384, subbuf_bytes: 16384, count: 65 });
        assert_eq!(found.data_bytes(), Some(65 * 16384));
        let place = found.reader(&meta(&[]), 16).unwrap();
        assert_eq!(place, ReaderPlace { index: 64, bytes: 100, lost_events: (1 << 32) + 3 });
        // A newer kernel may have more to say, and the sub-buffers may begin behind a single page.
        assert!(shape(&[(4, 4096)]).is_ok());
        assert_eq!(shape(&[(0, 4096)]).unwrap().begin, 4096);
        assert!(shape(&[(4, META_BYTES as u32), (12, 2)]).is_ok());
    }

    #[test]
    fn hostile_shapes_are_refused() {
        for bytes in [0, 31] {
            assert_eq!(shape(&[(4, bytes)]), Err(MetaError::Short { bytes }));
        }
        for begin in [0, 1, 80, 4095, 4097, u32::MAX] {
            assert_eq!(shape(&[(0, begin)]), Err(MetaError::Begin { begin, page: PAGE }));
        }
        for found in [0, 1, 4096, 16383, 16385, 1 << 31, u32::MAX] {
            assert_eq!(shape(&[(8, found)]), Err(MetaError::SubbufBytes { found, expected: 16384 }));
        }
        for count in [0, 1, SUBBUFS_MAX + 1, u32::MAX] {
            assert_eq!(shape(&[(12, count)]), Err(MetaError::Count { count }));
        }
        // All of it together, and nothing at all.
        assert!(RingShape::parse(&[0xff; META_BYTES], PAGE, 16384).is_err());
        assert!(RingShape::parse(&[0; META_BYTES], PAGE, 16384).is_err());
    }

    #[test]
    fn what_the_instance_says_is_checked_too() {
        for expected in [0, 100, 4095] {
            let result = RingShape::parse(&meta(&[(8, expected as u32)]), PAGE, expected);
            assert_eq!(result, Err(MetaError::SubbufBytes { found: expected as u32, expected }));
        }
        assert_eq!(RingShape::parse(&meta(&[]), 0, 16384), Err(MetaError::Begin { begin: 16384, page: 0 }));
        // More than the memory of any machine.
        let many = RingShape { begin: 4096, subbuf_bytes: usize::MAX / 2, count: SUBBUFS_MAX };
        assert_eq!(many.data_bytes(), None);
    }

    #[test]
    fn each_index_is_checked_each_time() {
        let ring = shape(&[]).unwrap();
        let place = |changes: &[(usize, u32)]| ring.reader(&meta(changes), 16);
        for index in [65, 66, 1 << 31, u32::MAX] {
            assert_eq!(place(&[(24, index)]), Err(MetaError::Reader { index, count: 65 }));
        }
        for bytes in [16369, 16384, 1 << 31, u32::MAX] {
            assert_eq!(place(&[(28, bytes)]), Err(MetaError::Read { bytes, room: 16368 }));
        }
        assert_eq!(place(&[(24, 0), (28, 16368)]).map(|place| (place.index, place.bytes)), Ok((0, 16368)));
        // What was checked at the beginning is not read again.
        assert!(place(&[(0, 1), (4, 0), (8, 7), (12, u32::MAX)]).is_ok());
        // A head that is larger than a sub-buffer leaves no room.
        assert_eq!(ring.reader(&meta(&[(28, 1)]), 20_000), Err(MetaError::Read { bytes: 1, room: 0 }));
    }

    #[test]
    fn messages_have_their_numbers() {
        let text = shape(&[(12, 1)]).unwrap_err().to_string();
        assert!(text.contains("1 sub-buffers"), "{text}");
        let text = shape(&[]).unwrap().reader(&meta(&[(24, 99)]), 16).unwrap_err().to_string();
        assert!(text.contains("99") && text.contains("65"), "{text}");
    }
}
