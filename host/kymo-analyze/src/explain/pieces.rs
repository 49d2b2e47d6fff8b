// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads and CPUs a text of a story names, and where: a viewer makes links of them. A thread is found by the
//! very text that a story gives it (`hog[9]`, by a name that it had; `thread 9` where it has none), not by its looks.

use super::scene::Scene;

/// What a part of a text names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referent {
    /// A thread.
    Thread(i32),
    /// A CPU.
    Cpu(u32),
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPiece<'t> {
    /// The part.
    pub text: &'t str,
    /// What it names; none: nothing.
    pub names: Option<Referent>,
}

/// A place of a text, in bytes.
#[derive(Clone, Copy)]
struct TextReference {
    from: usize,
    to: usize,
    names: Referent,
}

impl Scene {
    /// A text in pieces, whose sum it is.
    pub fn pieces<'t>(&self, text: &'t str) -> Vec<TextPiece<'t>> {
        let mut found = self.named_threads(text);
        found.extend(numbered(text, "thread ", |tid| self.nameless(tid).then_some(Referent::Thread(tid))));
        found.extend(numbered(text, "cpu ", |cpu| u32::try_from(cpu).ok().map(Referent::Cpu)));
        // The longest of those that begin at one place: a name may look like another thread's.
        found.sort_by_key(|found| (found.from, std::cmp::Reverse(found.to)));
        let mut pieces = Vec::new();
        let mut at = 0;
        for TextReference { from, to, names } in found {
            if from < at {
                continue;
            }
            pieces.push(TextPiece { text: &text[at..from], names: None });
            pieces.push(TextPiece { text: &text[from..to], names: Some(names) });
            at = to;
        }
        pieces.push(TextPiece { text: &text[at..], names: None });
        pieces.retain(|piece| !piece.text.is_empty());
        pieces
    }

    /// `hog[9]`, where thread 9 was called `hog`.
    fn named_threads(&self, text: &str) -> Vec<TextReference> {
        let mut found = Vec::new();
        for (at, _) in text.match_indices('[') {
            let Some((tid, end)) = number(text, at + 1) else { continue };
            if text.as_bytes().get(end) != Some(&b']') {
                continue;
            }
            let names = self.evidence.names_of(tid).filter(|name| text[..at].ends_with(name));
            let longest = names.map(str::len).max();
            found.extend(longest.map(|length| TextReference {
                from: at - length,
                to: end + 1,
                names: Referent::Thread(tid),
            }));
        }
        found
    }

    /// Whether stories know a thread by its number only.
    fn nameless(&self, tid: i32) -> bool {
        tid > 0 && self.evidence.names_of(tid).next().is_none()
    }
}

/// A number behind a word that stands for itself.
fn numbered(text: &str, word: &str, names: impl Fn(i32) -> Option<Referent>) -> Vec<TextReference> {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    let of = |(at, _): (usize, &str)| {
        if is_part(at.checked_sub(1).and_then(|before| bytes.get(before))) {
            return None;
        }
        let (value, to) = number(text, at + word.len()).filter(|(_, to)| !is_part(bytes.get(*to)))?;
        names(value).map(|names| TextReference { from: at, to, names })
    };
    text.match_indices(word).filter_map(of).collect()
}

/// The decimal number at a byte, and where it ends.
fn number(text: &str, at: usize) -> Option<(i32, usize)> {
    let digits = text.as_bytes().get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = at + digits;
    text.get(at..end)?.parse().ok().map(|number| (number, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Machine;
    use crate::doubt::Doubt;
    use crate::explain::Question;
    use crate::name::Name;
    use crate::sink::Sink as _;
    use crate::span::{Doing, ThreadSpan, Until};
    use crate::state::Thread;

    /// A scene in which threads have these names.
    fn scene(names: &[(i32, &str)]) -> Scene {
        let mut scene = Scene::new(Question::stretch(9, 0, 100), 100, Machine::default());
        for (at, (tid, name)) in names.iter().enumerate() {
            let mut thread = Thread::unknown(*tid, 0);
            thread.name = Name::new(name);
            let (from, to) = (at as i64, at as i64 + 1);
            let (doing, until) = (Doing::Running { cpu: 0 }, Until::Next);
            let doubt = Doubt::NONE;
            scene.thread(&ThreadSpan { tid: *tid, from, to, ready_from: from, doing, until, doubt }, &thread);
        }
        scene
    }

    #[track_caller]
    fn check(names: &[(i32, &str)], text: &str, expect: &[(&str, Referent)]) {
        let scene = scene(names);
        let pieces = scene.pieces(text);
        assert_eq!(pieces.iter().map(|piece| piece.text).collect::<String>(), text, "nothing is lost");
        let found: Vec<_> = pieces.iter().filter_map(|piece| Some((piece.text, piece.names?))).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn threads_and_cpus_of_a_sentence() {
        use Referent::{Cpu, Thread};
        let names = [(9, "hog"), (8, "own er"), (8, "owner")];
        check(
            &names,
            "owner[8] (rt 90) had cpu 1, woken by hog[9] on cpu 12: own er[8]",
            &[
                ("owner[8]", Thread(8)),
                ("cpu 1", Cpu(1)),
                ("hog[9]", Thread(9)),
                ("cpu 12", Cpu(12)),
                ("own er[8]", Thread(8)),
            ],
        );
        check(&names, "", &[]);
        check(&names, "thread 77 ran; thread 9 did not", &[("thread 77", Thread(77))]);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        check(&[(9, "hog")], "dog[9] cat[3] x[] y[99999999999] z[9", &[]);
        check(&[(9, "hog")], "percpu 1, cpu 1x, cpu, cpu 99999999999", &[]);
        check(&[(0, "swapper")], "thread 0", &[]);
    }

    #[test]
    fn names_may_look_like_other_threads() {
        use Referent::Thread;
        // Thread 7 calls itself x[5], and there is a thread 5 of the name x.
        check(&[(7, "x[5]"), (5, "x")], "x[5][7] and x[5]", &[("x[5][7]", Thread(7)), ("x[5]", Thread(5))]);
        check(&[(7, "ü [")], "ü [[7]", &[("ü [[7]", Thread(7))]);
        check(&[(7, "cpu 3")], "cpu 3[7]", &[("cpu 3[7]", Thread(7))]);
    }
}
