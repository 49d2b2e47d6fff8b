// SPDX-License-Identifier: MIT OR Apache-2.0
//! Field locations of CTF 2: from a structure along names of members, and back with `null` [CTF2-SPEC-2.0 6.4.2].
//!
//! A location is followed while its own class is being built, so what is finished is what a reader has decoded by then,
//! and what is still open is what it is decoding. A path goes through an array only into the element that is being
//! decoded. Through a variant it goes into each option: which of them is there is known when a record is read.

use super::slots::Located;
use super::{Builder, Origin, missing};
use crate::read::class::{ClassId, ClassKind};

/// A structure on the way.
#[derive(Clone, Debug)]
enum StructureOnPath {
    /// One that is being built: position in `frames`.
    Open(usize),
    /// Finished ones, of which a record has one.
    Finished(Vec<ClassId>),
}

impl Builder {
    /// The fields that a location leads to; `None` in the path goes to the parent structure. Without an origin it
    /// begins at the structure that is being built.
    pub fn locate(&mut self, origin: Option<Origin>, path: &[Option<&str>]) -> Result<Located, String> {
        let shown = || shown(path);
        let (last, before) = path.split_last().ok_or("a `path` of a field location is empty")?;
        let Some(last) = last else { return Err(format!("`{}` ends with `null`", shown())) };
        let mut located = Located::default();
        // Each structure on the way, and how many variants and optionals are around it.
        let mut way: Vec<(StructureOnPath, usize)> =
            self.begin_of(origin, &shown())?.into_iter().map(|place| (place, 0)).collect();
        for step in before {
            self.charge(1)?;
            match step {
                Some(name) => {
                    let (place, _) = way.last().cloned().ok_or_else(|| no_parent(&shown()))?;
                    let inner = self.inner(&place, name, &mut located, &shown())?;
                    way.push((inner, located.around.len()));
                }
                None => {
                    way.pop();
                    located.around.truncate(way.last().map_or(0, |(_, around)| *around));
                }
            }
        }
        let (place, _) = way.pop().ok_or_else(|| no_parent(&shown()))?;
        located.fields = self.member_of(&place, last, &mut located.around).ok_or_else(|| missing(&shown()))?;
        Ok(located)
    }

    /// The structure at which a path begins, behind those that are around it.
    fn begin_of(&self, origin: Option<Origin>, path: &str) -> Result<Vec<StructureOnPath>, String> {
        match origin {
            None if self.frames.is_empty() => Err(no_parent(path)),
            None => Ok((0..self.frames.len()).map(StructureOnPath::Open).collect()),
            Some(origin) if origin == self.current && !self.frames.is_empty() => Ok(vec![StructureOnPath::Open(0)]),
            Some(origin) => match self.roots[origin as usize] {
                Some(root) => Ok(vec![StructureOnPath::Finished(vec![root])]),
                None => Err(missing(path)),
            },
        }
    }

    /// The structure that is the member `name` of a place, or lies in it.
    fn inner(
        &mut self,
        place: &StructureOnPath,
        name: &str,
        located: &mut Located,
        path: &str,
    ) -> Result<StructureOnPath, String> {
        if let StructureOnPath::Open(frame) = place {
            let is_open = self.frames[*frame].open.as_deref() == Some(name);
            if is_open && frame + 1 < self.frames.len() {
                return Ok(StructureOnPath::Open(frame + 1));
            }
        }
        let found = self.member_of(place, name, &mut located.around).ok_or_else(|| missing(path))?;
        self.charge(found.len())?;
        let is_array = |class: &ClassId| matches!(self.classes[*class as usize].kind, ClassKind::Array { .. });
        let is_structure = |class: &ClassId| matches!(self.classes[*class as usize].kind, ClassKind::Struct { .. });
        if found.iter().all(is_array) {
            return Err(format!("`{path}` leads into `{name}`, an array all of whose elements come earlier"));
        }
        let structures: Vec<ClassId> = found.into_iter().filter(is_structure).collect();
        match structures.is_empty() {
            true => Err(format!("`{path}` leads through `{name}`, which is no structure")),
            false => Ok(StructureOnPath::Finished(structures)),
        }
    }

    /// The finished member `name` of a place: each class that it may have behind variants and optionals.
    fn member_of(&self, place: &StructureOnPath, name: &str, around: &mut Vec<ClassId>) -> Option<Vec<ClassId>> {
        let mut open: Vec<ClassId> = match place {
            StructureOnPath::Open(frame) => self.frames[*frame].classes.get(name).copied().into_iter().collect(),
            StructureOnPath::Finished(classes) => classes.iter().filter_map(|class| self.child(*class, name)).collect(),
        };
        let mut found = Vec::new();
        while let Some(class) = open.pop() {
            match &self.classes[class as usize].kind {
                ClassKind::Variant { options, .. } => {
                    around.push(class);
                    open.extend(options.iter().map(|option| option.class));
                }
                ClassKind::Optional { element, .. } => {
                    around.push(class);
                    open.push(*element);
                }
                _ => found.push(class),
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

fn no_parent(path: &str) -> String {
    format!("`{path}` leads out of the outermost structure")
}

/// For messages.
fn shown(path: &[Option<&str>]) -> String {
    let steps: Vec<&str> = path.iter().map(|step| step.unwrap_or("null")).collect();
    steps.join(".")
}
