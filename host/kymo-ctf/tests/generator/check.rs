// SPDX-License-Identifier: MIT OR Apache-2.0
//! A case read by kymo and by others, against the model.

use kymo_ctf::read::{Item, Memory, Reader, Trace};

use super::pretty::Line;
use super::seen::{Manner, Seen};
use super::trace::{Case, File, Record};
use super::types::{Type, Val};

/// The case's files.
pub fn memory(case: &Case, metadata: Vec<u8>) -> Memory {
    let streams = case.files.iter().map(|file| (file.name.clone(), file.bytes.clone())).collect();
    Memory { metadata, streams }
}

/// Says where kymo reads something else than the model has.
pub fn kymo(case: &Case, memory: &Memory) -> Result<u64, String> {
    let trace = Trace::from_files(memory).map_err(|error| error.to_string())?;
    let remarks: Vec<String> = trace.caveats.iter().map(ToString::to_string).collect();
    let is_of_comma = |remark: &String| remark.contains("a comma behind the last element");
    let may_remark = case.features.used.contains("trailing-comma-in-json");
    if remarks.iter().any(|remark| !(may_remark && is_of_comma(remark))) {
        return Err(format!("remarks: {remarks:?}"));
    }
    metadata(case, &trace.value)?;
    // Counts, places and slices say the same.
    kymo_ctf::read::probe::walk(memory);
    let traces = [trace.value];
    let mut reader = Reader::new(&traces);
    let manner = Manner::of_kymo(case.format);
    let mut counts = vec![0; case.files.len()];
    let mut lost = vec![(0, 0); case.files.len()];
    let mut before = i128::MIN;
    while let Some(item) = reader.next() {
        let position = |name: &str| case.files.iter().position(|file| file.name == name).expect("a file of the case");
        match item {
            Item::Loss(loss) => {
                let lost = &mut lost[position(loss.stream)];
                (lost.0, lost.1) = (lost.0 + loss.records, lost.1 + loss.packets);
            }
            Item::Record(record) => {
                let file = &case.files[position(record.stream)];
                let count = &mut counts[position(record.stream)];
                let at = |what: String| format!("{}, record {count}: {what}", file.name);
                let expected = file.records.get(*count).ok_or_else(|| at("is not in the model".into()))?;
                one(case, file, expected, &record, manner).map_err(at)?;
                if record.ns < before {
                    return Err(format!("{}, record {count}: its time is before the last one's", file.name));
                }
                (before, *count) = (record.ns, *count + 1);
            }
        }
    }
    let caveats: Vec<String> = reader.caveats().map(|(_, caveat)| caveat.to_string()).collect();
    if !caveats.is_empty() {
        return Err(format!("caveats: {caveats:?}"));
    }
    let expected: Vec<usize> = case.files.iter().map(|file| file.records.len()).collect();
    let expected_lost: Vec<_> = case.files.iter().map(|file| (file.lost_records, file.lost_packets)).collect();
    if (&counts, &lost) != (&expected, &expected_lost) {
        return Err(format!(
            "read {counts:?} records and {lost:?} losses; there are {expected:?} and {expected_lost:?}"
        ));
    }
    Ok(expected.iter().sum::<usize>() as u64)
}

fn metadata(case: &Case, trace: &Trace) -> Result<(), String> {
    use super::trace::EnvVal;
    use kymo_ctf::write::EnvValue;
    if trace.metadata.uuid != case.uuid {
        return Err(format!("the UUID is {:?}, and was read as {:?}", case.uuid, trace.metadata.uuid));
    }
    let env = |(name, value): &(String, EnvValue)| match value {
        EnvValue::Int(value) => (name.clone(), EnvVal::Int((*value).into())),
        EnvValue::Unsigned(value) => (name.clone(), EnvVal::Int((*value).into())),
        EnvValue::Text(text) => (name.clone(), EnvVal::Text(text.clone())),
    };
    let env: Vec<_> = trace.metadata.env.iter().map(env).collect();
    if env != case.env {
        return Err(format!("the environment is {:?}, and was read as {env:?}", case.env));
    }
    let Some(clock) = &case.clock else { return Ok(()) };
    let read = &trace.metadata.clocks[0];
    let is_same = read.frequency_hz == clock.frequency
        && read.offset_s == clock.offset_s
        && i128::from(read.offset_cycles) == i128::from(clock.offset)
        && read.precision_cycles == clock.precision
        && read.absolute == clock.absolute
        && read.uuid == clock.uuid
        && read.name == clock.name
        && read.description == clock.description;
    if is_same { Ok(()) } else { Err(format!("the clock is {clock:?}, and was read as {read:?}")) }
}

