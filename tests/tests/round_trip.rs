// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every field type comes out of the pipe as it went in, extremes included: C macros, ring, collector, `kymo read`, and
//! babeltrace2, which must agree on every field and clock cycle. The programs are generated from the table below, as C
//! and as C++.

use std::fmt::Write as _;

use kymo_tests::{Build, Lab, Ring, babeltrace, trace};
use serde_json::{Value, json};

/// A value: the C arguments of the field, and what JSON must show.
type Case = (String, Value);

/// A field type, and values that it must carry.
struct Type {
    /// As KYMO_EVENT takes it.
    kymo: String,
    cases: Vec<Case>,
}

fn integer(name: &str, bits: u32, signed: bool) -> Type {
    let max = if signed { (1i128 << (bits - 1)) - 1 } else { (1i128 << bits) - 1 };
    let min = if signed { -(1i128 << (bits - 1)) } else { 0 };
    let json = |value: i128| if value < 0 { json!(value as i64) } else { json!(value as u64) };
    let c = |value: i128| match value < 0 {
        true => format!("(int64_t)(-{}LL - 1)", -(value + 1)),
        false => format!("{value}ULL"),
    };
    let values = [min, min + 1, -1, 0, 1, 0x55, max - 1, max];
    let cases = values.into_iter().filter(|value| *value >= min).map(|value| (c(value), json(value))).collect();
    Type { kymo: name.to_owned(), cases }
}

fn float(name: &str, c_type: &str, values: &[(&str, Value)]) -> Type {
    let cases = values.iter().map(|(c, json)| (format!("({c_type})({c})"), json.clone())).collect();
    Type { kymo: name.to_owned(), cases }
}

/// A string that fills what may be recorded.
fn long_text(bytes: usize) -> String {
    (0..bytes).map(|at| char::from(b'a' + (at % 23) as u8)).collect()
}

/// The numbers that `numbers_TYPE` of the program holds.
fn element(ty: &str, at: u64) -> Value {
    let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match ty {
        "u8" | "x8" => json!(mixed as u8),
        "u16" | "x16" => json!(mixed as u16),
        "u32" | "x32" => json!(mixed as u32),
        "u64" | "x64" => json!(mixed),
        "i8" => json!(mixed as i8),
        "i16" => json!(mixed as i16),
        "i32" => json!(mixed as i32),
        "i64" => json!(mixed as i64),
        "f32" => json!(mixed as i16 as f32 / 8.0),
        "f64" => json!(mixed as i32 as f64 / 8.0),
        "bool" => json!(mixed & 1 == 1),
        _ => unreachable!(),
    }
}

const SCALARS: [(&str, &str); 15] = [
    ("u8", "uint8_t"),
    ("u16", "uint16_t"),
    ("u32", "uint32_t"),
    ("u64", "uint64_t"),
    ("i8", "int8_t"),
    ("i16", "int16_t"),
    ("i32", "int32_t"),
    ("i64", "int64_t"),
    ("x8", "uint8_t"),
    ("x16", "uint16_t"),
    ("x32", "uint32_t"),
    ("x64", "uint64_t"),
    ("f32", "float"),
    ("f64", "double"),
    ("bool", "bool"),
];

fn elements(ty: &str, count: u64) -> Value {
    (0..count).map(|at| element(ty, at)).collect()
}

fn size_of(ty: &str) -> u64 {
    match ty {
        "bool" => 1,
        _ => ty[1..].parse::<u64>().expect("bits") / 8,
    }
}

