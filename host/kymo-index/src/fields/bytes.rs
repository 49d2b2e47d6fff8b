// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of one field over time as few bytes, and the losses of a trace [spec/index.md 4.1].

use kymo_analyze::compact::{Put, Take};
use kymo_feed::LossAt;

use crate::fields::columns::FIELD_COLUMNS_MAX;
use crate::fields::head::LOSSES_MAX;
use crate::fields::sums::ValueSums;
use crate::file::bits::{BitPut, BitTake, width};
use crate::pictures::part::SHIFT_MAX;

/// Integers up to this are exact as floating-point numbers.
const EXACT: i64 = 1 << 53;
/// Lists of numbers in a piece, each with its order: gaps between columns, counts, values that are no numbers, first
/// and last values, how far the smallest and the largest are beyond these.
const LISTS: usize = 7;
const GAP: usize = 0;
const COUNT: usize = 1;
const NOT_NUMBER: usize = 2;
const FIRST: usize = 3;
const LAST: usize = 4;
const BELOW: usize = 5;
const ABOVE: usize = 6;

/// How values are written, as integers that have their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// The integers that they are, up to [`EXACT`]: the sum is that of these.
    Exact,
    /// Their bits, without so many that are 0 in all of them.
    Bits(u32),
}

impl Keys {
    fn of(self, value: f64) -> i64 {
        match self {
            Keys::Exact => value as i64,
            Keys::Bits(spare) => flipped(value.to_bits() as i64 >> spare, spare),
        }
    }

    fn value(self, key: i64) -> Option<f64> {
        match self {
            Keys::Exact => (-EXACT..=EXACT).contains(&key).then_some(key as f64),
            Keys::Bits(spare) => {
                let bits = flipped(key, spare);
                let value = f64::from_bits((bits << spare) as u64);
                (bits << spare >> spare == bits && !value.is_nan()).then_some(value)
            }
        }
    }
}

/// Of a negative number all bits but the sign's are turned over: so the order of bits is that of numbers.
fn flipped(bits: i64, spare: u32) -> i64 {
    bits ^ (((bits >> 63) as u64) >> (1 + spare)) as i64
}

/// How many of the lowest bits are 0 in all values.
fn spare_bits<'s>(columns: impl Iterator<Item = &'s ValueSums>) -> u32 {
    let used = columns.filter(|of| of.count > 0).flat_map(|of| [of.min, of.max, of.first, of.last]);
    // The sign and one more are kept.
    used.fold(0, |used, value| used | value.to_bits()).trailing_zeros().min(62)
}

/// Whether all of it is made of integers that are exact: without an integer beyond, and without a float.
fn is_exact(of: &ValueSums) -> bool {
    let is_small =
        |value: f64| value.abs() < EXACT as f64 && value.fract() == 0.0 && !(value == 0.0 && value.is_sign_negative());
    let most = (of.max as i128).checked_sub(of.min as i128).and_then(|range| range.checked_mul(of.count.into()));
    let rest = (of.min as i128).checked_mul(of.count.into()).and_then(|least| of.integers.checked_sub(least));
    let is_between = most.zip(rest).is_some_and(|(most, rest)| (0..=most).contains(&rest));
    of.count == 0
        || of.floats == 0.0
            && is_small(of.min)
            && is_small(of.max)
            && is_between
            && is_small(of.first)
            && is_small(of.last)
}

/// What is written of a column: a number for each list that has one, and the keys of the smallest and the largest.
struct Written {
    numbers: [Option<u64>; LISTS],
    last: i64,
}

fn written(keys: Keys, (gap, of): (u64, &ValueSums), has_not_numbers: bool, last_before: i64) -> Written {
    let zigzag = |value: i64| (value << 1 ^ value >> 63) as u64;
    let mut numbers = [None; LISTS];
    numbers[GAP] = Some(gap);
    numbers[COUNT] = Some(if has_not_numbers { of.count } else { of.count - 1 });
    numbers[NOT_NUMBER] = has_not_numbers.then_some(of.not_numbers);
    if of.count == 0 {
        return Written { numbers, last: last_before };
    }
    let [first, last, min, max] = [of.first, of.last, of.min, of.max].map(|value| keys.of(value));
    numbers[FIRST] = Some(zigzag(first.wrapping_sub(last_before)));
    if of.count > 1 {
        numbers[LAST] = Some(zigzag(last.wrapping_sub(first)));
    }
    if of.count > 2 {
        numbers[BELOW] = Some(first.min(last).wrapping_sub(min) as u64);
        numbers[ABOVE] = Some(max.wrapping_sub(first.max(last)) as u64);
    }
    Written { numbers, last }
}

