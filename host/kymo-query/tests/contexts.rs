// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that records have in front of their payload, over time.

use crate::common;

use common::{ask, column, rows, try_ask};
use kymo_ctf::read::{Memory, Trace};
use kymo_index::Indexes;
use kymo_query::Opened;
use serde_json::json;

/// Two records with a counter; the first event has a context of its own, too.
fn opened() -> Opened {
    let metadata = "typealias integer { size = 8; } := u8;
        clock { name = c; freq = 1000000000; };
        stream {
            event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; };
            event.context := struct { u8 cycles; string note; };
        };
        event { id = 7; name = \"motor:step\"; context := struct { u8 depth; }; fields := struct { u8 axis; }; };
        event { id = 8; name = \"motor:stop\"; fields := struct { u8 axis; }; };";
    let stream = vec![7, 1, 10, b'n', 0, 3, 2, 8, 5, 20, b'n', 0, 9];
    let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] };
    let trace = Trace::from_files(&files).unwrap().value;
    Opened::new(vec![trace], Indexes::default(), "t".into(), Vec::new())
}

#[test]
fn contexts_are_values_as_fields_are() {
    let of = opened();
    let bins = |field: &str| {
        let found = ask(&of, "values", &format!("field={field}&bins=1"));
        rows(&found, "bins", &["count", "min", "max"]).remove(0)
    };
    assert_eq!(bins("motor:step.axis"), [json!(1), json!(2.0), json!(2.0)]);
    assert_eq!(bins("motor:step.$cycles"), [json!(1), json!(10.0), json!(10.0)]);
    assert_eq!(bins("*.$cycles"), [json!(2), json!(10.0), json!(20.0)]);
    assert_eq!(bins("motor:step.$depth"), [json!(1), json!(3.0), json!(3.0)]);
    for field in ["motor:stop.$depth", "motor:step.$note", "nobody.$cycles", "*.$", "*.axis"] {
        let error = try_ask(&of, "values", &format!("field={field}")).unwrap_err();
        assert_eq!(error.json()["error"]["parameter"], "field", "{field}: {error}");
    }
}

#[test]
fn a_schema_names_them() {
    let found = ask(&opened(), "schema", "");
    assert_eq!(column(&found, "events", "name"), &[json!("motor:step"), json!("motor:stop")]);
    let expect = [json!([0, "depth"]), json!([0, "cycles"]), json!([1, "cycles"])];
    assert_eq!(
        rows(&found, "recorded_contexts", &["event", "name"]),
        expect.map(|row| row.as_array().unwrap().clone())
    );
}