fn types() -> Vec<Type> {
    let mut types = Vec::new();
    for bits in [8, 16, 32, 64] {
        types.push(integer(&format!("u{bits}"), bits, false));
        types.push(integer(&format!("x{bits}"), bits, false));
        types.push(integer(&format!("i{bits}"), bits, true));
    }
    let special = [("NAN", json!("NaN")), ("INFINITY", json!("inf")), ("-INFINITY", json!("-inf"))];
    let f32s = [
        ("0.0", json!(0.0)),
        ("-0.0", json!(-0.0)),
        ("0.1f", json!(0.1)),
        ("FLT_MAX", json!(f32::MAX)),
        ("FLT_MIN", json!(f32::MIN_POSITIVE)),
        ("FLT_TRUE_MIN", json!(f32::from_bits(1))),
        ("-16777217.0", json!(-16_777_216.0)),
    ];
    let f64s = [
        ("0.0", json!(0.0)),
        ("-0.0", json!(-0.0)),
        ("0.1", json!(0.1)),
        ("-DBL_MAX", json!(f64::MIN)),
        ("DBL_MIN", json!(f64::MIN_POSITIVE)),
        ("DBL_TRUE_MIN", json!(f64::from_bits(1))),
        ("1.0 / 3", json!(1.0 / 3.0)),
    ];
    types.push(float("f32", "float", &[&special[..], &f32s[..]].concat()));
    types.push(float("f64", "double", &[&special[..], &f64s[..]].concat()));
    types.push(Type { kymo: "bool".into(), cases: vec![("true".into(), json!(true)), ("false".into(), json!(false))] });
    let label = |value: Value, label: Value| json!({ "value": value, "label": label });
    types.push(Type {
        kymo: "enum(rt, small)".into(),
        cases: vec![
            ("0".into(), label(json!(0), json!("idle"))),
            ("9".into(), label(json!(9), json!("fault"))),
            ("255".into(), label(json!(255), json!("top"))),
            ("7".into(), label(json!(7), Value::Null)),
        ],
    });
    types.push(Type {
        kymo: "enum(rt, wide)".into(),
        cases: vec![
            ("INT64_MIN".into(), label(json!(i64::MIN), json!("lowest"))),
            ("-1".into(), label(json!(-1), json!("minus"))),
            ("INT64_MAX".into(), label(json!(i64::MAX), json!("highest"))),
            ("5".into(), label(json!(5), Value::Null)),
        ],
    });
    types.push(texts());
    types.push(bytes());
    for (ty, c) in SCALARS {
        types.push(Type {
            kymo: format!("array({ty}, 5)"),
            cases: vec![
                (format!("numbers_{ty}"), elements(ty, 5)),
                (
                    format!("(const {c} *)0"),
                    (0..5)
                        .map(|_| {
                            if ty == "bool" {
                                json!(false)
                            } else if ty.starts_with('f') {
                                json!(0.0)
                            } else {
                                json!(0)
                            }
                        })
                        .collect(),
                ),
            ],
        });
        let most = 60_000 / size_of(ty);
        let cases = [0, 1, 2, 255, most].map(|count| (format!("numbers_{ty}, {count}"), elements(ty, count)));
        let null = (format!("(const {c} *)0, 3"), json!([]));
        types.push(Type { kymo: format!("seq({ty})"), cases: cases.into_iter().chain([null]).collect() });
    }
    types.push(Type { kymo: "array(u8, 60000)".into(), cases: vec![("numbers_u8".into(), elements("u8", 60_000))] });
    types
}

fn texts() -> Type {
    let literal = |text: &str| (serde_json::to_string(text).expect("text").replace("\\u0001", "\\001"), json!(text));
    let mut cases: Vec<Case> =
        ["", "x", "a b", "grüße, 世界 🥁", "quote \" back \\ slash", "tab\tline\n", "\u{1}", "%s%n", "</>&"]
            .map(literal)
            .into();
    cases.push(("(const char *)0".into(), json!("(null)")));
    cases.push(("long_text".into(), json!(long_text(65_000))));
    cases.push(("longer_text".into(), json!(long_text(65_000))));
    Type { kymo: "str".into(), cases }
}

fn bytes() -> Type {
    let hex = |count: u64| -> String {
        (0..count).map(|at| format!("{:02x}", element("u8", at).as_u64().expect("a byte"))).collect()
    };
    let mut cases: Vec<Case> =
        [0, 1, 7, 8, 9, 256, 65_000].map(|count| (format!("numbers_u8, {count}"), json!(hex(count)))).into();
    cases.push(("(const void *)0, 12".into(), json!("")));
    Type { kymo: "bytes".into(), cases }
}

