// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the environment of a trace says of the machine and the tracer that it is of.

use kymo_analyze::Recorders;
use kymo_analyze::calls::{self, Architecture};
use kymo_ctf::read::Trace;
use kymo_ctf::write::EnvValue;

/// Whose numbers the system calls of traces have; `None`: not known, or not the same in all.
pub(crate) fn architecture_of(traces: &[Trace]) -> Option<Architecture> {
    let with_numbers =
        traces.iter().filter(|trace| trace.metadata.events.iter().any(|event| calls::is_by_number(&event.name)));
    let mut all = with_numbers.map(|trace| architecture(&trace.metadata.env));
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// What an environment says of it.
pub fn architecture(env: &[(String, EnvValue)]) -> Option<Architecture> {
    env.iter().find(|(key, _)| key == "architecture").and_then(|(_, value)| match value {
        EnvValue::Text(machine) => Architecture::of_machine(machine),
        EnvValue::Int(_) | EnvValue::Unsigned(_) => None,
    })
}

/// The processes of kymo that recorded traces [spec/trace.md 5].
pub fn recorders(traces: &[Trace]) -> Recorders {
    let all = || traces.iter().map(|trace| &trace.metadata.env[..]);
    Recorders { pids: all().filter_map(recorder).collect(), is_kymo: all().any(is_of_kymo) }
}

fn is_of_kymo(env: &[(String, EnvValue)]) -> bool {
    env.iter()
        .any(|(key, value)| key == "recorded_by" && matches!(value, EnvValue::Text(name) if name.starts_with("kymo ")))
}

fn recorder(env: &[(String, EnvValue)]) -> Option<i32> {
    env.iter().find(|(key, _)| key == "recorder_pid").and_then(|(_, value)| match value {
        EnvValue::Int(number) => i32::try_from(*number).ok(),
        EnvValue::Unsigned(number) => i32::try_from(*number).ok(),
        EnvValue::Text(_) => None,
    })
}

/// Whether an environment is one of LTTng's kernel tracer before 2.7.
pub(crate) fn is_old_lttng(env: &[(String, EnvValue)]) -> bool {
    let of = |name: &str| env.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let number = |name| match of(name) {
        Some(EnvValue::Int(number)) => Some(*number),
        _ => None,
    };
    let is_modules = matches!(of("tracer_name"), Some(EnvValue::Text(name)) if name == "lttng-modules");
    is_modules && number("tracer_major").zip(number("tracer_minor")).is_some_and(|version| version < (2, 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lttng_is_known_by_its_version() {
        let is_old = |name: &str, major: i64, minor: i64| {
            is_old_lttng(&[
                ("tracer_name".into(), EnvValue::Text(name.into())),
                ("tracer_major".into(), EnvValue::Int(major)),
                ("tracer_minor".into(), EnvValue::Int(minor)),
            ])
        };
        assert!(is_old("lttng-modules", 2, 6) && is_old("lttng-modules", 1, 9));
        assert!(!is_old("lttng-modules", 2, 7) && !is_old("lttng-modules", 3, 0) && !is_old("lttng-ust", 2, 6));
        assert!(!is_old_lttng(&[]));
    }

    #[test]
    fn a_recorder_is_a_number() {
        let of = |value| recorder(&[("hostname".into(), EnvValue::Int(7)), ("recorder_pid".into(), value)]);
        assert_eq!(of(EnvValue::Int(50)), Some(50));
        assert_eq!(of(EnvValue::Unsigned(50)), Some(50));
        assert_eq!((of(EnvValue::Int(1 << 40)), of(EnvValue::Text("50".into()))), (None, None));
        let by = |value: &str| is_of_kymo(&[("recorded_by".into(), EnvValue::Text(value.into()))]);
        assert!(by("kymo 0.1.0") && !by("trace-cmd kymo") && !is_of_kymo(&[]));
    }

    #[test]
    fn an_architecture_is_what_the_environment_says() {
        let of = |value: EnvValue| {
            architecture(&[("hostname".into(), EnvValue::Text("arm64".into())), ("architecture".into(), value)])
        };
        assert_eq!(of(EnvValue::Text("aarch64".into())), Some(Architecture::Aarch64));
        assert_eq!(
            (of(EnvValue::Text("riscv64".into())), of(EnvValue::Int(64)), architecture(&[])),
            (None, None, None)
        );
    }
}
