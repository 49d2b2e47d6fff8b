// SPDX-License-Identifier: MIT OR Apache-2.0
//! One ELF file: its build id, its segments, its symbols, its debug information.

use object::read::elf::ProgramHeader as _;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use crate::{Frame, demangle, lines::Lines};

/// Symbols that are kept of a file.
const SYMBOLS_MAX: usize = 1 << 22;

/// The parts of a file that are used.
pub(crate) struct Image {
    pub build_id: Vec<u8>,
    /// Name and directory-less file of its debug information, and that file's checksum.
    pub debug_link: Option<(String, u32)>,
    /// Of code: place in the file, size there, virtual address, size in memory.
    segments: Vec<[u64; 4]>,
    /// Address, size, name; by address.
    symbols: Vec<(u64, u64, String)>,
    lines: Option<Lines>,
}

/// The build id of an ELF file; empty where it has none, or is no ELF file.
pub fn build_id_of(bytes: &[u8]) -> Vec<u8> {
    object::File::parse(bytes)
        .ok()
        .and_then(|file| file.build_id().ok().flatten().map(<[u8]>::to_vec))
        .unwrap_or_default()
}

impl Image {
    pub fn parse(bytes: &[u8]) -> Result<Image, String> {
        let file = object::File::parse(bytes).map_err(|error| error.to_string())?;
        if file.format() != object::BinaryFormat::Elf {
            return Err("it is of another format".to_owned());
        }
        let debug_link = file.gnu_debuglink().ok().flatten().and_then(|(name, sum)| {
            let name = std::str::from_utf8(name).ok()?;
            // A name with a way in it would lead anywhere.
            (!name.is_empty() && !name.contains('/')).then(|| (name.to_owned(), sum))
        });
        Ok(Image {
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec).unwrap_or_default(),
            debug_link,
            segments: code_segments(&file),
            symbols: symbols(&file),
            lines: Lines::load(&file),
        })
    }

    /// Whether it has debug information.
    pub fn has_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Whether it has functions at all.
    pub fn has_symbols(&self) -> bool {
        !self.symbols.is_empty()
    }

    /// The virtual address of a byte of the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let within = |segment: &&[u64; 4]| offset >= segment[0] && offset - segment[0] < segment[1];
        self.segments.iter().find(within).map(|[place, _, address, _]| offset - place + address)
    }

    /// Of a debug file, whose own places in the file mean nothing: the address of a byte of the first code page.
    pub fn address_behind(&self, bytes: u64) -> Option<u64> {
        const PAGE: u64 = 4095;
        let [_, _, address, size] = self.segments.first()?;
        let found = (address & !PAGE).checked_add(bytes)?;
        (found < address.checked_add(*size)?).then_some(found)
    }

    /// Functions and lines of an address, the innermost first.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        self.lines.as_ref().map_or_else(Vec::new, |lines| lines.frames(address))
    }

    /// The function that the symbol table has for it.
    pub fn symbol(&self, address: u64) -> Option<Frame> {
        let behind = self.symbols.partition_point(|(begin, _, _)| *begin <= address);
        let (begin, size, name) = self.symbols[..behind].last()?;
        let offset = address - begin;
        let is_inside = offset < *size || *size == 0;
        is_inside.then(|| Frame { function: demangle(name), offset: Some(offset), ..Frame::default() })
    }
}

fn code_segments(file: &object::File<'_>) -> Vec<[u64; 4]> {
    let mut found = Vec::new();
    match file {
        object::File::Elf64(elf) => {
            let endian = elf.endian();
            for header in elf.elf_program_headers() {
                if header.p_type(endian) == object::elf::PT_LOAD && header.p_flags(endian).contains(object::elf::PF_X) {
                    found.push([
                        header.p_offset(endian),
                        header.p_filesz(endian),
                        header.p_vaddr(endian),
                        header.p_memsz(endian),
                    ]);
                }
            }
        }
        _ => found.extend(file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            [offset, size, segment.address(), segment.size()]
        })),
    }
    found
}

fn symbols(file: &object::File<'_>) -> Vec<(u64, u64, String)> {
    let all = file.symbols().chain(file.dynamic_symbols());
    let code = all.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let named = code.filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())));
    let mut found: Vec<_> = named.filter(|(_, _, name)| !name.is_empty()).take(SYMBOLS_MAX).collect();
    // Of several names of one address the one with a size is kept, then the first.
    found.sort_by_key(|(address, size, _)| (*address, std::cmp::Reverse(*size)));
    found.dedup_by_key(|(address, _, _)| *address);
    found
}
