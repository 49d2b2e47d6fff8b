// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison of a trace's field in the kernel's own filter language, where both mean the same.

use crate::format::{EventFormat, FieldEncoding};
use crate::names::{Convert, Naming};

/// `field` (by its name in the trace) compared with `value` by `sign` (`==`, `!=`, `<`, `<=`, `>`, `>=`). `None` where
/// the kernel cannot say it or would mean something else: it cuts constants to the size of the field, and knows
/// integers only.
pub fn comparison(
    (system, format, naming): (&str, &EventFormat, Naming),
    field: &str,
    sign: &str,
    value: i128,
) -> Option<String> {
    let found = format.fields.iter().find_map(|of| {
        let (name, convert) = naming.field(system, &of.name)?;
        (name == field).then_some((of, convert))
    });
    let (of, convert) = found.filter(|(of, _)| matches!(of.kind, FieldEncoding::Number) && !of.is_pointer())?;
    let value = match convert {
        Convert::Plain => value,
        Convert::Priority if of.size == 4 && of.signed => value.checked_add(100)?,
        _ => return None,
    };
    let bits = match of.size {
        1 | 2 | 4 | 8 => u32::from(of.size) * 8,
        _ => return None,
    };
    let (least, most) = match of.signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    (least..=most).contains(&value).then(|| format!("{} {sign} {value}", of.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::parse_event;

    const SWITCH: &str = "name: sched_switch\nID: 300\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned char cause;\toffset:32;\tsize:1;\tsigned:0;\n\
        \tfield:void * where;\toffset:40;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n";

    #[test]
    fn what_means_the_same_is_said() {
        let format = parse_event(SWITCH).unwrap();
        let check = |naming, field: &str, value, expect: Option<&str>| {
            let said = comparison(("sched", &format, naming), field, "<", value);
            assert_eq!(said.as_deref(), expect, "{field} {value}");
        };
        check(Naming::Lttng, "prev_tid", 7, Some("prev_pid < 7"));
        check(Naming::Lttng, "prev_prio", 0, Some("prev_prio < 100"));
        check(Naming::Lttng, "prev_prio", -1, Some("prev_prio < 99"));
        check(Naming::Kernel, "prev_prio", 100, Some("prev_prio < 100"));
        check(Naming::Kernel, "prev_pid", -5, Some("prev_pid < -5"));
        // Not by the names of the other side, not text, not addresses, nothing that the kernel would cut.
        check(Naming::Lttng, "prev_pid", 7, None);
        check(Naming::Kernel, "prev_comm", 7, None);
        check(Naming::Kernel, "where", 7, None);
        check(Naming::Kernel, "cause", 255, Some("cause < 255"));
        check(Naming::Kernel, "cause", 256, None);
        check(Naming::Kernel, "cause", -1, None);
        check(Naming::Lttng, "prev_prio", i128::from(i32::MAX), None);
        check(Naming::Kernel, "absent", 1, None);
    }
}
