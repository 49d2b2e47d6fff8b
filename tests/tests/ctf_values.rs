// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values and packets of CTF that only other tools write, in all that `kymo` makes of them: text, JSON, filters, rows,
//! exports; and packets of another UUID.

use std::path::PathBuf;

use kymo_tests::Lab;

/// Integers of 100 and of 128 bits, an enumeration whose labels overlap, and a float of 128 bits, big endian.
const METADATA: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = be; };
clock { name = c; freq = 1000000000; };
stream { event.header := struct { integer { size = 64; map = clock.c.value; } timestamp; }; };
event { name = \"wide:sum\"; fields := struct {
	integer { size = 104; signed = true; } balance;
	integer { size = 128; base = hex; } digest;
	enum : integer { size = 8; } { low = 0 ... 9, five = 5 } level;
	floating_point { exp_dig = 15; mant_dig = 113; } ratio;
}; };
";

fn record(time: u64, balance: i128, digest: u128, level: u8) -> Vec<u8> {
    let ratio = 0x3FFF_8000u128 << 96;
    [&time.to_be_bytes()[..], &balance.to_be_bytes()[3..], &digest.to_be_bytes(), &[level], &ratio.to_be_bytes()]
        .concat()
}

fn wide_trace(lab: &Lab) -> PathBuf {
    let dir = lab.path("wide");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("metadata"), METADATA).unwrap();
    let big = 1i128 << 100;
    let records = [record(5, -big, u128::MAX, 5), record(6, 7, 0xAB, 1), record(7, big, u128::MAX, 12)];
    std::fs::write(dir.join("stream"), records.concat()).unwrap();
    dir
}

#[test]
fn wide_integers_everywhere() {
    let lab = Lab::new("wide_integers");
    let dir = wide_trace(&lab);
    let dir = dir.to_str().unwrap();
    let said = lab.kymo(&["read", dir]).expect(0);
    assert!(said.stderr.contains("floats of 128 bits are shown as the nearest one of 64 bits"), "{}", said.stderr);
    for part in [
        "balance=-1267650600228229401496703205376",
        "digest=0xffffffffffffffffffffffffffffffff",
        "level=low|five(5)",
        "ratio=1.5",
        "balance=7, digest=0xab, level=low(1)",
        "level=12",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    let json = lab.kymo(&["read", "--json", dir]).expect(0).stdout;
    for part in [
        "\"balance\":-1267650600228229401496703205376",
        "\"digest\":340282366920938463463374607431768211455",
        "\"level\":{\"value\":5,\"label\":\"low\",\"labels\":[\"low\",\"five\"]}",
        "\"level\":{\"value\":1,\"label\":\"low\"}",
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    // Filters calculate with what 128 bits with a sign hold, and say so of what they do not.
    for (filter, count) in [
        ("balance < 0", 1),
        ("balance > 0xffffffffffffffff", 1),
        ("balance + 1 == 8", 1),
        ("balance % 2 == 0", 2),
        ("has(digest)", 3),
        ("level == five", 1),
    ] {
        let read = lab.kymo(&["read", "--filter", filter, dir]).expect(0).stdout;
        assert_eq!(read.lines().filter(|line| line.contains("wide:sum")).count(), count, "{filter}: {read}");
    }
    let refused = lab.kymo(&["read", "--filter", "digest == 5", dir]).expect(2).stderr;
    assert!(refused.contains("more bits than filters calculate with"), "{refused}");
    // Rows by the whole number.
    let rows = lab.kymo(&["stats", "--by", "digest", dir]).expect(0).stdout;
    assert!(rows.contains("340282366920938463463374607431768211455") && rows.contains("171"), "{rows}");
    let csv = lab.kymo(&["export", "--to", "csv", "-o", "-", dir]).expect(0).stdout;
    assert!(csv.contains("340282366920938463463374607431768211455"), "{csv}");
    let out = lab.path("wide.pftrace");
    let said = lab.kymo(&["export", "--to", "perfetto", "-o", out.to_str().unwrap(), dir]).expect(0);
    assert!(
        format!("{}{}", said.stdout, said.stderr).contains("integers of more than 64 bits, written as text"),
        "{} {}",
        said.stdout,
        said.stderr
    );
}

#[test]
fn packets_of_another_uuid() {
    let lab = Lab::new("another_uuid");
    let program = lab.cc("produce.c");
    let whole = lab.record("whole").run(&[program.to_str().unwrap(), "1", "50"]).expect(0).dir;
    let stream = std::fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().path());
    let stream = stream.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("user_")).max().unwrap();
    let mut bytes = std::fs::read(&stream).unwrap();
    bytes[4] ^= 0x55;
    std::fs::write(&stream, bytes).unwrap();
    let dir = whole.to_str().unwrap();
    let count = |args: &[&str], code| {
        let said = lab.kymo(&[&["read", "--count", "--json"], args, &[dir]].concat()).expect(code);
        let counted: serde_json::Value = serde_json::from_str(said.stdout.lines().last().unwrap()).unwrap();
        (counted["records"].as_u64().unwrap(), said.stderr)
    };
    let (some, told) = count(&[], 1);
    assert!(told.contains("the packet's UUID is not that of the metadata") && told.contains("--ignore-uuid"), "{told}");
    let (all, told) = count(&["--ignore-uuid"], 0);
    assert!(told.contains("packets are read whatever their UUID"), "{told}");
    assert!(all > some, "{all} and {some} records");
    // An index is of the packets that are read without the option: it is not used with it.
    lab.kymo(&["index", dir]).expect(0);
    assert_eq!(count(&["--ignore-uuid", "--from", "+0s"], 0).0, all);
    for verb in [&["stats"][..], &["export", "--to", "csv", "-o", "-"]] {
        let said = lab.kymo(&[verb, &["--ignore-uuid", dir]].concat()).expect(0);
        assert!(said.stderr.contains("packets are read whatever their UUID"), "{verb:?}: {}", said.stderr);
    }
}
