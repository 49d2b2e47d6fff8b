// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries: what they find, what they read, what they say of what is wrong, and what they write.

use kymo_command::sql::SqlFormat;
use kymo_tables::{OpenOptions, Source};
use kymo_testing::Random;
use serde_json::json;

use crate::common::{self, Made, small};
use crate::queries::Sql;
use crate::support::{self, open, random};

fn of(made: &Made) -> Sql {
    let (source, dir) = open(made);
    Sql::source(source, 2).with_dir(dir)
}

#[test]
fn queries_find_what_the_trace_has() {
    let sql = of(&small());
    for (query, expect) in [
        ("SELECT count(*) AS n FROM records", json!([{ "n": 19 }])),
        ("SELECT COUNT(*) AS n FROM motor.step", json!([{ "n": 3 }])),
        (
            "SELECT axis, sum(position) AS s, max(position) AS m FROM \"motor:step\" GROUP BY axis",
            json!([{ "axis": 2, "s": 0.0, "m": 2.5 }]),
        ),
        (
            "SELECT position FROM \"motor:step\" WHERE time < at('+500ns') ORDER BY position",
            json!([{ "position": -4.0 }, { "position": 1.5 }]),
        ),
        ("SELECT count(*) AS n FROM records WHERE event = 'motor:step' AND cpu IN (0, 1)", json!([{ "n": 3 }])),
        ("SELECT count(*) AS n FROM records WHERE event = 'motor'", json!([{ "n": 0 }])),
        // Each of several conditions on one column holds.
        (
            "WITH x AS (SELECT * FROM records WHERE event IN ('motor:step', 'axis:begin'))
             SELECT count(*) AS n FROM x WHERE event IN ('axis:begin', 'axis:end')",
            json!([{ "n": 1 }]),
        ),
        (
            "SELECT count(*) AS n FROM (SELECT * FROM records WHERE event = 'motor:step') WHERE event = 'axis:end'",
            json!([{ "n": 0 }]),
        ),
        (
            "SELECT count(*) AS n FROM (SELECT * FROM records WHERE cpu IN (0, 5)) WHERE cpu IN (1, 5)",
            json!([{ "n": 0 }]),
        ),
        ("SELECT name, duration_ns FROM wakeups WHERE tid = 20", json!([{ "name": "rt", "duration_ns": 100 }])),
        (
            "SELECT of, duration_ns FROM slices WHERE kind = 'syscall' AND duration_ns > ns('0.5us')",
            json!([{ "of": "futex", "duration_ns": 700 }]),
        ),
        ("SELECT duration_ns FROM span('axis:begin', 'axis:end', 'n')", json!([{ "duration_ns": 60 }])),
        ("SELECT sum(duration_ns) AS ns FROM critical_path(30, '+150ns', '+900ns')", json!([{ "ns": 750 }])),
        ("SELECT records FROM hosts", json!([{ "records": 19 }])),
    ] {
        assert_eq!(json!(sql.rows(query)), expect, "{query}");
    }
    let tables = sql.rows("SHOW TABLES");
    assert!(tables.iter().any(|row| row["table_name"] == "motor:step"), "{tables:?}");
    let columns = sql.rows("DESCRIBE wakeups");
    assert!(columns.iter().any(|row| row["column_name"] == "cpu_thread_ns"), "{columns:?}");
}

