// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters that run inside of the programs [spec/filter.md 6]: which program an event gets, and what cannot become one.
//!
//! A filter is about the events that its selector names, all without one. An event of which it can select no record is
//! not switched on. Several filters on one event must all select a record. Nothing is decided in the collector: a
//! filter that a program cannot run is refused at the start where that shows, else the event is recorded without it and
//! the summary says so.

use kymo_ctf::write::EventClass;
use kymo_filter::{
    ACCEPT, Checked, Compare, Error, Event, Expr, ExprKind, Filter, INSNS_MAX, POOL_BYTES_MAX, Program, REJECT, Span,
    compile, op, ty,
};

use crate::condition_fields;

/// A filter, and how it fits the events so far.
#[derive(Debug)]
struct Held {
    filter: Filter,
    checked: Result<Checked, Error>,
}

/// The filters of a session.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    held: Vec<Held>,
    /// By id - 1.
    events: Vec<Event>,
}

/// What a program is told about an event.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// All its records are wanted.
    All,
    /// None is.
    Never,
    /// Those that this selects.
    Some(Program),
}

impl Filters {
    pub(crate) fn new(filters: &[Filter]) -> Filters {
        let none: Vec<Event> = Vec::new();
        let held = |filter: &Filter| Held { filter: filter.clone(), checked: filter.check(&none) };
        Filters { held: filters.iter().map(held).collect(), events: none }
    }

    /// Holds the filters against all events with an id, of which those so far are the first. Whether one fits that did
    /// not.
    pub(crate) fn learn(&mut self, classes: &[EventClass]) -> bool {
        if self.held.is_empty() || classes.len() == self.events.len() {
            return false;
        }
        self.events.extend(classes[self.events.len()..].iter().map(condition_fields::event));
        let mut fits_more = false;
        for held in &mut self.held {
            let fitted = held.checked.is_ok();
            held.checked = held.filter.check(&self.events);
            fits_more |= held.checked.is_ok() && !fitted;
        }
        fits_more
    }

    /// What becomes of the event with this id, and what is to be said about it.
    pub(crate) fn decide(&self, id: u16) -> (Decision, Vec<String>) {
        let mut caveats = Vec::new();
        let position = usize::from(id).wrapping_sub(1);
        let Some(event) = self.events.get(position) else { return (Decision::All, caveats) };
        let mut whole: Option<Program> = None;
        for Held { filter, checked } in &self.held {
            if filter.selector.as_ref().is_some_and(|selector| !kymo_names::event_matches(&selector.glob, &event.name))
            {
                continue;
            }
            let checked = match checked {
                Ok(checked) if !checked.is_never(position) => checked,
                _ => return (Decision::Never, caveats),
            };
            let without =
                |why: &str| format!("--filter {}: {why}; {} is recorded without it", checked.text(), event.name);
            match compile(checked, position) {
                Err(error) => caveats.push(without(&error.0.message)),
                Ok(program) => match whole.as_ref().map(|whole| join(whole, &program)) {
                    None => whole = Some(program),
                    Some(Some(both)) => whole = Some(both),
                    Some(None) => caveats.push(without("together with the others it is too long for a program")),
                },
            }
        }
        (whole.map_or(Decision::All, Decision::Some), caveats)
    }

    /// Filters that no event fits, with what is wrong: for the summary.
    pub(crate) fn unfit(&self) -> Vec<String> {
        let errors = self.held.iter().filter_map(|held| held.checked.as_ref().err());
        errors.map(|error| format!("--filter {}: {}; {}", error.text, error.message, error.help)).collect()
    }
}

/// A program that selects what both select; `None` where it would be too long.
fn join(first: &Program, second: &Program) -> Option<Program> {
    let (start, pool_start) = (first.insns.len(), first.pool.len());
    if start + second.insns.len() > INSNS_MAX || pool_start + second.pool.len() > POOL_BYTES_MAX {
        return None;
    }
    let mut both = first.clone();
    for insn in &mut both.insns {
        for jump in [&mut insn.jump_true, &mut insn.jump_false] {
            if *jump == ACCEPT {
                *jump = start as u8;
            }
        }
    }
    for mut insn in second.insns.iter().copied() {
        for jump in [&mut insn.jump_true, &mut insn.jump_false] {
            if *jump < REJECT {
                *jump += start as u8;
            }
        }
        let has_constant = matches!(insn.op, op::STR_EQ..=op::WALK) || insn.ty & ty::MASKED != 0;
        insn.aux += if has_constant { pool_start as u16 } else { 0 };
        both.insns.push(insn);
    }
    both.pool.extend_from_slice(&second.pool);
    both.payload_min_bytes = first.payload_min_bytes.max(second.payload_min_bytes);
    both.check().is_ok().then_some(both)
}

/// Refuses what no program can decide, whatever the events are: contexts, pairs, globs with more than one `*`.
pub fn check_filters(filters: &[Filter]) -> Result<(), crate::Error> {
    filters.iter().try_for_each(|filter| match find(&filter.expr) {
        Some((span, message)) => Err(crate::Error::Filter(refusal(filter, span, message))),
        None => Ok(()),
    })
}

const BY_FIELDS: &str = "a traced program filters by fields only";
const HELP: &str = "record without this part, and give it to `kymo read --filter`";

fn refusal(filter: &Filter, span: Span, message: &str) -> Error {
    let text = match filter.check(&Vec::<Event>::new()) {
        Ok(checked) => checked.text().to_owned(),
        Err(error) => error.text,
    };
    Error { text, span, message: message.to_owned(), help: HELP.to_owned() }
}

