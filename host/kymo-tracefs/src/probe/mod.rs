// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes in programs: what `-U` asks for, and the places in files that it means [spec/kernel.md 8].

mod binary;
mod error;
mod fetch;
mod hazard;
mod names;
mod parse;
mod places;
mod register;
mod sdt;
mod spec;

use std::path::{Path, PathBuf};

use binary::{Binary, Function};
pub use error::ProbeError;
use fetch::Fetch;
use kymo_names::glob_matches;
pub use places::{Places, UsdtPlace, places};
pub(crate) use register::add;
pub use spec::ProbeSpec;
use spec::ProbeTarget;

use crate::Error;
use crate::near::NEAR;

/// Functions that one `-U` may mean: each is a line for the kernel, and an event of its own.
const FUNCTIONS_MAX: usize = 512;
/// Names that are shown where there are too many.
const NAMES_SHOWN: usize = 5;

/// One place in one file, ready to be given to the kernel. Several may belong to one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What the event is to be called. Names get a suffix where they meet.
    event: String,
    /// Probes with one origin, and arguments of the same names and types, share an event.
    origin: String,
    binary: PathBuf,
    /// Where the code is in the file.
    offset: u64,
    at_return: bool,
    /// Where in the file the semaphore is that the kernel counts up while the probe is on.
    semaphore_offset: Option<u64>,
    args: Vec<String>,
    caveats: Vec<String>,
}

impl Probe {
    /// The name of its event, before a suffix may be added.
    pub fn event(&self) -> &str {
        &self.event
    }

    /// The file, with links resolved.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Where the code is in the file, bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What was left out and why: arguments that the kernel cannot fetch.
    pub fn caveats(&self) -> &[String] {
        &self.caveats
    }
}

/// Reads `BINARY:FUNCTION[+OFFSET][%return] [ARGS]` or `BINARY:PROVIDER:NAME` [spec/kernel.md 8]. BINARY has no colon
/// (a link can stand for one that has).
pub fn parse_probe(arg: &str) -> Result<ProbeSpec, Error> {
    parse::parse(arg).map_err(|why| ProbeError::Syntax { argument: arg.to_owned(), why }.into())
}

impl ProbeSpec {
    /// Finds the places in the program: those of each function that is meant (several if it has several of a name),
    /// each site of a USDT probe. At least one, else an error with near names.
    pub fn resolve(&self) -> Result<Vec<Probe>, Error> {
        let binary = Binary::open(&self.binary)?;
        let probes = match &self.place {
            ProbeTarget::Function { name, offset, at_return, args } => {
                let found = wanted_functions(&binary, name)?;
                self.check_return(&binary, name)?;
                let probe = |function| function_probe(&binary, function, *offset, *at_return, args);
                found.iter().map(probe).collect::<Result<Vec<_>, _>>()?
            }
            ProbeTarget::Usdt { provider, name } => usdt_probes(&binary, provider, name)?,
        };
        Ok(probes)
    }

    fn check_return(&self, binary: &Binary, name: &str) -> Result<(), ProbeError> {
        if self.force || !matches!(self.place, ProbeTarget::Function { at_return: true, .. }) {
            return Ok(());
        }
        match binary.return_hazard()? {
            None => Ok(()),
            Some(why) => Err(ProbeError::Hazard { path: binary.path().to_owned(), function: name.to_owned(), why }),
        }
    }
}

/// The functions that `name` means: at least one, none that only chooses another, and not too many.
fn wanted_functions(binary: &Binary, name: &str) -> Result<Vec<Function>, ProbeError> {
    let functions = binary.functions(name)?;
    let path = || binary.path().to_owned();
    let function = name.to_owned();
    if functions.found.is_empty() {
        let written: Vec<String> = functions.names.iter().map(|name| names::shown(name)).collect();
        let called = functions.names.iter().zip(&written);
        let near =
            NEAR.of(name, called.map(|(symbol, written)| (written.clone(), [symbol.as_str(), written.as_str()])));
        return Err(match functions.stripped {
            true => ProbeError::Stripped { path: path(), function, exported: functions.names.len(), near },
            false => ProbeError::UnknownFunction { path: path(), function, near },
        });
    }
    let mut found = functions.found;
    // Of many that a pattern means, those that do the work.
    if found.iter().any(|function| !function.indirect) {
        found.retain(|function| !function.indirect);
    } else {
        return Err(ProbeError::Indirect { path: path(), function });
    }
    if found.len() > FUNCTIONS_MAX {
        let some = found.iter().map(|function| function.name.clone()).take(NAMES_SHOWN).collect();
        let (count, limit) = (found.len(), FUNCTIONS_MAX);
        return Err(ProbeError::TooManyFunctions { path: path(), function, found: count, limit, some });
    }
    Ok(found)
}

