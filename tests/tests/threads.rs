// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many threads: each record has the id of the thread that wrote it, and no thread loses any.

use std::collections::{BTreeMap, BTreeSet};

use kymo_tests::{Lab, Ring, babeltrace, trace};

#[test]
fn threads_256() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("threads_256");
        lab.ring(ring);
        let program = lab.cc("produce.c");
        let args = ["--ring-size", "16M", "--memory", "4G"];
        let recorded = lab
            .record("trace")
            .args(&args)
            .run(&[program.to_str().unwrap(), "256", "300", "4", "1000"])
            .expect(0)
            .lossless();
        assert_eq!(recorded.process(recorded.summary["processes"][0]["vpid"].as_u64().unwrap())["ring"], ring.name());
        let read = recorded.read(&lab);
        let mut writers: BTreeMap<u64, (BTreeSet<u64>, Vec<u64>)> = BTreeMap::new();
        for record in &read.records {
            let writer = writers.entry(record.number("writer")).or_default();
            writer.0.insert(record.tid);
            writer.1.push(record.number("n"));
        }
        assert_eq!(writers.len(), 256);
        let tids: BTreeSet<u64> = writers.values().flat_map(|(tids, _)| tids.iter().copied()).collect();
        assert!(
            tids.len() == 256 && writers.values().all(|(tids, _)| tids.len() == 1),
            "a thread id of its own for each"
        );
        for (_, numbers) in writers.values() {
            trace::assert_counts_up(numbers, 300);
        }
        babeltrace::agrees(&lab, &recorded.dir, &read);
    }
}

/// Threads come and go: lanes are handed on, nothing is lost.
#[test]
fn threads_one_after_the_other() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("threads_in_turn");
        lab.ring(ring);
        let program = lab.cc_text("turns", "#include \"common.h\"\nKYMO_EVENT(turns, rec, (u32, n), (u32, tid))\n\
            static void *one(void *n) { for (int i = 0; i < 3; i++) { kymo_trace(turns, rec, (uint32_t)(uintptr_t)n, tid()); } return NULL; }\n\
            int main(void) { live_shortly(); for (uintptr_t n = 0; n < 2000; n++) { pthread_t t; pthread_create(&t, NULL, one, (void *)n);\n\
            pthread_join(t, NULL); } return 0; }\n");
        let recorded =
            lab.record("trace").args(&["--memory", "4G"]).run(&[program.to_str().unwrap()]).expect(0).lossless();
        let read = recorded.read(&lab);
        let expect: Vec<u64> = (0..2000).flat_map(|n| [n; 3]).collect();
        assert_eq!(read.numbers("turns:rec", "n"), expect);
        assert!(read.records.iter().all(|record| record.tid == record.number("tid")));
    }
}
