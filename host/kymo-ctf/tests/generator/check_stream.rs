// SPDX-License-Identifier: MIT OR Apache-2.0
//! A case with a broken stream, read by kymo: what is in front of the place and behind it, and what is said of it.

use kymo_ctf::read::{Item, Memory, Reader, Trace};

use super::breaks_stream::BrokenStream;
use super::check::one;
use super::seen::Manner;
use super::trace::Record;

/// Says where kymo reads something else than it must, or does not name the place.
pub fn kymo(broken: &BrokenStream, memory: &Memory) -> Result<(), String> {
    // Counts, places and slices say the same.
    kymo_ctf::read::probe::walk(memory);
    let traces = [Trace::from_files(memory).map_err(|error| error.to_string())?.value];
    let mut reader = Reader::new(&traces);
    let mut case = broken.case.clone();
    // The edit may be in a packet's context.
    case.streams.iter_mut().for_each(|class| class.context = None);
    let manner = Manner::of_kymo(case.format);
    let there: Vec<usize> = case.files.iter().map(|file| file.records.len()).collect();
    let mut counts = vec![0; case.files.len()];
    // Of each record behind the place: which of the packets behind it it is.
    let mut unplaced: Vec<Vec<bool>> = Vec::new();
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        let index = case.files.iter().position(|file| file.name == record.stream).expect("a file of the case");
        let (file, count) = (&case.files[index], counts[index]);
        counts[index] += 1;
        if index == broken.file && count >= broken.before {
            let is = |expected: &Record| {
                let expected = Record { packet: record.packet, cycles: None, ..expected.clone() };
                one(&case, file, &expected, &record, manner).is_ok()
            };
            unplaced.push(file.records[there[index] - broken.behind..].iter().map(is).collect());
            continue;
        }
        let at = |what: &str| format!("{}, record {count}: {what}", file.name);
        let expected = file.records.get(count).ok_or_else(|| at("is not in the model"))?;
        one(&case, file, expected, &record, manner).map_err(|what| at(&what))?;
    }
    let name = &case.files[broken.file].name;
    let is_short = |(index, (read, there)): (usize, (&usize, &usize))| index != broken.file && read != there;
    let (least, count) = (broken.before + broken.behind, counts[broken.file]);
    let is_wrong = count < least || (broken.is_all && count > least);
    if is_wrong || counts.iter().zip(&there).enumerate().any(is_short) {
        return Err(format!("read {counts:?} of {there:?} records; of {name} it must be {least}"));
    }
    let last = &unplaced[unplaced.len() - broken.behind..];
    if let Some(wrong) = (0..broken.behind).find(|&index| !last[index][index]) {
        return Err(format!("{name}: record {wrong} of those behind the place is another"));
    }
    let said: Vec<_> = reader.caveats().map(|(_, caveat)| caveat).collect();
    let place = (name.as_str(), Some(broken.packet), broken.at, broken.severity);
    let first = said.first().map(|first| (first.file.as_str(), first.packet, first.at, first.damage.severity()));
    if first == Some(place) && said.iter().all(|caveat| caveat.file == *name) {
        return Ok(());
    }
    let said: Vec<String> = said.iter().map(ToString::to_string).collect();
    Err(format!("{place:?} is wrong, and this is said: {said:?}"))
}
