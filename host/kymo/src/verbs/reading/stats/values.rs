// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of payload fields and contexts as parts of rows. Addresses of code are the functions there.

use std::collections::{BTreeSet, HashMap};

use kymo_analyze::calls::{self, Architecture};
use kymo_analyze::{Class, LEVELS_MAX, Record as _, ValueKind, Writer};
use kymo_ctf::read::{self, Base, FieldInfo, FieldKind, Trace};

use super::by::By;
use crate::verbs::analyze::feed::{Payload, Seen};
use crate::verbs::analyze::keys::meant;
use crate::verbs::symbols::Symbolizer;
use crate::verbs::symbols::fields::{self, Meaning};

/// Texts of fields that are kept apart at most.
const TEXTS_MAX: usize = 1 << 18;
/// Addresses whose functions are remembered.
const NAMED_MAX: usize = 1 << 20;

/// How the values of a field are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Number,
    Address(Meaning),
    /// A system call by its number.
    Call(Architecture),
}

/// Where the value of a level is in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Payload(usize),
    /// Of all events of the stream.
    Context(usize),
    /// Of this event alone.
    OwnContext(usize),
    /// The name of the program, whoever tells it.
    Program,
}

/// What the records of a class have.
struct ClassInfo<'t> {
    payload: Vec<FieldInfo<'t>>,
    contexts: Vec<FieldInfo<'t>>,
    own: Vec<FieldInfo<'t>>,
    /// Whose numbers system calls have there.
    architecture: Option<Architecture>,
}

impl<'t> ClassInfo<'t> {
    fn all(traces: &'t [Trace]) -> Vec<ClassInfo<'t>> {
        let of_event = |trace: &'t Trace, (event, class)| ClassInfo {
            payload: trace.metadata.fields(class),
            contexts: trace.metadata.contexts(event),
            own: trace.metadata.own_contexts(event),
            architecture: kymo_feed::architecture(&trace.metadata.env),
        };
        let of_trace = |trace: &'t Trace| {
            trace.metadata.events.iter().enumerate().map(move |event| of_event(trace, event)).collect::<Vec<_>>()
        };
        traces.iter().flat_map(of_trace).collect()
    }

    /// Where a context is that is an integer or text.
    fn context(&self, name: &str) -> Option<(Origin, Form)> {
        if name == "proc" {
            return Some((Origin::Program, Form::Text));
        }
        let find = |infos: &[FieldInfo<'_>]| {
            let info = infos.iter().find(|info| info.name == name && !info.is_length)?;
            let form = match info.kind {
                FieldKind::Int { .. } | FieldKind::Enum { .. } | FieldKind::Bool => Form::Number,
                FieldKind::Text | FieldKind::Wide { .. } => Form::Text,
                _ => return None,
            };
            Some((info.position, form))
        };
        let common = || find(&self.contexts).map(|(position, form)| (Origin::Context(position), form));
        common().or_else(|| find(&self.own).map(|(position, form)| (Origin::OwnContext(position), form)))
    }
}

/// Where an address is: trace, process, state of its memory, address, and what it is.
type ValuePlace = (usize, Option<u32>, usize, u64, Meaning);

/// Values of payload fields, as parts of rows.
pub struct FieldValues {
    /// By class and level: position of the field.
    places: Vec<[Option<(Origin, Form)>; LEVELS_MAX]>,
    /// Whether there are any.
    are_wanted: bool,
    /// By level: numbers are shown in base 16.
    is_hex: [bool; LEVELS_MAX],
    /// Texts that were met, each standing for a number: `i64::MIN` for the first, and so on.
    pub texts: Vec<String>,
    numbers: HashMap<String, i64>,
    /// Where there are addresses.
    symbols: Option<Symbolizer>,
    /// By trace, process, state of its memory, address.
    named: HashMap<ValuePlace, Option<i64>>,
}

impl FieldValues {
    /// An error where no class has a field that rows are made by. `classes`: those of `traces`, in order.
    pub fn new(by: &[By], classes: &[Class], traces: &[Trace]) -> anyhow::Result<Self> {
        anyhow::ensure!(by.len() <= LEVELS_MAX, "--by: there are {LEVELS_MAX} levels at most");
        let mut places = vec![[None; LEVELS_MAX]; classes.len()];
        let mut is_hex = [false; LEVELS_MAX];
        let infos = ClassInfo::all(traces);
        for (level, by) in by.iter().enumerate() {
            let By::Field(name) = by else { continue };
            let mut is_there = false;
            for ((class, places), info) in classes.iter().zip(&mut places).zip(&infos) {
                if let Some(context) = name.strip_prefix('$') {
                    places[level] = info.context(context);
                    is_there |= places[level].is_some();
                    continue;
                }
                let field =
                    class.field(&[name]).filter(|field| matches!(field.kind, ValueKind::Integer | ValueKind::Text));
                let Some(field) = field else { continue };
                let kind = info.payload.iter().find(|info| info.position == field.position).map(|info| &info.kind);
                is_hex[level] |= matches!(kind, Some(FieldKind::Int { base: Base::Hexadecimal, .. }));
                let call = info.architecture.filter(|_| name == calls::NUMBER && calls::is_by_number(&class.name));
                let form = match (field.kind, kind.and_then(|kind| fields::meaning(name, kind))) {
                    (ValueKind::Text, _) => Form::Text,
                    _ if call.is_some() => call.map_or(Form::Number, Form::Call),
                    (_, Some(meaning)) => Form::Address(meaning),
                    (_, None) => Form::Number,
                };
                places[level] = Some((Origin::Payload(field.position), form));
                is_there = true;
            }
            anyhow::ensure!(
                is_there,
                "--by: {name:?} is not event, process, thread or cpu, and no event of the trace has a field or context of that name \
                 that is an integer or text{}",
                near(name, classes, &infos)
            );
        }
        let are_wanted = by.iter().any(|by| matches!(by, By::Field(_)));
        let is_address = |place: &Option<(Origin, Form)>| matches!(place, Some((_, Form::Address(_))));
        let symbols = match places.iter().flatten().any(is_address) {
            true => {
                let mut symbols = Symbolizer::new(None, traces)?;
                symbols.learn_all(traces)?;
                Some(symbols)
            }
            false => None,
        };
        let (texts, numbers, named) = (Vec::new(), HashMap::new(), HashMap::new());
        Ok(Self { places, are_wanted, is_hex, texts, numbers, symbols, named })
    }

