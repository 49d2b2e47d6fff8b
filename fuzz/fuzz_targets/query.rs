// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about a trace, as text: `question?name=value&name=value`, not encoded. Whatever they are, each is answered
//! or refused with a reason.
#![no_main]

use std::sync::LazyLock;

use kymo_query::{Opened, Parameters, Stop, answer};

#[path = "../../host/kymo-query/tests/common/mod.rs"]
mod common;

static OPENED: LazyLock<Opened> = LazyLock::new(|| common::small().open());

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (question, query) = text.split_once('?').unwrap_or((&text, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    });
    match answer(&OPENED, question, Parameters::new(pairs.collect()), &Stop::default()) {
        Ok(found) => assert!(found.json().is_object() && !found.frame().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