/// The columns of a field, in their order, with their numbers. Empty where there is none.
pub(crate) fn put_field<'s>(shift: u32, columns: impl Iterator<Item = (i64, &'s ValueSums)>) -> Vec<u8> {
    let columns: Vec<(i64, &ValueSums)> = columns.collect();
    let Some((begin, _)) = columns.first() else { return Vec::new() };
    let sums = || columns.iter().map(|(_, of)| *of);
    let keys = if sums().all(is_exact) { Keys::Exact } else { Keys::Bits(spare_bits(sums())) };
    let has_not_numbers = sums().any(|of| of.not_numbers > 0);
    let has_integers = sums().any(|of| of.integers != 0);
    let (mut put, mut bits) = (Put::default(), BitPut::default());
    put.number(shift.into());
    put.signed(*begin);
    put.number(columns.len() as u64);
    put.byte(u8::from(has_not_numbers) | u8::from(has_integers) << 1);
    put.option(Some(keys).filter(|keys| *keys != Keys::Exact), |put, keys| {
        if let Keys::Bits(spare) = keys {
            put.number(spare.into());
        }
    });
    // Twice: the orders of the lists come first.
    let (mut lengths, mut counts) = ([0u64; LISTS], [0u64; LISTS]);
    let mut orders = [1; LISTS];
    for is_put in [false, true] {
        if is_put {
            orders = std::array::from_fn(|list| (lengths[list] / counts[list].max(1)).clamp(1, 62) as u32);
            orders.iter().for_each(|order| bits.bits((*order).into(), 6));
        }
        let (mut before, mut last) = (*begin, 0);
        for (at, (number, of)) in columns.iter().enumerate() {
            let gap = number.wrapping_sub(before) as u64 - u64::from(at > 0);
            let of_column = written(keys, (gap, of), has_not_numbers, last);
            (before, last) = (*number, of_column.last);
            for (list, value) in of_column.numbers.iter().enumerate() {
                let Some(value) = *value else { continue };
                match is_put {
                    true => bits.number(value, orders[list]),
                    false => {
                        lengths[list] += u64::from(width(value)).saturating_sub(1);
                        counts[list] += 1;
                    }
                }
            }
            if is_put {
                put_sum(&mut bits, keys, of, has_integers);
            }
        }
    }
    bits.finish(&mut put.0);
    put.0
}

/// A sum, as far as it does not follow from the values.
fn put_sum(bits: &mut BitPut, keys: Keys, of: &ValueSums, has_integers: bool) {
    if keys == Keys::Exact {
        if of.count > 2 {
            let rest = of.integers - of.min as i128 * i128::from(of.count);
            put_rest(bits, rest as u128, most_of(of));
        }
        return;
    }
    if has_integers && of.count > 0 {
        put_rest(bits, of.integers as u128, u128::MAX);
    }
    if of.count > 2 || has_integers && of.count > 0 {
        bits.bits(of.floats.to_bits(), 64);
    }
}

/// How much a sum of exact integers can be above that of so many of the smallest.
fn most_of(of: &ValueSums) -> u128 {
    u128::from((of.max as i64).abs_diff(of.min as i64)).saturating_mul(of.count.into())
}

fn put_rest(bits: &mut BitPut, rest: u128, most: u128) {
    match u64::try_from(most) {
        Ok(most) => bits.bits(rest as u64, width(most)),
        Err(_) => {
            bits.bits(rest as u64, 64);
            bits.bits((rest >> 64) as u64, 64);
        }
    }
}

fn take_rest(bits: &mut BitTake<'_>, most: u128) -> Option<u128> {
    match u64::try_from(most) {
        Ok(most) => bits.bits(width(most)).map(u128::from),
        Err(_) => Some(u128::from(bits.bits(64)?) | u128::from(bits.bits(64)?) << 64),
    }
    .filter(|rest| *rest <= most)
}

