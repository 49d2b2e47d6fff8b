//! Probes in programs: what `-U` asks for, and the places in files that it means [spec/kernel.md 8].

mod binary;
mod error;
mod register;
mod sdt;

use std::path::{Path, PathBuf};

use binary::Binary;
pub use error::ProbeError;
pub(crate) use register::add;

use crate::Error;
use crate::near::near;

/// What one `-U` asks for, before any file was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    binary: PathBuf,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Function { name: String, offset: u64, at_return: bool, args: Vec<String> },
    Usdt { provider: String, name: String },
}

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

/// Reads `BINARY:FUNCTION[+OFFSET][%return] [ARGS]` or `BINARY:PROVIDER:NAME`. ARGS are the kernel's fetch arguments,
/// separated by spaces. BINARY has no colon (a link can stand for one that has).
pub fn parse_probe(arg: &str) -> Result<ProbeSpec, Error> {
    parse(arg).map_err(|why| ProbeError::Syntax { argument: arg.to_owned(), why }.into())
}

fn parse(arg: &str) -> Result<ProbeSpec, &'static str> {
    let (binary, rest) = arg.split_once(':').ok_or("there is no colon")?;
    if binary.is_empty() {
        return Err("the program is missing");
    }
    let rest = rest.trim();
    let (place, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    // The kernel takes the first for a comment and the others for the end of its line.
    if args.iter().any(|arg| arg.chars().any(|char| char == '#' || char.is_control())) {
        return Err("an argument has a '#' or a control character");
    }
    let place = match place.split_once(':') {
        Some(_) if !args.is_empty() => return Err("the arguments of a USDT probe come from the program"),
        Some((provider, name)) => usdt(provider, name)?,
        None => function(place, args)?,
    };
    Ok(ProbeSpec { binary: PathBuf::from(binary), place })
}

fn usdt(provider: &str, name: &str) -> Result<Place, &'static str> {
    match (provider, name) {
        ("", _) | (_, "") => Err("the provider or the name of the probe is missing"),
        _ if name.contains(':') => Err("there is a colon too many (C++ functions are called by their mangled names)"),
        _ if name.ends_with("%return") => Err("a USDT probe has no return"),
        _ => Ok(Place::Usdt { provider: provider.to_owned(), name: name.to_owned() }),
    }
}

fn function(place: &str, args: Vec<String>) -> Result<Place, &'static str> {
    let (place, at_return) = match place.split_once('%') {
        None => (place, false),
        Some((place, "return")) => (place, true),
        Some(_) => return Err("only %return may follow the function"),
    };
    let (name, offset) = match place.split_once('+') {
        None => (place, 0),
        Some((name, offset)) => (name, number(offset).ok_or("the offset is not a number")?),
    };
    if name.is_empty() {
        return Err("the function is missing");
    }
    if at_return && offset > 0 {
        return Err("a return has no offset");
    }
    Ok(Place::Function { name: name.to_owned(), offset, at_return, args })
}

/// Decimal, or hexadecimal behind `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl ProbeSpec {
    /// Finds the places in the program: one for a function (several if it has several of that name), each site of a
    /// USDT probe. At least one, else an error with near names.
    pub fn resolve(&self) -> Result<Vec<Probe>, Error> {
        let binary = Binary::open(&self.binary)?;
        let probes = match &self.place {
            Place::Function { name, offset, at_return, args } => {
                function_probes(&binary, name, *offset, *at_return, args)?
            }
            Place::Usdt { provider, name } => usdt_probes(&binary, provider, name)?,
        };
        Ok(probes)
    }
}

