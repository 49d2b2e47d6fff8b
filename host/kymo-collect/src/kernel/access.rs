// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the kernel's rings are read: by copies of their pages, or mapped [spec/kernel.md 4.1].

use std::ffi::OsStr;
use std::io;

use kymo_ftrace::page::{Missed, PageError, Parts};
use kymo_ftrace::{Decoder, Pending, Progress};
use kymo_tracefs::{CpuReader, MappedPage, MappedRing};

use crate::Error;

/// Chooses it: for tests, and to compare the two.
const VARIABLE: &str = "KYMO_KERNEL_RINGS";

/// How rings are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RingAccess {
    /// Each page is copied by a read.
    #[default]
    Copied,
    /// Pages are decoded where the kernel wrote them, if it lets us.
    Mapped,
}

impl RingAccess {
    /// What the environment says.
    pub(crate) fn chosen() -> Result<RingAccess, Error> {
        RingAccess::parse(std::env::var_os(VARIABLE).as_deref())
    }

    fn parse(value: Option<&OsStr>) -> Result<RingAccess, Error> {
        let Some(value) = value else { return Ok(RingAccess::default()) };
        match value.to_str() {
            Some("") => Ok(RingAccess::default()),
            Some("copied") => Ok(RingAccess::Copied),
            Some("mapped") => Ok(RingAccess::Mapped),
            _ => Err(Error::Refused(format!("{VARIABLE} is {value:?}: set it to copied or mapped, or unset it"))),
        }
    }
}

/// A mapped ring, and how far its reader's sub-buffer was taken.
#[derive(Debug)]
pub(crate) struct MappedPages {
    ring: MappedRing,
    progress: Progress,
}

impl MappedPages {
    /// Maps the ring of `reader`, which nobody has read from.
    pub(crate) fn of(reader: &CpuReader, decoder: &Decoder) -> io::Result<MappedPages> {
        Ok(MappedPages { ring: reader.map(decoder.data_offset())?, progress: Progress::default() })
    }

    /// Gives `take` the records that are new in one sub-buffer, and returns what that does; `None` if there are none.
    pub(crate) fn next<T>(
        &mut self,
        decoder: &Decoder,
        take: impl FnOnce(Result<&mut Pending<'_>, PageError>) -> T,
    ) -> io::Result<Option<T>> {
        let Some(page) = self.ring.next_page()? else { return Ok(None) };
        let MappedPage { head, data, behind, is_new, lost_events } = page;
        let mut pending = match decoder.open_parts(Parts { head, data, behind }, is_new, self.progress) {
            Ok(pending) => pending,
            Err(error) => return Ok(Some(take(Err(error)))),
        };
        if is_new && lost_events > 0 && pending.missed == Missed::None {
            pending.missed = Missed::Unknown;
        }
        let taken = take(Ok(&mut pending));
        self.progress = pending.progress();
        Ok(Some(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses() {
        let parse = |value: &str| RingAccess::parse(Some(OsStr::new(value)));
        assert_eq!(RingAccess::parse(None).unwrap(), RingAccess::Copied);
        assert_eq!(parse("").unwrap(), RingAccess::Copied);
        assert_eq!(parse("copied").unwrap(), RingAccess::Copied);
        assert_eq!(parse("mapped").unwrap(), RingAccess::Mapped);
        for wrong in ["map", "Mapped", "1"] {
            let text = parse(wrong).unwrap_err().to_string();
            assert!(text.contains(VARIABLE) && text.contains(wrong), "{text}");
        }
    }
}