/// The program, and what each event's records must be, in order.
fn program(types: &[Type]) -> (String, Vec<Vec<Value>>) {
    let mut head = String::from(
        "#include <float.h>\n#include <math.h>\n#include \"common.h\"\n\
         KYMO_ENUM(rt, small, u8, (idle, 0), (moving, 1), (fault, 9), (top, 255))\n\
         KYMO_ENUM(rt, wide, i64, (lowest, INT64_MIN), (minus, -1), (highest, INT64_MAX))\n\
         KYMO_EVENT(rt, nothing)\n\
         static char long_text[65001], longer_text[70001];\n",
    );
    let mut body = String::from(
        "int main(void)\n{\n\tlive_shortly();\n\
         \tfor (unsigned i = 0; i < 70000; i++) {\n\t\tlonger_text[i] = (char)('a' + i % 23);\n\t\tif (i < 65000) long_text[i] = longer_text[i];\n\t}\n",
    );
    for (ty, c) in SCALARS {
        let count = 65_536;
        writeln!(head, "static {c} numbers_{ty}[{count}];").unwrap();
        let value = match ty {
            "f32" => "(float)(int16_t)mixed / 8",
            "f64" => "(double)(int32_t)mixed / 8",
            "bool" => "mixed & 1",
            _ => &format!("({c})mixed"),
        };
        writeln!(body, "\tfor (uint64_t i = 0; i < {count}; i++) {{ uint64_t mixed = i * 0x9e3779b97f4a7c15ull; numbers_{ty}[i] = {value}; }}").unwrap();
    }
    body.push_str("\tkymo_trace(rt, nothing);\n");
    let mut expect = Vec::new();
    for (at, Type { kymo, cases }) in types.iter().enumerate() {
        // Alone, and between neighbours that show a field of a wrong length.
        writeln!(head, "KYMO_EVENT(rt, alone{at}, ({kymo}, v))").unwrap();
        if cases.iter().any(|(c, _)| fits_twice(kymo, c)) {
            writeln!(head, "KYMO_EVENT(rt, among{at}, (u8, a), ({kymo}, v), (u16, n), ({kymo}, w), (x64, z))").unwrap();
        }
        for (number, (c, _)) in cases.iter().enumerate() {
            writeln!(body, "\tkymo_trace(rt, alone{at}, {c});").unwrap();
            if fits_twice(kymo, c) {
                writeln!(body, "\tkymo_trace(rt, among{at}, 0xa5, {c}, {number}, {c}, 0xfedcba9876543210ull);")
                    .unwrap();
            }
        }
        expect.push(cases.iter().map(|(_, json)| json.clone()).collect());
    }
    body.push_str("\treturn 0;\n}\n");
    (head + &body, expect)
}

/// Whether two of it fit into a record.
fn fits_twice(kymo: &str, c: &str) -> bool {
    let is_long = c.starts_with("long")
        || kymo.ends_with("60000)")
        || c.ends_with("65000")
        || c.rsplit(", ").next().is_some_and(|n| n.parse::<u64>().is_ok_and(|n| n >= 7_500));
    !is_long
}

/// Values as JSON gives them: floats by their bits, because -0 is equal to 0.
fn same(ty: &str, ours: &Value, expect: &Value) -> bool {
    match (ours, expect) {
        (Value::Array(ours), Value::Array(expect)) => {
            ours.len() == expect.len() && ours.iter().zip(expect).all(|(ours, expect)| same(ty, ours, expect))
        }
        // CTF 1.8 has no bytes: they are a sequence of hexadecimal u8, and `kymo read` shows both in one way.
        (Value::String(hex), Value::Array(numbers)) if ty.contains("x8") => {
            *hex == numbers.iter().map(|byte| format!("{:02x}", byte.as_u64().expect("a byte"))).collect::<String>()
        }
        _ if ty.contains("f32") => {
            let bits = |value| babeltrace::float32(value).map(f64::to_bits);
            ours.is_string() == expect.is_string() && bits(ours) == bits(expect)
        }
        _ if ty.contains("f64") => {
            let bits = |value| babeltrace::float64(value).map(f64::to_bits);
            ours.is_string() == expect.is_string() && bits(ours) == bits(expect)
        }
        _ => ours == expect,
    }
}

