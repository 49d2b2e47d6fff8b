// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry point of the fuzzer and of the tests that mutate: the answers of a relay daemon in, nothing out but the
//! promise to return.

use std::io::{self, Read, Write};

use crate::{Attached, Error, Index, Metadata, NewStreams, Viewer};

/// A connection whose other side sends these bytes, and then closes it.
pub struct Answers<'a>(pub &'a [u8]);

impl Read for Answers<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Answers<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A viewer that asks for everything once, in the order of a session. The bytes of packets and metadata that it got.
///
/// # Errors
/// What a viewer says of the answers.
pub fn view(answers: &[u8]) -> Result<usize, Error> {
    let mut viewer = Viewer::connect(Answers(answers))?;
    let sessions = viewer.sessions()?;
    let Some(session) = sessions.first() else { return Ok(0) };
    let Attached::Streams(mut streams) = viewer.attach(session.id)? else { return Ok(0) };
    if let NewStreams::Some(more) = viewer.new_streams(session.id)? {
        streams.extend(more);
    }
    let mut got = 0;
    for stream in &streams {
        if stream.is_metadata {
            if let Metadata::Some(bytes) = viewer.metadata(stream.id)? {
                got += bytes.len();
            }
        } else if let (Index::Packet(packet), _) = viewer.next_index(stream.id)? {
            got += viewer.packet(stream.id, &packet)?.map_or(0, |bytes| bytes.len());
        }
    }
    Ok(got)
}
