// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: what a session's records say besides thread and fields [spec/context.md]. What was asked for, as words of
//! a memory's header, as members of the metadata, and as names in filters.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use kymo_abi::desc::shape::Shape;
use kymo_abi::desc::{EventDesc, Field as DescField, FieldType, Scalar};
use kymo_abi::ring::{self, PERF_MAX, context};
use kymo_ctf::write::{Field, FieldClass, Number};
use kymo_filter::context_field;

use crate::Error;
use crate::pattern::near;

/// Contexts of every record, which are asked for in vain.
const ALWAYS: [&str; 4] = ["vpid", "procname", "vtid", "cpu"];
/// Those with a fixed name.
const NAMED: [(&str, u32); 4] = [
    ("prio", context::PRIO),
    ("prio:now", context::PRIO_NOW),
    ("cgroup", context::CGROUP),
    ("callstack", context::CALLSTACK),
];

/// PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW of perf_event_open(2).
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const HW_CACHE: u32 = 3;
const RAW: u32 = 4;

/// Counters by the names that `perf list` has for them; of two names of one counter the first is the member's.
const COUNTERS: [(&str, u32, u64); 37] = [
    ("cpu-clock", SOFTWARE, 0),
    ("task-clock", SOFTWARE, 1),
    ("page-faults", SOFTWARE, 2),
    ("faults", SOFTWARE, 2),
    ("context-switches", SOFTWARE, 3),
    ("cs", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
    ("migrations", SOFTWARE, 4),
    ("minor-faults", SOFTWARE, 5),
    ("major-faults", SOFTWARE, 6),
    ("alignment-faults", SOFTWARE, 7),
    ("emulation-faults", SOFTWARE, 8),
    ("cpu-cycles", HARDWARE, 0),
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branch-instructions", HARDWARE, 4),
    ("branches", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("bus-cycles", HARDWARE, 6),
    ("stalled-cycles-frontend", HARDWARE, 7),
    ("stalled-cycles-backend", HARDWARE, 8),
    ("ref-cycles", HARDWARE, 9),
    // Cache | operation << 8 | result << 16.
    ("L1-dcache-loads", HW_CACHE, 0),
    ("L1-dcache-load-misses", HW_CACHE, 0x1_0000),
    ("L1-dcache-stores", HW_CACHE, 0x100),
    ("L1-icache-load-misses", HW_CACHE, 0x1_0001),
    ("LLC-loads", HW_CACHE, 2),
    ("LLC-load-misses", HW_CACHE, 0x1_0002),
    ("LLC-stores", HW_CACHE, 0x102),
    ("LLC-store-misses", HW_CACHE, 0x1_0102),
    ("dTLB-loads", HW_CACHE, 3),
    ("dTLB-load-misses", HW_CACHE, 0x1_0003),
    ("dTLB-store-misses", HW_CACHE, 0x1_0103),
    ("iTLB-load-misses", HW_CACHE, 0x1_0004),
    ("branch-load-misses", HW_CACHE, 0x1_0005),
];

/// The contexts of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    header: ring::Contexts,
    /// Names of the counters, as they were asked for.
    counters: Vec<String>,
}

impl Contexts {
    /// From lists such as `prio,perf:page-faults`. Nothing is opened.
    pub fn parse(lists: &[String]) -> Result<Contexts, Error> {
        let mut contexts = Contexts::default();
        for word in lists.iter().flat_map(|list| list.split(',')).map(str::trim) {
            contexts.add(word).map_err(Error::Context)?;
        }
        let both = context::PRIO | context::PRIO_NOW;
        if contexts.header.bits & both == both {
            return Err(Error::Context("prio and prio:now exclude each other; give one of them".to_owned()));
        }
        Ok(contexts)
    }

    fn add(&mut self, word: &str) -> Result<(), String> {
        if let Some(name) = word.strip_prefix("perf:") {
            return self.add_counter(name);
        }
        if ALWAYS.contains(&word) {
            return Ok(());
        }
        match NAMED.iter().find(|(name, _)| *name == word) {
            Some((_, bit)) => self.header.bits |= bit,
            None => return Err(unknown(word)),
        }
        Ok(())
    }

    fn add_counter(&mut self, name: &str) -> Result<(), String> {
        let known = COUNTERS.iter().find(|(known, ..)| *known == name).map(|(_, kind, config)| (*kind, *config));
        let raw = || name.strip_prefix('r').and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let counter = known.or_else(|| raw().map(|config| (RAW, config))).ok_or_else(|| unknown_counter(name))?;
        if self.header.perf.contains(&counter) {
            return Ok(());
        }
        if self.counters.len() == PERF_MAX {
            return Err(format!("a record has at most {PERF_MAX} counters; perf:{name} is one too many"));
        }
        self.header.bits |= context::PERF;
        self.header.perf.push(counter);
        self.counters.push(name.to_owned());
        Ok(())
    }

    /// With those by which records of rings that programs share tell whose they are.
    pub(crate) fn shared(mut self) -> Contexts {
        self.header.bits |= context::VPID | context::PROCNAME;
        self
    }

    /// With records that are compact, or not.
    pub(crate) fn compact(mut self, is_compact: bool) -> Contexts {
        self.header.bits |= if is_compact { context::COMPACT } else { 0 };
        self
    }

    /// Whether records are compact [spec/ring.md 11].
    pub(crate) fn is_compact(&self) -> bool {
        self.header.bits & context::COMPACT != 0
    }

    /// What the header of a memory says.
    pub(crate) fn header(&self) -> &ring::Contexts {
        &self.header
    }

    /// Opens each counter once, as the traced programs will, so that a session does not begin whose counters stay 0.
    pub fn probe(&self) -> Result<(), Error> {
        for (name, (kind, config)) in self.counters.iter().zip(&self.header.perf) {
            open_counter(*kind, *config).map_err(|error| Error::Context(refusal(name, *kind, &error)))?;
        }
        Ok(())
    }

    /// Names and types in the order of the record [spec/context.md].
    fn members(&self) -> Vec<(String, FieldType)> {
        let scalar = FieldType::Scalar;
        let all = [
            (context::VPID, "vpid", scalar(Scalar::U32)),
            (context::PRIO | context::PRIO_NOW, "prio", scalar(Scalar::I32)),
            (context::CGROUP, "cgroup", scalar(Scalar::U64)),
            (context::PROCNAME, "procname", FieldType::Array { element: Scalar::U8, count: 16 }),
            (context::PERF, "perf", scalar(Scalar::U64)),
            (context::CALLSTACK, "callstack", FieldType::Seq { element: Scalar::X64 }),
        ];
        let mut members = Vec::new();
        for (bits, name, ty) in all.into_iter().filter(|(bits, ..)| self.header.bits & bits != 0) {
            if bits == context::PERF {
                members.extend(self.counters.iter().map(|counter| (member_of(counter), ty.clone())));
            } else {
                members.push((name.to_owned(), ty));
            }
        }
        members
    }

    /// Members of the event context in the metadata, behind the thread.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let class = |name: &str, ty: FieldType| match ty {
            FieldType::Array { count, .. } if name == "procname" => FieldClass::Chars { count },
            FieldType::Seq { element } => FieldClass::Seq { element: element.into() },
            FieldType::Scalar(scalar) => FieldClass::Number(scalar.into()),
            _ => FieldClass::Number(Number::unsigned(8)),
        };
        self.members().into_iter().map(|(name, ty)| Field { class: class(&name, ty), name }).collect()
    }

    /// How they lie in a record.
    pub(crate) fn shape(&self) -> Shape {
        let fields = self.members().into_iter().map(|(name, ty)| DescField { name, ty }).collect();
        let event = EventDesc { provider: String::new(), name: String::new(), file: String::new(), line: 0, fields };
        Shape::new(&event).expect("ten members at most")
    }

    /// As filters name them, in the order of the record.
    pub(crate) fn filter_fields(&self) -> impl Iterator<Item = kymo_filter::Field> {
        let fields = self.fields().into_iter();
        fields.map(|field| kymo_filter::Field {
            name: context_field(&field.name),
            kind: crate::condition_fields::kind(&field.class),
        })
    }
}

