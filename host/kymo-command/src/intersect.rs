// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--intersect`: the stretch in which all streams have data, as it was chosen, in words.

use anyhow::{Context as _, bail};
use kymo_analyze::duration;
use kymo_ctf::read::Trace;
use kymo_index::{Indexes, Intersection, Named, intersection};

/// The first ns of the stretch, and the first one behind it. Says on standard error which it is.
///
/// # Errors
/// There is none.
pub fn stretch(traces: &[Trace], named: &[Named], indexes: &Indexes) -> anyhow::Result<(i64, i64)> {
    let found = intersection(traces, named, indexes).context("the trace has no records")?;
    let Some(stretch) = found.stretch() else { bail!(empty(&found)) };
    eprintln!("kymo: {}", sentence(&found, stretch));
    Ok(stretch)
}

fn sentence(found: &Intersection, (from, to): (i64, i64)) -> String {
    let streams = match found.streams {
        1 => "the only stream has".to_owned(),
        streams => format!("all {streams} streams have"),
    };
    let last = to.saturating_sub(1);
    let bounds = format!(
        "--intersect: {streams} data from {from} to {last}, {} of {}",
        duration(last.abs_diff(from)),
        duration(found.whole.1.abs_diff(found.whole.0))
    );
    match found.streams {
        1 => bounds,
        _ => format!("{bounds}; {} begins last, {} ends first", found.begins_last.name, found.ends_first.name),
    }
}

fn empty(found: &Intersection) -> String {
    let (late, early) = (&found.begins_last, &found.ends_first);
    format!(
        "--intersect: at no time do all {} streams have data: {} begins {} after the end of {}; choose a stretch with --from \
         and --to, or give fewer traces",
        found.streams,
        late.name,
        duration(late.from.abs_diff(early.to)),
        early.name
    )
}

#[cfg(test)]
mod tests {
    use kymo_index::StreamStretch;

    use super::*;

    fn found(begins_last: (i64, i64), ends_first: (i64, i64)) -> Intersection {
        let stream = |name: &str, (from, to)| StreamStretch { name: name.to_owned(), from, to };
        let (begins_last, ends_first) = (stream("t/late", begins_last), stream("t/early", ends_first));
        Intersection { begins_last, ends_first, whole: (1000, 9000), streams: 3 }
    }

    #[test]
    fn the_stretch_is_told() {
        let of = found((2000, 9000), (1000, 3000));
        assert_eq!(of.stretch(), Some((2000, 3001)));
        assert_eq!(
            sentence(&of, (2000, 3001)),
            "--intersect: all 3 streams have data from 2000 to 3000, 1.00us of 8.00us; t/late begins last, t/early ends first"
        );
    }

    #[test]
    fn an_empty_one_says_why() {
        let of = found((5000, 9000), (1000, 3000));
        assert_eq!(of.stretch(), None);
        let text = empty(&of);
        assert!(text.contains("t/late begins 2.00us after the end of t/early"), "{text}");
    }
}
