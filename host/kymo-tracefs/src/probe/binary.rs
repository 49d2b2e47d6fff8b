// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's file: functions, USDT notes, and where in the file an address is. Nothing in the file is trusted.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::elf::{EM_X86_64, PF_X, PT_LOAD, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::read::elf::{ElfFile64, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind, Object, ObjectSection, ObjectSymbol, ReadCache};

use super::error::ProbeError;
use super::hazard;
use super::names::WantedSymbol;
use super::sdt::{self, Note};

type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// Where distributions put the symbols of stripped programs.
const DEBUG_ROOT: &str = "/usr/lib/debug/.build-id";

/// An ELF file that is open for reading.
pub struct Binary {
    path: PathBuf,
    cache: ReadCache<File>,
}

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// As the program headers count, not a place in the file.
    pub address: u64,
    /// As it was written, without parameters.
    pub name: String,
    /// 0 if the symbol does not say.
    pub bytes: u64,
    /// It only chooses another (ifunc).
    pub indirect: bool,
}

/// The outcome of a search for a name.
pub struct Functions {
    /// Those that are meant, each place once.
    pub found: Vec<Function>,
    /// All symbols; empty if `found` is not.
    pub names: Vec<String>,
    /// Neither the program nor its debug file has a symbol table.
    pub stripped: bool,
}

impl Binary {
    /// Links in `path` are resolved. Files other than 64-bit ELF are an error.
    pub fn open(path: &Path) -> Result<Binary, ProbeError> {
        let unreadable = |source| ProbeError::Unreadable { path: path.to_owned(), source };
        let path = std::fs::canonicalize(path).map_err(unreadable)?;
        let unreadable = |source| ProbeError::Unreadable { path: path.clone(), source };
        if !std::fs::metadata(&path).map_err(unreadable)?.is_file() {
            return Err(ProbeError::NotProgram { path, why: "not a regular file".to_owned() });
        }
        let cache = ReadCache::new(File::open(&path).map_err(unreadable)?);
        let why = match FileKind::parse(&cache) {
            Ok(FileKind::Elf64) => None,
            Ok(FileKind::Elf32) => Some("a 32-bit program"),
            _ => Some("not an ELF file"),
        };
        match why {
            None => Ok(Binary { path, cache }),
            Some(why) => Err(ProbeError::NotProgram { path, why: why.to_owned() }),
        }
    }

    /// With links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its arguments are in the registers of x86-64.
    pub fn is_x86_64(&self) -> bool {
        self.elf().is_ok_and(|elf| elf.elf_header().e_machine.get(elf.endian()) == EM_X86_64)
    }

    /// The functions that `name` means in `.symtab`, `.dynsym`, and the debug file of the same build id.
    pub fn functions(&self, name: &str) -> Result<Functions, ProbeError> {
        let elf = self.elf()?;
        let mut search = SymbolTableSearch {
            wanted: WantedSymbol::new(name),
            found: Vec::new(),
            names: BTreeSet::new(),
            has_table: false,
        };
        search.look(&elf);
        if let Some(debug) = debug_path(&elf).and_then(|path| File::open(path).ok()).map(ReadCache::new) {
            if let Ok(debug) = Elf::parse(&debug) {
                search.look(&debug);
            }
        }
        let mut found = search.found;
        // One table may know the size and another not; of several names the first is kept.
        found.sort_by(|a, b| (a.address, b.bytes, &a.name).cmp(&(b.address, a.bytes, &b.name)));
        found.dedup_by_key(|function| function.address);
        let names = if found.is_empty() { search.names.into_iter().collect() } else { Vec::new() };
        Ok(Functions { found, names, stripped: !search.has_table })
    }

    /// Every function that a probe can be set at, by name, and how many symbols of code that is; each name once.
    pub fn all_functions(&self) -> Result<Vec<String>, ProbeError> {
        let functions = self.functions("*")?;
        let mut names: Vec<String> = functions.found.into_iter().filter(|f| !f.indirect).map(|f| f.name).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Why a probe at a return can crash the program.
    pub fn return_hazard(&self) -> Result<Option<String>, ProbeError> {
        Ok(hazard::of_returns(&self.elf()?))
    }

    /// The arguments of the function at `address`, from the file's debug information or its debug file's.
    pub fn arguments(&self, address: u64) -> Result<Vec<kymo_symbols::Argument>, String> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let elf = self.elf().map_err(|error| error.to_string())?;
        let own = elf.section_by_name(".debug_info").is_some();
        let path = debug_path(&elf).filter(|path| !own && path.is_file()).unwrap_or_else(|| self.path.clone());
        kymo_symbols::arguments(&read(&path)?, address)
    }

    /// All USDT notes, with the addresses moved as prelink moved the program. None is an error.
    pub fn usdt(&self) -> Result<Vec<Note>, ProbeError> {
        let elf = self.elf()?;
        let damaged = |error: object::Error| self.damaged(error);
        let base = elf.section_by_name(".stapsdt.base").map(|section| section.address());
        let mut found = Vec::new();
        for section in elf.sections().filter(|section| section.name() == Ok(".note.stapsdt")) {
            let Some(mut notes) = section.elf_section_header().notes(elf.endian(), elf.data()).map_err(damaged)? else {
                continue;
            };
            while let Some(note) = notes.next().map_err(damaged)? {
                if note.name() != b"stapsdt" || note.n_type(elf.endian()) != object::elf::NoteType(sdt::NOTE_TYPE) {
                    continue;
                }
                let little = elf.endian() == Endianness::Little;
                let parsed = sdt::parse_note(note.desc(), little, base);
                found.push(parsed.ok_or_else(|| self.not_program("a USDT note is damaged".to_owned()))?);
            }
        }
        match found.is_empty() {
            true => Err(ProbeError::NoUsdt { path: self.path.clone() }),
            false => Ok(found),
        }
    }