#[test]
fn quantiles_are_those_of_kymo_latency() {
    let made = random(17, 4000);
    let sql = of(&made);
    let of = made.open();
    let answer = common::ask(&of, "latencies", "limit=1");
    let mut compared = 0;
    let found = sql.rows(
        "SELECT kind, quantile(duration_ns, 0.9) AS p90, quantile_low(duration_ns, 0.9) AS low, max(duration_ns) AS max,
         quantile_most(duration_ns, 0.5, 1000000) AS most FROM latencies GROUP BY kind",
    );
    for row in common::rows(&answer, "series", &["what", "of", "count", "p90_ns"]) {
        // Kinds of which there is one series.
        let of_kind = common::rows(&answer, "series", &["what"]).iter().filter(|other| other[0] == row[0]).count();
        if of_kind != 1 || row[3].is_null() {
            continue;
        }
        let own = found.iter().find(|own| own["kind"] == row[0]).unwrap();
        assert_eq!(own["p90"], row[3], "{own} {row:?}");
        assert!(own["low"].as_u64() <= own["p90"].as_u64() && own["most"].is_null(), "{own}");
        compared += 1;
    }
    assert!(compared > 0);
    // A bucket may reach beyond all values; the bounds do not, also where parts of the rows are counted apart.
    for row in sql.rows(
        "SELECT kind, quantile(duration_ns, 1.0) AS high, quantile_most(duration_ns, 1.0, 0) AS most,
         max(duration_ns) AS max, quantile_low(duration_ns, 0.0) AS low, min(duration_ns) AS min FROM latencies GROUP BY kind",
    ) {
        assert_eq!((&row["high"], &row["most"], &row["low"]), (&row["max"], &row["max"], &row["min"]), "{row}");
    }
    assert!(sql.error("SELECT quantile(duration_ns, 7.0) FROM latencies").contains("from 0 to 1"));
    // Nothing is answered that was not asked for.
    let distinct = sql.error("SELECT quantile(DISTINCT duration_ns, 0.5) FROM latencies");
    assert!(distinct.contains("DISTINCT"), "{distinct}");
    let shares = sql.error("SELECT quantile(duration_ns, CASE WHEN cpu = 0 THEN 0.5 ELSE 0.9 END) FROM latencies");
    assert!(shares.contains("the same share for all rows"), "{shares}");
    let shares = sql.error("SELECT quantile(duration_ns, CASE WHEN cpu = 0 THEN 0.5 END) FROM latencies");
    assert!(shares.contains("the same share for all rows"), "{shares}");
    for none in ["NULL", "CAST(NULL AS DOUBLE)"] {
        let found = sql.rows(&format!("SELECT quantile(duration_ns, {none}) AS q FROM latencies"));
        assert_eq!(json!(found), json!([{ "q": null }]), "{none}");
    }
}

/// Random conditions: the rows are those of a table in memory, of which nothing is pushed down.
#[test]
fn what_is_pushed_down_changes_nothing() {
    let mut numbers = Random::new("sql", 21);
    let sql = of(&random(2, 3000));
    for table in ["records", "\"motor:step\"", "thread_state", "wakeups", "losses"] {
        for _ in 0..10 {
            let time = |numbers: &mut Random| format!("at('+{}ns')", numbers.below(40_000u32));
            let mut parts = vec![match numbers.below(4u32) {
                0 => format!("time >= {}", time(&mut numbers)),
                1 => format!("time < {} AND time > {}", time(&mut numbers), time(&mut numbers)),
                2 => format!("time BETWEEN {} AND {}", time(&mut numbers), time(&mut numbers)),
                _ => format!("{} >= time", time(&mut numbers)),
            }];
            if table != "losses" && numbers.below(2u32) == 0 {
                parts.push(format!("tid IN ({}, {})", 10 * numbers.below(12u32), 10 * numbers.below(12u32)));
            }
            if numbers.below(2u32) == 0 {
                parts.push(format!("cpu = {}", numbers.below(3u32)));
            }
            let condition = parts.join(" AND ");
            let query = format!("SELECT count(*) AS n, min(time) AS a, max(time) AS b FROM {table} WHERE {condition}");
            // A condition that is no conjunction of comparisons is for DataFusion.
            let other = format!(
                "SELECT count(*) AS n, min(time) AS a, max(time) AS b FROM {table} WHERE CASE WHEN {condition} THEN true ELSE \
                 false END"
            );
            assert!(sql.explain(&query).contains("pushed down=["), "{}", sql.explain(&query));
            assert!(!sql.explain(&other).contains("pushed down=["), "{}", sql.explain(&other));
            assert_eq!(sql.rows(&query), sql.rows(&other), "{query}");
        }
    }
}

