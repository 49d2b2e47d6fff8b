// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events are recorded: a thousand types, and patterns.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kymo_tests::{Lab, babeltrace};

#[test]
fn a_thousand_event_types() {
    let lab = Lab::new("thousand");
    let (mut head, mut body) = (String::from("#include \"common.h\"\n"), String::new());
    for at in 0..1000 {
        writeln!(head, "KYMO_EVENT(many, event{at}, (u32, n), (str, name))").unwrap();
        writeln!(body, "kymo_trace(many, event{at}, {at}, \"event{at}\");").unwrap();
    }
    let program = lab.cc_text("many", &format!("{head}int main(void) {{ live_shortly();\n{body}return 0; }}\n"));
    let recorded = lab.record("trace").run(&[program.to_str().unwrap()]).expect(0).lossless();
    let read = recorded.read(&lab);
    assert_eq!(read.records.len(), 1000);
    for (at, record) in read.records.iter().enumerate() {
        assert_eq!((record.event.clone(), record.number("n")), (format!("many:event{at}"), at as u64));
        assert_eq!(record.fields["name"], format!("event{at}"));
    }
    babeltrace::agrees(&lab, &recorded.dir, &read);
    let listed = lab.kymo(&["list", program.to_str().unwrap()]).expect(0);
    assert_eq!(listed.stdout.matches("many:event").count(), 1000);
    // Some of them only.
    let some =
        lab.record("some").args(&["-u", "many:event[12]?7"]).run(&[program.to_str().unwrap()]).expect(0).lossless();
    let numbers: Vec<u64> = some.read(&lab).records.iter().map(|record| record.number("n")).collect();
    assert_eq!(numbers, (0..1000).filter(|n| (100..300).contains(n) && n % 10 == 7).collect::<Vec<_>>());
}

const EVENTS: [&str; 9] =
    ["motor:step", "motor:stop", "motor:tick", "motors:step", "io:read", "io:read_more", "io:write", "x:x", "x:step"];

#[test]
fn patterns_select_exactly_what_they_say() {
    let lab = Lab::new("patterns");
    let (mut head, mut body) = (String::from("#include \"common.h\"\n"), String::new());
    for (at, event) in EVENTS.iter().enumerate() {
        let event = event.replace(':', ", ");
        writeln!(head, "KYMO_EVENT({event}, (u32, n))").unwrap();
        writeln!(body, "kymo_trace({event}, {at});").unwrap();
    }
    let program = lab.cc_text("chosen", &format!("{head}int main(void) {{ {body} return 0; }}\n"));
    let cases: &[(&str, &str)] = &[
        ("", "motor:step motor:stop motor:tick motors:step io:read io:read_more io:write x:x x:step"),
        ("-u *", "motor:step motor:stop motor:tick motors:step io:read io:read_more io:write x:x x:step"),
        ("-u motor", "motor:step motor:stop motor:tick"),
        ("-u motor:*", "motor:step motor:stop motor:tick"),
        ("-u motor*:*", "motor:step motor:stop motor:tick motors:step"),
        ("-u motor?:*", "motors:step"),
        ("-u *:step", "motor:step motors:step x:step"),
        ("-u motor:st*", "motor:step motor:stop"),
        ("-u motor:sto? -u io:read", "motor:stop io:read"),
        ("-u io:read", "io:read"),
        ("-u io:[a-r]*", "io:read io:read_more"),
        ("-u motor -x motor:tick", "motor:step motor:stop"),
        ("-x motor:*", "motors:step io:read io:read_more io:write x:x x:step"),
        ("-x *:step -x io", "motor:stop motor:tick x:x"),
        ("-u motor -u io -x motor:t* -x *:read*", "motor:step motor:stop io:write"),
        ("-u x:x", "x:x"),
    ];
    for (number, (options, expect)) in cases.iter().enumerate() {
        let options: Vec<&str> = options.split_whitespace().collect();
        let recorded =
            lab.record(&format!("trace{number}")).args(&options).run(&[program.to_str().unwrap()]).expect(0).lossless();
        let read = recorded.read(&lab);
        let got: Vec<&str> = read.records.iter().map(|record| &*record.event).collect();
        assert_eq!(got, expect.split_whitespace().collect::<Vec<_>>(), "{options:?}");
        for record in &read.records {
            assert_eq!(EVENTS[record.number("n") as usize], record.event);
        }
        // What is wanted and what is not is told of all events.
        let seen = recorded.summary["events"].as_array().unwrap();
        let wanted: BTreeSet<&str> =
            seen.iter().filter(|e| e["wanted"] == true).map(|e| e["name"].as_str().unwrap()).collect();
        assert_eq!((seen.len(), wanted), (EVENTS.len(), expect.split_whitespace().collect()), "{options:?}");
    }
}
