// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of a function at its entry, from DWARF: names, types, and the register or place on the stack of each.
//! x86-64.
//!
//! Optimised code says where each argument is at the first instruction. Code without optimisation says where it will be
//! once the function has stored it; there the calling convention of C decides, as far as the types before it allow.

use std::rc::Rc;

use addr2line::gimli::{
    self, AttributeValue, Dwarf, DwarfSections, EndianSlice, Operation, RunTimeEndian, SectionId, Unit, UnitOffset,
    constants as dw,
};
use object::Object as _;

use crate::section;

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// Registers of integer arguments, as DWARF numbers them: rdi, rsi, rdx, rcx, r8, r9.
const INTEGER_REGISTERS: [u16; 6] = [5, 4, 1, 2, 8, 9];
/// rbp and rsp.
const BASE_POINTER: u16 = 6;
const STACK_POINTER: u16 = 7;
/// Steps from an entry to the one that has what it lacks.
const CHAIN_MAX: usize = 16;

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// As it was written.
    pub name: String,
    /// What it is.
    pub class: ArgumentClass,
    /// Where it is at the function's first instruction, or why that is not known.
    pub place: Result<ArgumentPlace, &'static str>,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentPlace {
    /// In a register, by DWARF's number.
    Register(u16),
    /// In memory, so many bytes above the stack pointer.
    Stack(i64),
}

/// What an argument is, as far as it matters to who fetches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentClass {
    /// An unsigned number of so many bytes; also an enumeration or bool.
    Unsigned(u8),
    /// A signed number of so many bytes.
    Signed(u8),
    /// A pointer or reference.
    Pointer,
    /// A pointer to characters.
    Text,
    /// A floating-point number.
    Float,
    /// A structure that is passed by a pointer to it.
    ByReference,
    /// A structure or anything else that has no single register.
    Other,
}

/// The arguments of the function whose first instruction is at `address` of the ELF file `bytes`.
///
/// # Errors
/// Why they are not known.
pub fn arguments(bytes: &[u8], address: u64) -> Result<Vec<Argument>, String> {
    let file = object::File::parse(bytes).map_err(|error| error.to_string())?;
    if file.architecture() != object::Architecture::X86_64 {
        return Err("arguments are known for x86-64 only".to_owned());
    }
    if file.section_by_name(".debug_info").is_none() {
        return Err("the file has no debug information: compile with -g, or install its debug package".to_owned());
    }
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: SectionId| -> Result<Vec<u8>, gimli::Error> { Ok(section::unpacked(&file, id.name())) };
    let sections = DwarfSections::load(load).map_err(damaged)?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
    ArgumentSearch { dwarf: &dwarf, address }.run().map_err(damaged)?.ok_or_else(|| {
        "the debug information does not describe the function: was its file compiled without -g?".to_owned()
    })?
}

fn damaged(error: gimli::Error) -> String {
    format!("the debug information is damaged: {error}")
}

/// An entry of the debug information, with its unit.
#[derive(Clone)]
struct Die<'a> {
    unit: Rc<Unit<Bytes<'a>>>,
    at: UnitOffset,
}

impl<'a> Die<'a> {
    /// An attribute of its own. One that is damaged is none.
    fn value(&self, name: dw::DwAt) -> Option<AttributeValue<Bytes<'a>>> {
        self.unit.entry(self.at).ok()?.attr_value(name).ok()?
    }

    fn tag(&self) -> dw::DwTag {
        self.unit.entry(self.at).map_or(dw::DW_TAG_null, |entry| entry.tag())
    }

    fn bytes(&self) -> Option<u64> {
        self.value(dw::DW_AT_byte_size)?.udata_value()
    }
}

struct ArgumentSearch<'d, 'a> {
    dwarf: &'d Dwarf<Bytes<'a>>,
    address: u64,
}