/// Takes them again: the shift, and each with its number. `None`: they are not what they were; what was taken is of no
/// use then.
pub(crate) fn take_field(bytes: &[u8], mut each: impl FnMut(i64, &ValueSums)) -> Option<u32> {
    let mut take = Take(bytes);
    let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
    let (least, most) = (i64::MIN >> shift, i64::MAX >> shift);
    let begin = take.signed()?;
    let count = take.small::<usize>().filter(|count| (1..=FIELD_COLUMNS_MAX).contains(count))?;
    let flags = take.byte().filter(|flags| *flags < 4)?;
    let (has_not_numbers, has_integers) = (flags & 1 != 0, flags & 2 != 0);
    let spare = take.option(|take| take.small().filter(|spare| *spare <= 62))?;
    let keys = spare.map_or(Keys::Exact, Keys::Bits);
    let mut bits = BitTake::new(take.0);
    let mut orders = [0u32; LISTS];
    for order in &mut orders {
        *order = bits.bits(6).filter(|order| (1..=62).contains(order))? as u32;
    }
    let signed = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
    let (mut number, mut last_before) = (begin, 0i64);
    for at in 0..count {
        let gap = bits.number(orders[GAP])?;
        number = number.checked_add_unsigned(gap)?.checked_add(i64::from(at > 0))?;
        if !(least..=most).contains(&number) {
            return None;
        }
        let mut of = ValueSums { count: bits.number(orders[COUNT])?, ..ValueSums::default() };
        match has_not_numbers {
            true => of.not_numbers = bits.number(orders[NOT_NUMBER])?,
            false => of.count = of.count.checked_add(1)?,
        }
        if of.count > 0 {
            let first = last_before.wrapping_add(signed(bits.number(orders[FIRST])?));
            let last = if of.count > 1 { first.wrapping_add(signed(bits.number(orders[LAST])?)) } else { first };
            let (mut min, mut max) = (first.min(last), first.max(last));
            if of.count > 2 {
                min = min.checked_sub_unsigned(bits.number(orders[BELOW])?)?;
                max = max.checked_add_unsigned(bits.number(orders[ABOVE])?)?;
            }
            (of.first, of.last) = (keys.value(first)?, keys.value(last)?);
            (of.min, of.max) = (keys.value(min)?, keys.value(max)?);
            last_before = last;
            take_sum(&mut bits, keys, &mut of, has_integers)?;
        } else if of.not_numbers == 0 {
            return None;
        }
        each(number, &of);
    }
    bits.is_at_end().then_some(shift)
}

fn take_sum(bits: &mut BitTake<'_>, keys: Keys, of: &mut ValueSums, has_integers: bool) -> Option<()> {
    let of_few = |of: &ValueSums| if of.count > 1 { of.first + of.last } else { of.first };
    if keys == Keys::Exact {
        of.integers = of_few(of) as i128;
        if of.count > 2 {
            let least = (of.min as i128).checked_mul(of.count.into())?;
            of.integers = least.checked_add(take_rest(bits, most_of(of))? as i128)?;
        }
        return Some(());
    }
    // Sums begin with a positive zero.
    of.floats = 0.0 + of_few(of);
    if has_integers {
        of.integers = take_rest(bits, u128::MAX)? as i128;
    }
    if of.count > 2 || has_integers {
        of.floats = f64::from_bits(bits.bits(64)?);
    }
    Some(())
}

/// Losses in their order.
pub(crate) fn put_losses(losses: &[LossAt]) -> Vec<u8> {
    let (mut put, mut before) = (Put::default(), 0i64);
    put.number(losses.len() as u64);
    for loss in losses {
        put.signed(loss.from.wrapping_sub(before));
        put.signed(loss.to.wrapping_sub(loss.from));
        put.option(loss.cpu, |put, cpu| put.number(cpu.into()));
        put.option(loss.process, |put, process| put.number(process.into()));
        put.number(loss.records);
        put.number(loss.packets);
        before = loss.from;
    }
    put.0
}

/// The same again.
pub(crate) fn take_losses(bytes: &[u8]) -> Option<Vec<LossAt>> {
    let (mut take, mut losses, mut before) = (Take(bytes), Vec::new(), 0i64);
    for _ in 0..take.count().filter(|count| *count <= LOSSES_MAX)? {
        let from = before.wrapping_add(take.signed()?);
        let to = from.wrapping_add(take.signed()?);
        let (cpu, process) = (take.option(Take::small)?, take.option(Take::small)?);
        losses.push(LossAt { from, to, cpu, process, records: take.number()?, packets: take.number()? });
        before = from;
    }
    take.is_empty().then_some(losses)
}

#[cfg(test)]
mod tests {
    use kymo_testing::Random;
    use proptest::prelude::*;

    use super::*;
    use crate::fields::sums::FieldValue;

