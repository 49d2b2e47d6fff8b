// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of a probe: from what people write to what the kernel fetches [spec/kernel.md 8.2].

use kymo_symbols::{Argument, ArgumentClass, ArgumentPlace};

/// One argument of `-U`, checked as far as that goes without the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// In the kernel's language, types translated.
    Kernel(String),
    /// A parameter of the function by its name, perhaps under another one, with a type or the parameter's own.
    Named { field: String, parameter: String, kind: Option<FetchType> },
    /// `$params`: all parameters of the function.
    All,
}

/// A type as the kernel calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchType {
    /// One of its own.
    Own(String),
    /// Text that a pointer leads to.
    Text,
}

impl Fetch {
    /// Whether the program's debug information is needed.
    pub fn is_by_name(&self) -> bool {
        !matches!(self, Fetch::Kernel(_))
    }
}

/// Reads one argument: `[NAME=]FETCH[:TYPE]` in the kernel's language, `[NAME=]PARAMETER[:TYPE]`, or `$params`.
pub fn parse(arg: &str) -> Result<Fetch, String> {
    if arg == "$params" {
        return Ok(Fetch::All);
    }
    let (field, rest) = match arg.split_once('=') {
        Some((field, rest)) if is_name(field) => (Some(field), rest),
        _ => (None, arg),
    };
    let (place, kind) = match rest.rsplit_once(':') {
        Some((place, kind)) => (place, Some(self::kind(kind)?)),
        None => (rest, None),
    };
    if is_name(place) {
        let field = field.unwrap_or(place).to_owned();
        return Ok(Fetch::Named { field, parameter: place.to_owned(), kind });
    }
    if !place.starts_with(['%', '$', '+', '-', '@', '\\']) {
        return Err(format!("{arg:?} is no argument: write NAME=%REGISTER:TYPE, or the name of a parameter"));
    }
    Ok(Fetch::Kernel(written(field, place, kind)))
}

fn written(field: Option<&str>, place: &str, kind: Option<FetchType>) -> String {
    let (place, kind) = match kind {
        None => (place.to_owned(), String::new()),
        Some(FetchType::Own(kind)) => (place.to_owned(), format!(":{kind}")),
        Some(FetchType::Text) => (format!("+0({place})"), ":string".to_owned()),
    };
    field.map_or_else(String::new, |field| format!("{field}=")) + &place + &kind
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The kernel's name of a type: `i32`, `int32_t` and `s32` are the same, as in events of programs [spec/event.md 1].
fn kind(text: &str) -> Result<FetchType, String> {
    let (name, array) = text.find('[').map_or((text, ""), |at| text.split_at(at));
    let own = match name {
        "str" if array.is_empty() => return Ok(FetchType::Text),
        "i8" | "int8_t" => "s8",
        "i16" | "int16_t" => "s16",
        "i32" | "int32_t" => "s32",
        "i64" | "int64_t" => "s64",
        "uint8_t" | "bool" => "u8",
        "uint16_t" => "u16",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        "f32" | "f64" | "float" | "double" => {
            return Err(format!("type {name}: the kernel fetches no floating-point numbers"));
        }
        "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64" | "x8" | "x16" | "x32" | "x64" | "char"
        | "string" | "ustring" | "symbol" | "symstr" => name,
        // A bit-field: b<width>@<offset>/<container>.
        _ if name.starts_with('b') && name.contains('@') => name,
        _ => {
            return Err(format!(
                "there is no type {name:?}: u8 to u64, s8 to s64 (or i8 to i64), x8 to x64, char, bool, and str for the text that a \
                 pointer leads to"
            ));
        }
    };
    Ok(FetchType::Own(format!("{own}{array}")))
}

/// Arguments in the kernel's language, and what was left out of `$params`.
///
/// # Errors
/// Why a parameter that was named cannot be fetched.
pub fn resolve(
    fetches: &[Fetch],
    parameters: impl FnOnce() -> Result<Vec<Argument>, String>,
) -> Result<(Vec<String>, Vec<String>), String> {
    let mut caveats = Vec::new();
    let is_named = fetches.iter().any(Fetch::is_by_name);
    let parameters = if is_named { parameters()? } else { Vec::new() };
    let mut resolved = Vec::new();
    for fetch in fetches {
        match fetch {
            Fetch::Kernel(text) => resolved.push(text.clone()),
            Fetch::Named { field, parameter, kind } => {
                let found = parameters.iter().find(|known| known.name == *parameter);
                let found = found.ok_or_else(|| unknown(parameter, &parameters))?;
                resolved.push(one(field, found, kind.clone()).map_err(|why| format!("parameter {parameter}: {why}"))?);
            }
            Fetch::All => {
                for (index, known) in parameters.iter().enumerate() {
                    let name = if is_name(&known.name) { known.name.clone() } else { format!("arg{}", index + 1) };
                    match one(&name, known, None) {
                        Ok(text) => resolved.push(text),
                        Err(why) => caveats.push(format!("parameter {name} is left out: {why}")),
                    }
                }
            }
        }
    }
    Ok((resolved, caveats))
}

fn unknown(parameter: &str, known: &[Argument]) -> String {
    let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).filter(|name| !name.is_empty()).collect();
    match names.is_empty() {
        true => format!("the function has no parameter {parameter:?}: it has none at all"),
        false => format!("the function has no parameter {parameter:?}; it has {}", names.join(", ")),
    }
}

