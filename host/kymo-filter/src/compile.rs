// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of an event to a program [spec/filter.md 6]. What a program cannot say is refused with the part that is too
//! much, and stays with the collector.

use crate::ast::{Arith, Compare, Context};
use crate::check::Checked;
use crate::error::{Error, Span, written};
use crate::plan::{Cond, Number, Operand, OperandSource, Test, TestKind, TextMatch};
use crate::program::{ACCEPT, INSNS_MAX, Insn, POOL_BYTES_MAX, Program, REJECT, op, ty};
use crate::schema::{Event, FieldPath, ValueType};

/// A part of the filter that a program cannot decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub Error);

/// The program of the event at position `event`, for payloads as spec/event.md 2 packs them.
pub fn compile(checked: &Checked, event: usize) -> Result<Program, CompileError> {
    let (Some(plan), Some(described)) = (checked.plans.get(event), checked.events.get(event)) else {
        let message = format!("there is no event {event}");
        return Err(CompileError(Error::new(&checked.text, Span::default(), message, HELP)));
    };
    let mut compiler = Compiler {
        checked,
        event: described,
        layout: Layout::new(described),
        steps: Vec::new(),
        labels: Vec::new(),
        pool: Vec::new(),
    };
    compiler.cond(plan, Target::Accept, Target::Reject)?;
    compiler.finish()
}

const HELP: &str = "the collector decides this filter instead of the program";

/// Where a jump goes; a label is a position that is known later.
#[derive(Clone, Copy)]
enum Target {
    Accept,
    Reject,
    Label(usize),
}

struct InsnStep {
    insn: Insn,
    yes: Target,
    no: Target,
}

/// Where the fields of a packed payload lie.
struct Layout {
    /// By field: variable fields in front of it, and bytes behind the last of those. `None` behind what has no size.
    places: Vec<Option<(usize, usize)>>,
    /// By variable field: bytes in front of its length, bytes of an element.
    walks: Vec<(usize, u16)>,
    min_bytes: usize,
}

impl Layout {
    fn new(event: &Event) -> Self {
        let mut layout = Self { places: Vec::new(), walks: Vec::new(), min_bytes: 0 };
        let mut at = Some(0);
        for field in &event.fields {
            if field.name.starts_with('$') {
                layout.places.push(None); // a context is not in the payload
                continue;
            }
            layout.places.push(at.map(|at| (layout.walks.len(), at)));
            let Some(start) = at else { continue };
            let variable = match &field.kind {
                ValueType::Text | ValueType::Bytes => Some(1),
                ValueType::Array { element, count: None } => scalar(element).map(|(_, bytes)| bytes as u16),
                _ => None,
            };
            if let Some(element) = variable {
                layout.walks.push((start, element));
                layout.min_bytes += 2;
                at = Some(0);
                continue;
            }
            let bytes = match &field.kind {
                ValueType::Array { element, count: Some(count) } => {
                    scalar(element).and_then(|(_, bytes)| bytes.checked_mul(*count as usize))
                }
                kind => scalar(kind).map(|(_, bytes)| bytes),
            };
            at = bytes.and_then(|bytes| start.checked_add(bytes));
            layout.min_bytes = layout.min_bytes.saturating_add(bytes.unwrap_or(0));
        }
        layout
    }
}

/// Type and bytes of a single value.
fn scalar(kind: &ValueType) -> Option<(u8, usize)> {
    Some(match kind {
        ValueType::Int { signed, bits } | ValueType::Enum { signed, bits, .. } => match (signed, bits) {
            (false, 8) => (ty::U8, 1),
            (false, 16) => (ty::U16, 2),
            (false, 32) => (ty::U32, 4),
            (false, 64) => (ty::U64, 8),
            (true, 8) => (ty::I8, 1),
            (true, 16) => (ty::I16, 2),
            (true, 32) => (ty::I32, 4),
            (true, 64) => (ty::I64, 8),
            _ => return None,
        },
        ValueType::Float { bits: 32 } => (ty::F32, 4),
        ValueType::Float { bits: 64 } => (ty::F64, 8),
        ValueType::Bool => (ty::BOOL, 1),
        _ => return None,
    })
}