/// The name of a counter as a member: `page-faults` is `perf_page_faults`.
fn member_of(counter: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("perf_{}", counter.chars().map(plain).collect::<String>())
}

fn unknown(word: &str) -> String {
    let mut known: Vec<String> =
        ALWAYS.iter().chain(NAMED.iter().map(|(name, _)| name)).map(|&name| name.to_owned()).collect();
    known.push("perf:NAME".to_owned());
    match near(word, &known, 2).first() {
        _ if COUNTERS.iter().any(|(name, ..)| *name == word) => format!("{word:?} is a counter: write perf:{word}"),
        Some(near) => format!("there is no context {word:?}; did you mean {near}? There are {}", known.join(", ")),
        None => format!("there is no context {word:?}; there are {}", known.join(", ")),
    }
}

fn unknown_counter(name: &str) -> String {
    let known: Vec<String> = COUNTERS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let near = near(name, &known, 3);
    let instead = if near.is_empty() {
        format!("counters are {}, and rHEX for a raw one of the processor", known.join(", "))
    } else {
        format!("near it: {}", near.join(", "))
    };
    format!("there is no counter {name:?}; {instead}")
}

/// The first part of `struct perf_event_attr`; the kernel takes the rest as zero.
#[repr(C)]
struct PerfAttr {
    kind: u32,
    bytes: u32,
    config: u64,
    /// Period, sample type, read format.
    unused: [u64; 3],
    flags: u64,
    /// Wake-ups and breakpoints.
    rest: [u64; 2],
}

