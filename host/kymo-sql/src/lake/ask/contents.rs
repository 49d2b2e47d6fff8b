// SPDX-License-Identifier: MIT OR Apache-2.0
//! The question `contents` [spec/view.md 11.3]: manifests as columns.

use std::collections::BTreeMap;

use kymo_query::{Answer, Table};

use crate::day::day_number;
use crate::lake::list::{Listing, days, hosts};
use crate::lake::manifest::Manifest;
use crate::lake::unfinished;

/// What is in the lake.
pub fn answer(listing: &Listing) -> Answer {
    let mut answer = Answer::new("contents", 0, (0, 0));
    let all = listing.additions();
    answer.set("lake", listing.lake());
    answer.set("host", unfinished::host());
    answer.set("rows", all.iter().map(Manifest::rows).sum::<u64>());
    answer.set("bytes", all.iter().map(Manifest::bytes).sum::<u64>());
    answer.lost.records = all.iter().fold(0, |sum, one| sum.saturating_add(one.lost.records));
    answer.lost.packets = all.iter().fold(0, |sum, one| sum.saturating_add(one.lost.packets));
    answer.lost.places = all.iter().filter(|one| one.lost.records > 0 || one.lost.packets > 0).count() as u64;
    let table = addition_table(&mut answer, all);
    answer.push(table);
    let mut labels: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut by_host: BTreeMap<Option<&str>, u32> = BTreeMap::new();
    let mut by_day: BTreeMap<Option<i32>, u32> = BTreeMap::new();
    for one in all {
        one.labels.iter().for_each(|(key, value)| *labels.entry((key, value)).or_default() += 1);
        let (own_hosts, own_days) = (hosts(one), days(one));
        own_hosts.iter().for_each(|host| *by_host.entry(Some(*host)).or_default() += 1);
        own_days.iter().for_each(|day| *by_day.entry(number(day)).or_default() += 1);
        if own_hosts.is_empty() {
            *by_host.entry(None).or_default() += 1;
        }
        if own_days.is_empty() {
            *by_day.entry(None).or_default() += 1;
        }
    }
    let (keys, values): (Vec<_>, Vec<_>) =
        labels.keys().map(|(key, value)| (answer.texts.text(key), answer.texts.text(value))).unzip();
    let of_labels = Table::new("labels").column("key", keys).column("value", values);
    answer.push(of_labels.column("additions", labels.into_values()));
    let names: Vec<_> = by_host.keys().map(|host| host.map(|host| answer.texts.text(host))).collect();
    answer.push(Table::new("hosts").column("host", names).column("additions", by_host.into_values()));
    let numbers: Vec<_> = by_day.keys().copied().collect();
    answer.push(Table::new("days").column("day", numbers).column("additions", by_day.into_values()));
    let table = unfinished_table(&mut answer, listing);
    answer.push(table);
    answer
}

/// Days since 1970.
fn number(day: &str) -> Option<i32> {
    day_number(day).and_then(|day| i32::try_from(day).ok())
}

fn addition_table(answer: &mut Answer, all: &[Manifest]) -> Table {
    let mut texts =
        |of: &dyn Fn(&Manifest) -> String| -> Vec<_> { all.iter().map(|one| answer.texts.text(&of(one))).collect() };
    let (traces, places) = (texts(&|one| one.trace.clone()), texts(&|one| one.place.clone()));
    let (added_on, added) = (texts(&|one| one.added_on.clone()), texts(&|one| one.added.clone()));
    let own_hosts = texts(&|one| hosts(one).into_iter().collect::<Vec<_>>().join(", "));
    Table::new("additions")
        .column("trace", traces)
        .column("place", places)
        .column("added_on", added_on)
        .column("added", added)
        .column("hosts", own_hosts)
        .column("first", all.iter().map(|one| days(one).first().and_then(|day| number(day))))
        .column("last", all.iter().map(|one| days(one).last().and_then(|day| number(day))))
        .column("rows", all.iter().map(Manifest::rows))
        .column("bytes", all.iter().map(Manifest::bytes))
        .column("trace_bytes", all.iter().map(|one| one.trace_bytes))
        .column("lost_records", all.iter().map(|one| one.lost.records))
        .column("lost_packets", all.iter().map(|one| one.lost.packets))
        .column("damaged", all.iter().map(|one| one.lost.damaged))
        .column("missing_before", all.iter().map(|one| one.missing_before.len() as u32))
        .column("is_copy", all.iter().map(|one| u8::from(one.is_copy)))
        .column("has_wall_clock", all.iter().map(|one| u8::from(one.has_wall_clock)))
}

fn unfinished_table(answer: &mut Answer, listing: &Listing) -> Table {
    let all = listing.unfinished();
    let places: Vec<_> = all.iter().map(|(adding, _)| answer.texts.text(&adding.place)).collect();
    let hosts: Vec<_> = all.iter().map(|(adding, _)| answer.texts.text(&adding.owner.host)).collect();
    Table::new("unfinished")
        .column("place", places)
        .column("host", hosts)
        .column("pid", all.iter().map(|(adding, _)| adding.owner.pid))
        .column("is_running", all.iter().map(|(_, lives)| u8::from(*lives)))
}