    fn value(random: &mut Random, kind: u64) -> FieldValue {
        let (word, bits) = (random.word(), random.below(64u32));
        match kind {
            0 => FieldValue::Integer((random.below(2000i64) - 1000).into()),
            1 => FieldValue::Integer(i128::from(word as i64 >> bits)),
            2 => FieldValue::Integer(i128::from(word >> bits)),
            3 => FieldValue::Float(f64::from(random.below(4000u32)) / 7.0 - 200.0),
            4 => FieldValue::Float(f64::from(random.below(4000u32) as f32 / 3.0)),
            5 => FieldValue::Float([-0.0, 0.0, f64::NAN, f64::INFINITY, 1e300, -5e-324][random.below(6) as usize]),
            _ => {
                let kind = random.below(6);
                value(random, kind)
            }
        }
    }

    fn columns(random: &mut Random) -> Vec<(i64, ValueSums)> {
        let (kind, mut number) = (random.below(7), random.below(1000i64) - 500);
        let mut made = Vec::new();
        for _ in 0..random.below(60u64) {
            let mut of = ValueSums::default();
            (0..1 + random.below(6u64)).for_each(|_| of.add(value(random, kind)));
            made.push((number, of));
            number += 1 + random.below(3i64).pow(random.below(9));
        }
        made
    }

    fn put(columns: &[(i64, ValueSums)]) -> Vec<u8> {
        put_field(5, columns.iter().map(|(number, of)| (*number, of)))
    }

    #[test]
    fn columns_are_what_they_were() {
        let mut random = Random::new("field_bytes", 1);
        for round in 0..2000 {
            let made = columns(&mut random);
            let mut found = Vec::new();
            let shift = take_field(&put(&made), |number, of| found.push((number, *of)));
            assert_eq!(shift, (!made.is_empty()).then_some(5), "round {round}");
            // Of a sum that is none (infinities of both signs) all bits are kept.
            let bits = |all: &[(i64, ValueSums)]| -> Vec<String> {
                let text = |(number, of): &(i64, ValueSums)| format!("{number} {of:?} {:x}", of.floats.to_bits());
                all.iter().map(text).collect()
            };
            let (found, made) = (bits(&found), bits(&made));
            let differs = found.iter().zip(&made).find(|(a, b)| a != b);
            assert!(found == made, "round {round}: {differs:?}");
        }
    }

    #[test]
    fn bits_have_the_order_of_numbers() {
        let values = [f64::NEG_INFINITY, -1e9, -1.5, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.5, 1.0, f64::INFINITY];
        let keys = values.map(|value| Keys::Bits(0).of(value));
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        for spare in [0, 3, 29, 50] {
            for value in [f64::NEG_INFINITY, -2.0, -1.0, -0.0, 0.0, 1.0, 8.0] {
                let again = Keys::Bits(spare).value(Keys::Bits(spare).of(value)).map(f64::to_bits);
                assert_eq!(again, Some(value.to_bits()), "{value} without {spare} bits");
            }
        }
    }

    /// What a busy field takes: some bytes a column.
    #[test]
    fn smooth_values_take_few_bytes() {
        let mut columns = Vec::new();
        for number in 0..1000i64 {
            let mut of = ValueSums::default();
            (0..20i64).for_each(|step| of.add(FieldValue::Integer((number * 20 + step).into())));
            columns.push((number, of));
        }
        let bytes = put(&columns).len();
        assert!(bytes < 9000, "{bytes} bytes");
    }

    #[test]
    fn losses_are_what_they_were() {
        let mut random = Random::new("field_losses", 1);
        let loss = |random: &mut Random| LossAt {
            from: random.word() as i64,
            to: random.word() as i64,
            cpu: Some(random.below(9u32)).filter(|cpu| *cpu > 3),
            process: Some(random.below(9u32)).filter(|process| *process > 3),
            records: random.below(9u64),
            packets: random.below(9u64),
        };
        let losses: Vec<LossAt> = (0..40).map(|_| loss(&mut random)).collect();
        assert_eq!(take_losses(&put_losses(&losses)), Some(losses));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bytes_of_anyone_as_fields_never_panic(
            seed in any::<u64>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut random = Random(seed);
            let mut bytes = put(&columns(&mut random));
            for (at, byte) in changes.iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            if let Some(at) = cut.filter(|_| !bytes.is_empty()) {
                bytes.truncate(at.index(bytes.len()));
            }
            let mut all = ValueSums::default();
            let _ = take_field(&bytes, |_, of| all.append(of));
            let _ = take_losses(&bytes);
        }
    }
}
