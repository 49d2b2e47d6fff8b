// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace whose events have contexts of their own. For the tests of kymo-sql, too.

use kymo_ctf::read::{Memory, Trace};

/// `prio` is a context of all records and, of `b`, once more of its own; `depth` and `who` are of `b` alone.
const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; } := u8;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; absolute = true; };
stream {
    event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; };
    event.context := struct { u8 prio; };
};
event { id = 1; name = "a"; fields := struct { u8 n; }; };
event { id = 2; name = "b"; fields := struct { u8 n; };
    context := struct { u8 depth; u8 prio; u8 vtid; string who; }; };
"#;

pub fn traces() -> [Trace; 1] {
    let records = [&[1u8, 10, 3, 7][..], &[2, 20, 4, 5, 9, 77, b'm', b'e', 0, 8]];
    let files = Memory { metadata: METADATA.into(), streams: vec![("s".into(), records.concat())] };
    [Trace::from_files(&files).unwrap().value]
}
