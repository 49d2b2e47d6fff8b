// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every selected record of an event fulfils, said in another language [spec/flight.md 3.1]: so that somebody
//! nearer to the source can leave out the others. Comparisons of one integer field with a constant are said; the rest
//! is left out where that only lets more through.

use crate::ast::Compare;
use crate::check::Checked;
use crate::plan::{Cond, Number, Operand, OperandSource, Test, TestKind};

/// Comparisons in one text.
const TESTS_MAX: usize = 32;

/// What is known of the records of an event that a filter needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Necessary {
    /// None of them.
    None,
    /// Those for which this holds, in the other language.
    If(String),
    /// All of them.
    All,
}

/// Says a comparison: the field's name, the comparison (never of text), the constant. `None` where the other language
/// cannot say it.
pub type Say<'s> = dyn Fn(&str, Compare, i128) -> Option<String> + 's;

/// What a filter needs of the event at position `event`. A filter with pairs needs all records.
pub fn necessary(checked: &Checked, event: usize, say: &Say<'_>) -> Necessary {
    if checked.has_latency() {
        return Necessary::All;
    }
    let Some(plan) = checked.plans.get(event) else { return Necessary::None };
    match plan {
        Cond::Const(false) => Necessary::None,
        plan => {
            let mut tests = 0;
            let text = Speaker { say, tests: &mut tests }.cond(plan);
            text.filter(|_| tests <= TESTS_MAX).map_or(Necessary::All, Necessary::If)
        }
    }
}

struct Speaker<'s, 'c> {
    say: &'s Say<'s>,
    tests: &'c mut usize,
}

impl Speaker<'_, '_> {
    /// A text that holds wherever the condition does.
    fn cond(&mut self, cond: &Cond) -> Option<String> {
        match cond {
            Cond::Const(_) => None,
            // Any part alone is necessary.
            Cond::All(parts) => {
                let said: Vec<String> = parts.iter().filter_map(|part| self.cond(part)).collect();
                joined(&said, " && ")
            }
            Cond::Any(parts) => {
                let said: Vec<String> = parts.iter().map(|part| self.cond(part)).collect::<Option<_>>()?;
                joined(&said, " || ")
            }
            Cond::Test(test) => self.test(test),
        }
    }

    fn test(&mut self, test: &Test) -> Option<String> {
        match &test.kind {
            TestKind::Number { left, op, right: Operand::Const(Number::Int(value)) } => {
                self.compare(left, opposite(*op, test.negate)?, *value)
            }
            TestKind::Ints { operand, values } => {
                let (op, between) = if test.negate { (Compare::Ne, " && ") } else { (Compare::Eq, " || ") };
                let said = values.iter().map(|value| self.compare(operand, op, *value)).collect::<Option<Vec<_>>>()?;
                joined(&said, between)
            }
            _ => None,
        }
    }

    fn compare(&mut self, left: &Operand, op: Compare, value: i128) -> Option<String> {
        let Operand::Source(OperandSource::Place(place)) = left else { return None };
        if !place.steps.is_empty() {
            return None;
        }
        *self.tests += 1;
        (self.say)(&place.name, op, value)
    }
}

/// The comparison that holds where `op` does, or where it does not.
fn opposite(op: Compare, negate: bool) -> Option<Compare> {
    Some(match (op, negate) {
        (op, false) => op,
        (Compare::Eq, true) => Compare::Ne,
        (Compare::Ne, true) => Compare::Eq,
        (Compare::Lt, true) => Compare::Ge,
        (Compare::Le, true) => Compare::Gt,
        (Compare::Gt, true) => Compare::Le,
        (Compare::Ge, true) => Compare::Lt,
        (Compare::Match | Compare::NoMatch, true) => return None,
    })
}

fn joined(said: &[String], between: &str) -> Option<String> {
    match said {
        [] => None,
        [one] => Some(one.clone()),
        several => {
            let several: Vec<String> = several.iter().map(|text| format!("({text})")).collect();
            Some(several.join(between))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, probe};

    #[test]
    fn what_is_said_lets_through_all_that_is_selected() {
        let say = |name: &str, op: Compare, value: i128| {
            (name != "duration").then(|| format!("{name} {} {value}", op.sign()))
        };
        let check = |text: &str, expect: Necessary| {
            let checked = parse(text).unwrap().check(&probe::events()).unwrap();
            assert_eq!(necessary(&checked, 0, &say), expect, "{text}");
        };
        let holds = |text: &str| Necessary::If(text.to_owned());
        check("axis == 2", holds("axis == 2"));
        check("5 < axis && size & 3 == 1 && ok", holds("axis > 5"));
        check("!(axis < 2 || delta >= -1)", holds("(axis >= 2) && (delta < -1)"));
        check(
            "axis in (1, 2, 3, 4, 5)",
            holds("(axis == 1) || (axis == 2) || (axis == 3) || (axis == 4) || (axis == 5)"),
        );
        check("axis == 2 || delta < 3", holds("(axis == 2) || (delta < 3)"));
        // A part that cannot be said may hold alone.
        check("axis == 2 || duration > 5", Necessary::All);
        check("axis == 2 || note == \"x\"", Necessary::All);
        check("axis == 2 && duration > 5", holds("axis == 2"));
        check("position > 0.5", Necessary::All);
        check("vec[1] == 3", Necessary::All);
        check("$cpu == 1", Necessary::All);
        check("motor:step: true", Necessary::All);
        check("req:*: id == 3", Necessary::None);
        check("axis == 2 && latency(req:begin, req:end) > 1ms", Necessary::All);
    }
}
