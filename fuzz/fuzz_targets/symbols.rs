// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs and kernel symbol texts. The first eight bytes say at which address to look, the rest is the file.
#![no_main]

use std::path::Path;

use kymo_symbols::{Files, Kernel, Mapping, Symbols};

struct One<'a>(&'a [u8]);

impl Files for One<'_> {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        (path == Path::new("/program")).then(|| self.0.to_vec())
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((head, file)) = bytes.split_first_chunk::<8>() else { return };
    let address = u64::from_le_bytes(*head);
    let mapping = Mapping { start: 0, end: u64::MAX, offset: 0, path: "/program".into(), build_id: Vec::new() };
    let _ = Symbols::new(One(file)).find(&mapping, address, true);
    if let Ok(kernel) = Kernel::parse(&String::from_utf8_lossy(file)) {
        kernel.find(address);
    }
});