impl<'a> ArgumentSearch<'_, 'a> {
    /// `None` where no unit describes the function.
    fn run(&self) -> gimli::Result<Option<Result<Vec<Argument>, String>>> {
        let mut headers = self.dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = Rc::new(self.dwarf.unit(header)?);
            if !self.may_hold(&unit)? {
                continue;
            }
            let mut entries = unit.entries();
            while let Some((_, entry)) = entries.next_dfs()? {
                if entry.tag() != dw::DW_TAG_subprogram {
                    continue;
                }
                let function = Die { unit: Rc::clone(&unit), at: entry.offset() };
                if self.begins_here(&function)? {
                    return self.function(&function).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Units without ranges may hold anything.
    fn may_hold(&self, unit: &Unit<Bytes<'a>>) -> gimli::Result<bool> {
        let mut ranges = self.dwarf.unit_ranges(unit)?;
        let mut is_empty = true;
        while let Some(range) = ranges.next()? {
            is_empty = false;
            if range.begin <= self.address && self.address < range.end {
                return Ok(true);
            }
        }
        Ok(is_empty)
    }

    fn begins_here(&self, function: &Die<'a>) -> gimli::Result<bool> {
        if let Some(low) = function.value(dw::DW_AT_low_pc) {
            return Ok(self.dwarf.attr_address(&function.unit, low)? == Some(self.address));
        }
        let Some(ranges) = function.value(dw::DW_AT_ranges) else { return Ok(false) };
        let Some(mut ranges) = self.dwarf.attr_ranges(&function.unit, ranges)? else { return Ok(false) };
        // Its cold part is another range, and is not its entry.
        Ok(ranges.next()?.is_some_and(|range| range.begin == self.address))
    }

    fn function(&self, function: &Die<'a>) -> gimli::Result<Result<Vec<Argument>, String>> {
        if self.find(function, dw::DW_AT_calling_convention).is_some_and(|(_, value)| {
            matches!(value, AttributeValue::CallingConvention(dw::DW_CC_nocall)) || value.udata_value() == Some(3)
        }) {
            return Ok(Err("the compiler gave the function a calling convention of its own".to_owned()));
        }
        let mut registers = Registers { used: self.hidden(function), is_lost: !self.is_of_c(&function.unit) };
        let mut found = Vec::new();
        let mut tree = function.unit.entries_tree(Some(function.at))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            if child.entry().tag() != dw::DW_TAG_formal_parameter {
                continue;
            }
            let die = Die { unit: Rc::clone(&function.unit), at: child.entry().offset() };
            let name = self.name(&die)?;
            let class = self.class(&die);
            let by_convention = registers.take(class);
            let place = match self.place(function, &die)? {
                ToldPlace::Is(place) => Ok(place),
                ToldPlace::Missing(why) => Err(why),
                ToldPlace::Stored => by_convention,
            };
            found.push(Argument { name, class, place });
        }
        Ok(Ok(found))
    }

    /// 1 where the caller passes the place for the result in front of the arguments.
    fn hidden(&self, function: &Die<'a>) -> usize {
        let Some(result) = self.referred(function, dw::DW_AT_type).map(|die| self.bare(die)) else { return 0 };
        let is_large = || result.bytes().is_some_and(|bytes| bytes > 16);
        let is_structure =
            [dw::DW_TAG_structure_type, dw::DW_TAG_class_type, dw::DW_TAG_union_type].contains(&result.tag());
        usize::from(is_structure && (is_by_reference(&result) || is_large()))
    }

    /// Whether the calling convention is that of C.
    fn is_of_c(&self, unit: &Unit<Bytes<'a>>) -> bool {
        let mut entries = unit.entries();
        let root = entries.next_dfs().ok().flatten();
        let language = root.and_then(|(_, root)| match root.attr_value(dw::DW_AT_language).ok()? {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        });
        language.is_none_or(|language| {
            let others = [dw::DW_LANG_Rust, dw::DW_LANG_Go, dw::DW_LANG_Swift, dw::DW_LANG_OCaml, dw::DW_LANG_Haskell];
            !others.contains(&language)
        })
    }

    fn place(&self, function: &Die<'a>, argument: &Die<'a>) -> gimli::Result<ToldPlace> {
        const GONE: ToldPlace = ToldPlace::Missing("the compiler optimised it away");
        let Some(value) = argument.value(dw::DW_AT_location) else { return Ok(GONE) };
        let unit = &argument.unit;
        let expression = match value {
            AttributeValue::Exprloc(expression) => expression,
            value => {
                let Some(mut list) = self.dwarf.attr_locations(unit, value)? else { return Ok(GONE) };
                let mut here = None;
                while let (None, Some(entry)) = (&here, list.next()?) {
                    if entry.range.begin <= self.address && self.address < entry.range.end {
                        here = Some(entry.data);
                    }
                }
                let Some(expression) = here else { return Ok(GONE) };
                expression
            }
        };
        let mut operations = expression.operations(unit.encoding());
        let first = operations.next()?;
        // What follows makes something else of it: a piece, a value that is computed.
        if operations.next()?.is_some() {
            return Ok(ToldPlace::Missing("it is in several pieces, or is computed"));
        }
        Ok(match first {
            Some(Operation::Register { register }) => ToldPlace::Is(ArgumentPlace::Register(register.0)),
            Some(Operation::RegisterOffset { register, offset, .. }) if register.0 == STACK_POINTER => {
                ToldPlace::Is(ArgumentPlace::Stack(offset))
            }
            Some(Operation::FrameOffset { offset }) => self.framed(function, offset)?,
            _ => ToldPlace::Missing("it is not in a register or on the stack"),
        })
    }

    /// A place in the function's frame: above its return address it was stored by the caller, below it will be.
    fn framed(&self, function: &Die<'a>, offset: i64) -> gimli::Result<ToldPlace> {
        let Some(AttributeValue::Exprloc(base)) = function.value(dw::DW_AT_frame_base) else {
            return Ok(ToldPlace::Stored);
        };
        let above_entry = match base.operations(function.unit.encoding()).next()? {
            Some(Operation::CallFrameCFA) => offset.checked_add(8),
            // Pushed behind the return address.
            Some(Operation::Register { register }) if register.0 == BASE_POINTER => offset.checked_sub(8),
            _ => None,
        };
        Ok(above_entry
            .filter(|above| *above >= 8)
            .map_or(ToldPlace::Stored, |above| ToldPlace::Is(ArgumentPlace::Stack(above))))
    }

    fn name(&self, die: &Die<'a>) -> gimli::Result<String> {
        let Some((of, value)) = self.find(die, dw::DW_AT_name) else { return Ok(String::new()) };
        Ok(self.dwarf.attr_string(&of.unit, value)?.to_string_lossy().into_owned())
    }

    fn class(&self, die: &Die<'a>) -> ArgumentClass {
        let Some(of) = self.referred(die, dw::DW_AT_type).map(|die| self.bare(die)) else {
            return ArgumentClass::Other;
        };
        let bytes = of.bytes().unwrap_or(0);
        let small = u8::try_from(bytes).ok().filter(|bytes| [1, 2, 4, 8].contains(bytes));
        match (of.tag(), small) {
            (dw::DW_TAG_base_type, _) if encoding(&of) == Some(dw::DW_ATE_float) => ArgumentClass::Float,
            (dw::DW_TAG_base_type, Some(bytes)) => match encoding(&of) {
                Some(dw::DW_ATE_signed | dw::DW_ATE_signed_char) => ArgumentClass::Signed(bytes),
                _ => ArgumentClass::Unsigned(bytes),
            },
            (dw::DW_TAG_enumeration_type, Some(bytes)) => ArgumentClass::Unsigned(bytes),
            (dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type, _) => ArgumentClass::Pointer,
            (dw::DW_TAG_pointer_type, _) => match self.referred(&of, dw::DW_AT_type).map(|die| self.bare(die)) {
                Some(to) if is_character(&to) => ArgumentClass::Text,
                _ => ArgumentClass::Pointer,
            },
            _ if is_by_reference(&of) => ArgumentClass::ByReference,
            _ => ArgumentClass::Other,
        }
    }

    /// Without the names and qualifiers of a type.
    fn bare(&self, mut die: Die<'a>) -> Die<'a> {
        for _ in 0..CHAIN_MAX {
            let is_name = [
                dw::DW_TAG_typedef,
                dw::DW_TAG_const_type,
                dw::DW_TAG_volatile_type,
                dw::DW_TAG_restrict_type,
                dw::DW_TAG_atomic_type,
            ];
            if !is_name.contains(&die.tag()) {
                break;
            }
            let Some(next) = self.referred(&die, dw::DW_AT_type) else { break };
            die = next;
        }
        die
    }

    /// An attribute of an entry, or of the one that it stands for.
    fn find(&self, die: &Die<'a>, name: dw::DwAt) -> Option<(Die<'a>, AttributeValue<Bytes<'a>>)> {
        let mut at = die.clone();
        for _ in 0..CHAIN_MAX {
            if let Some(value) = at.value(name) {
                return Some((at, value));
            }
            let origin = at.value(dw::DW_AT_abstract_origin);
            let origin = origin.or_else(|| at.value(dw::DW_AT_specification))?;
            at = self.follow(&at, origin)?;
        }
        None
    }

    fn referred(&self, die: &Die<'a>, name: dw::DwAt) -> Option<Die<'a>> {
        let (of, value) = self.find(die, name)?;
        self.follow(&of, value)
    }

    fn follow(&self, from: &Die<'a>, value: AttributeValue<Bytes<'a>>) -> Option<Die<'a>> {
        match value {
            AttributeValue::UnitRef(offset) => {
                Some(Die { unit: Rc::clone(&from.unit), at: from.unit.entry(offset).ok()?.offset() })
            }
            AttributeValue::DebugInfoRef(offset) => {
                let mut headers = self.dwarf.units();
                while let Ok(Some(header)) = headers.next() {
                    if let Some(inside) = offset.to_unit_offset(&header) {
                        let unit = Rc::new(self.dwarf.unit(header).ok()?);
                        let at = unit.entry(inside).ok()?.offset();
                        return Some(Die { unit, at });
                    }
                }
                None
            }
            _ => None,
        }
    }
}

/// What the debug information says of a place.
enum ToldPlace {
    Is(ArgumentPlace),
    Missing(&'static str),
    /// Where the function stores it, which it has not done yet.
    Stored,
}

/// Registers that the calling convention of C has given away.
struct Registers {
    used: usize,
    /// What came before does not say how many.
    is_lost: bool,
}

impl Registers {
    /// Where the next argument is.
    fn take(&mut self, class: ArgumentClass) -> Result<ArgumentPlace, &'static str> {
        match class {
            ArgumentClass::Float => return Err("it is in a floating-point register"),
            ArgumentClass::Other => {
                self.is_lost = true;
                return Err("it is passed by value and has no single register");
            }
            _ if self.is_lost => {
                return Err("the place is known in optimised code only: here it depends on what is passed before it");
            }
            _ => {}
        }
        self.used += 1;
        let register = INTEGER_REGISTERS.get(self.used - 1).ok_or("its place on the stack is not known")?;
        Ok(ArgumentPlace::Register(*register))
    }
}

fn encoding(die: &Die<'_>) -> Option<dw::DwAte> {
    match die.value(dw::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => Some(encoding),
        _ => None,
    }
}

fn is_character(die: &Die<'_>) -> bool {
    // A pointer to unsigned bytes is one to data.
    let is_one = matches!(encoding(die), Some(dw::DW_ATE_signed_char | dw::DW_ATE_UTF));
    die.tag() == dw::DW_TAG_base_type && die.bytes() == Some(1) && is_one
}

/// A structure that C++ passes by a pointer.
fn is_by_reference(die: &Die<'_>) -> bool {
    match die.value(dw::DW_AT_calling_convention) {
        Some(AttributeValue::CallingConvention(convention)) => convention == dw::DW_CC_pass_by_reference,
        _ => false,
    }
}
