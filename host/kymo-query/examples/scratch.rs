use kymo_ctf::read::Trace;
use kymo_index::{Indexes, Named};
use kymo_query::{Opened, Parameters, Stop, answer};
use std::path::Path;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = Path::new(&args[1]);
    let traces = vec![Trace::open(dir).unwrap().value];
    let named = [Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] }];
    let indexes = Indexes::open(&named, &traces);
    let of = Opened::new(traces, indexes, String::new(), Vec::new());
    println!("{:?} {}", of.indexes.stale, of.indexes.states.is_some());
    for q in &args[2..] {
        let (question, query) = q.split_once('?').unwrap();
        let t = std::time::Instant::now();

        let a = answer(
            &of,
            question,
            Parameters::new(
                query
                    .split("&")
                    .filter(|p| !p.is_empty())
                    .map(|p| {
                        let (a, b) = p.split_once("=").unwrap_or((p, ""));
                        (a.to_owned(), b.to_owned())
                    })
                    .collect(),
            ),
            &Stop::default(),
        );
        println!("{q} {:?} {:?}", t.elapsed(), a.map(|a| a.json()["info"].clone()).map_err(|e| e.to_string()));
    }
}
