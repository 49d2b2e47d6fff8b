// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--intersect`: only the stretch in which all streams have data, as `babeltrace2 --stream-intersection` chooses it.

use std::path::Path;

use kymo_tests::small_trace::{Packet, write};
use kymo_tests::{Lab, Random, skip};

/// Packets with a tick at their begin, in their middle and at their end.
fn stream(times: &[(u64, u64)]) -> Vec<Packet> {
    let packet = |(number, &(begin, end)): (usize, &(u64, u64))| {
        Packet::of_ticks(number as u64, (begin, end), &[begin, begin.midpoint(end), end])
    };
    times.iter().enumerate().map(packet).collect()
}

/// Times of the records that `kymo read` shows; `None` where it refuses.
fn shown(lab: &Lab, args: &[&str]) -> Option<Vec<u64>> {
    let outcome = lab.kymo(&[&["read", "--json"], args].concat());
    let time = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        value["time"].as_u64().expect("a time")
    };
    (outcome.code == 0).then(|| outcome.stdout.lines().map(time).collect())
}

/// The same of babeltrace2.
fn shown_by_babeltrace(lab: &Lab, dir: &Path) -> Option<Vec<u64>> {
    let mut command = lab.command("babeltrace2");
    command.args(["--stream-intersection", "--clock-cycles"]).arg(dir);
    let outcome = lab.start(command).wait();
    let time = |line: &str| {
        let digits: String = line.chars().skip(1).take_while(char::is_ascii_digit).collect();
        digits.parse().expect("cycles in front of a line")
    };
    (outcome.code == 0).then(|| outcome.stdout.lines().map(time).collect())
}

#[test]
fn it_is_where_all_streams_have_packets() {
    let lab = Lab::new("intersect");
    let dir = lab.path("t");
    // From 150 (the second begins) to 260 (the third ends).
    let streams =
        [stream(&[(100, 200), (200, 300)]), stream(&[(150, 260), (260, 280)]), stream(&[(120, 140), (150, 260)])];
    write(&dir, &streams);
    let t = dir.to_str().unwrap();
    let expect = [150, 150, 150, 200, 200, 205, 205, 250, 260, 260, 260];
    assert_eq!(shown(&lab, &["--intersect", t]).unwrap(), expect);
    let outcome = lab.kymo(&["read", "--count", "--intersect", t]).expect(0);
    assert!(outcome.stdout.contains("11 small:tick"), "{}", outcome.stdout);
    let told = "--intersect: all 3 streams have data from 150 to 260, 110ns of 200ns";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("channel_1 begins last") && outcome.stderr.contains("channel_2 ends first"));
    // Times count from its ends, and do not lead out of it.
    assert_eq!(shown(&lab, &["--intersect", "--from", "+60ns", t]).unwrap(), expect[7..]);
    assert_eq!(shown(&lab, &["--intersect", "--to", "-10ns", t]).unwrap(), expect[..7]);
    assert_eq!(shown(&lab, &["--intersect", "--from", "0", "--to", "100000", t]).unwrap(), expect);
    let is_same = shown(&lab, &["--intersect", t]);
    lab.kymo(&["index", t]).expect(0);
    assert_eq!(shown(&lab, &["--intersect", t]), is_same, "with an index");
    of_other_verbs(&lab, t);
}

/// All verbs that read traces take it.
fn of_other_verbs(lab: &Lab, t: &str) {
    let stats = lab.kymo(&["stats", "--json", "--intersect", t]).expect(0).stdout;
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(stats["records"], 11, "{stats}");
    let csv = lab.kymo(&["export", "--format", "csv", "-o", "-", "--intersect", t]).expect(0).stdout;
    assert_eq!(csv.lines().count(), 12, "{csv}");
    for verb in ["latency", "top", "heap", "functions", "state --at 1", "critical --thread 7", "explain --thread 7"] {
        let words: Vec<&str> = verb.split(' ').chain(["--intersect", t]).collect();
        let outcome = lab.kymo(&words);
        assert!(!outcome.stderr.contains("unexpected argument"), "{verb}: {}", outcome.stderr);
    }
}

#[test]
fn an_empty_one_is_an_error_that_names_the_streams() {
    let lab = Lab::new("intersect_empty");
    let dir = lab.path("t");
    write(&dir, &[stream(&[(100, 200)]), stream(&[(150, 160)]), stream(&[(2200, 2300)])]);
    let outcome = lab.kymo(&["read", "--intersect", dir.to_str().unwrap()]).expect(2);
    for part in
        ["at no time do all 3 streams have data", "channel_2 begins 2.04us after the end of", "channel_1", "--from"]
    {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    // Several traces have what all of their streams have in common.
    let (a, b) = (lab.path("a"), lab.path("b"));
    write(&a, &[stream(&[(100, 200)])]);
    write(&b, &[stream(&[(150, 250)])]);
    let [a, b] = [&a, &b].map(|dir| dir.to_str().unwrap());
    assert_eq!(shown(&lab, &["--intersect", a, b]).unwrap(), [150, 150, 200, 200]);
    assert_eq!(shown(&lab, &["--intersect", a]).unwrap(), [100, 150, 200]);
    let outcome = lab.kymo(&["read", "--follow", "--intersect", a]).expect(2);
    assert!(outcome.stderr.contains("cannot be used with"), "{}", outcome.stderr);
}

#[test]
fn babeltrace2_chooses_the_same() {
    let lab = Lab::new("intersect_random");
    if !kymo_tests::has("babeltrace2") {
        skip(lab.name(), "no babeltrace2");
        return;
    }
    let mut random = Random::new(lab.name(), 11);
    let (mut some, mut none) = (0, 0);
    for round in 0..8 {
        let mut a_stream = || {
            let mut at = 1000 + random.below(1500u64);
            let mut packet = || {
                let begin = at + random.below(50u64);
                at = begin + 1 + random.below(400u64);
                (begin, at)
            };
            let times: Vec<(u64, u64)> = (0..4).map(|_| packet()).collect();
            stream(&times)
        };
        let streams: Vec<_> = (0..3).map(|_| a_stream()).collect();
        let dir = lab.path(&format!("t{round}"));
        write(&dir, &streams);
        let (ours, theirs) = (shown(&lab, &["--intersect", dir.to_str().unwrap()]), shown_by_babeltrace(&lab, &dir));
        // Where nothing is left babeltrace2 prints nothing, or fails.
        assert_eq!(ours.clone().unwrap_or_default(), theirs.unwrap_or_default(), "round {round}: {streams:?}");
        let is_some = ours.is_some_and(|times| !times.is_empty());
        (some, none) = (some + u32::from(is_some), none + u32::from(!is_some));
    }
    assert!(some > 0, "{some} with records, {none} without");
}