#[test]
fn explain_shows_what_is_read() {
    let sql = of(&small());
    for (query, expect) in [
        ("SELECT sum(axis) FROM motor.step", "TraceScan: table=motor:step, columns=[axis], index=none, parts=1"),
        (
            "SELECT axis FROM motor.step WHERE time >= at('+10ns') AND cpu = 0 LIMIT 5",
            "table=motor:step, columns=[axis], pushed down=[time >= 1010, cpu in [0]], limit=5",
        ),
        ("SELECT time FROM records WHERE event IN ('a', 'b')", "columns=[time], pushed down=[event in [\"a\", \"b\"]]"),
        ("SELECT tid FROM wakeups WHERE end_time < at('+1us')", "pushed down=[end_time < 2000]"),
        ("SELECT axis FROM motor.step WHERE axis = 3", "table=motor:step, columns=[axis], index=none"),
    ] {
        let plan = sql.explain(query);
        assert!(plan.contains(expect), "{query}: {plan}");
    }
}

/// A trace with its index, and as if there was none.
fn with_and_without_an_index(made: &Made) -> (Sql, Sql) {
    let (source, dir) = open(made);
    drop(source);
    drop(support::index(dir.path()));
    let path = dir.path().to_owned();
    let open = |without_index| {
        let options = OpenOptions { without_index, ..OpenOptions::default() };
        Sql::source(Source::open(std::slice::from_ref(&path), &options).unwrap(), 3)
    };
    let without = open(true);
    (open(false).with_dir(dir), without)
}

/// What is left out in front is left out, however many readers read the table.
#[test]
fn an_offset_counts_in_one_part_and_in_several() {
    let (several, one) = with_and_without_an_index(&random(4, 3000));
    let query = "SELECT position FROM motor.step LIMIT 10 OFFSET 5";
    assert!(several.explain(query).contains("parts=3") && one.explain(query).contains("parts=1"));
    let steps = one.rows("SELECT position FROM motor.step");
    assert_eq!(json!(one.rows(query)), json!(steps[5..15]));
    let last = steps.len() - 4;
    for sql in [&several, &one] {
        for (query, expect) in [
            (query.to_owned(), 10),
            (format!("SELECT position FROM motor.step LIMIT 10 OFFSET {last}"), 4),
            (format!("SELECT position FROM motor.step OFFSET {last}"), 4),
            ("SELECT time, name FROM wakeups WHERE time > at('+0') LIMIT 3 OFFSET 2".to_owned(), 3),
        ] {
            assert_eq!(sql.rows(&query).len(), expect, "{query}: {}", sql.explain(&query));
        }
        let query = "SELECT count(*) AS n FROM (SELECT time FROM motor.step LIMIT 10 OFFSET 5)";
        assert_eq!(sql.rows(query), [json!({ "n": 10 })]);
    }
    // Tables with arguments have one part.
    let sql = of(&small());
    let path = "SELECT act, duration_ns FROM critical_path(30, '+150ns', '+900ns')";
    let all = sql.rows(path);
    assert!(all.len() > 1, "{all:?}");
    assert_eq!(json!(sql.rows(&format!("{path} LIMIT 100 OFFSET 1"))), json!(all[1..]));
}

