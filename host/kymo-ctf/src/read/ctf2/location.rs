// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lengths and selectors of CTF 2: what a field location leads to must be an integer, or for an optional a boolean.

use serde_json::Value;

use super::shape::Shape;
use super::{Fragments, Object, number, ranges, text};
use crate::read::build::{Located, Origin};
use crate::read::class::{Choice, ClassId, ClassKind, Int, Len, Ranges, View};

/// Of what type the fields are that a location leads to. All must be of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selector {
    Boolean,
    Unsigned,
    Signed,
}

impl Selector {
    fn shown(self) -> &'static str {
        match self {
            Selector::Boolean => "a boolean",
            Selector::Unsigned => "an unsigned integer",
            Selector::Signed => "a signed integer",
        }
    }
}

impl Fragments {
    pub(super) fn len(&mut self, object: &Object) -> Result<Len, String> {
        if text(object, "type")?.starts_with("static") {
            return Ok(Len::Fixed(number(object, "length")?.ok_or("`length` is missing")?));
        }
        let (slot, selector, path) = self.location(object, "length-field-location")?;
        match selector {
            Selector::Unsigned => Ok(Len::Saved(slot)),
            _ => Err(format!("a length is an unsigned integer, and `{path}` is {}", selector.shown())),
        }
    }

    pub(super) fn variant(&mut self, object: &Object) -> Result<ClassId, String> {
        let (slot, selector, path) = self.location(object, "selector-field-location")?;
        if selector == Selector::Boolean {
            return Err(format!("the selector of a variant is an integer, and `{path}` is a boolean"));
        }
        let (mut options, mut names) = (Vec::new(), std::collections::HashSet::new());
        let none = Vec::new();
        for option in object.get("options").and_then(Value::as_array).unwrap_or(&none) {
            let option = option.as_object().ok_or("an option must be an object")?;
            Shape::Option.check(option)?;
            let ranges =
                self.ranges(option.get("selector-field-ranges").ok_or("`selector-field-ranges` is missing")?)?;
            let name = option.get("name").and_then(Value::as_str);
            if let Some(twice) = name.filter(|name| !names.insert(*name)) {
                return Err(format!("a variant has two options `{twice}`"));
            }
            let class = self.class(option.get("field-class").ok_or("`field-class` of an option is missing")?)?;
            options.push(Choice { ranges, class });
        }
        if options.is_empty() {
            return Err("a variant without options".into());
        }
        are_apart(&options)?;
        self.builder.push(1, ClassKind::Variant { slot, options, clears: Vec::new() })
    }

    pub(super) fn optional(&mut self, object: &Object) -> Result<ClassId, String> {
        let (slot, selector, _) = self.location(object, "selector-field-location")?;
        let is_boolean = selector == Selector::Boolean;
        let ranges = match object.get("selector-field-ranges") {
            Some(value) if !is_boolean => self.ranges(value)?,
            None if is_boolean || self.stand_in.is_some() => Ranges::from([(i128::MIN, -1), (1, i128::MAX)]),
            Some(_) => return Err("an optional with a boolean selector has no `selector-field-ranges`".into()),
            None => return Err("`selector-field-ranges` is missing, and the selector is no boolean".into()),
        };
        let element = self.class(object.get("field-class").ok_or("`field-class` is missing")?)?;
        self.builder.push(1, ClassKind::Optional { slot, ranges, element, clears: Vec::new() })
    }

    /// Ranges of a selector.
    fn ranges(&mut self, value: &Value) -> Result<Ranges, String> {
        let ranges = ranges(value)?;
        self.builder.charge(ranges.len())?;
        match ranges.is_empty() {
            true => Err("`selector-field-ranges` has no ranges".into()),
            false => Ok(ranges.into()),
        }
    }

    /// The slot that a length or a selector is left in, its type, and its path for messages.
    fn location(&mut self, object: &Object, key: &str) -> Result<(u32, Selector, String), String> {
        let location = object.get(key).and_then(Value::as_object).ok_or_else(|| format!("`{key}` is missing"))?;
        Shape::Location.check(location)?;
        let origin = location.get("origin").and_then(Value::as_str).map(origin).transpose()?;
        let path = location.get("path").and_then(Value::as_array).filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| format!("`path` of `{key}` is missing or empty"))?;
        let step = |step: &'_ Value| match step {
            Value::Null => Some(None),
            other => other.as_str().map(|name| Some(name.to_owned())),
        };
        let path: Option<Vec<Option<String>>> = path.iter().map(step).collect();
        let path = path.ok_or_else(|| format!("`path` of `{key}` has names and `null` only"))?;
        let path: Vec<Option<&str>> = path.iter().map(Option::as_deref).collect();
        if self.stand_in.is_some() {
            // Where it leads to is known where the alias is used.
            return Ok((0, Selector::Unsigned, String::new()));
        }
        let located = self.builder.locate(origin, &path)?;
        let shown = path.iter().map(|step| step.unwrap_or("null")).collect::<Vec<_>>().join(".");
        let slot = self.builder.shared_slot(&located, &shown)?;
        Ok((slot, self.selector(&located, &shown)?, shown))
    }

    fn selector(&self, located: &Located, path: &str) -> Result<Selector, String> {
        let of = |class: &ClassId| match &self.builder.classes[*class as usize].kind {
            ClassKind::Int(Int { view: View::Bool, .. }) => Selector::Boolean,
            ClassKind::Int(Int { signed: true, .. }) => Selector::Signed,
            _ => Selector::Unsigned,
        };
        let mut all = located.fields.iter().map(of);
        let first = all.next().ok_or_else(|| format!("`{path}` leads nowhere"))?;
        match all.find(|selector| *selector != first) {
            Some(other) => {
                Err(format!("`{path}` is {} in one option, and {} in another", first.shown(), other.shown()))
            }
            None => Ok(first),
        }
    }
}

fn origin(name: &str) -> Result<Origin, String> {
    match name {
        "packet-header" => Ok(Origin::PacketHeader),
        "packet-context" => Ok(Origin::PacketContext),
        "event-record-header" => Ok(Origin::EventHeader),
        "event-record-common-context" => Ok(Origin::CommonContext),
        "event-record-specific-context" => Ok(Origin::SpecificContext),
        "event-record-payload" => Ok(Origin::Payload),
        other => Err(format!("the origin `{other}` does not exist")),
    }
}

/// Ranges of different options must not meet. Those of one may.
fn are_apart(options: &[Choice]) -> Result<(), String> {
    let of_option =
        |(index, option): (usize, &Choice)| option.ranges.iter().map(|range| (*range, index)).collect::<Vec<_>>();
    let mut all: Vec<((i128, i128), usize)> = options.iter().enumerate().flat_map(of_option).collect();
    all.sort_unstable();
    // The range that goes furthest so far, of the option that it is of, and the furthest of another option.
    let mut furthest: Option<(i128, usize)> = None;
    for ((low, high), option) in all {
        if let Some((end, other)) = furthest {
            if low <= end && other != option {
                return Err(format!("two options of a variant have the value {low}"));
            }
        }
        furthest = furthest.max(Some((high, option)));
    }
    Ok(())
}
