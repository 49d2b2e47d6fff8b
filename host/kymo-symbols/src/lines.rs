// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information: DWARF through addr2line.

use addr2line::Context;
use addr2line::gimli::{DwarfSections, EndianSlice, Error, RunTimeEndian, SectionId};
use object::Object as _;

use crate::{Frame, demangle, section};

/// Inlined functions of one address that are told.
const FRAMES_MAX: usize = 32;

/// The debug information of a file.
pub(crate) struct Lines {
    sections: DwarfSections<Vec<u8>>,
    endian: RunTimeEndian,
}

impl Lines {
    /// `None` where there is none, or it is broken.
    pub fn load(file: &object::File<'_>) -> Option<Lines> {
        file.section_by_name(".debug_info")?;
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let load = |id: SectionId| -> Result<Vec<u8>, Error> { Ok(section::unpacked(file, id.name())) };
        let lines = Lines { sections: DwarfSections::load(load).ok()?, endian };
        lines.context().is_some().then_some(lines)
    }

    /// Made anew for each look: it borrows the sections, and addresses are few.
    fn context(&self) -> Option<Context<EndianSlice<'_, RunTimeEndian>>> {
        Context::from_dwarf(self.sections.borrow(|bytes| EndianSlice::new(bytes, self.endian))).ok()
    }

    /// Functions and lines of an address, the innermost first.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let mut found = Vec::new();
        let Some(context) = self.context() else { return found };
        let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return found };
        while let (true, Ok(Some(frame))) = (found.len() < FRAMES_MAX, frames.next()) {
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let place = frame.location;
            found.push(Frame {
                function: name.map_or_else(String::new, |name| demangle(&name)),
                offset: None,
                file: place.as_ref().and_then(|place| place.file).unwrap_or_default().to_owned(),
                line: place.and_then(|place| place.line).filter(|line| *line > 0),
            });
        }
        // A unit that covers an address without a function or a line says nothing.
        found.retain(|frame| !frame.function.is_empty() || frame.line.is_some());
        found
    }
}
