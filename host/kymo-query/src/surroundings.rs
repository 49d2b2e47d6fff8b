// SPDX-License-Identifier: MIT OR Apache-2.0
//! What causes depend on besides the records around a stretch: the machine, and the functions of its kernel. Whoever
//! asks for causes (`explain`, `critical`, `latency --explain`, `--explain` of the laboratory, the viewer) begins here,
//! and there is no other way to a [`Machine`], so none of them can leave out a piece of it.

use kymo_analyze::cause::{Machine, QUOTA_TIMER};
use kymo_ctf::read::Trace;
use kymo_ctf::write::EnvValue;

use crate::symbolize::Symbolize;

/// What traces say of their machine, and where its kernel's functions are.
pub struct Surroundings<S> {
    /// For evidence and scenes.
    pub machine: Machine,
    /// Functions of addresses.
    pub known: S,
}

impl<S: Symbolize> Surroundings<S> {
    /// Of the machine of these traces, by what knows its functions.
    pub fn of(traces: &[Trace], known: S) -> Surroundings<S> {
        let machine = Machine { quota_timer: known.address_in_kernel(QUOTA_TIMER), ..machine_of(traces) };
        Surroundings { machine, known }
    }
}

/// What the environments of traces say of the machine.
fn machine_of(traces: &[Trace]) -> Machine {
    let of = |name: &str| {
        let env = traces.iter().flat_map(|trace| &trace.metadata.env);
        env.filter(|(key, _)| key == name).find_map(|(_, value)| match value {
            EnvValue::Text(text) => Some(text.as_str()),
            _ => None,
        })
    };
    Machine::of_uname(of("kernel_release").unwrap_or_default(), of("kernel_version").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use kymo_analyze::explain::Symbols;

    use super::*;

    struct One(&'static str, u64);

    impl Symbols for One {
        fn kernel(&self, _: u64) -> Option<String> {
            None
        }

        fn user(&self, _: i32, _: u64, _: i64) -> Option<String> {
            None
        }
    }

    impl Symbolize for One {
        fn address_in_kernel(&self, name: &str) -> Option<u64> {
            (name == self.0).then_some(self.1)
        }
    }

    #[test]
    fn the_timer_of_quotas_is_looked_up_in_the_kernel() {
        let timer = |name| Surroundings::of(&[], One(name, 0xffff_ffff_8100_2000)).machine.quota_timer;
        assert_eq!(timer("sched_cfs_period_timer"), Some(0xffff_ffff_8100_2000));
        assert_eq!(timer("sched_cfs_slack_timer"), None);
    }
}
