// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters of a question [spec/view.md 3]: each is taken once, by its type, and unknown ones are an error.
//! Nothing is corrected silently but a window that reaches beyond the trace.

use std::ops::RangeInclusive;

use crate::error::Error;
use crate::opened::Opened;

/// Pixels or bins of a window at most.
pub const PIXELS_MAX: u64 = 8192;
/// Pixels or bins where a question does not say.
const PIXELS: u64 = 1000;
/// Rows of an answer at most.
pub const LIMIT_MAX: u64 = 10_000;
/// Threads of a question at most.
pub const TIDS_MAX: usize = 512;
/// CPUs of a question at most.
const CPUS_MAX: usize = 8192;
/// Parameters that may be given several times.
const REPEATED: [&str; 2] = ["filter", "span"];

/// A stretch of time, [from, to), ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From.
    pub from: i64,
    /// To.
    pub to: i64,
}

impl Window {
    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.from >= self.to
    }

    /// How long it is, ns.
    pub fn ns(self) -> u64 {
        if self.is_empty() { 0 } else { self.to.abs_diff(self.from) }
    }

    /// As a pair.
    pub fn pair(self) -> (i64, i64) {
        (self.from, self.to)
    }
}

/// The parameters that have not been taken.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// As they came.
    pub fn new(pairs: Vec<(String, String)>) -> Parameters {
        Parameters(pairs)
    }

    /// All values of a parameter.
    pub fn texts(&mut self, name: &str) -> Vec<String> {
        let (own, others) = std::mem::take(&mut self.0).into_iter().partition(|(key, _)| key == name);
        self.0 = others;
        let own: Vec<(String, String)> = own;
        own.into_iter().map(|(_, value)| value).collect()
    }

    /// The value of a parameter.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        debug_assert!(!REPEATED.contains(&name));
        let mut values = self.texts(name);
        match values.len() {
            0 => Ok(None),
            1 => Ok(values.pop()),
            _ => Err(Error::parameter(name, "it is given more than once")),
        }
    }

    /// A whole number.
    pub fn number(&mut self, name: &str, within: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wrong = || Error::parameter(name, format!("a whole number from {} to {}", within.start(), within.end()));
        digits(&text).filter(|number| within.contains(number)).map(Some).ok_or_else(wrong)
    }

    /// Columns of pixels.
    pub fn pixels(&mut self) -> Result<u32, Error> {
        self.number("pixels", 1..=PIXELS_MAX).map(|pixels| pixels.unwrap_or(PIXELS) as u32)
    }

    /// Parts of a window.
    pub fn bins(&mut self) -> Result<u32, Error> {
        self.number("bins", 1..=PIXELS_MAX).map(|bins| bins.unwrap_or(PIXELS) as u32)
    }

    /// Rows at most.
    pub fn limit(&mut self, default: usize) -> Result<usize, Error> {
        self.number("limit", 1..=LIMIT_MAX).map(|limit| limit.map_or(default, |limit| limit as usize))
    }

    /// A time, ns since 1970.
    pub fn time(&mut self, name: &str, of: &Opened) -> Result<Option<i64>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let at = match text.strip_prefix('@') {
            Some(text) => signed(text).map(|ns| of.base().saturating_add(ns)),
            None => signed(&text),
        };
        let wrong = || Error::parameter(name, "decimal ns since 1970, or @ and ns after the base");
        at.map(Some).ok_or_else(wrong)
    }

    /// `from` and `to`, cut to the time of the trace.
    pub fn window(&mut self, of: &Opened) -> Result<Window, Error> {
        let (first, end) = of.whole();
        let from = self.time("from", of)?.unwrap_or(first);
        let to = self.time("to", of)?.unwrap_or(end);
        if from >= to && of.bounds.is_some() {
            return Err(Error::parameter("to", "it is not after from"));
        }
        let window = Window { from: from.max(first), to: to.min(end) };
        Ok(if window.is_empty() { Window { from: window.to, to: window.to } } else { window })
    }

    /// Numbers of CPUs; `None`: all.
    pub fn cpus(&mut self) -> Result<Option<Vec<u32>>, Error> {
        let Some(text) = self.text("cpus")? else { return Ok(None) };
        let numbers = list(&text, CPUS_MAX, |part| digits(part).and_then(|cpu| u32::try_from(cpu).ok()));
        numbers.map(Some).ok_or_else(|| Error::parameter("cpus", "numbers of CPUs, as 0,2,3"))
    }

    /// Numbers of threads; `None`: not given.
    pub fn tids(&mut self) -> Result<Option<Vec<i32>>, Error> {
        let Some(text) = self.text("tids")? else { return Ok(None) };
        let number = |part: &str| digits(part).and_then(|tid| i32::try_from(tid).ok()).filter(|tid| *tid > 0);
        let wrong = || Error::parameter("tids", format!("numbers of threads, as 17,23; at most {TIDS_MAX}"));
        list(&text, TIDS_MAX, number).map(Some).ok_or_else(wrong)
    }

    /// Words of a list.
    pub fn words(&mut self, name: &str) -> Result<Vec<String>, Error> {
        let text = self.text(name)?.unwrap_or_default();
        Ok(text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    /// Whether a switch is on.
    pub fn flag(&mut self, name: &str) -> Result<bool, Error> {
        self.number(name, 0..=1).map(|value| value == Some(1))
    }

    /// All must have one of these names.
    pub fn check_names(&self, names: &[&str]) -> Result<(), Error> {
        match self.0.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, _)) if names.is_empty() => Err(Error::parameter(name, "the question has no parameters")),
            Some((name, _)) => {
                Err(Error::parameter(name, format!("there is no such parameter; there are {}", names.join(", "))))
            }
            None => Ok(()),
        }
    }
}

