// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classes of the dump's events. Names, and each class's first fields, are those of LTTng's state dump, so that
//! viewers made for it understand ours; fields that LTTng does not have stand behind them.

use kymo_ctf::write::{EventClass, Field, FieldClass, Number};

use crate::setting::SETTINGS;

/// How many classes, and so ids, [`classes`] makes.
pub const CLASSES: u16 = StateRecordClass::ALL.len() as u16;

/// Which class: its place is its id minus the first id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateRecordClass {
    Start,
    End,
    Process,
    File,
    Map,
    Interrupt,
    Cpu,
    Network,
    Block,
    Kernel,
    Program,
}

impl StateRecordClass {
    const ALL: [StateRecordClass; 11] = [
        StateRecordClass::Start,
        StateRecordClass::End,
        StateRecordClass::Process,
        StateRecordClass::File,
        StateRecordClass::Map,
        StateRecordClass::Interrupt,
        StateRecordClass::Cpu,
        StateRecordClass::Network,
        StateRecordClass::Block,
        StateRecordClass::Kernel,
        StateRecordClass::Program,
    ];

    pub(crate) fn id(self, first_id: u16) -> u16 {
        first_id.wrapping_add(self as u16)
    }

    fn name(self) -> &'static str {
        match self {
            StateRecordClass::Start => "lttng_statedump_start",
            StateRecordClass::End => "lttng_statedump_end",
            StateRecordClass::Process => "lttng_statedump_process_state",
            StateRecordClass::File => "lttng_statedump_file_descriptor",
            StateRecordClass::Map => "lttng_statedump_vm_map",
            StateRecordClass::Interrupt => "lttng_statedump_interrupt",
            StateRecordClass::Cpu => "lttng_statedump_cpu_topology",
            StateRecordClass::Network => "lttng_statedump_network_interface",
            StateRecordClass::Block => "lttng_statedump_block_device",
            StateRecordClass::Kernel => "kymo_statedump_kernel",
            StateRecordClass::Program => "kymo_statedump_program",
        }
    }

    fn fields(self) -> Vec<Field> {
        let fields = match self {
            StateRecordClass::Start | StateRecordClass::End => Vec::new(),
            StateRecordClass::Process => process(),
            StateRecordClass::File => file(),
            StateRecordClass::Map => map(),
            StateRecordClass::Interrupt => interrupt(),
            StateRecordClass::Cpu => cpu(),
            StateRecordClass::Network => vec![("name", FieldClass::Text), ("address_ipv4", address())],
            StateRecordClass::Block => vec![("dev", U32), ("diskname", FieldClass::Text)],
            StateRecordClass::Kernel => kernel(),
            StateRecordClass::Program => program(),
        };
        fields.into_iter().map(|(name, class)| Field { name: name.to_owned(), class }).collect()
    }
}

type Named = (&'static str, FieldClass);

const U8: FieldClass = FieldClass::Number(Number::unsigned(8));
const U32: FieldClass = FieldClass::Number(Number::unsigned(32));
const I32: FieldClass = FieldClass::Number(Number::signed(32));
const U64: FieldClass = FieldClass::Number(Number::unsigned(64));
const X32: FieldClass = FieldClass::Number(Number::hex(32));
const X64: FieldClass = FieldClass::Number(Number::hex(64));

/// The classes of the dump's events, with ids from `first_id` on; needs [`CLASSES`] ids.
///
/// Units: `runtime`, `deadline`, `period` in ns; `start_time` in clock ticks (`sysconf(_SC_CLK_TCK)`) since boot;
/// `prio` is the kernel's priority minus 100 (FIFO 99: -100, nice 0: 20), as in sched events; `dev` is `major << 20 |
/// minor`; `pgoff` in bytes; `count` is the sum over the CPUs since boot; `since_ns` in ns.
pub fn classes(first_id: u16) -> Vec<EventClass> {
    let class = |kind: StateRecordClass| EventClass {
        id: kind.id(first_id),
        name: kind.name().to_owned(),
        file: String::new(),
        line: 0,
        fields: kind.fields(),
    };
    StateRecordClass::ALL.into_iter().map(class).collect()
}

fn process() -> Vec<Named> {
    vec![
        ("tid", I32),
        ("pid", I32),
        ("ppid", I32),
        ("name", FieldClass::Chars { count: 16 }),
        ("type", I32),
        ("mode", I32),
        ("submode", I32),
        ("status", I32),
        ("cpu", U32),
        ("policy", policy()),
        ("prio", I32),
        ("nice", I32),
        ("rt_priority", U32),
        ("affinity", FieldClass::Text),
        ("cgroup", FieldClass::Text),
        ("vtid", I32),
        ("vpid", I32),
        ("start_time", U64),
        ("runtime", U64),
        ("deadline", U64),
        ("period", U64),
    ]
}

fn policy() -> FieldClass {
    let labels = [("other", 0), ("fifo", 1), ("rr", 2), ("batch", 3), ("idle", 5), ("deadline", 6), ("ext", 7)];
    let labels = labels.map(|(label, value)| (label.to_owned(), value)).to_vec();
    FieldClass::Enum { number: Number::unsigned(32), labels }
}

fn file() -> Vec<Named> {
    vec![
        ("file_table_address", X64),
        ("fd", I32),
        ("flags", X32),
        ("fmode", X32),
        ("filename", FieldClass::Text),
        ("pid", I32),
        ("pos", U64),
    ]
}

fn map() -> Vec<Named> {
    vec![
        ("pid", I32),
        ("start", X64),
        ("end", X64),
        ("flags", X64),
        ("inode", U64),
        ("pgoff", U64),
        ("path", FieldClass::Text),
        ("build_id", FieldClass::Blob),
    ]
}

fn interrupt() -> Vec<Named> {
    vec![("irq", U32), ("name", FieldClass::Text), ("action", FieldClass::Text), ("tid", I32), ("count", U64)]
}

fn cpu() -> Vec<Named> {
    vec![
        ("architecture", FieldClass::CString),
        ("cpu_id", U32),
        ("vendor", FieldClass::CString),
        ("family", U32),
        ("model", U32),
        ("model_name", FieldClass::CString),
        ("physical_id", I32),
        ("core_id", I32),
        ("cores", U32),
        ("online", U8),
        ("isolated", U8),
        ("nohz_full", U8),
        ("governor", FieldClass::Text),
        ("freq_min_khz", U32),
        ("freq_max_khz", U32),
        ("numa_node", I32),
        ("siblings", FieldClass::Text),
    ]
}

fn address() -> FieldClass {
    FieldClass::Array { element: Number::unsigned(8), count: 4 }
}

fn kernel() -> Vec<Named> {
    let texts = SETTINGS.iter().map(|field| (field.name, FieldClass::Text));
    texts.chain([("build_id", FieldClass::Blob)]).collect()
}

fn program() -> Vec<Named> {
    let labels = [("begin", 0), ("look", 1), ("end", 2)].map(|(label, value)| (label.to_owned(), value)).to_vec();
    let phase = FieldClass::Enum { number: Number::unsigned(8), labels };
    vec![("pid", I32), ("ppid", I32), ("phase", phase), ("since_ns", U64)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_kinds() {
        let classes = classes(7);
        assert_eq!(classes.len(), usize::from(CLASSES));
        for (index, class) in classes.iter().enumerate() {
            assert_eq!(usize::from(class.id), 7 + index);
            assert_eq!(class.name, StateRecordClass::ALL[index].name());
            assert_eq!(StateRecordClass::ALL[index].id(7), class.id);
        }
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = classes(0).into_iter().map(|class| class.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), usize::from(CLASSES));
    }
}