fn one(field: &str, argument: &Argument, kind: Option<FetchType>) -> Result<String, String> {
    let own = match argument.class {
        ArgumentClass::Unsigned(bytes) => FetchType::Own(format!("u{}", 8 * u32::from(bytes))),
        ArgumentClass::Signed(bytes) => FetchType::Own(format!("s{}", 8 * u32::from(bytes))),
        ArgumentClass::Text => FetchType::Text,
        ArgumentClass::Pointer | ArgumentClass::ByReference => FetchType::Own("x64".to_owned()),
        ArgumentClass::Float => return Err("the kernel fetches no floating-point numbers".to_owned()),
        ArgumentClass::Other => return Err("it is a structure or the like, passed by value".to_owned()),
    };
    let place = match argument.place? {
        ArgumentPlace::Register(number) => {
            let name = register(number).ok_or("it is in a register that the kernel does not fetch")?;
            format!("%{name}")
        }
        ArgumentPlace::Stack(above) => format!("{above:+}(%sp)"),
    };
    Ok(written(Some(field), &place, Some(kind.unwrap_or(own))))
}

/// The kernel's name of a register of x86-64 by DWARF's number.
fn register(number: u16) -> Option<String> {
    const NAMES: [&str; 8] = ["ax", "dx", "cx", "bx", "si", "di", "bp", "sp"];
    match number {
        0..=7 => Some(NAMES[usize::from(number)].to_owned()),
        8..=15 => Some(format!("r{number}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Vec<Argument> {
        let argument = |name: &str, class, place| Argument { name: name.to_owned(), class, place: Ok(place) };
        vec![
            argument("n", ArgumentClass::Signed(4), ArgumentPlace::Register(5)),
            argument("text", ArgumentClass::Text, ArgumentPlace::Register(4)),
            argument("seventh", ArgumentClass::Unsigned(8), ArgumentPlace::Stack(8)),
            Argument { name: "x".to_owned(), class: ArgumentClass::Float, place: Err("floating") },
            argument("p", ArgumentClass::Pointer, ArgumentPlace::Register(8)),
        ]
    }

    #[test]
    fn arguments_for_the_kernel() {
        let check = |args: &str, expect: &[&str], caveats: usize| {
            let fetches: Vec<Fetch> = args.split(' ').map(|arg| parse(arg).unwrap()).collect();
            let (got, left_out) = resolve(&fetches, || Ok(parameters())).unwrap();
            assert_eq!(
                (got, left_out.len()),
                (expect.iter().map(|text| (*text).to_owned()).collect(), caveats),
                "{args}"
            );
        };
        check("a=%di:i32 %si:uint16_t $retval:str", &["a=%di:s32", "%si:u16", "+0($retval):string"], 0);
        check(
            "t=+8(%si):str x=+0(%cx):i16[4] b=%di:b4@2/32",
            &["t=+0(+8(%si)):string", "x=+0(%cx):s16[4]", "b=%di:b4@2/32"],
            0,
        );
        check("n text", &["n=%di:s32", "text=+0(%si):string"], 0);
        check("count=n:u8 text:x64 p:str", &["count=%di:u8", "text=%si:x64", "p=+0(%r8):string"], 0);
        check("$params", &["n=%di:s32", "text=+0(%si):string", "seventh=+8(%sp):u64", "p=%r8:x64"], 1);
    }

    #[test]
    fn what_cannot_be_fetched_says_why() {
        let check = |arg: &str, part: &str| {
            let why = parse(arg).and_then(|fetch| resolve(&[fetch], || Ok(parameters()))).unwrap_err();
            assert!(why.contains(part), "{arg}: {why}");
        };
        check("m", "n, text, seventh, x, p");
        check("x", "floating");
        check("n:i128", "i128");
        check("5", "no argument");
        check("n:double", "floating");
        let none = resolve(&[Fetch::All], || Err("no debug information".to_owned()));
        assert_eq!(none.unwrap_err(), "no debug information");
    }
}
