// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a program can be probed, for people who look for it.

use std::path::Path;

use super::binary::Binary;
use super::error::ProbeError;
use crate::Error;

/// A USDT probe of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtPlace {
    /// `PROVIDER:NAME`, as `-U` takes it.
    pub name: String,
    /// Sites in the code.
    pub sites: usize,
    /// Arguments as the first site's note has them: `SIZE@OPERAND`.
    pub args: String,
}

/// Places in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// In the order of their names.
    pub usdt: Vec<UsdtPlace>,
    /// Functions as they were written, without parameters; in order, each name once.
    pub functions: Vec<String>,
}

/// The places of a file. Files that no probe can be set in are an error.
pub fn places(path: &Path) -> Result<Places, Error> {
    let binary = Binary::open(path)?;
    let notes = match binary.usdt() {
        Err(ProbeError::NoUsdt { .. }) => Vec::new(),
        notes => notes?,
    };
    let mut usdt: Vec<UsdtPlace> = Vec::new();
    for note in notes {
        let name = format!("{}:{}", note.provider, note.name);
        match usdt.iter_mut().find(|known| known.name == name) {
            Some(known) => known.sites += 1,
            None => usdt.push(UsdtPlace { name, sites: 1, args: note.args }),
        }
    }
    usdt.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Places { usdt, functions: binary.all_functions()? })
}