fn function_probe(
    binary: &Binary,
    function: &Function,
    offset: u64,
    at_return: bool,
    args: &[Fetch],
) -> Result<Probe, ProbeError> {
    let path = || binary.path().to_owned();
    let name = &function.name;
    if offset > 0 && function.bytes > 0 && offset >= function.bytes {
        return Err(ProbeError::OffsetOutside { path: path(), function: name.clone(), bytes: function.bytes, offset });
    }
    let resolved = fetch::resolve(args, || binary.arguments(function.address));
    let (args, caveats) = resolved.map_err(|why| ProbeError::Argument { path: path(), function: name.clone(), why })?;
    Ok(Probe {
        event: event_name(name, offset, at_return),
        origin: format!("{}:{name}+{offset}", binary.path().display()),
        binary: path(),
        offset: binary.code_offset(function.address.saturating_add(offset), name)?,
        at_return,
        semaphore_offset: None,
        args,
        caveats: caveats.into_iter().map(|caveat| format!("{name}: {caveat}")).collect(),
    })
}

fn usdt_probes(binary: &Binary, provider: &str, name: &str) -> Result<Vec<Probe>, ProbeError> {
    let notes = binary.usdt()?;
    let mut probes: Vec<Probe> = Vec::new();
    let is_meant = |note: &sdt::Note| {
        let is = |wanted: &str, have: &str| wanted == have || glob_matches(wanted, have);
        is(provider, &note.provider) && is(name, &note.name)
    };
    for note in notes.iter().filter(|note| is_meant(note)) {
        let full = format!("{}:{}", note.provider, note.name);
        let fetched = sdt::fetch(&note.args, binary.is_x86_64());
        let semaphore_offset = match note.semaphore {
            0 => None,
            address => Some(binary.data_offset(address, &full)?),
        };
        let probe = Probe {
            event: event_name(&note.name, 0, false),
            origin: format!("{}:{full}", binary.path().display()),
            binary: binary.path().to_owned(),
            offset: binary.code_offset(note.address, &full)?,
            at_return: false,
            semaphore_offset,
            args: fetched.args,
            caveats: fetched.caveats.iter().map(|caveat| format!("{full}: {caveat}")).collect(),
        };
        if !probes.contains(&probe) {
            probes.push(probe);
        }
    }
    if probes.is_empty() {
        let full = format!("{provider}:{name}");
        let names: Vec<String> = notes.iter().map(|note| format!("{}:{}", note.provider, note.name)).collect();
        let near = NEAR.of(&full, names.iter().zip(&notes).map(|(full, note)| (full.clone(), [&**full, &note.name])));
        return Err(ProbeError::UnknownUsdt { path: binary.path().to_owned(), probe: full, near });
    }
    Ok(probes)
}

/// Longest name that leaves room for a suffix in the kernel's 63 characters.
const EVENT_NAME_MAX: usize = 56;

/// A name as the kernel takes it: a C identifier.
fn event_name(name: &str, offset: u64, at_return: bool) -> String {
    let mut event: String =
        name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).take(EVENT_NAME_MAX).collect();
    if event.starts_with(|char: char| char.is_ascii_digit()) {
        event.insert(0, '_');
    }
    let suffix = match (offset, at_return) {
        (_, true) => "_return".to_owned(),
        (0, false) => String::new(),
        (offset, false) => format!("_{offset:#x}"),
    };
    event.truncate(EVENT_NAME_MAX.saturating_sub(suffix.len()));
    event + &suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_identifiers() {
        assert_eq!(event_name("work", 0, false), "work");
        assert_eq!(event_name("work.part.0", 0, true), "work_part_0_return");
        assert_eq!(event_name("work", 16, false), "work_0x10");
        assert_eq!(event_name("7up", 0, false), "_7up");
        assert_eq!(event_name("motor::step", 0, false), "motor__step");
        assert_eq!(event_name(&"x".repeat(300), u64::MAX, false).len(), EVENT_NAME_MAX);
    }
}
