// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for all filters: the canonical form means the same, programs agree with the evaluation, nothing panics.

use crate::support;

use kymo_filter::probe::{self, events};
use kymo_filter::{
    Arith, Compare, Context, Expr, ExprKind, FieldRef, Filter, Key, Latency, PathStep, Pattern, compile, parse,
};
use proptest::prelude::*;
use support::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_][a-z0-9_]{0,6}", Just("in".to_owned()), Just("true".to_owned()), "[^`\\p{C}]{1,5}"]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof!["[a-z*?][a-z0-9_*?:]{0,8}", "[a-z]{1,4}:[a-z*]{1,4}", ".{0,5}"]
        .prop_map(|glob| Pattern { glob, span: Default::default() })
}

fn steps() -> impl Strategy<Value = Vec<PathStep>> {
    prop::collection::vec(
        prop_oneof![name().prop_map(PathStep::Member), any::<u32>().prop_map(PathStep::Element)],
        0..3,
    )
}

fn field(event: impl Strategy<Value = Option<Pattern>>) -> impl Strategy<Value = FieldRef> {
    (event, name(), steps()).prop_map(|(event, name, steps)| FieldRef { event, name, steps })
}

fn context() -> impl Strategy<Value = Context> {
    (0..Context::ALL.len()).prop_map(|i| Context::ALL[i].1)
}

fn latency() -> impl Strategy<Value = ExprKind> {
    let key = prop_oneof![field(Just(None)).prop_map(ExprKind::Field), context().prop_map(ExprKind::Context)];
    let key = key.prop_map(Expr::from).boxed();
    let different = (key.clone(), key.clone()).prop_map(|(from, to)| Key { from, to });
    let by = prop::collection::vec(prop_oneof![key.prop_map(Key::same), different], 0..3);
    (pattern(), pattern(), by, any::<bool>(), opening()).prop_map(|(from, to, by, of_any, when)| {
        let of_any = of_any && by.is_empty();
        ExprKind::Latency(Latency { from, to, by, of_any, when })
    })
}

/// A condition on what opens a pair.
fn opening() -> impl Strategy<Value = Option<Box<Expr>>> {
    let compare = (field(Just(None)), any::<u64>()).prop_map(|(field, value)| {
        let (left, right) = (ExprKind::Field(field).into(), ExprKind::Int(value).into());
        ExprKind::Compare(Compare::Gt, Box::new(left), Box::new(right))
    });
    let list = prop::collection::vec(compare.prop_map(Expr::from), 1..3);
    prop::option::of(list.prop_map(|mut list| match list.len() {
        1 => list.remove(0).into(),
        _ => Box::new(ExprKind::Or(list).into()),
    }))
}

fn expr() -> impl Strategy<Value = Expr> {
    let any_field = || field(prop::option::of(pattern()));
    let leaf = prop_oneof![
        any::<u64>().prop_map(ExprKind::Int),
        any::<f64>().prop_filter_map("finite", |value| value.is_finite().then_some(ExprKind::Float(value.abs()))),
        any::<bool>().prop_map(ExprKind::Bool),
        any::<String>().prop_map(ExprKind::Text),
        any_field().prop_map(ExprKind::Field),
        context().prop_map(ExprKind::Context),
        any_field().prop_map(ExprKind::Has),
        any_field().prop_map(ExprKind::Len),
        latency(),
        opening().prop_map(ExprKind::Wakeup),
    ];
    leaf.prop_map(Expr::from).prop_recursive(5, 40, 4, |inner| {
        let ariths = [
            Arith::Or,
            Arith::Xor,
            Arith::And,
            Arith::Left,
            Arith::Right,
            Arith::Add,
            Arith::Sub,
            Arith::Mul,
            Arith::Div,
            Arith::Rem,
        ];
        let compares = [
            Compare::Eq,
            Compare::Ne,
            Compare::Lt,
            Compare::Le,
            Compare::Gt,
            Compare::Ge,
            Compare::Match,
            Compare::NoMatch,
        ];
        let list = |least| prop::collection::vec(inner.clone(), least..4);
        prop_oneof![
            inner.clone().prop_map(|of| ExprKind::Not(of.into())),
            inner.clone().prop_map(|of| ExprKind::Neg(of.into())),
            (prop::sample::select(ariths.to_vec()).boxed(), inner.clone(), inner.clone())
                .prop_map(|(op, left, right)| ExprKind::Binary(op, left.into(), right.into())),
            (prop::sample::select(compares.to_vec()).boxed(), inner.clone(), inner.clone())
                .prop_map(|(op, left, right)| ExprKind::Compare(op, left.into(), right.into())),
            (inner.clone(), list(1)).prop_map(|(value, list)| ExprKind::In(value.into(), list)),
            list(2).prop_map(ExprKind::And),
            list(2).prop_map(ExprKind::Or),
        ]
        .prop_map(Expr::from)
    })
}

/// Expressions over the fields of `motor:step` that mostly make sense.
fn sensible() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("axis"),
        Just("position"),
        Just("duration"),
        Just("size"),
        Just("gain"),
        Just("delta"),
        Just("vec[1]"),
        Just("len(note)"),
        Just("len(list)"),
        Just("state"),
    ];
    let masked = prop_oneof![Just("size & 0xff"), Just("delta & 0x81"), Just("axis & 1"), Just("vec[0] & 0xf0f0"),];
    let op = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let value = prop_oneof![
        (-4i64..5).prop_map(|v| v.to_string()),
        (-4.0..4.0f64).prop_map(|v| format!("{v:.1}")),
        Just("255".into()),
        Just("65536".into()),
        Just("18446744073709551615".into())
    ];
    let text = prop_oneof!["[ab]{0,3}", "[ab]{0,2}\\*[ab]{0,2}"];
    let leaf = prop_oneof![
        (number.clone(), op.clone(), value.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (masked, op, value.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (number, prop::collection::vec(value, 1..7)).prop_map(|(a, list)| format!("{a} in ({})", list.join(", "))),
        (prop::sample::select(vec!["==", "!=", "~", "!~"]), text).prop_map(|(op, b)| format!("note {op} \"{b}\"")),
        prop::sample::select(vec!["ok", "!ok", "state == moving", "state in (idle, fault)", "has(axis)", "id == 1"])
            .prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a}) || ({b})")),
        ]
    })
}

fn record() -> impl Strategy<Value = Rec> {
    let near = || prop_oneof![-4i128..5, Just(255), Just(127)];
    let positive = || prop_oneof![0i128..5, Just(255), Just(65_535)];
    let float = || prop_oneof![Just(f64::NAN), -4.0..4.0f64, Just(2.0), Just(-0.5)];
    (
        (positive(), float(), 0i128..13, positive(), any::<bool>()),
        prop::collection::vec(near(), 3),
        ("[ab]{0,4}", positive(), prop::collection::vec(any::<u8>(), 0..4)),
        prop::collection::vec(near(), 0..3),
        (float(), -4i128..5),
    )
        .prop_map(|((axis, position, state, duration, ok), vec, (note, size, data), list, (gain, delta))| {
            let label = match state {
                0 => Some("idle"),
                1 => Some("moving"),
                9..=12 => Some("fault"),
                _ => None,
            };
            let ints = |values: Vec<i128>| V::Array(values.into_iter().map(V::Int).collect());
            Rec {
                fields: vec![
                    V::Int(axis),
                    V::Float(position),
                    V::Label(state, label),
                    V::Int(duration),
                    V::Bool(ok),
                    ints(vec),
                    V::Text(note),
                    V::Int(size),
                    V::Bytes(data),
                    ints(list),
                    V::Float(f64::from(gain as f32)),
                    V::Int(delta),
                ],
                ..Rec::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_parses_to_the_same(selector in prop::option::of(pattern()), expr in expr()) {
        let filter = Filter::new(selector, expr);
        let text = filter.to_string();
        let parsed = parse(&text);
        prop_assert_eq!(parsed.as_ref(), Ok(&filter), "{}", text);
        prop_assert_eq!(parsed.unwrap().to_string(), text);
    }

    #[test]
    fn programs_agree_with_the_evaluation(text in sensible(), record in record()) {
        let checked = parse(&text).and_then(|filter| filter.check(&events()));
        let checked = checked.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let program = match compile(&checked, 0) {
            Ok(program) => program,
            // No float is this number.
            Err(error) => {
                prop_assert!(text.contains("18446744073709551615"), "{}", error);
                return Ok(());
            }
        };
        prop_assert_eq!(program.check(), Ok(()));
        let payload = pack(&events()[0], &record);
        prop_assert_eq!(program.run(&payload), checked.matches(0, &record), "{}", text);
    }

    #[test]
    fn negation_exchanges_what_is_known(text in sensible(), record in record()) {
        let holds = |text: &str| parse(text).and_then(|f| f.check(&events())).unwrap().matches(0, &record);
        let (one, other) = (holds(&text), holds(&format!("!({text})")));
        prop_assert!(!(one && other), "{}", text);
        if !text.contains("id") {
            prop_assert!(one || other, "{}", text);
        }
        prop_assert_eq!(one, holds(&format!("!(!({text}))")));
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        probe::text(&text);
    }

    #[test]
    fn any_program_ends(bytes in prop::collection::vec(prop_oneof![0u8..14, any::<u8>()], 0..400)) {
        probe::program(&bytes);
    }
}