    /// Where in the file the code at `address` is. `what` is for the error.
    pub fn code_offset(&self, address: u64, what: &str) -> Result<u64, ProbeError> {
        self.offset(address, what, true)
    }

    /// Where in the file the data at `address` is.
    pub fn data_offset(&self, address: u64, what: &str) -> Result<u64, ProbeError> {
        self.offset(address, what, false)
    }

    fn offset(&self, address: u64, what: &str, code: bool) -> Result<u64, ProbeError> {
        let elf = self.elf()?;
        let endian = elf.endian();
        let within = elf.elf_program_headers().iter().find_map(|header| {
            let right = header.p_type(endian) == PT_LOAD && header.p_flags(endian).contains(PF_X) == code;
            let inside = address.checked_sub(header.p_vaddr(endian))?;
            (right && inside < header.p_filesz(endian)).then(|| header.p_offset(endian).checked_add(inside))?
        });
        within.ok_or_else(|| ProbeError::NotLoaded {
            path: self.path.clone(),
            what: what.to_owned(),
            address,
            as_what: if code { "as code" } else { "as data" },
        })
    }

    fn elf(&self) -> Result<Elf<'_>, ProbeError> {
        Elf::parse(&self.cache).map_err(|error| self.damaged(error))
    }

    fn damaged(&self, error: object::Error) -> ProbeError {
        self.not_program(format!("damaged ELF file ({error})"))
    }

    fn not_program(&self, why: String) -> ProbeError {
        ProbeError::NotProgram { path: self.path.clone(), why }
    }
}

/// Collects symbols from several tables.
struct SymbolTableSearch<'a> {
    wanted: WantedSymbol<'a>,
    found: Vec<Function>,
    names: BTreeSet<String>,
    has_table: bool,
}

impl SymbolTableSearch<'_> {
    fn look(&mut self, elf: &Elf<'_>) {
        self.has_table |=
            elf.symbol_table().is_some_and(|table| object::ObjectSymbolTable::symbols(&table).count() > 0);
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            let kind = symbol.elf_symbol().st_type();
            // Assembly may leave the type away; whether the place is code is looked at later.
            if symbol.is_undefined() || ![STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE].contains(&kind) {
                continue;
            }
            // Names that are not UTF-8 cannot be asked for. Versions follow an at sign.
            let Ok(name) = symbol.name() else { continue };
            let name = name.split('@').next().unwrap_or_default();
            // A pattern means functions only, not any mark in the code.
            let is_sure = kind != STT_NOTYPE && !name.is_empty();
            let meant = if is_sure || !self.wanted.is_pattern() { self.wanted.meant(name) } else { None };
            if let Some(meant) = meant {
                let indirect = kind == STT_GNU_IFUNC;
                self.found.push(Function { address: symbol.address(), name: meant, bytes: symbol.size(), indirect });
            } else if is_sure {
                self.names.insert(name.to_owned());
            }
        }
    }
}

/// The separate file of debug symbols, named by the build id.
fn debug_path(elf: &Elf<'_>) -> Option<PathBuf> {
    let id = elf.build_id().ok()??;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (first, rest) = id.split_first()?;
    Some(Path::new(DEBUG_ROOT).join(hex(&[*first])).join(format!("{}.debug", hex(rest))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_its_own_functions() {
        let binary = Binary::open(&std::env::current_exe().unwrap()).unwrap();
        let main = binary.functions("main").unwrap();
        assert_eq!(main.found.len(), 1);
        assert!(binary.code_offset(main.found[0].address, "main").unwrap() > 0);
        assert!(binary.data_offset(main.found[0].address, "main").is_err());
        let none = binary.functions("no_such_function_here").unwrap();
        assert!(none.found.is_empty() && !none.stripped && none.names.contains(&"main".to_owned()));
        assert!(matches!(binary.usdt(), Err(ProbeError::NoUsdt { .. }) | Ok(_)));
    }

    #[test]
    fn files_that_are_no_programs() {
        let folder = tempfile::tempdir().unwrap();
        let check = |bytes: &[u8], part: &str| {
            let path = folder.path().join("file");
            std::fs::write(&path, bytes).unwrap();
            let error = Binary::open(&path).and_then(|binary| binary.functions("main")).err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        };
        check(b"#!/bin/sh\n", "not an ELF file");
        check(b"", "not an ELF file");
        let mut elf = std::fs::read("/proc/self/exe").unwrap();
        elf.truncate(64);
        check(&elf, "damaged");
        check(b"\x7fELF\x01\x01\x01aaaaaaaaaaaaaaaaaaa", "32-bit");
        assert!(Binary::open(folder.path()).is_err());
    }

    #[test]
    fn a_damaged_file_is_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let whole = std::fs::read("/bin/true").unwrap();
        let path = folder.path().join("file");
        let mut seed = 1_u64;
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..20 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = usize::try_from(seed >> 33).unwrap() % 4096;
                let at = if seed & 1 == 0 { at % 1024 } else { bytes.len() - 1 - at % 2048 };
                bytes[at] = (seed >> 20) as u8;
            }
            std::fs::write(&path, &bytes).unwrap();
            let Ok(binary) = Binary::open(&path) else { continue };
            let _ = binary.usdt();
            if let Ok(functions) = binary.functions("main") {
                functions.found.iter().for_each(|function| drop(binary.code_offset(function.address, "main")));
            }
        }
    }
}
