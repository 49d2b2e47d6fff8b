// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as babeltrace2 prints them.

use kymo_ctf::read::{Base, Fields, Value};

/// C's `%g`, in which babeltrace2 prints.
pub fn percent_g(value: f64) -> String {
    if !value.is_finite() {
        return format!("{value}").to_lowercase();
    }
    let text = format!("{value:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    let short = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return short(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(digits), exponent.abs())
}

pub fn babel_value(value: &Value<'_>) -> String {
    let list = |items: &mut dyn Iterator<Item = Value<'_>>| {
        items.enumerate().map(|(i, v)| format!("[{i}] = {}", babel_value(&v))).collect::<Vec<_>>().join(", ")
    };
    match value {
        Value::Int(number, Base::Hexadecimal) => format!("0x{:X}", i128::from(*number)),
        Value::Int(number, Base::Octal) => format!("0{:o}", i128::from(*number)),
        Value::Int(number, _) => number.to_string(),
        Value::Enum(number, labels) => {
            let names: Vec<String> = labels.all(*number).iter().map(|label| format!("{label:?}")).collect();
            let names = match &names[..] {
                [] => "<unknown>".to_owned(),
                [one] => one.clone(),
                several => format!("{{ {} }}", several.join(", ")),
            };
            format!("( {names} : container = {number} )")
        }
        Value::Wide(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::F32(value) => percent_g(f64::from(*value)),
        Value::F64(value) => percent_g(*value),
        Value::Text(text) => format!("{text:?}"),
        Value::Bytes(bytes) => bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" "),
        Value::Array(elements) => format!("[ {} ]", list(&mut elements.iter())),
        Value::Struct(fields) => babel_fields(fields),
        Value::Absent => "<none>".into(),
    }
}

pub fn babel_fields(fields: &Fields<'_>) -> String {
    let fields: Vec<String> = fields.all().map(|(name, _, v)| format!("{name} = {}", babel_value(&v))).collect();
    format!("{{ {} }}", fields.join(", "))
}
