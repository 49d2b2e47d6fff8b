// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ids of events in a session [spec/session.md 5]: events that are the same share one over all programs.

use std::collections::{BTreeMap, HashMap};

use kymo_abi::desc::{EnumDesc, EventDesc, Field, FieldType, Scalar};
use kymo_ctf::write::EventClass;

/// Names of events kept for the report, and their bytes.
const SEEN_MAX: usize = 100_000;
const SEEN_BYTES_MAX: usize = 8 << 20;
/// Ids that there are. The last one of 16 bits is that of thread records [spec/ring.md 11].
const IDS_MAX: usize = 65_534;
/// Bytes of the descriptions of all events with an id.
const BYTES_MAX: usize = 16 << 20;

/// What makes an event the same [spec/event.md 3.3]. Enumerations are those of the session, so equal names are equal
/// labels.
type Identity = (String, String, Vec<Field>);

/// All events and enumerations of a session.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Events with an id, by id from 1 on.
    pub events: Vec<EventClass>,
    /// Enumerations under the names that the events use.
    pub enums: Vec<EnumDesc>,
    by_identity: HashMap<Identity, u16>,
    /// By the program's name of an enumeration: indices into `enums`.
    by_enum: HashMap<String, Vec<usize>>,
    /// `provider:name` of every event seen, and whether it is wanted.
    pub seen: BTreeMap<String, bool>,
    seen_bytes: usize,
    /// Events with an id that a user's programs brought, and the bytes of their descriptions.
    pub shares: HashMap<u32, (usize, usize)>,
    bytes: usize,
    /// Descriptions of events that were given an id and not told to the drain thread yet.
    pub fresh: Vec<EventDesc>,
}

impl Registry {
    /// Notes that a program in scope has this event.
    pub(crate) fn see(&mut self, name: &str, wanted: bool) {
        if let Some(known) = self.seen.get_mut(name) {
            *known = wanted;
        } else if self.seen.len() < SEEN_MAX && self.seen_bytes + name.len() <= SEEN_BYTES_MAX {
            self.seen_bytes += name.len();
            self.seen.insert(name.to_owned(), wanted);
        }
    }

    /// Ids, and bytes of descriptions, that are left.
    pub(crate) fn left(&self) -> (usize, usize) {
        (IDS_MAX - self.events.len(), BYTES_MAX.saturating_sub(self.bytes))
    }

    /// The newest id was given for a description of a user's program, of so many bytes.
    pub(crate) fn charge(&mut self, uid: u32, bytes: usize) {
        let share = self.shares.entry(uid).or_default();
        *share = (share.0 + 1, share.1 + bytes);
        self.bytes += bytes;
    }

    /// The id of `event`, whose program has the enumerations that `labels` finds; `None` when all 65,534 are given, or
    /// where it would be a new one that `may_be_new` refuses.
    pub(crate) fn id(
        &mut self,
        event: &EventDesc,
        labels: impl Fn(&str) -> Option<EnumDesc>,
        may_be_new: bool,
    ) -> Option<u16> {
        let mut desc = event.clone();
        for field in &mut desc.fields {
            if let FieldType::Enum { scalar, name } = &field.ty {
                field.ty = self.labelled(*scalar, labels(name).as_ref());
            }
        }
        let identity = (desc.provider.clone(), desc.name.clone(), desc.fields.clone());
        if let Some(id) = self.by_identity.get(&identity) {
            return Some(*id);
        }
        let number = self.events.len() + 1;
        let id = u16::try_from(number).ok().filter(|_| may_be_new && number <= IDS_MAX)?;
        self.by_identity.insert(identity, id);
        self.events.push(EventClass::of_user(id, &desc, &self.enums));
        self.fresh.push(desc);
        Some(id)
    }

    /// The type of an enumeration field: programs may differ on the labels of one name, then the later ones are
    /// renamed.
    fn labelled(&mut self, scalar: Scalar, found: Option<&EnumDesc>) -> FieldType {
        let Some(found) = found.filter(|found| found.scalar == scalar) else {
            return FieldType::Scalar(scalar);
        };
        let known = self.by_enum.entry(found.full_name()).or_default();
        let same = |index: &&usize| self.enums[**index].labels == found.labels && self.enums[**index].scalar == scalar;
        let index = match known.iter().find(same) {
            Some(index) => *index,
            None => {
                let mut desc = found.clone();
                let mut number = known.len() + 1;
                while self.enums.iter().any(|old| old.provider == desc.provider && old.name == desc.name) {
                    desc.name = format!("{}__{number}", found.name);
                    number += 1;
                }
                known.push(self.enums.len());
                self.enums.push(desc);
                self.enums.len() - 1
            }
        };
        FieldType::Enum { scalar, name: self.enums[index].full_name() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ty: FieldType, line: u32) -> EventDesc {
        let fields = vec![Field { name: "state".into(), ty }];
        EventDesc { provider: "motor".into(), name: "step".into(), file: "a.c".into(), line, fields }
    }

    fn labels(label: &str) -> HashMap<String, EnumDesc> {
        let labels = vec![(label.to_owned(), 0)];
        let desc = EnumDesc {
            provider: "motor".into(),
            name: "state".into(),
            file: String::new(),
            line: 1,
            scalar: Scalar::U8,
            labels,
        };
        HashMap::from([("motor:state".to_owned(), desc)])
    }

    impl Registry {
        fn id_of(&mut self, event: &EventDesc, enums: &HashMap<String, EnumDesc>) -> Option<u16> {
            self.id(event, |name| enums.get(name).cloned(), true)
        }
    }

    #[test]
    fn equal_events_share_an_id() {
        let mut registry = Registry::default();
        let ty = || FieldType::Enum { scalar: Scalar::U8, name: "motor:state".into() };
        assert_eq!(registry.id_of(&event(ty(), 1), &labels("idle")), Some(1));
        assert_eq!(registry.id_of(&event(ty(), 2), &labels("idle")), Some(1));
        assert_eq!(registry.id_of(&event(FieldType::Str, 1), &labels("idle")), Some(2));
        // Other labels under the same name, no labels, labels for another integer.
        assert_eq!(registry.id_of(&event(ty(), 1), &labels("moving")), Some(3));
        assert_eq!(registry.id_of(&event(ty(), 1), &HashMap::new()), Some(4));
        assert_eq!(registry.id_of(&event(FieldType::Scalar(Scalar::U8), 1), &HashMap::new()), Some(4));
        let names: Vec<_> = registry.enums.iter().map(EnumDesc::full_name).collect();
        assert_eq!(names, ["motor:state", "motor:state__2"]);
    }

    #[test]
    fn who_may_have_no_new_id_still_has_those_of_others() {
        let mut registry = Registry::default();
        let id = |registry: &mut Registry, ty: FieldType, is_new| registry.id(&event(ty, 1), |_| None, is_new);
        assert_eq!(id(&mut registry, FieldType::Str, false), None);
        assert_eq!(id(&mut registry, FieldType::Str, true), Some(1));
        assert_eq!(
            (id(&mut registry, FieldType::Str, false), id(&mut registry, FieldType::Bytes, false)),
            (Some(1), None)
        );
    }

    #[test]
    fn ids_end_at_65534() {
        let mut registry = Registry::default();
        let mut named = event(FieldType::Str, 1);
        for number in 0..70_000 {
            named.name = format!("e{number}");
            assert_eq!(registry.id_of(&named, &HashMap::new()).is_some(), number < 65_534);
        }
    }
}
