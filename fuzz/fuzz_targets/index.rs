// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indexes: the first byte chooses a piece (head, packets, sums of threads, where these are, summaries, where latencies
//! are, sums of latencies, all of them, pictures of threads and of CPUs, spans, where these are, what has begun, where
//! their time went, where values of fields are, those of one, all losses, where wake-ups are, wake-ups, who
//! wrote records, statistics of a part, those of programs), or a checkpoint of a small trace, which is read on from.
//! Whatever the bytes, it comes to an end.
#![no_main]

use std::sync::LazyLock;

use kymo_ctf::read::{Memory, Trace};

/// A kernel's switches, one packet.
static TRACE: LazyLock<Vec<Trace>> = LazyLock::new(|| {
    let metadata = "typealias integer { size = 32; signed = true; } := i32;
        typealias integer { size = 64; } := u64;
        clock { name = c; freq = 1000000000; };
        stream { packet.context := struct { i32 cpu_id; };
            event.header := struct { i32 id; integer { size = 64; map = clock.c.value; } timestamp; }; };
        event { id = 1; name = sched_switch; fields := struct { i32 prev_tid; u64 prev_state; i32 next_tid; }; };";
    let mut stream = 0i32.to_le_bytes().to_vec();
    for step in 0..100u64 {
        stream.extend(1i32.to_le_bytes());
        stream.extend((step * 10).to_le_bytes());
        stream.extend((step as i32 % 7).to_le_bytes());
        stream.extend((step % 3).to_le_bytes());
        stream.extend(((step as i32 + 1) % 7).to_le_bytes());
    }
    let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] };
    vec![Trace::from_files(&files).expect("a trace").value]
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match bytes.split_first() {
        Some((3, rest)) => drop(kymo_index::probe::checkpoint(rest, &TRACE)),
        _ => drop(kymo_index::probe::piece(bytes)),
    }
});