/// Digits only.
fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Digits, with a minus sign or without.
fn signed(text: &str) -> Option<i64> {
    let number = text.strip_prefix('-').unwrap_or(text);
    digits(number)?;
    text.parse().ok()
}

/// Different parts between commas, at least one.
fn list<T: PartialEq>(text: &str, count_max: usize, part: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let mut all = Vec::new();
    for text in text.split(',') {
        let value = part(text)?;
        if all.len() >= count_max || all.contains(&value) {
            return None;
        }
        all.push(value);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Parameters {
        Parameters::new(vec![(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn numbers_are_digits_within_bounds() {
        for text in
            ["", "0", "8193", "100000", "-1", "+5", "NaN", "1e3", " 7", "7 ", "18446744073709551616", "0x10", "７"]
        {
            let error = of("pixels", text).pixels().unwrap_err();
            assert_eq!(error.to_string(), "pixels: a whole number from 1 to 8192", "{text:?}");
        }
        assert_eq!(of("pixels", "8192").pixels(), Ok(8192));
        assert_eq!(of("pixels", "007").pixels(), Ok(7));
        assert_eq!(Parameters::default().pixels(), Ok(1000));
    }

    #[test]
    fn what_is_unknown_or_repeated_is_refused() {
        let error = of("pixel", "3").check_names(&["from", "pixels"]).unwrap_err();
        assert_eq!(error.to_string(), "pixel: there is no such parameter; there are from, pixels");
        let mut twice = Parameters::new(vec![("limit".into(), "1".into()), ("limit".into(), "2".into())]);
        assert!(twice.limit(5).unwrap_err().to_string().contains("more than once"));
        let mut filters = Parameters::new(vec![("filter".into(), "a".into()), ("filter".into(), "b".into())]);
        assert_eq!(filters.texts("filter"), ["a", "b"]);
        assert_eq!(filters.check_names(&[]), Ok(()));
    }

    #[test]
    fn lists_have_bounds() {
        assert_eq!(of("tids", "3,1").tids(), Ok(Some(vec![3, 1])));
        for text in ["", "0", "1,1", "1,", "-4", "2147483648", "a"] {
            assert!(of("tids", text).tids().is_err(), "{text:?}");
        }
        let many: Vec<String> = (1..=513).map(|tid| tid.to_string()).collect();
        assert!(of("tids", &many.join(",")).tids().is_err());
        assert!(of("tids", &many[..512].join(",")).tids().is_ok());
        assert_eq!(of("cpus", "0").cpus(), Ok(Some(vec![0])));
        assert_eq!(of("what", "wakeup,,irq").words("what"), Ok(vec!["wakeup".to_owned(), "irq".to_owned()]));
    }

    #[test]
    fn times_have_a_sign_at_most() {
        assert_eq!(
            [signed("-5"), signed("5"), signed("--5"), signed("+5"), signed("")],
            [Some(-5), Some(5), None, None, None]
        );
        assert_eq!([signed("9223372036854775808"), signed("-9223372036854775808")], [None, Some(i64::MIN)]);
    }
}