fn check(types: &[Type], expect: &[Vec<Value>], read: &trace::Read) {
    assert_eq!(read.of("rt:nothing").count(), 1);
    assert!(read.of("rt:nothing").all(|record| record.fields.is_empty()));
    let mut seen = 1;
    for (at, (ty, expect)) in types.iter().zip(expect).enumerate() {
        let alone: Vec<_> = read.records.iter().filter(|record| record.event == format!("rt:alone{at}")).collect();
        assert_eq!(alone.len(), expect.len(), "records of {}", ty.kymo);
        for (record, expect) in alone.iter().zip(expect) {
            let value = &record.fields["v"];
            assert!(
                same(&ty.kymo, value, expect),
                "{}: {:.300} in place of {:.300}",
                ty.kymo,
                value.to_string(),
                expect.to_string()
            );
        }
        let name = format!("rt:among{at}");
        let among: Vec<_> = read.of(&name).collect();
        let wanted: Vec<_> = ty.cases.iter().filter(|(c, _)| fits_twice(&ty.kymo, c)).collect();
        assert_eq!(among.len(), wanted.len(), "records of {} among others", ty.kymo);
        for record in &among {
            let expect = &expect[record.number("n") as usize];
            assert_eq!(record.number("a"), 0xa5, "{record:?}");
            assert_eq!(record.number("z"), 0xfedc_ba98_7654_3210, "{record:?}");
            for field in ["v", "w"] {
                assert!(
                    same(&ty.kymo, &record.fields[field], expect),
                    "{} {field}: {:.500} in place of {:.300}",
                    ty.kymo,
                    format!("{record:?}"),
                    expect.to_string()
                );
            }
        }
        seen += alone.len() + among.len();
    }
    assert_eq!(read.records.len(), seen);
}

fn every_type(name: &str, source: &str, build: impl Fn(Build) -> Build, args: &[&str], ring: Ring) {
    let mut lab = Lab::new(name);
    lab.ring(ring);
    let types = types();
    let (text, expect) = program(&types);
    let source = lab.write(source, &text);
    let program = lab.build(&build(Build::new(&[source.to_str().unwrap()])), "types");
    let recorded = lab
        .record("trace")
        .args(args)
        .args(&["--ring-size", "64M"])
        .run(&[program.to_str().unwrap()])
        .expect(0)
        .lossless();
    assert_eq!(recorded.summary["processes"][0]["ring"], ring.name());
    let read = recorded.read(&lab);
    check(&types, &expect, &read);
    if args.contains(&"--ctf2") {
        assert_eq!(recorded.summary["format"], "ctf-2");
        // babeltrace2 2.0 reads what is exported of it.
        let (from, to) = (recorded.dir.to_str().unwrap(), lab.path("exported"));
        lab.kymo(&["export", from, "--format", "ctf", "-o", to.to_str().unwrap()]).expect(0);
        let exported = trace::read(&lab, &to, &[]).whole();
        check(&types, &expect, &exported);
        babeltrace::agrees(&lab, &to, &exported);
    } else {
        babeltrace::agrees(&lab, &recorded.dir, &read);
    }
}

#[test]
fn every_type_through_the_rseq_ring() {
    every_type("every_type_rseq", "types.c", |build| build, &[], Ring::Rseq);
}

#[test]
fn every_type_through_the_portable_ring() {
    every_type("every_type_portable", "types.c", |build| build, &[], Ring::Portable);
}

#[test]
fn every_type_as_ctf2() {
    every_type("every_type_ctf2", "types.c", |build| build, &["--ctf2"], Ring::Rseq);
}

#[test]
fn every_type_from_cxx17() {
    every_type("every_type_cxx", "types.cpp", |build| build, &[], Ring::Rseq);
}

#[test]
fn every_type_built_with_clang() {
    if !kymo_tests::has("clang") {
        return kymo_tests::skip("every_type_clang", "no clang");
    }
    every_type("every_type_clang", "types.c", |build| build.compiler("clang"), &[], Ring::Rseq);
}

