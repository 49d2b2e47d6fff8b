// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dumps this machine's state and says how much it was and how long it took: `count [files] [maps] [ROUNDS]`.

use std::time::Instant;

use kymo_state::{Options, dump};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let options = Options { files: has("files"), maps: has("maps"), ..Options::default() };
    let rounds = words.iter().find_map(|word| word.parse::<u32>().ok()).unwrap_or(1);
    for _ in 0..rounds {
        let (mut records, mut bytes) = (0, 0);
        let start = Instant::now();
        let report = dump(&options, 0, &mut |event| {
            records += 1;
            bytes += event.payload.len();
        });
        let spent_us = start.elapsed().as_micros();
        println!("{spent_us} us, {records} records, {bytes} bytes, {report:?}");
    }
}