/// What an instruction reads, without what it compares with.
struct Load {
    insn: Insn,
    /// Variable fields in front.
    walks: usize,
    /// Of an integer: least and largest value.
    range: Option<(i128, i128)>,
}

struct Compiler<'a> {
    checked: &'a Checked,
    event: &'a Event,
    layout: Layout,
    steps: Vec<InsnStep>,
    labels: Vec<Option<usize>>,
    pool: Vec<u8>,
}

type Done = Result<(), CompileError>;

impl Compiler<'_> {
    fn refused(&self, span: Span, why: &str) -> CompileError {
        let part = written(&self.checked.text, span);
        let message = if part.is_empty() { why.to_owned() } else { format!("`{part}`: {why}") };
        CompileError(Error::new(&self.checked.text, span, message, HELP))
    }

    fn label(&mut self) -> usize {
        self.labels.push(None);
        self.labels.len() - 1
    }

    fn cond(&mut self, cond: &Cond, yes: Target, no: Target) -> Done {
        match cond {
            Cond::Const(value) => self.always(if *value { yes } else { no }),
            Cond::All(parts) => self.parts(parts, yes, no, true),
            Cond::Any(parts) => self.parts(parts, yes, no, false),
            Cond::Test(test) if test.negate => self.test(test, no, yes),
            Cond::Test(test) => self.test(test, yes, no),
        }
    }

    fn parts(&mut self, parts: &[Cond], yes: Target, no: Target, all: bool) -> Done {
        let Some((last, first)) = parts.split_last() else {
            return self.always(if all { yes } else { no });
        };
        for part in first {
            let next = self.label();
            match all {
                true => self.cond(part, Target::Label(next), no)?,
                false => self.cond(part, yes, Target::Label(next))?,
            }
            self.labels[next] = Some(self.steps.len());
        }
        self.cond(last, yes, no)
    }

    fn always(&mut self, to: Target) -> Done {
        self.steps.push(InsnStep { insn: Insn { op: op::ALWAYS, ..Insn::default() }, yes: to, no: to });
        Ok(())
    }

    fn test(&mut self, test: &Test, yes: Target, no: Target) -> Done {
        match &test.kind {
            TestKind::Number { left, op, right: Operand::Const(number) } => {
                let load = self.operand(left, test.span)?;
                self.compare(&load, *op, *number, test.span, (yes, no))
            }
            TestKind::Number { .. } => Err(self.refused(test.span, "a program compares with constants only")),
            TestKind::Ints { operand, values } => self.ints(operand, values, test.span, yes, no),
            TestKind::Between { place, low, high } => {
                let load = self.place(place, test.span)?;
                let next = self.label();
                self.compare(&load, Compare::Ge, Number::Int(*low), test.span, (Target::Label(next), no))?;
                self.labels[next] = Some(self.steps.len());
                self.compare(&load, Compare::Le, Number::Int(*high), test.span, (yes, no))
            }
            TestKind::Text { source: OperandSource::Place(place), wanted } => {
                self.text(place, wanted, test.span, yes, no)
            }
            TestKind::Text { source: OperandSource::Context(context), .. } => Err(self.context(*context, test.span)),
            TestKind::Pair { .. } => Err(self.refused(test.span, "a program compares with constants only")),
            // All fields of a packed payload are there, up to elements that were counted when the filter was checked.
            TestKind::Has(place) => match self.place(place, test.span) {
                Ok(_) => self.always(yes),
                Err(_) if place.steps.is_empty() => self.always(yes),
                Err(error) => Err(error),
            },
            TestKind::Truth(place) => {
                let load = self.place(place, test.span)?;
                self.compare(&load, Compare::Eq, Number::Int(1), test.span, (yes, no))
            }
        }
    }

    fn context(&self, context: Context, span: Span) -> CompileError {
        self.refused(span, &format!("`${}` is not in the payload", context.name()))
    }

    fn operand(&mut self, operand: &Operand, span: Span) -> Result<Load, CompileError> {
        match operand {
            Operand::Source(OperandSource::Place(place)) => self.place(place, span),
            Operand::Source(OperandSource::Context(context)) => Err(self.context(*context, span)),
            Operand::Len(place) => self.length(place, span),
            Operand::Latency(_) => Err(self.refused(span, "a latency is of two records")),
            Operand::Arith(Arith::And, left, right) => match (&**left, &**right) {
                (Operand::Source(OperandSource::Place(place)), Operand::Const(Number::Int(mask)))
                | (Operand::Const(Number::Int(mask)), Operand::Source(OperandSource::Place(place))) => {
                    self.masked(place, *mask, span)
                }
                _ => Err(self.refused(span, "a program masks a field with a constant only")),
            },
            Operand::Const(_) | Operand::Neg(_) | Operand::Arith(..) => {
                Err(self.refused(span, "a program has no arithmetic but `FIELD & MASK`"))
            }
        }
    }

    fn masked(&mut self, place: &FieldPath, mask: i128, span: Span) -> Result<Load, CompileError> {
        let mut load = self.place(place, span)?;
        let Ok(mask) = u64::try_from(mask) else { return Err(self.refused(span, "the mask is beyond 64 bits")) };
        if load.range.is_none() || load.insn.ty & !ty::FLAGS > ty::I64 {
            return Err(self.refused(span, "only integers have a mask"));
        }
        load.insn.ty |= ty::MASKED;
        load.insn.aux = self.constant(&mask.to_le_bytes(), span)?;
        load.range = Some((0, u64::MAX.into()));
        Ok(load)
    }

    /// Constants into the pool, once.
    fn constant(&mut self, bytes: &[u8], span: Span) -> Result<u16, CompileError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let found = self.pool.windows(bytes.len()).position(|window| window == bytes);
        let at = found.unwrap_or(self.pool.len());
        if found.is_none() {
            self.pool.extend_from_slice(bytes);
        }
        match (self.pool.len() <= POOL_BYTES_MAX, u16::try_from(at)) {
            (true, Ok(at)) => Ok(at),
            _ => Err(self.refused(span, "the constants of the filter are more than a program may have")),
        }
    }

    /// Where a field begins: the load without a type, and variable fields in front.
    fn start(&self, place: &FieldPath, inside: usize, span: Span) -> Result<Load, CompileError> {
        let found = self.layout.places.get(place.field).copied().flatten();
        let offset = found.and_then(|(_, at)| u16::try_from(at.checked_add(inside)?).ok());
        match (found, offset) {
            (Some((walks, _)), Some(offset)) => {
                Ok(Load { insn: Insn { offset, ..Insn::default() }, walks, range: None })
            }
            _ => Err(self.refused(span, "where the field lies in the payload is not known")),
        }
    }

    fn place(&self, place: &FieldPath, span: Span) -> Result<Load, CompileError> {
        use crate::ast::PathStep::Element;
        let kind = self.event.fields.get(place.field).map(|field| &field.kind);
        let (kind, index) = match (kind, place.steps.as_slice()) {
            (Some(kind), []) => (kind, 0),
            (Some(ValueType::Array { element, count: Some(_) }), [Element(index)]) => (&**element, *index as usize),
            _ => return Err(self.refused(span, "a program reads fields and elements of arrays of fixed size only")),
        };
        let Some((kind, bytes)) = scalar(kind) else {
            return Err(self.refused(span, "a program cannot compare such a field"));
        };
        let mut load = self.start(place, index.saturating_mul(bytes), span)?;
        load.insn.ty = kind;
        load.range = range(kind);
        Ok(load)
    }

    fn length(&self, place: &FieldPath, span: Span) -> Result<Load, CompileError> {
        if !place.steps.is_empty() {
            return Err(self.refused(span, "a program knows lengths of whole fields only"));
        }
        let mut load = self.start(place, 0, span)?;
        load.insn.ty = ty::LEN;
        load.range = range(ty::LEN);
        Ok(load)
    }

    fn ints(&mut self, operand: &Operand, values: &[i128], span: Span, yes: Target, no: Target) -> Done {
        let load = self.operand(operand, span)?;
        for &value in values {
            let next = self.label();
            self.compare(&load, Compare::Eq, Number::Int(value), span, (yes, Target::Label(next)))?;
            self.labels[next] = Some(self.steps.len());
        }
        self.always(no)
    }

    /// One instruction that reads, and the walk that it needs.
    fn emit(&mut self, load: &Load, op: u8, imm: u64, span: Span, (yes, no): (Target, Target)) -> Done {
        let mut insn = Insn { op, imm, ..load.insn };
        if load.walks > 0 {
            insn.ty |= ty::BEHIND;
            let mut table = Vec::new();
            for &(gap, element) in &self.layout.walks[..load.walks] {
                let Ok(gap) = u16::try_from(gap) else {
                    return Err(self.refused(span, "the field lies too far behind"));
                };
                table.extend_from_slice(&gap.to_le_bytes());
                table.extend_from_slice(&element.to_le_bytes());
            }
            let aux = self.constant(&table, span)?;
            let next = self.label();
            let walk = Insn { op: op::WALK, offset: load.walks as u16, aux, ..Insn::default() };
            self.steps.push(InsnStep { insn: walk, yes: Target::Label(next), no: Target::Label(next) });
            self.labels[next] = Some(self.steps.len());
        }
        self.steps.push(InsnStep { insn, yes, no });
        Ok(())
    }

    fn compare(&mut self, load: &Load, op: Compare, number: Number, span: Span, to: (Target, Target)) -> Done {
        let Some((min, max)) = load.range else { return self.compare_float(load, op, number, span, to) };
        let Some((op, value)) = whole(op, number) else { return self.always(to.1) };
        let outcome = match op {
            Compare::Lt if value > max => Some(true),
            Compare::Lt if value <= min => Some(false),
            Compare::Le if value >= max => Some(true),
            Compare::Le if value < min => Some(false),
            Compare::Gt if value < min => Some(true),
            Compare::Gt if value >= max => Some(false),
            Compare::Ge if value <= min => Some(true),
            Compare::Ge if value > max => Some(false),
            Compare::Eq if value < min || value > max => Some(false),
            _ => None,
        };
        match outcome {
            Some(outcome) => self.always(if outcome { to.0 } else { to.1 }),
            None => self.emit(load, code(op), value as u64, span, to),
        }
    }

    fn compare_float(&mut self, load: &Load, op: Compare, number: Number, span: Span, to: (Target, Target)) -> Done {
        let value = match number {
            Number::Float(value) => value,
            Number::Int(value) if (value as f64) as i128 == value => value as f64,
            Number::Int(_) => return Err(self.refused(span, "the number is not exact as a float")),
        };
        self.emit(load, code(op), value.to_bits(), span, to)
    }

    fn text(&mut self, place: &FieldPath, wanted: &TextMatch, span: Span, yes: Target, no: Target) -> Done {
        let is_text = matches!(self.event.fields.get(place.field), Some(field) if field.kind == ValueType::Text);
        if !place.steps.is_empty() || !is_text {
            return Err(self.refused(span, "a program compares whole texts only"));
        }
        let (head, tail) = match wanted {
            TextMatch::Equal(text) => return self.text_part(place, op::STR_EQ, text, span, (yes, no)),
            TextMatch::Glob(glob) if glob.contains('?') => {
                return Err(self.refused(span, "a program has globs with one `*` only, without `?`"));
            }
            TextMatch::Glob(glob) => match glob.split_once('*') {
                None => return self.text_part(place, op::STR_EQ, glob, span, (yes, no)),
                Some((_, tail)) if tail.contains('*') => {
                    return Err(self.refused(span, "a program has globs with one `*` only, without `?`"));
                }
                Some(parts) => parts,
            },
        };
        match (head, tail) {
            (head, "") => return self.text_part(place, op::STR_PREFIX, head, span, (yes, no)),
            ("", tail) => return self.text_part(place, op::STR_SUFFIX, tail, span, (yes, no)),
            _ => {}
        }
        // The two ends must not share bytes.
        let load = self.length(place, span)?;
        let bytes = Number::Int((head.len() + tail.len()) as i128);
        let (at_head, at_tail) = (self.label(), self.label());
        self.compare(&load, Compare::Ge, bytes, span, (Target::Label(at_head), no))?;
        self.labels[at_head] = Some(self.steps.len());
        self.text_part(place, op::STR_PREFIX, head, span, (Target::Label(at_tail), no))?;
        self.labels[at_tail] = Some(self.steps.len());
        self.text_part(place, op::STR_SUFFIX, tail, span, (yes, no))
    }

    fn text_part(&mut self, place: &FieldPath, op: u8, text: &str, span: Span, to: (Target, Target)) -> Done {
        if text.is_empty() && op != op::STR_EQ {
            return self.always(to.0);
        }
        let mut load = self.start(place, 0, span)?;
        load.insn.ty = ty::STR;
        load.insn.aux = self.constant(text.as_bytes(), span)?;
        self.emit(&load, op, text.len() as u64, span, to)
    }

    fn finish(self) -> Result<Program, CompileError> {
        let whole = Span::new(0, self.checked.text.len());
        if self.steps.len() > INSNS_MAX {
            return Err(self.refused(whole, "this takes more instructions than a program may have"));
        }
        let Ok(payload_min_bytes) = u16::try_from(self.layout.min_bytes) else {
            return Err(self.refused(whole, "the payload is too long"));
        };
        let at = |target| match target {
            Target::Accept => ACCEPT,
            Target::Reject => REJECT,
            // Every label was placed, at most at the last instruction.
            Target::Label(label) => self.labels[label].unwrap_or_default() as u8,
        };
        let insns: Vec<Insn> = self
            .steps
            .iter()
            .map(|step| Insn { jump_true: at(step.yes), jump_false: at(step.no), ..step.insn })
            .collect();
        Ok(Program { insns, pool: self.pool.clone(), payload_min_bytes })
    }
}