fn function_probes(
    binary: &Binary,
    name: &str,
    offset: u64,
    at_return: bool,
    args: &[String],
) -> Result<Vec<Probe>, ProbeError> {
    let functions = binary.functions(name)?;
    let path = || binary.path().to_owned();
    if functions.found.is_empty() {
        let near = near(name, functions.names.iter().map(|name| (name.clone(), vec![name.as_str()])));
        let function = name.to_owned();
        return Err(match functions.stripped {
            true => ProbeError::Stripped { path: path(), function, exported: functions.names.len(), near },
            false => ProbeError::UnknownFunction { path: path(), function, near },
        });
    }
    let mut probes = Vec::new();
    for function in &functions.found {
        let named = name.to_owned();
        if function.indirect {
            return Err(ProbeError::Indirect { path: path(), function: named });
        }
        if offset > 0 && function.bytes > 0 && offset >= function.bytes {
            return Err(ProbeError::OffsetOutside { path: path(), function: named, bytes: function.bytes, offset });
        }
        let address = function.address.saturating_add(offset);
        probes.push(Probe {
            event: event_name(name, offset, at_return),
            origin: format!("{}:{name}+{offset}", binary.path().display()),
            binary: path(),
            offset: binary.code_offset(address, name)?,
            at_return,
            semaphore_offset: None,
            args: args.to_vec(),
            caveats: Vec::new(),
        });
    }
    Ok(probes)
}

fn usdt_probes(binary: &Binary, provider: &str, name: &str) -> Result<Vec<Probe>, ProbeError> {
    let notes = binary.usdt()?;
    let full = format!("{provider}:{name}");
    let mut probes: Vec<Probe> = Vec::new();
    for note in notes.iter().filter(|note| note.provider == provider && note.name == name) {
        let fetched = sdt::fetch(&note.args, binary.is_x86_64());
        let semaphore_offset = match note.semaphore {
            0 => None,
            address => Some(binary.data_offset(address, &full)?),
        };
        let probe = Probe {
            event: event_name(name, 0, false),
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
        let names: Vec<String> = notes.iter().map(|note| format!("{}:{}", note.provider, note.name)).collect();
        let near = near(&full, names.iter().zip(&notes).map(|(full, note)| (full.clone(), vec![&**full, &note.name])));
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
    fn both_forms() {
        let function = |name: &str, offset, at_return, args: &[&str]| Place::Function {
            name: name.to_owned(),
            offset,
            at_return,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        };
        let check = |arg: &str, binary: &str, place: Place| {
            assert_eq!(parse_probe(arg).unwrap(), ProbeSpec { binary: PathBuf::from(binary), place }, "{arg}");
        };
        check("./x:work", "./x", function("work", 0, false, &[]));
        check("/a b/x:work+0x10", "/a b/x", function("work", 16, false, &[]));
        check(
            "x:work+8 a=%di:s32  b=+8(%si):string",
            "x",
            function("work", 8, false, &["a=%di:s32", "b=+8(%si):string"]),
        );
        check("x:work%return r=$retval", "x", function("work", 0, true, &["r=$retval"]));
        check("x:app:go", "x", Place::Usdt { provider: "app".into(), name: "go".into() });
    }

    #[test]
    fn what_cannot_be_understood() {
        let check = |arg: &str, part: &str| {
            let message = parse_probe(arg).unwrap_err().to_string();
            assert!(message.contains(part), "{arg}: {message}");
        };
        check("x", "no colon");
        check(":f", "program is missing");
        check("x:", "function is missing");
        check("x:+3", "function is missing");
        check("x:f+y", "offset");
        check("x:f%exit", "%return");
        check("x:f+1%return", "no offset");
        check("x:p:n a=%di", "come from the program");
        check("x:p:n%return", "no return");
        check("x:a::b", "mangled");
        check("x::n", "missing");
        check("x:f a=%di#", "'#'");
    }

    #[test]
    fn names_of_events_are_identifiers() {
        assert_eq!(event_name("work", 0, false), "work");
        assert_eq!(event_name("work.part.0", 0, true), "work_part_0_return");
        assert_eq!(event_name("work", 16, false), "work_0x10");
        assert_eq!(event_name("7up", 0, false), "_7up");
        assert_eq!(event_name(&"x".repeat(300), u64::MAX, false).len(), EVENT_NAME_MAX);
    }

    proptest::proptest! {
        #[test]
        fn no_argument_panics(arg in "\\PC{0,30}", hard in "[a:+%# x0]{0,16}") {
            let _ = (parse_probe(&arg), parse_probe(&hard));
        }
    }
}
