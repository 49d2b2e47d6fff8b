// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a mapping to the file with its functions: by build id, by path, by the name of the debug file.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::image::Image;
use crate::missing::Missing;
use crate::{Files, Frame, Mapping};

/// Where systems keep debug files.
const DEBUG_DIR: &str = "/usr/lib/debug";
/// Files that are kept open at a time; what goes is read again.
const FILES_MAX: usize = 256;

/// The file itself and its separate debug file: whichever was found.
#[derive(Clone, Default)]
struct Images {
    own: Option<Rc<Image>>,
    debug: Option<Rc<Image>>,
}

impl Images {
    /// The debug file first: it has all that the file itself has, or more.
    fn images(&self) -> impl Iterator<Item = &Rc<Image>> {
        [&self.debug, &self.own].into_iter().flatten()
    }

    fn symbol(&self, place: u64) -> Option<Frame> {
        self.images().find_map(|image| image.symbol(place))
    }
}

type Key = (String, Vec<u8>);

/// Functions and lines of programs' addresses.
pub struct Symbols<F> {
    files: F,
    known: RefCell<HashMap<Key, Result<Images, Missing>>>,
}

impl<F: Files> Symbols<F> {
    /// With nothing read yet.
    pub fn new(files: F) -> Symbols<F> {
        Symbols { files, known: RefCell::default() }
    }

    /// The functions at an address, the innermost inlined one first. `is_return`: it is where a call returns to, and
    /// what is asked for is the call in front of it.
    ///
    /// # Errors
    /// [`Missing`], with the reason.
    pub fn find(&self, mapping: &Mapping, address: u64, is_return: bool) -> Result<Vec<Frame>, Missing> {
        let (found, place) = self.place(mapping, address.saturating_sub(u64::from(is_return)))?;
        let frames = found.images().map(|image| image.frames(place)).find(|frames| !frames.is_empty());
        let symbol = || found.symbol(place).map(|frame| vec![frame]);
        frames.or_else(symbol).ok_or_else(|| Missing::NoSymbol { path: mapping.path.clone() })
    }

    /// The function at an address by the symbol table, with the offset in it: without what was inlined into it, and
    /// without lines.
    ///
    /// # Errors
    /// [`Missing`], with the reason.
    pub fn function(&self, mapping: &Mapping, address: u64) -> Result<Frame, Missing> {
        let (found, place) = self.place(mapping, address)?;
        found.symbol(place).ok_or_else(|| Missing::NoSymbol { path: mapping.path.clone() })
    }

    /// The same of an address as the file itself counts them, where the process has told no more than what it added to
    /// them. No build is held against another.
    ///
    /// # Errors
    /// [`Missing`], with the reason.
    pub fn function_of_file(&self, path: &str, address: u64) -> Result<Frame, Missing> {
        let whole = Mapping { start: 0, end: u64::MAX, offset: 0, path: path.to_owned(), build_id: Vec::new() };
        self.file(&whole)?.symbol(address).ok_or_else(|| Missing::NoSymbol { path: path.to_owned() })
    }

    /// The file behind a mapping, and the address as the file counts it.
    fn place(&self, mapping: &Mapping, address: u64) -> Result<(Images, u64), Missing> {
        if address < mapping.start || address >= mapping.end {
            return Err(Missing::NotMapped);
        }
        let found = self.file(mapping)?;
        let behind = address - mapping.start;
        let own = found.own.as_ref().and_then(|image| image.address_of(behind.checked_add(mapping.offset)?));
        let place = own.or_else(|| found.debug.as_ref().and_then(|image| image.address_behind(behind)));
        Ok((found, place.ok_or_else(|| Missing::NoSymbol { path: mapping.path.clone() })?))
    }

    fn file(&self, mapping: &Mapping) -> Result<Images, Missing> {
        let key = (mapping.path.clone(), mapping.build_id.clone());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let found = self.search(mapping);
        let mut known = self.known.borrow_mut();
        if known.len() >= FILES_MAX {
            known.clear();
        }
        known.insert(key, found.clone());
        found
    }

    fn search(&self, mapping: &Mapping) -> Result<Images, Missing> {
        let own = self.own(mapping);
        let mut found = Images { own: own.as_ref().ok().cloned(), debug: None };
        let has_lines = found.own.as_ref().is_some_and(|image| image.has_lines());
        if !has_lines {
            found.debug = self.debug(mapping, found.own.as_deref());
        }
        match (own, &found.debug) {
            (Err(missing), None) => Err(missing),
            _ => Ok(found),
        }
    }

    /// The file at its path, if it is the one that was mapped.
    fn own(&self, mapping: &Mapping) -> Result<Rc<Image>, Missing> {
        let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path).to_owned();
        if path != mapping.path && mapping.build_id.is_empty() {
            // What has the path now is another file.
            return Err(Missing::Deleted { path });
        }
        let bytes = if path.starts_with('/') { self.files.read(Path::new(&path)) } else { None };
        let Some(bytes) = bytes else { return Err(Missing::NoFile { path }) };
        let image = Image::parse(&bytes).map_err(|why| Missing::Broken { path: path.clone(), why })?;
        let wanted = hex(&mapping.build_id);
        match (mapping.build_id.is_empty(), image.build_id.is_empty()) {
            // Nothing to hold against: the trace's kernel or machine did not tell it.
            (true, _) => Ok(Rc::new(image)),
            (false, true) => Err(Missing::NoBuildId { path, wanted }),
            _ if image.build_id == mapping.build_id => Ok(Rc::new(image)),
            _ => Err(Missing::OtherBuild { path, found: hex(&image.build_id), wanted }),
        }
    }

    /// The debug file: by build id, or by the name that the file itself gives.
    fn debug(&self, mapping: &Mapping, own: Option<&Image>) -> Option<Rc<Image>> {
        let id = own.map_or(&mapping.build_id, |image| &image.build_id);
        let by_id = (id.len() > 1).then(|| {
            let hex = hex(id);
            PathBuf::from(format!("{DEBUG_DIR}/.build-id/{}/{}.debug", &hex[..2], &hex[2..]))
        });
        let link = own.and_then(|image| image.debug_link.clone());
        let by_name = link.iter().flat_map(|(name, _)| {
            let dir = Path::new(&mapping.path).parent().unwrap_or(Path::new("/"));
            let below = dir.strip_prefix("/").unwrap_or(dir);
            [dir.join(name), dir.join(".debug").join(name), Path::new(DEBUG_DIR).join(below).join(name)]
        });
        for path in by_id.into_iter().chain(by_name) {
            let Some(bytes) = self.files.read(&path) else { continue };
            let Ok(image) = Image::parse(&bytes) else { continue };
            // A build id decides; without one the checksum of the whole file does.
            let is_same = match id.is_empty() {
                false => image.build_id == *id,
                true => link.as_ref().is_some_and(|(_, sum)| checksum(&bytes) == *sum),
            };
            if is_same && (image.has_lines() || image.has_symbols()) {
                return Some(Rc::new(image));
            }
        }
        None
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// CRC-32 as in `.gnu_debuglink`.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}
