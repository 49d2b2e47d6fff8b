// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter before any event is known: what no event could make right.

use crate::ast::{ExprKind, Filter, Named};
use crate::error::Error;
use crate::schema::{Event, Field, ValueType};

impl Filter {
    /// Errors that it has whatever the events are: a number where a condition is wanted, text that is compared by size,
    /// a condition that asks for nothing of a record. Latencies and wake-ups are not looked into.
    pub fn check_alone(&self) -> Result<(), Error> {
        if self.has_pairs() {
            return Ok(());
        }
        let mut fields: Vec<Field> = Vec::new();
        let mut asks = self.selector.is_some();
        self.expr.walk(&mut |expr| match &expr.kind {
            ExprKind::Field(field) | ExprKind::Has(field) | ExprKind::Len(field) => {
                asks = true;
                if fields.iter().all(|known| known.name != field.name) {
                    fields.push(Field { name: field.name.clone(), kind: ValueType::Any });
                }
            }
            ExprKind::Context(_) => asks = true,
            _ => {}
        });
        let mut events: Vec<Event> = Vec::new();
        for named in self.named() {
            if let Named::Event(pattern) = named {
                let name = pattern.glob.replace(['*', '?'], "x");
                events.push(Event { name, fields: fields.clone() });
            }
        }
        if events.is_empty() {
            events.push(Event { name: "any:event".to_owned(), fields });
        }
        self.check(&events)?;
        if asks {
            return Ok(());
        }
        let help = "name an event or a field, such as `motor:step.duration > 200us`";
        Err(Error::new(&self.text.0, self.expr.span, "this is the same for every record".to_owned(), help))
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn what_no_event_makes_right() {
        for (text, part) in [
            ("200us", "a condition is wanted"),
            ("\"a\"", "a condition is wanted"),
            ("1", "a condition is wanted"),
            ("true", "the same for every record"),
            ("2 > 1", "the same for every record"),
            ("motor:step: 200us", "a condition is wanted"),
            ("motor:step.duration < \"a\"", "compares numbers"),
            ("duration ~ 3", ""),
        ] {
            let error = parse(text).and_then(|filter| filter.check_alone()).expect_err(text);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_some_event_may_make_right() {
        for text in [
            "duration > 200us",
            "motor:*: axis == 2 && position > 0.5",
            "motor:step.state == fault",
            "a:b.x > 3 || c:d.y ~ \"x*\"",
            "list[3] == 4 && point.x in (1, 2)",
            "has(note) && len(note) > 3",
            "$cpu == 1",
            "$prio < 5",
            "flag",
            "!flag",
            "motor:step: true",
            "latency(a:b, c:d, by=id) > 5ms",
            "wakeup() > 200us",
        ] {
            if let Err(error) = parse(text).and_then(|filter| filter.check_alone()) {
                panic!("{text}: {error}");
            }
        }
    }
}