/// Says where a record is not what the model has.
pub fn one(
    case: &Case,
    file: &File,
    expected: &Record,
    record: &kymo_ctf::read::Record<'_>,
    manner: Manner,
) -> Result<(), String> {
    let class = &case.streams[file.stream];
    let event = &class.events[expected.event];
    let head = (record.packet, record.event.id, record.event.name.as_str());
    if head != (expected.packet, event.id, event.name.as_str()) {
        return Err(format!("is of event {} in packet {}, and was read as {head:?}", event.name, expected.packet));
    }
    if let (Some(cycles), Some(clock)) = (expected.cycles, &case.clock) {
        let expected = (cycles, clock.nanoseconds(cycles));
        if (record.cycles, record.ns) != expected {
            return Err(format!("has time {expected:?}, and was read as {:?}", (record.cycles, record.ns)));
        }
    }
    let parts = [&record.common_context, &record.context, &record.payload];
    let types = [&class.common, &event.specific, &event.payload];
    for ((ty, value), fields) in types.into_iter().zip(&expected.parts).zip(parts) {
        match (ty, value) {
            (Some(ty), Some(value)) => manner.compare(ty, value, &Seen::fields(fields))?,
            _ if fields.all().next().is_some() => return Err(format!("has fields that there are not: {fields:?}")),
            _ => {}
        }
    }
    let context = &file.contexts[expected.packet as usize];
    if let (Some(ty), Some(value)) = (&class.context, context) {
        manner
            .compare(ty, value, &Seen::fields(&record.packet_context))
            .map_err(|what| format!("packet context{what}"))?;
    }
    Ok(())
}

/// Says where a text output is not what the model has. `in_seconds`: times are seconds, not cycles.
pub fn foreign(case: &Case, mut lines: Vec<Line>, in_seconds: bool) -> Result<(), String> {
    let mut expected: Vec<(String, &File, &Record)> = Vec::new();
    for file in &case.files {
        expected.extend(file.records.iter().map(|record| (time(case, record, in_seconds), file, record)));
    }
    if lines.len() != expected.len() {
        return Err(format!("{} records, of {}", lines.len(), expected.len()));
    }
    for (time, file, record) in expected {
        let event = &case.streams[file.stream].events[record.event];
        let (mut found, mut why) = (None, Vec::new());
        for (index, line) in lines.iter().enumerate() {
            if (shortened(&line.time), &line.event) == (shortened(&time), &event.name) {
                match line_is(case, file, record, line) {
                    Ok(()) => found = Some(index),
                    Err(what) => why.push(what),
                }
            }
        }
        let Some(found) = found else {
            let shown: Vec<_> = lines.iter().map(|line| (&line.time, &line.event)).collect();
            return Err(format!("[{time}] {} is none of these: {why:?}, {shown:?}", event.name));
        };
        lines.swap_remove(found);
    }
    Ok(())
}

/// Without zeros in front.
fn shortened(time: &str) -> &str {
    let digits = time.trim_start_matches('0');
    if digits.is_empty() { time } else { digits }
}

fn time(case: &Case, record: &Record, in_seconds: bool) -> String {
    let (Some(cycles), Some(clock)) = (record.cycles, &case.clock) else { return String::new() };
    if !in_seconds {
        return format!("{cycles:020}");
    }
    let ns = clock.nanoseconds(cycles);
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}.{:09}", ns.abs() / 1_000_000_000, ns.abs() % 1_000_000_000)
}

fn line_is(case: &Case, file: &File, record: &Record, line: &Line) -> Result<(), String> {
    let class = &case.streams[file.stream];
    let event = &class.events[record.event];
    let manner = Manner::of_text(case.format);
    let context = &file.contexts[record.packet as usize];
    let parts = [
        ("stream.packet.context", &class.context, context),
        ("stream.event.context", &class.common, &record.parts[0]),
        ("event.context", &event.specific, &record.parts[1]),
        ("event.fields", &event.payload, &record.parts[2]),
    ];
    for (name, ty, value) in parts {
        let seen = line.parts.iter().find(|(part, _)| part == name).map(|(_, seen)| seen);
        let (Some(Type::Struct(fields, _)), Some(Val::Struct(values))) = (ty, value) else {
            if seen.is_some_and(|seen| *seen != Seen::Struct(Vec::new())) {
                return Err(format!("{name} is not there, and was read as {seen:?}"));
            }
            continue;
        };
        // What only says something of the packet is not shown.
        let is_shown = |ty: &Type| !matches!(ty, Type::Int(int) if int.role.is_some());
        let pairs = fields.iter().zip(values).filter(|(field, _)| is_shown(&field.ty));
        let (fields, values): (Vec<_>, Vec<_>) = pairs.map(|(field, value)| (field.clone(), value.clone())).unzip();
        match seen {
            Some(seen) => manner.members(&fields, &values, seen).map_err(|what| format!("{name}{what}"))?,
            None if fields.is_empty() => {}
            None => return Err(format!("{name} was not read")),
        }
    }
    Ok(())
}