/// Values of an integer type; `None` of floats.
fn range(kind: u8) -> Option<(i128, i128)> {
    Some(match kind {
        ty::U8 => (0, u8::MAX.into()),
        ty::U16 | ty::LEN => (0, u16::MAX.into()),
        ty::U32 => (0, u32::MAX.into()),
        ty::U64 => (0, u64::MAX.into()),
        ty::I8 => (i8::MIN.into(), i8::MAX.into()),
        ty::I16 => (i16::MIN.into(), i16::MAX.into()),
        ty::I32 => (i32::MIN.into(), i32::MAX.into()),
        ty::I64 => (i64::MIN.into(), i64::MAX.into()),
        ty::BOOL => (0, 1),
        _ => return None,
    })
}

/// A comparison of an integer as one with an integer; `None` where it never holds.
fn whole(op: Compare, number: Number) -> Option<(Compare, i128)> {
    match (op, number) {
        (op, Number::Int(value)) => Some((op, value)),
        (_, Number::Float(value)) if value.is_nan() => None,
        (Compare::Lt | Compare::Ge, Number::Float(value)) => Some((op, value.ceil() as i128)),
        (Compare::Le | Compare::Gt, Number::Float(value)) => Some((op, value.floor() as i128)),
        (_, Number::Float(value)) => (value.fract() == 0.0).then_some((op, value as i128)),
    }
}

fn code(op: Compare) -> u8 {
    match op {
        Compare::Lt => op::LT,
        Compare::Le => op::LE,
        Compare::Gt => op::GT,
        Compare::Ge => op::GE,
        _ => op::EQ,
    }
}