#[test]
fn every_type_without_optimisation() {
    every_type("every_type_o0", "types.c", |build| build.flag("-O0"), &[], Ring::Rseq);
}

/// Sequences of as many elements as their 16 bits can count, and one more, which is refused and counted.
#[test]
fn a_sequence_has_65535_elements_at_most() {
    let lab = Lab::new("long_sequence");
    let program = lab.cc_text("sequences", "#include \"common.h\"\n\
        KYMO_EVENT(rt, seq, (u32, n), (seq(u8), v))\nstatic uint8_t v[65536];\n\
        int main(void) { for (unsigned i = 0; i < 65536; i++) v[i] = (uint8_t)(i * 7);\n\
        kymo_trace(rt, seq, 0, v, 65518); kymo_trace(rt, seq, 1, v, 65519); kymo_trace(rt, seq, 2, v, 65535);\n\
        kymo_trace(rt, seq, 3, v, 65536); kymo_trace(rt, seq, 4, v, (size_t)1 << 32); kymo_trace(rt, seq, 5, v, SIZE_MAX);\n\
        kymo_trace(rt, seq, 6, v, 1); return 0; }\n");
    let recorded = lab.record("trace").run(&[program.to_str().unwrap()]).expect(0);
    let read = recorded.read(&lab);
    // A record has 65,536 bytes at most, with 12 in front of the fields, 4 for n and 2 for the count.
    assert_eq!(read.numbers("rt:seq", "n"), [0, 6]);
    let first = read.of("rt:seq").next().unwrap().fields["v"].as_array().unwrap().clone();
    assert!(first.len() == 65_518 && first.iter().enumerate().all(|(i, v)| *v == (i * 7) as u8));
    assert_eq!((recorded.lost_by("size"), recorded.lost()), (5, 5));
    assert_eq!(read.lost(), 5);
}

/// 32 fields of mixed types, the most that an event has.
#[test]
fn an_event_has_32_fields() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("32_fields");
        lab.ring(ring);
        let cycle = ["u8", "str", "i64", "bool", "f64", "seq(u16)", "x32", "bytes"];
        let (mut fields, mut args, mut expect) = (String::new(), String::new(), serde_json::Map::new());
        for at in 0..32usize {
            let (c, json) = match cycle[at % 8] {
                "u8" => (format!("{at}"), json!(at)),
                "str" => (format!("\"s{at}\""), json!(format!("s{at}"))),
                "i64" => (format!("-{at}"), json!(-(at as i64))),
                "bool" => (format!("{}", at % 3 == 0), json!(at % 3 == 0)),
                "f64" => (format!("{at}.5"), json!(at as f64 + 0.5)),
                "seq(u16)" => (format!("q, {}", at % 5), (0..at % 5).map(|i| json!(i * 1000)).collect()),
                "x32" => (format!("{}u", 0xffff_ff00u32 + at as u32), json!(0xffff_ff00u32 + at as u32)),
                _ => ("\"xyz\", 3".into(), json!("78797a")),
            };
            write!(fields, ", ({}, f{at})", cycle[at % 8]).unwrap();
            write!(args, ", {c}").unwrap();
            expect.insert(format!("f{at}"), json);
        }
        let program = lab.cc_text("wide", &format!(
            "#include \"common.h\"\nKYMO_EVENT(rt, wide{fields})\nint main(void) {{ uint16_t q[5] = {{0, 1000, 2000, 3000, 4000}};\n\
             for (int i = 0; i < 3; i++) {{ kymo_trace(rt, wide{args}); }} return 0; }}\n"));
        let recorded = lab.record("trace").run(&[program.to_str().unwrap()]).expect(0).lossless();
        let read = recorded.read(&lab);
        assert_eq!(read.records.len(), 3);
        assert!(read.records.iter().all(|record| record.fields == expect), "{:?}\n{expect:?}", read.records[0]);
        babeltrace::agrees(&lab, &recorded.dir, &read);
    }
}