/// PERF_FLAG_FD_CLOEXEC.
const FLAG_CLOEXEC: libc::c_ulong = 8;
/// Of `flags`: what runs in the kernel, and in the hypervisor, does not count.
const WITHOUT_KERNEL: u64 = 1 << 5 | 1 << 6;

/// A counter of this thread, as the traced programs open theirs.
fn open_counter(kind: u32, config: u64) -> io::Result<OwnedFd> {
    let open = |flags| {
        let bytes = size_of::<PerfAttr>() as u32;
        let attr = PerfAttr { kind, bytes, config, unused: [0; 3], flags, rest: [0; 2] };
        // SAFETY: the structure is the first published version of perf_event_attr (64 bytes, and says so), and outlives
        // the call.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attr, 0, -1, -1, FLAG_CLOEXEC) };
        match i32::try_from(fd) {
            // SAFETY: a descriptor that the system made just now, which nobody else has.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match open(0) {
        // The scheduler's own events happen in the kernel: without it there is nothing to count.
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied && !(kind == SOFTWARE && matches!(config, 3 | 4)) =>
        {
            open(WITHOUT_KERNEL)
        }
        opened => opened,
    }
}

fn refusal(name: &str, kind: u32, error: &io::Error) -> String {
    let next = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) if kind != SOFTWARE => {
            "this machine has no such counter (a virtual machine may have none at all); `perf:page-faults`, \
             `perf:context-switches` and `perf:task-clock` are the kernel's own"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "kernel.perf_event_paranoid forbids it: lower it to 1 (sysctl), or give the programs CAP_PERFMON"
        }
        Some(libc::EMFILE) => "too many files are open; raise `ulimit -n`",
        Some(libc::ENOSYS) => "this kernel has no perf events (or a sandbox hides them)",
        _ => "record without it",
    };
    format!("perf:{name} cannot be opened: {error}; {next}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<Contexts, String> {
        Contexts::parse(&[list.to_owned()]).map_err(|error| error.to_string())
    }

    #[test]
    fn members_stand_in_the_order_of_the_header() {
        let contexts = parse("callstack,perf:page-faults, perf:r1a2,cgroup,prio,vpid").unwrap();
        let names: Vec<String> = contexts.fields().into_iter().map(|field| field.name).collect();
        assert_eq!(names, ["prio", "cgroup", "perf_page_faults", "perf_r1a2", "callstack"]);
        assert_eq!(contexts.header.perf, [(SOFTWARE, 2), (RAW, 0x1a2)]);
        let bits = context::PRIO | context::CGROUP | context::PERF | context::CALLSTACK;
        assert_eq!(contexts.header.bits, bits);
    }

    #[test]
    fn the_shape_is_that_of_the_bytes() {
        let contexts = parse("prio:now,perf:cs,callstack").unwrap();
        let bytes = [&(-5i32).to_le_bytes()[..], &7u64.to_le_bytes(), &2u16.to_le_bytes(), &[9; 16], &[1, 2]].concat();
        assert_eq!(contexts.shape().fields(&bytes).map(|fields| fields.bytes), Some(4 + 8 + 2 + 16));
        assert_eq!(Contexts::default().shape().fields(&bytes).map(|fields| fields.bytes), Some(0));
    }

    #[test]
    fn what_is_asked_for_twice_is_one() {
        let contexts = parse("perf:cs,perf:context-switches,prio,prio").unwrap();
        assert_eq!(contexts.fields().len(), 2);
        assert_eq!(parse("vpid,procname,vtid,cpu").unwrap(), Contexts::default());
    }

    #[test]
    fn mistakes_are_named() {
        let check = |list: &str, part: &str| {
            let error = parse(list).unwrap_err();
            assert!(error.contains(part), "{list}: {error}");
        };
        check("pri", "did you mean prio?");
        check("page-faults", "write perf:page-faults");
        check("perf:page-fault", "page-faults");
        check("perf:zebra", "counters are");
        check("perf:rxyz", "no counter");
        check("", "no context");
        check("prio,prio:now", "exclude each other");
        check("perf:cs,perf:faults,perf:cycles,perf:instructions,perf:branches", "at most 4");
    }
}