#[test]
fn an_index_answers_counts_and_changes_no_answer() {
    let (with, without) = with_and_without_an_index(&random(4, 3000));
    assert!(with.is_indexed() && !without.is_indexed());
    let plan = with.explain("SELECT count(*) FROM records");
    assert!(!plan.contains("TraceScan"), "{plan}");
    let plan = with.explain("SELECT * FROM motor.step WHERE time > at('+1us')");
    assert!(plan.contains("index=used, parts=3"), "{plan}");
    for query in [
        "SELECT count(*) AS n FROM records",
        "SELECT event, count(*) AS n, sum(bits) AS b FROM records GROUP BY event ORDER BY event",
        "SELECT proc, count(*) AS n FROM motor.step WHERE time >= at('+3us') GROUP BY proc ORDER BY proc",
        "SELECT state, sum(duration_ns) AS ns FROM thread_state GROUP BY state ORDER BY state",
        "SELECT name, count(*) AS n, sum(cpu_thread_ns) AS ns FROM wakeups GROUP BY name ORDER BY name",
        "SELECT kind, count(*) AS n FROM latencies WHERE time < at('-2us') GROUP BY kind ORDER BY kind",
    ] {
        assert_eq!(with.rows(query), without.rows(query), "{query}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let sql = of(&small());
    for (query, parts) in [
        ("SELECT * FROM wakeup", &["there is no table \"wakeup\"", "did you mean \"wakeups\""][..]),
        ("SELECT * FROM motor.stp", &["there is no table", "did you mean \"motor:step\""]),
        ("SELECT axes FROM motor.step", &["axes", "axis"]),
        ("SELEC 1", &["Expected", "SELEC"]),
        ("SELECT 1; SELECT 2", &["one query"]),
        ("", &["empty"]),
        ("SELECT at('tomorrow')", &["a time is +1.5s"]),
        ("SELECT ns('3 parsecs')", &["no duration"]),
        ("SELECT * FROM span('axis:begin', 'nothing:like:it')", &["nothing:like:it"]),
        ("SELECT * FROM span('axis:begin')", &["two or three arguments"]),
        ("SELECT * FROM critical_path('x', '+0', '+1s')", &["no number of a thread"]),
        ("SELECT axis / 0 FROM motor.step", &["ivide by zero"]),
    ] {
        let error = sql.error(query);
        assert!(parts.iter().all(|part| error.contains(part)), "{query}: {error}");
    }
}

#[test]
fn a_damaged_trace_is_queried_all_the_same() {
    let mut made = small();
    made.lose(1, 5);
    made.switch(1, 2500, (0, 0), (30, "b", common::NICE));
    let (source, dir) = open(&made);
    drop(source);
    let file = dir.path().join("kernel_0");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
    let sql = Sql::trace(dir.path());
    assert_eq!(sql.rows("SELECT count(*) AS n FROM records"), [json!({ "n": 19 })]);
    let kinds = sql.rows("SELECT kind, sum(records) AS lost FROM losses GROUP BY kind ORDER BY kind");
    assert_eq!(json!(kinds), json!([{ "kind": "damage", "lost": null }, { "kind": "lost", "lost": 5 }]));
    for table in sql.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'trace'") {
        sql.rows(&format!("SELECT count(*) FROM \"{}\"", table["table_name"].as_str().unwrap()));
    }
}

#[test]
fn results_are_written_in_all_formats() {
    let sql = of(&small());
    let query = "SELECT axis, position, proc FROM motor.step ORDER BY time LIMIT 2";
    let text = |format| String::from_utf8(sql.write(query, format).unwrap()).unwrap();
    assert_eq!(text(SqlFormat::Csv).lines().next(), Some("axis,position,proc"));
    assert_eq!(text(SqlFormat::Jsonl).lines().count(), 2);
    assert!(text(SqlFormat::Table).contains("| axis | position |"), "{}", text(SqlFormat::Table));
    let parquet = sql.write(query, SqlFormat::Parquet).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &parquet).unwrap();
    let file = std::fs::File::open(file.path()).unwrap();
    let mut reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), 2);
    let arrow = sql.write(query, SqlFormat::Arrow).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(arrow), None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
    // Batches have other names, and lists of names.
    let many = of(&random(4, 30_000));
    let names = "SELECT proc, event FROM records";
    let csv = String::from_utf8(many.write(names, SqlFormat::Csv).unwrap()).unwrap();
    let arrow = many.write(names, SqlFormat::Arrow).unwrap();
    let batches: Vec<_> = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(arrow), None)
        .unwrap()
        .map(|batch| batch.unwrap())
        .collect();
    let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(Vec::new());
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    assert!(batches.len() > 2);
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    support::assert_same(&sorted(String::from_utf8(writer.into_inner()).unwrap()), &sorted(csv), "Arrow file");
    let lists = "SELECT cpu, array_agg(DISTINCT proc) AS names FROM records GROUP BY cpu";
    let arrow = many.write(lists, SqlFormat::Arrow).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(arrow), None).unwrap();
    assert!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>() >= 3);
    // No row: the names are there.
    let none = "SELECT axis FROM motor.step WHERE axis > 100";
    assert_eq!(String::from_utf8(sql.write(none, SqlFormat::Csv).unwrap()).unwrap(), "axis\n");
    assert_eq!(String::from_utf8(sql.write(none, SqlFormat::Json).unwrap()).unwrap(), "[]\n");
    assert!(String::from_utf8(sql.write(none, SqlFormat::Table).unwrap()).unwrap().contains("axis"));
}