    /// Whether it matters who wrote a record: the memory of that process has its addresses.
    pub fn need_writer(&self) -> bool {
        let is_program = |place: &Option<(Origin, Form)>| matches!(place, Some((Origin::Program, _)));
        self.symbols.is_some() || self.places.iter().flatten().any(is_program)
    }

    /// Whether the numbers of a level are shown in base 16.
    pub fn is_hex(&self, level: usize) -> bool {
        self.is_hex.get(level).copied().unwrap_or(false)
    }

    /// Why some functions could not be found.
    pub fn reasons(&self) -> Vec<String> {
        self.symbols.as_ref().map_or_else(Vec::new, Symbolizer::reasons)
    }

    /// Takes the values of a record.
    pub fn of(&mut self, seen: &Seen<'_, '_>, writer: &mut Writer) {
        if !self.are_wanted {
            return;
        }
        let payload = Payload(seen.record.payload);
        for (level, place) in self.places[seen.class].into_iter().enumerate() {
            writer.others[level] = match place {
                Some((Origin::Payload(position), Form::Text)) => {
                    payload.text(position).and_then(|text| self.number(&text))
                }
                Some((Origin::Payload(position), Form::Number)) => {
                    payload.integer(position).and_then(|value| self.integer(value))
                }
                Some((Origin::Payload(position), Form::Call(architecture))) => {
                    payload.integer(position).and_then(|value| match architecture.call(value) {
                        Some(name) => self.number(name),
                        None => self.integer(value),
                    })
                }
                Some((Origin::Payload(position), Form::Address(meaning))) => {
                    // What has a sign has the kernel's half below zero.
                    payload.integer(position).and_then(|value| self.address(seen, writer, value as u64, meaning))
                }
                Some((Origin::Context(position), _)) => self.of_context(seen.record.common_context.at(position)),
                Some((Origin::OwnContext(position), _)) => self.of_context(seen.record.context.at(position)),
                Some((Origin::Program, _)) => self.program(seen, writer),
                None => None,
            };
        }
    }

    /// What stands for the value of a context.
    fn of_context(&mut self, value: Option<read::Value<'_>>) -> Option<i64> {
        match value? {
            read::Value::Int(number, _) | read::Value::Enum(number, _) => self.integer(number.into()),
            read::Value::Bool(value) => Some(value.into()),
            read::Value::Text(text) => self.number(&text),
            _ => None,
        }
    }

    /// What stands for the program: as the record tells it, else as the state of the machine does.
    fn program(&mut self, seen: &Seen<'_, '_>, writer: &Writer) -> Option<i64> {
        let known = writer.name;
        let name = if seen.record.procname.is_empty() { known.as_str() } else { seen.record.procname };
        if name.is_empty() { None } else { self.number(name) }
    }

    /// What stands for a number: itself, or a text where it is too large.
    fn integer(&mut self, value: i128) -> Option<i64> {
        i64::try_from(value).ok().or_else(|| self.number(&format!("{value:#x}")))
    }

    /// What stands for the function at an address: its name, else the number in base 16.
    fn address(&mut self, seen: &Seen<'_, '_>, writer: &Writer, address: u64, meaning: Meaning) -> Option<i64> {
        let number = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
        let process = number(writer.process).or(number(writer.tid));
        let symbols = self.symbols.as_ref()?;
        let (trace, time) = (seen.record.trace, seen.head.time);
        let epoch = process.map_or(0, |process| symbols.epoch(trace, process, time));
        let key = (trace, process, epoch, address, meaning);
        if let Some(&known) = self.named.get(&key) {
            return known;
        }
        let name = symbols.of_address(trace, process, time, address, meaning);
        let found = match (name, meaning) {
            (Some(name), _) => self.number(&name),
            (None, Meaning::Maybe) => self.integer(address.into()),
            (None, _) => self.number(&format!("{address:#x}")),
        };
        if self.named.len() < NAMED_MAX {
            self.named.insert(key, found);
        }
        found
    }

    /// What stands for a text; `None` where there are too many.
    fn number(&mut self, text: &str) -> Option<i64> {
        if let Some(&number) = self.numbers.get(text) {
            return Some(number);
        }
        if self.texts.len() >= TEXTS_MAX {
            return None;
        }
        let number = i64::MIN + self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        Some(number)
    }
}

/// What a name may have been meant for.
fn near(name: &str, classes: &[Class], infos: &[ClassInfo<'_>]) -> String {
    let fields = classes.iter().flat_map(|class| &class.fields).map(|field| field.name.as_str());
    let contexts = infos.iter().flat_map(|info| info.contexts.iter().chain(&info.own));
    let contexts: BTreeSet<String> = contexts.map(|info| format!("${}", info.name)).collect();
    let known =
        ["event", "process", "thread", "cpu", "$event", "$pid", "$tid", "$cpu", "$proc"].into_iter().chain(fields);
    let known: Vec<&str> = known.chain(contexts.iter().map(String::as_str)).collect();
    meant(name, &known)
}
