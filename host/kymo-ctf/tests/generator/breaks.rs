// SPDX-License-Identifier: MIT OR Apache-2.0
//! One edit that breaks one rule, at a random place of a valid case's metadata. The tables are in `breaks_tsdl` and
//! `breaks_json`.

use kymo_testing::Random;
use serde_json::{Map, Value};

use super::features::Features;
use super::make::Format;
use super::trace::Case;
use super::{json, tsdl};

/// A rule broken.
#[derive(Clone, Copy, Debug)]
pub struct Break {
    /// As the data file calls it.
    pub name: &'static str,
    pub edit: Edit,
}

/// How.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// TSDL: a declaration more, between two blocks.
    Declare(&'static str),
    /// TSDL: one of the places with this text gets another.
    Replace(&'static str, &'static str),
    /// TSDL: the last block that begins so a second time, at the end.
    RepeatBlock(&'static str),
    /// CTF 2: one of the objects whose type contains the first and that has the second gets another value, or loses it
    /// (an empty text).
    Set(&'static str, &'static str, &'static str),
    /// CTF 2: as `Set`, where the object need not have the property.
    Add(&'static str, &'static str, &'static str),
    /// CTF 2: a fragment more, behind those that are there.
    Append(&'static str),
    /// CTF 2: one of the fragments of this type a second time, at the end.
    Repeat(&'static str),
    /// CTF 2: the fragment of this number goes.
    Remove(usize),
    /// CTF 2: the structure with most members has its first one twice.
    RepeatMember,
    /// CTF 2: the bytes of the fragments; gives the number of the one that is wrong.
    Bytes(fn(&mut [Vec<u8>], &mut Random) -> usize),
}

impl Edit {
    pub fn format(self) -> Format {
        match self {
            Self::Declare(_) | Self::Replace(..) | Self::RepeatBlock(_) => Format::Tsdl,
            _ => Format::Json,
        }
    }
}

/// Where the edit is: lines of the text, or a number of a fragment.
#[derive(Clone, Copy, Debug)]
pub enum BrokenPart {
    Lines(u32, u32),
    Fragment(usize),
}

/// A case that is no longer valid.
pub struct Broken {
    pub case: Case,
    pub metadata: Vec<u8>,
    pub place: BrokenPart,
}

impl Break {
    /// Breaks the first case from `seed` on that has a place for it.
    pub fn apply(&self, seed: u64, features: &Features) -> Option<Broken> {
        (seed..seed + 60).find_map(|seed| {
            let mut case = Case::new(seed, self.edit.format(), features.clone());
            let mut random = Random(seed ^ 0xB4EA);
            let (metadata, place) = match self.edit.format() {
                Format::Tsdl => {
                    let text = tsdl::tsdl(&mut case, seed, true);
                    let (text, place) = self.text(&text, &mut random)?;
                    (text.into_bytes(), place)
                }
                Format::Json => {
                    let mut fragments = json::fragments(&mut case, seed);
                    if let Edit::Bytes(edit) = self.edit {
                        let text = |fragment| json::text(std::slice::from_ref(fragment), false);
                        let mut parts: Vec<Vec<u8>> = fragments.iter().map(text).collect();
                        let place = BrokenPart::Fragment(edit(&mut parts, &mut random));
                        return Some(Broken { case, metadata: parts.concat(), place });
                    }
                    let fragment = self.fragments(&mut fragments, &mut random)?;
                    (json::text(&fragments, false), BrokenPart::Fragment(fragment))
                }
            };
            Some(Broken { case, metadata, place })
        })
    }

    fn text(&self, text: &str, random: &mut Random) -> Option<(String, BrokenPart)> {
        match self.edit {
            Edit::Declare(declaration) => {
                // Behind the first line and behind each block. What is open to the end stands there.
                let ends: Vec<usize> = text.match_indices("\n};\n").map(|(at, _)| at + 4).collect();
                let is_open = !declaration.ends_with([';', '}']);
                let at = if is_open { text.len() } else { ends[random.below(ends.len())] };
                let first = line_of(text, at);
                let last = first + declaration.matches('\n').count() as u32;
                let changed = format!("{}{declaration}\n{}", &text[..at], &text[at..]);
                Some((changed, BrokenPart::Lines(first, last)))
            }
            Edit::Replace(from, to) => {
                let places: Vec<usize> = text.match_indices(from).map(|(at, _)| at).collect();
                let at = *places.get(random.below(places.len()))?;
                let changed = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
                // From the begin of the block to its end: the whole of a type may be what is wrong.
                let begin = text[..at].rfind("\n};\n").map_or(0, |at| at + 4);
                let end = text[at..].find("\n};\n").map_or(text.len(), |end| at + end + 4);
                Some((changed, BrokenPart::Lines(line_of(text, begin), line_of(text, end) + 1)))
            }
            Edit::RepeatBlock(begin) => {
                let block = &text[text.rfind(begin)?..];
                let block = &block[..block.find("\n};\n")? + 4];
                let lines = block.matches('\n').count() as u32;
                let first = line_of(text, text.len());
                Some((format!("{text}{block}"), BrokenPart::Lines(first, first + lines)))
            }
            _ => None,
        }
    }

    fn fragments(&self, fragments: &mut Vec<Value>, random: &mut Random) -> Option<usize> {
        match self.edit {
            Edit::Set(kind, property, value) => change(fragments, random, kind, Some(property), |object| match value {
                "" => drop(object.remove(property)),
                value => drop(object.insert(property.into(), parsed(value))),
            }),
            Edit::Add(kind, property, value) => change(fragments, random, kind, None, |object| {
                object.insert(property.into(), parsed(value));
            }),
            Edit::Append(fragment) => {
                fragments.push(parsed(fragment));
                Some(fragments.len())
            }
            Edit::Repeat(kind) => {
                let copy = fragments.iter().find(|fragment| fragment["type"] == kind)?.clone();
                fragments.push(copy);
                Some(fragments.len())
            }
            Edit::Remove(index) => {
                fragments.remove(index);
                Some(index + 1)
            }
            Edit::RepeatMember => change(fragments, random, "structure", Some("member-classes"), |object| {
                if let Some(members) = object.get_mut("member-classes").and_then(Value::as_array_mut) {
                    members.extend(members.first().cloned());
                }
            }),
            _ => None,
        }
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON of a table")
}

fn line_of(text: &str, at: usize) -> u32 {
    1 + text[..at].matches('\n').count() as u32
}

/// Changes a random object; gives the number of its fragment.
fn change(
    fragments: &mut [Value],
    random: &mut Random,
    kind: &str,
    property: Option<&str>,
    edit: impl Fn(&mut Map<String, Value>),
) -> Option<usize> {
    let mut found = Vec::new();
    for (index, fragment) in fragments.iter().enumerate() {
        search(fragment, String::new(), &mut |object, path| {
            // What has no type is a member, an option or a location.
            let of = object.get("type").and_then(Value::as_str).unwrap_or("untyped");
            if of.contains(kind) && property.is_none_or(|property| object.contains_key(property)) {
                found.push((index, path.to_owned()));
            }
        });
    }
    let (index, path) = found.get(random.below(found.len()))?.clone();
    edit(fragments[index].pointer_mut(&path)?.as_object_mut()?);
    Some(index + 1)
}

fn search(value: &Value, path: String, visit: &mut impl FnMut(&Map<String, Value>, &str)) {
    match value {
        Value::Object(object) => {
            visit(object, &path);
            for (name, inner) in
                object.iter().filter(|(name, _)| !matches!(name.as_str(), "attributes" | "environment"))
            {
                search(inner, format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), visit);
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, inner)| search(inner, format!("{path}/{index}"), visit));
        }
        _ => {}
    }
}