/// The first part of an expression that a program cannot decide, and why.
fn find(expr: &Expr) -> Option<(Span, &'static str)> {
    let all = |parts: &[Expr]| parts.iter().find_map(find);
    match &expr.kind {
        ExprKind::Context(_) => Some((expr.span, BY_FIELDS)),
        ExprKind::Field(field) | ExprKind::Has(field) | ExprKind::Len(field) if field.is_context() => {
            Some((expr.span, BY_FIELDS))
        }
        ExprKind::Latency(_) => Some((expr.span, "a traced program looks at one record at a time")),
        ExprKind::Compare(Compare::Match | Compare::NoMatch, left, right) => match &right.kind {
            ExprKind::Text(glob) if glob.contains('?') || glob.matches('*').count() > 1 => {
                Some((right.span, "a traced program knows globs with one `*`, without `?`"))
            }
            _ => find(left),
        },
        ExprKind::Not(of) | ExprKind::Neg(of) => find(of),
        ExprKind::Binary(_, left, right) | ExprKind::Compare(_, left, right) => find(left).or_else(|| find(right)),
        ExprKind::In(value, list) => find(value).or_else(|| all(list)),
        ExprKind::And(parts) | ExprKind::Or(parts) => all(parts),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_abi::desc::{EventDesc, Field, FieldType, Scalar};
    use kymo_filter::parse;

    fn class(id: u16, name: &str, fields: &[(&str, FieldType)]) -> EventClass {
        let field = |(name, ty): &(&str, FieldType)| Field { name: (*name).into(), ty: ty.clone() };
        let fields = fields.iter().map(field).collect();
        let desc = EventDesc { provider: "motor".into(), name: name.into(), file: String::new(), line: 1, fields };
        EventClass::of_user(id, &desc, &[])
    }

    fn classes() -> Vec<EventClass> {
        let axis = || ("axis", FieldType::Scalar(Scalar::U32));
        let note = ("note", FieldType::Str);
        vec![class(1, "step", &[axis(), note]), class(2, "stop", &[axis()]), class(3, "tick", &[])]
    }

    fn filters(texts: &[&str]) -> Filters {
        let list: Vec<Filter> = texts.iter().map(|text| parse(text).unwrap()).collect();
        check_filters(&list).unwrap();
        let mut filters = Filters::new(&list);
        filters.learn(&classes());
        filters
    }

    /// Of `motor:step` with an axis and a note: whether its record is selected.
    fn selects(filters: &Filters, axis: u32, note: &str) -> bool {
        let mut payload = axis.to_le_bytes().to_vec();
        payload.extend_from_slice(&(note.len() as u16).to_le_bytes());
        payload.extend_from_slice(note.as_bytes());
        match filters.decide(1) {
            (Decision::Some(program), caveats) if caveats.is_empty() => program.run(&payload),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_filters_of_an_event_must_hold() {
        let texts = ["axis & 1 == 1 || axis == 2", "motor:step: note ~ \"ab*\"", "motor:st*: axis in (1, 2, 5)"];
        let three = filters(&texts);
        for (axis, note, expect) in
            [(1, "abc", true), (2, "ab", true), (3, "ab", false), (5, "xb", false), (4, "ab", false), (5, "ab", true)]
        {
            assert_eq!(selects(&three, axis, note), expect, "{axis} {note}");
        }
        // No axis, so not known, so never.
        assert_eq!(three.decide(3), (Decision::Never, Vec::new()));
        assert_eq!(filters(&["motor:step: axis == 1"]).decide(3), (Decision::All, Vec::new()));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let check = |texts: &[&str], expect: &str| {
            let filters = filters(texts);
            let mut said = filters.decide(1).1;
            said.extend(filters.unfit());
            assert!(said.len() == 1 && said[0].contains(expect), "{said:?}");
        };
        check(&["axs == 1"], "--filter axs == 1: no event has a field `axs`; did you mean `axis`?");
        check(&["motor:step: axis + 1 == 2"], "motor:step is recorded without it");
        let long = format!("axis in ({})", (0..150).map(|n| (n * 2).to_string()).collect::<Vec<_>>().join(", "));
        check(&[&long, &long], "too long");
    }

    #[test]
    fn a_filter_may_fit_later() {
        let mut filters = Filters::new(&[parse("!has(note) || axis == 1").unwrap()]);
        assert!(!filters.learn(&classes()[1..2]));
        assert_eq!(filters.decide(1).0, Decision::Never);
        assert_eq!(filters.unfit().len(), 1);
        let all = [&classes()[1..2], &[class(2, "step", &[("note", FieldType::Str)])]].concat();
        assert!(filters.learn(&all));
        assert!(matches!(filters.decide(1).0, Decision::Some(_)));
        assert!(filters.unfit().is_empty());
    }

    #[test]
    fn what_no_program_can_decide_is_refused_at_the_start() {
        let check = |text: &str, caret: &str| {
            let error = check_filters(&[parse(text).unwrap()]).unwrap_err().to_string();
            let lines: Vec<&str> = error.lines().skip(1).collect();
            assert!(lines.len() == 3 && lines[1].trim_end().starts_with(caret), "{error}");
            assert!(lines[0].ends_with(text), "{error}");
        };
        check("axis == 2 && $tid == 7", "             ^^^^ ");
        check("latency(a:b, c:d) > 5ms", "^^^^");
        check("note ~ \"a*b*\"", "       ^^^^^^ ");
        assert!(check_filters(&[parse("note ~ \"a*b\" && axis & 3 == 1").unwrap()]).is_ok());
    }
}
