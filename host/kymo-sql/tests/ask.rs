// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions of the page over a lake [spec/view.md 11]: the numbers are those of SQL, values are any text, and only
//! traces that were added are found.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kymo_sql::lake::add::Order;
use kymo_sql::lake::ask::{AskError, Desk};
use kymo_sql::lake::manifest::{Manifest, make_lake};
use kymo_sql::lake::place::Place;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::small;
use crate::lakes::{DAYS, add_one, order, write};
use crate::queries::{Sql, runtime};
use crate::support::random;

const ODD: &str = "a'b\"c\\ OR 1=1 <img src=x>\n\u{1b}[31m\u{202e}%_=&";

/// A lake, traces beside it, and who answers.
struct Asked {
    root: TempDir,
    place: Place,
    runtime: tokio::runtime::Runtime,
}

impl Asked {
    fn new() -> Asked {
        let root = tempfile::tempdir().unwrap();
        let place = Place::create(root.path().join("lake").to_str().unwrap()).unwrap();
        Asked { root, place, runtime: runtime() }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Three hosts, one of which lost records; labels of two of them, one with odd characters.
    fn full() -> Asked {
        let asked = Asked::new();
        for (name, host, seed, labels) in [
            ("a", "rt-1", 1, &[("board", ODD), ("kernel", "6.12")][..]),
            ("b", "rt-<2>", 2, &[("kernel", "6.12")]),
            ("c", "rt-3", 3, &[]),
        ] {
            let mut made = random(seed, 3000);
            if name == "b" {
                made.lose(0, 7).step(0, 90_000, 1.0);
            }
            write(&made, &asked.dir(name), host, 20_000);
            add_one(&asked.place, &asked.dir(name), &order(labels, &[]));
        }
        asked
    }

    fn desk(&self) -> Desk {
        self.runtime.block_on(Desk::open(self.place.clone(), 2, 64 << 20)).unwrap()
    }

    fn try_ask(&self, desk: &Desk, question: &str, parameters: &[(&str, &str)]) -> Result<Value, AskError> {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.runtime.block_on(desk.answer(question, parameters)).map(|answer| answer.json())
    }

    #[track_caller]
    fn ask(&self, question: &str, parameters: &[(&str, &str)]) -> Value {
        let answer = self.try_ask(&self.desk(), question, parameters);
        answer.unwrap_or_else(|error| panic!("{question} {parameters:?}: {error}"))
    }

    fn manifest(&self, place: &str) -> Manifest {
        let all = self.runtime.block_on(Manifest::all(&self.place)).unwrap();
        all.into_iter().find(|manifest| manifest.place.ends_with(place)).unwrap()
    }
}

fn kind(error: &AskError) -> String {
    error.json()["error"]["kind"].as_str().unwrap().to_owned()
}

/// By the value of each group.
fn by_value(answer: &Value, table: &str, column: &str) -> Vec<(Value, Value)> {
    let of = &answer["tables"][table];
    let (values, others) = (of["value"].as_array().unwrap(), of[column].as_array().unwrap());
    let mut all: Vec<(Value, Value)> = values.iter().cloned().zip(others.iter().cloned()).collect();
    all.sort_by_key(|(value, _)| value.to_string());
    all
}

#[test]
fn distributions_are_those_of_sql() {
    let asked = Asked::full();
    let sql = Sql::lake(&asked.place).unwrap();
    let idle = "(doubt IS NULL OR doubt NOT LIKE '%idle%')";
    for (by, column) in [
        ("host", "host"),
        ("label:kernel", "label_kernel"),
        ("label:board", "label_board"),
        ("name", "name"),
        ("day", "CAST(day AS VARCHAR)"),
    ] {
        let answer = asked.ask("distribution", &[("by", by), ("what", "wakeup"), ("values", "24")]);
        let query = format!(
            "SELECT {column} AS value, count(*) AS n, max(duration_ns) AS most, quantile(duration_ns, 0.5) AS p50, \
             count(DISTINCT host) AS hosts FROM latencies WHERE kind = 'wakeup' AND {idle} GROUP BY {column}"
        );
        let rows = sql.rows(&query);
        assert!(rows.len() > 1, "{by}");
        for (name, own) in [("n", "count"), ("most", "max_ns"), ("hosts", "hosts")] {
            let mut expect: Vec<(Value, Value)> =
                rows.iter().map(|row| (row.get("value").cloned().unwrap_or(Value::Null), row[name].clone())).collect();
            expect.sort_by_key(|(value, _)| value.to_string());
            assert_eq!(by_value(&answer, "groups", own), expect, "{by} {name}");
        }
        // The bucket is that of the histogram; the largest sample bounds it.
        for (value, p50) in by_value(&answer, "groups", "p50_ns") {
            let row = rows.iter().find(|row| row.get("value").cloned().unwrap_or(Value::Null) == value).unwrap();
            if !p50.is_null() {
                assert_eq!(p50.as_u64(), row["p50"].as_u64().min(row["most"].as_u64()), "{by} {value}");
            }
        }
        let buckets = &answer["tables"]["buckets"];
        let counted: u64 = buckets["count"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
        assert_eq!(
            Some(counted),
            sql.rows(&format!("SELECT count(*) AS n FROM latencies WHERE kind = 'wakeup' AND {idle}"))[0]["n"].as_u64(),
            "{by}"
        );
    }
}

#[test]
fn losses_widen_the_numbers_of_their_group_alone() {
    let asked = Asked::full();
    let answer = asked.ask("distribution", &[("by", "host")]);
    let lost: Vec<Value> = by_value(&answer, "groups", "lost").into_iter().map(|(_, lost)| lost).collect();
    assert_eq!(lost, [json!(0), json!(0), json!(7)], "rt-1, rt-3, rt-<2>");
    let least = by_value(&answer, "groups", "p50_least_ns");
    let most = by_value(&answer, "groups", "p50_most_ns");
    let p50 = by_value(&answer, "groups", "p50_ns");
    assert!(least[2].1.as_u64() <= p50[2].1.as_u64() && p50[2].1.as_u64() <= most[2].1.as_u64());
    // Of a thread it is not known whether the lost records were its.
    let answer = asked.ask("distribution", &[("by", "name")]);
    assert!(by_value(&answer, "groups", "lost").iter().all(|(_, lost)| *lost == json!(7)), "{answer}");
    // Without that host nothing is missing.
    let answer = asked.ask("distribution", &[("by", "name"), ("is", "host=rt-1")]);
    assert!(by_value(&answer, "groups", "lost").iter().all(|(_, lost)| *lost == json!(0)), "{answer}");
}

#[test]
fn values_are_any_text() {
    let asked = Asked::full();
    let condition = format!("label:board={ODD}");
    let answer = asked.ask("distribution", &[("by", "host"), ("is", &condition)]);
    assert_eq!(answer["tables"]["groups"]["value"], json!(["rt-1"]));
    let answer = asked.ask("distribution", &[("by", "label:board"), ("is", "host=rt-1")]);
    assert_eq!(answer["tables"]["groups"]["value"], json!([ODD]));
    let answer = asked.ask("distribution", &[("by", "host"), ("is", "label:board"), ("is", "label:kernel=6.12")]);
    assert_eq!(answer["tables"]["groups"]["value"], json!(["rt-<2>"]), "the board is not known");
    for value in ["host=rt-1' OR '1'='1", "host=%", "host=rt-1\" --", "name=';DROP TABLE latencies", "host="] {
        let answer = asked.ask("distribution", &[("is", value)]);
        assert_eq!(answer["tables"]["groups"]["value"], json!([]), "{value}");
    }
    let worst = asked.ask("worst", &[("is", &condition), ("limit", "3")]);
    assert_eq!(worst["tables"]["rows"]["host"], json!(["rt-1", "rt-1", "rt-1"]));
    assert_eq!(worst["tables"]["labels"]["value"], json!([ODD, "6.12"]));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let asked = Asked::full();
    let desk = asked.desk();
    for (question, parameters, part) in [
        ("distribution", &[("by", "nothing")][..], "label:KEY"),
        ("distribution", &[("by", "label:bord")], "board"),
        ("distribution", &[("by", "label:a\" FROM x")], "no addition"),
        ("distribution", &[("is", "day=2026-11-27")], "first and last"),
        ("distribution", &[("first", "2026-02-30")], "a day"),
        ("distribution", &[("first", "2026-11-28"), ("last", "2026-11-27")], "before first"),
        ("distribution", &[("what", "a"), ("what", "b")], "more than once"),
        ("distribution", &[("values", "25")], "from 1 to 24"),
        ("distribution", &[("limit", "5")], "no such parameter"),
        ("worst", &[("limit", "1001")], "from 1 to 1000"),
        ("trend", &[("quantile", "p50000")], "p9999"),
        ("contents", &[("what", "x")], "no parameters"),
        ("locate", &[("trace", "x")], "no question"),
        ("", &[], "no question"),
    ] {
        let error = asked.try_ask(&desk, question, parameters).unwrap_err();
        assert!(error.to_string().contains(part), "{question} {parameters:?}: {error}");
        assert!(matches!(kind(&error).as_str(), "parameter" | "question"), "{question} {parameters:?}");
    }
    // A kind of latency that the lake does not have is none.
    assert_eq!(asked.ask("worst", &[("what", "x'y")])["tables"]["rows"]["value_ns"], json!([]));
}

#[test]
fn the_contents_are_those_of_the_manifests() {
    let asked = Asked::full();
    std::fs::create_dir(asked.dir("bad")).unwrap();
    std::fs::write(asked.dir("bad/metadata"), "none").unwrap();
    add_one(&asked.place, &asked.dir("bad"), &Order::default());
    let answer = asked.ask("contents", &[]);
    let tables = &answer["tables"];
    assert_eq!(tables["additions"]["place"].as_array().unwrap().len(), 4);
    assert_eq!(tables["labels"]["value"], json!([ODD, "6.12"]));
    assert_eq!(tables["labels"]["additions"], json!([1, 2]));
    assert_eq!(tables["hosts"]["host"], json!([null, "rt-1", "rt-3", "rt-<2>"]));
    assert_eq!(answer["lost"]["records"], json!(7));
    let days: Vec<Option<i64>> = tables["days"]["day"].as_array().unwrap().iter().map(Value::as_i64).collect();
    assert_eq!(days, [None, kymo_sql::day::day_number(DAYS[0]), kymo_sql::day::day_number(DAYS[1])]);
    // What cannot be opened is told beside each number.
    let answer = asked.ask("distribution", &[]);
    assert!(answer["notes"][0].as_str().unwrap().starts_with("1 trace of the lake cannot be opened"), "{answer}");
    let kinds = asked.ask("kinds", &[]);
    assert!(kinds["tables"]["kinds"]["what"].as_array().unwrap().contains(&json!("wakeup")), "{kinds}");
}

#[test]
fn an_empty_lake_has_contents_and_nothing_else() {
    let asked = Asked::new();
    asked.runtime.block_on(make_lake(&asked.place, "_kymo/staging/x")).unwrap();
    assert_eq!(asked.ask("contents", &[])["tables"]["additions"]["place"], json!([]));
    let error = asked.try_ask(&asked.desk(), "distribution", &[]).unwrap_err();
    assert_eq!(kind(&error), "trace");
    assert!(error.json()["error"]["hint"].as_str().unwrap().contains("kymo lake add"), "{error}");
}

#[test]
fn an_addition_that_is_replaced_meanwhile_is_read_anew() {
    let asked = Asked::full();
    let desk = asked.desk();
    let before = asked.try_ask(&desk, "distribution", &[("by", "host")]).unwrap();
    add_one(&asked.place, &asked.dir("c"), &order(&[("kernel", "6.18")], &[]));
    let after = asked.try_ask(&desk, "distribution", &[("by", "host")]).unwrap();
    assert_eq!(after["tables"]["groups"], before["tables"]["groups"]);
    let by_kernel = asked.try_ask(&desk, "distribution", &[("by", "label:kernel")]).unwrap();
    assert!(by_kernel["tables"]["groups"]["value"].as_array().unwrap().contains(&json!("6.18")), "{by_kernel}");
    // A file that is gone for good is an error that says so.
    let gone = asked.manifest("/c").files.iter().find(|file| file.table == "latencies").unwrap().path.clone();
    std::fs::remove_file(asked.dir("lake").join(gone)).unwrap();
    assert_eq!(kind(&asked.try_ask(&desk, "distribution", &[]).unwrap_err()), "gone");
}

#[test]
fn days_are_chosen_and_trends_have_them() {
    let asked = Asked::full();
    let answer = asked.ask("trend", &[("by", "host"), ("quantile", "max")]);
    let tables = &answer["tables"];
    let number = |day: &str| kymo_sql::day::day_number(day).unwrap();
    let days: std::collections::BTreeSet<i64> =
        tables["days"]["day"].as_array().unwrap().iter().filter_map(Value::as_i64).collect();
    assert_eq!(days.into_iter().collect::<Vec<_>>(), [number(DAYS[0]), number(DAYS[1])]);
    assert_eq!(tables["changes"]["group"], json!([]));
    assert!(tables["groups"]["why"][0].as_str().unwrap().contains("8 are needed"), "{answer}");
    let sql = Sql::lake(&asked.place).unwrap();
    for day in DAYS {
        let one = asked.ask("distribution", &[("first", day), ("last", day)]);
        let counts: u64 = one["tables"]["groups"]["count"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
        let query = format!(
            "SELECT count(*) AS n FROM latencies WHERE kind = 'wakeup' AND day = '{day}' \
             AND (doubt IS NULL OR doubt NOT LIKE '%idle%')"
        );
        assert_eq!(Some(counts), sql.rows(&query)[0]["n"].as_u64(), "{day}");
        assert!(counts > 0, "{day}");
    }
}

#[test]
fn the_worst_know_their_trace() {
    let asked = Asked::full();
    let answer = asked.ask("worst", &[("limit", "40")]);
    let rows = &answer["tables"]["rows"];
    let values: Vec<u64> = rows["value_ns"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert!(values.len() == 40 && values.is_sorted_by(|a, b| a >= b), "{values:?}");
    let places = answer["tables"]["additions"]["place"].as_array().unwrap();
    for (host, addition) in rows["host"].as_array().unwrap().iter().zip(rows["addition"].as_array().unwrap()) {
        let expect = match host.as_str().unwrap() {
            "rt-1" => "/a",
            "rt-<2>" => "/b",
            _ => "/c",
        };
        let place = places[addition.as_u64().unwrap() as usize].as_str().unwrap();
        assert!(place.ends_with(expect), "{host} {place}");
    }
    assert!(answer["tables"]["additions"]["is_here"].as_array().unwrap().iter().all(|is| *is == json!(1)));
}

#[test]
fn a_trace_is_found_by_its_identity_and_no_other_is_in_its_place() {
    let asked = Asked::full();
    let locate = |trace: &str| asked.runtime.block_on(asked.desk().locate(trace));
    let (a, c) = (asked.manifest("/a").trace, asked.manifest("/c").trace);
    assert_eq!(locate(&a).unwrap(), asked.dir("a").canonicalize().unwrap());
    let here = |trace: &str| {
        let error = locate(trace).unwrap_err();
        assert_eq!(kind(&error), "here");
        error.to_string()
    };
    for trace in ["", "../../etc", "/etc/passwd", &a[1..], "00000000000000000000000000000000"] {
        assert!(here(trace).contains("no addition"), "{trace}");
    }
    // Another trace at the same path.
    std::fs::remove_dir_all(asked.dir("a")).unwrap();
    write(&small(), &asked.dir("a"), "rt-1", 1500);
    assert!(here(&a).contains("another trace"), "{}", here(&a));
    std::fs::remove_dir_all(asked.dir("a")).unwrap();
    assert!(here(&a).contains("not at"), "{}", here(&a));
    // On another host.
    let path = asked.dir("lake").join(Manifest::path(&c));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut manifest: Manifest = serde_json::from_str(&text).unwrap();
    manifest.added_on = "elsewhere".to_owned();
    std::fs::write(&path, serde_json::to_string(&manifest).unwrap()).unwrap();
    assert!(here(&c).contains("on the host elsewhere"), "{}", here(&c));
}

#[test]
fn a_copy_is_found_where_the_lake_is_now() {
    let asked = Asked::new();
    write(&random(1, 500), &asked.dir("a"), "rt-1", 20_000);
    let order = Order { with_trace: true, ..order(&[], &[]) };
    let trace = add_one(&asked.place, &asked.dir("a"), &order).manifest.trace;
    std::fs::remove_dir_all(asked.dir("a")).unwrap();
    std::fs::rename(asked.dir("lake"), asked.dir("moved")).unwrap();
    let place = Place::open(asked.dir("moved").to_str().unwrap()).unwrap();
    let desk = asked.runtime.block_on(Desk::open(place, 2, 64 << 20)).unwrap();
    let path = asked.runtime.block_on(desk.locate(&trace)).unwrap();
    assert!(path.starts_with(asked.dir("moved")) && path.join("metadata").exists(), "{}", path.display());
}

#[test]
fn questions_come_through_pipes_and_the_process_ends_with_them() {
    let asked = Asked::full();
    let serve = |lake: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-sql"));
        command.args(["lake", "serve", "--", lake]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for (lake, part) in [("/no/such/lake", "no such directory"), (asked.root.path().to_str().unwrap(), "is no lake")] {
        let failed = serve(lake).wait_with_output().unwrap();
        assert_eq!((failed.status.code(), failed.stdout.len()), (Some(2), 0));
        assert!(String::from_utf8_lossy(&failed.stderr).contains(part), "{lake}");
    }
    let mut child = serve(asked.place.text());
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let head: Value = serde_json::from_str(&line).unwrap();
        let mut body = vec![0; head["bytes"].as_u64().unwrap_or(0) as usize];
        output.read_exact(&mut body).unwrap();
        (head, body)
    };
    assert_eq!(line().0, json!({ "ready": true }));
    let question = |id: u64, question: &str, parameters: Value, json: bool| {
        format!("{}\n", json!({ "id": id, "question": question, "parameters": parameters, "json": json }))
    };
    // Several at once, in any order; one that is cancelled has an answer or none.
    let text = question(1, "worst", json!([["limit", "2"]]), true)
        + &question(2, "distribution", json!([["by", "nothing"]]), true)
        + &question(3, "trend", json!([]), false)
        + "{\"cancel\": 3}\n{\"cancel\": 99}\n"
        + &question(4, "contents", json!([]), false);
    input.write_all(text.as_bytes()).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    while !(seen.contains_key(&1) && seen.contains_key(&2) && seen.contains_key(&4)) {
        let (head, body) = line();
        seen.insert(head["id"].as_u64().unwrap(), (head, body));
    }
    let worst: Value = serde_json::from_slice(&seen[&1].1).unwrap();
    assert_eq!(worst["tables"]["rows"]["host"].as_array().unwrap().len(), 2);
    assert_eq!(seen[&2].0["error"]["kind"], "parameter");
    assert_eq!((&seen[&4].0["kind"], &seen[&4].1[..8]), (&json!("frame"), &b"KYMOCOL1"[..]));
    drop(input);
    assert!(child.wait().unwrap().success());
}
