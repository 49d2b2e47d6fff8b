// SPDX-License-Identifier: MIT OR Apache-2.0
//! What explained samples have in common: the same main cause, a period.

use super::explained::{Budget, Cluster};
use crate::stats::period;

/// An explained sample.
#[derive(Clone, Copy, Debug)]
pub struct Spike<'a> {
    /// Where.
    pub cpu: Option<u32>,
    /// When, ns on any clock.
    pub at: f64,
    /// How long.
    pub value_ns: u64,
    /// What of.
    pub budget: &'a Budget,
}

/// The clusters of samples, the one with the longest sample first. `watched` are the stretches of time in which samples
/// could be explained; a sample is taken every `interval` ns: no shorter period can be found.
pub fn clusters(spikes: &[Spike<'_>], watched: &[(f64, f64)], interval: f64) -> Vec<Cluster> {
    let mut signatures: Vec<&str> = spikes.iter().map(|spike| spike.budget.signature.as_str()).collect();
    signatures.sort_unstable();
    signatures.dedup();
    let mut clusters: Vec<Cluster> =
        signatures.into_iter().map(|signature| cluster(signature, spikes, watched, interval)).collect();
    clusters.sort_by_key(|cluster| std::cmp::Reverse(cluster.worst_ns));
    clusters
}

fn cluster(signature: &str, spikes: &[Spike<'_>], watched: &[(f64, f64)], interval: f64) -> Cluster {
    let of: Vec<&Spike> = spikes.iter().filter(|spike| spike.budget.signature == signature).collect();
    let mut cpus: Vec<u32> = of.iter().filter_map(|spike| spike.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let times: Vec<f64> = of.iter().map(|spike| spike.at).collect();
    let total: u64 = of.iter().map(|spike| spike.value_ns).sum();
    let main: u64 = of.iter().map(|spike| spike.budget.main_ns()).sum();
    Cluster {
        signature: signature.to_owned(),
        count: of.len() as u32,
        worst_ns: of.iter().map(|spike| spike.value_ns).max().unwrap_or(0),
        cpus,
        share: main as f64 / total.max(1) as f64,
        period: period::find(&times, watched, interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::BudgetPart;

    fn budget(parts: &[(&str, &str, u64)]) -> Budget {
        let part = |(cause, name, ns): &(&str, &str, u64)| BudgetPart {
            cause: (*cause).to_owned(),
            name: (*name).to_owned(),
            tid: None,
            priority: None,
            behind: None,
            limit: None,
            group: None,
            by: None,
            ns: *ns,
            pieces: 1,
            seen: true,
        };
        let parts: Vec<BudgetPart> = parts.iter().map(part).collect();
        Budget { at_ns: None, signature: Budget::signature_of(&parts), parts, faults: 0, doubt: Vec::new() }
    }

    #[test]
    fn parts_of_one_cause_count_together() {
        let lock = budget(&[("own", "", 40), ("lock_owner", "low", 30), ("lock_owner", "low", 30)]);
        assert_eq!((lock.signature.as_str(), lock.main_ns()), ("lock_owner low", 60));
        assert_eq!(budget(&[("idle_exit", "", 9), ("own", "", 9)]).signature, "idle_exit");
        // Whoever ran meanwhile.
        let throttled =
            budget(&[("own", "", 50), ("throttled", "cc1", 30), ("throttled", "", 20), ("throttled", "ld", 10)]);
        assert_eq!((throttled.signature.as_str(), throttled.main_ns()), ("throttled", 60));
    }

    #[test]
    fn samples_of_one_cause_are_a_cluster() {
        let (hog, idle) =
            (budget(&[("higher_priority", "hog", 90), ("own", "", 10)]), budget(&[("idle_exit", "", 50)]));
        let spike = |at: f64, cpu, budget| Spike { cpu: Some(cpu), at, value_ns: 100, budget };
        let mut spikes = vec![spike(1.0, 1, &hog), spike(2.0, 0, &hog), spike(3.0, 0, &idle), spike(4.0, 0, &hog)];
        spikes[0].value_ns = 300;
        let found = clusters(&spikes, &[(0.0, 5.0)], 0.1);
        let texts: Vec<_> = found.iter().map(|one| (one.signature.as_str(), one.count, one.worst_ns)).collect();
        assert_eq!(texts, [("higher_priority hog", 3, 300), ("idle_exit", 1, 100)]);
        assert_eq!((found[0].cpus.as_slice(), found[0].period), ([0, 1].as_slice(), None));
        assert!((found[0].share - 270.0 / 500.0).abs() < 1e-9);
    }
}
