// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages round-trip; rubbish is refused without a panic.

use super::*;
use proptest::prelude::*;

fn from_program() -> impl Strategy<Value = FromProgram> {
    let hello = (any::<[u32; 6]>(), "[a-z]{0,15}", "[ -~]{0,200}").prop_map(
        |([abi, pid, kind, clock, cpu_count, nonce], comm, exe)| {
            FromProgram::Hello(Hello { abi, pid, kind, clock, cpu_count, nonce, comm, exe })
        },
    );
    let entry = (proptest::option::of(0..NO_INDEX), proptest::collection::vec(any::<u8>(), 0..100));
    let descs = proptest::collection::vec(entry, 0..20)
        .prop_map(|list| FromProgram::Descs(list.into_iter().map(|(index, desc)| DescEntry { index, desc }).collect()));
    let attached = (any::<u64>(), any::<u32>(), any::<[bool; 2]>(), any::<u64>()).prop_map(
        |(serial, error, [locked, late], touched_bytes)| {
            FromProgram::Attached(Attached { serial, error, locked, late, touched_bytes })
        },
    );
    prop_oneof![
        hello,
        descs,
        any::<u32>().prop_map(|generation| FromProgram::DescsEnd { generation }),
        any::<u32>().prop_map(|generation| FromProgram::Late { generation }),
        proptest::collection::vec(any::<u32>(), 0..50).prop_map(FromProgram::Gone),
        attached,
        (any::<u32>(), any::<u32>()).prop_map(|(index, error)| FromProgram::Filtered { index, error }),
    ]
}

fn from_collector() -> impl Strategy<Value = FromCollector> {
    let attach = (1u32..300, 12u32..24, any::<u64>(), "[a-z]{0,63}").prop_map(|(lanes, bits, serial, session)| {
        let layout = Layout::new(RingKind::Rseq, Clock::Tsc, lanes, 1 << bits, 4096).unwrap();
        FromCollector::Attach { layout, serial, session }
    });
    let filter = (
        any::<u32>(),
        proptest::collection::vec(any::<[u8; FILTER_INSN_BYTES]>(), 0..=FILTER_INSNS_MAX),
        proptest::collection::vec(any::<u8>(), 0..=FILTER_POOL_MAX),
        any::<u16>(),
    )
        .prop_map(|(index, insns, pool, payload_min_bytes)| {
            FromCollector::Filter(Filter { index, insns, pool, payload_min_bytes })
        });
    prop_oneof![
        attach,
        filter,
        proptest::collection::vec((any::<u32>(), 1u16..), 0..50).prop_map(FromCollector::Enable),
        proptest::collection::vec(any::<u32>(), 0..50).prop_map(FromCollector::Disable),
        any::<u32>().prop_map(|generation| FromCollector::Go { generation }),
        (proptest::sample::select(ByeReason::ALL.to_vec()), "[ -~]{0,80}")
            .prop_map(|(reason, text)| FromCollector::Bye { reason, text }),
    ]
}

proptest! {
    #[test]
    fn program_messages_round_trip(message in from_program()) {
        prop_assert_eq!(FromProgram::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn collector_messages_round_trip(message in from_collector()) {
        prop_assert_eq!(FromCollector::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn changed_bytes_never_panic(message in from_program(), at: prop::sample::Index, value: u8, cut: prop::sample::Index) {
        let mut packet = message.encode();
        let at = at.index(packet.len());
        packet[at] = value;
        let _ = FromProgram::decode(&packet);
        let _ = FromCollector::decode(&packet);
        packet.truncate(cut.index(packet.len()));
        prop_assert!(FromProgram::decode(&packet).is_err());
    }

    #[test]
    fn random_packets_never_panic(ty in 0u32..24, body: Vec<u8>) {
        let mut packet = [ty, body.len() as u32 + 8].map(u32::to_ne_bytes).concat();
        packet.extend_from_slice(&body);
        let _ = FromProgram::decode(&packet);
        let _ = FromCollector::decode(&packet);
    }
}

#[test]
fn refusals_say_what_was_wrong() {
    let check = |packet: &[u8], expect: &str| assert_eq!(FromProgram::decode(packet).unwrap_err().to_string(), expect);
    check(&[], "message: 0 bytes where at least 4 are needed");
    check(&[1, 0, 0, 0, 9, 0, 0, 0], "message: says 9 bytes, has 8");
    check(&[77, 0, 0, 0, 8, 0, 0, 0], "type of a program's message: value 77 is not one that spec/ knows");
    check(&[1, 0, 0, 0, 8, 0, 0, 0], "message: 8 bytes where at least 12 are needed");
    check(&[4, 0, 0, 0, 9, 0, 0, 0, 1], "list in a message: says 1 bytes, has 0");
    check(&[0xff; 40_000], "bytes of a message: 40000 is more than the 32768 allowed");
}
