// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of payload fields as parts of rows.

use std::collections::HashMap;

use kymo_analyze::{Class, Kind, LEVELS_MAX, Record as _};

use super::by::By;
use crate::verbs::analyze::feed::{Payload, Seen};
use crate::verbs::analyze::keys::meant;

/// Values of payload fields, as parts of rows.
pub struct FieldValues {
    /// By class and level: position of the field, and whether it is text.
    places: Vec<[Option<(usize, bool)>; LEVELS_MAX]>,
    /// Whether there are any.
    are_wanted: bool,
    /// Texts that were met, each standing for a number: `i64::MIN` for the first, and so on.
    pub texts: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl FieldValues {
    /// An error where no class has a field that rows are made by.
    pub fn new(by: &[By], classes: &[Class]) -> anyhow::Result<Self> {
        anyhow::ensure!(by.len() <= LEVELS_MAX, "--by: there are {LEVELS_MAX} levels at most");
        let mut places = vec![[None; LEVELS_MAX]; classes.len()];
        for (level, by) in by.iter().enumerate() {
            let By::Field(name) = by else { continue };
            let mut is_there = false;
            for (class, places) in classes.iter().zip(&mut places) {
                let field = class.field(&[name]).filter(|field| matches!(field.kind, Kind::Integer | Kind::Text));
                places[level] = field.map(|field| (field.position, field.kind == Kind::Text));
                is_there |= field.is_some();
            }
            anyhow::ensure!(
                is_there,
                "--by: {name:?} is not event, process, thread or cpu, and no event of the trace has a field of that name that is an \
                 integer or text{}",
                near(name, classes)
            );
        }
        let are_wanted = by.iter().any(|by| matches!(by, By::Field(_)));
        Ok(Self { places, are_wanted, texts: Vec::new(), numbers: HashMap::new() })
    }

    /// The values of a record.
    pub fn of(&mut self, seen: &Seen<'_, '_>, parts: &mut [Option<i64>; LEVELS_MAX]) {
        if !self.are_wanted {
            return;
        }
        let payload = Payload(seen.record.payload);
        for (part, place) in parts.iter_mut().zip(self.places[seen.class]) {
            *part = match place {
                Some((position, true)) => payload.text(position).and_then(|text| self.number(&text)),
                Some((position, false)) => payload.integer(position).and_then(|value| i64::try_from(value).ok()),
                None => None,
            };
        }
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
fn near(name: &str, classes: &[Class]) -> String {
    let fields = classes.iter().flat_map(|class| &class.fields).map(|field| field.name.as_str());
    let known: Vec<&str> = ["event", "process", "thread", "cpu"].into_iter().chain(fields).collect();
    meant(name, &known)
}

/// Texts of fields that are kept apart at most.
const TEXTS_MAX: usize = 1 << 18;
