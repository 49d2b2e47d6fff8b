// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of events.

use std::fmt;

/// An event of the kernel. Displayed as `system:name`, as tracefs does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventName {
    /// Its group: a directory below `events`.
    pub system: String,
    /// Its name within the group.
    pub name: String,
}

impl EventName {
    /// From its two parts.
    pub fn new(system: impl Into<String>, name: impl Into<String>) -> EventName {
        EventName { system: system.into(), name: name.into() }
    }

    /// From `system:name`. `None` where a part is missing or could lead out of a directory.
    pub fn parse(text: &str) -> Option<EventName> {
        let (system, name) = text.split_once(':')?;
        let good = |part: &str| !part.is_empty() && !part.contains('/') && !part.starts_with('.');
        (good(system) && good(name)).then(|| EventName::new(system, name))
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_parts_and_no_way_out() {
        assert_eq!(EventName::parse("sched:sched_switch").unwrap().to_string(), "sched:sched_switch");
        for bad in ["", "sched", ":x", "x:", "a:../b", "..:x", "a/b:c"] {
            assert_eq!(EventName::parse(bad), None, "{bad}");
        }
    }
}
