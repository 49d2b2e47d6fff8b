// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry point of the fuzzer and of the tests that mutate: the head of a request in, nothing out but the promise that
//! nobody gets what is not his.

use crate::route::{RequestHead, Route, route};

/// The secret part of addresses.
pub const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// Takes lines for method, path, query, `Host`, `Origin`, `Sec-Fetch-Site` and `Content-Type` of a request; a line that
/// is not there or empty is a header that is not there. `$` in a path is [`TOKEN`]. Whether a question or a file is
/// answered.
pub fn head(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (method, path, query) = (line(), line().replace('$', TOKEN), line());
    let mut header = || Some(line()).filter(|value| !value.is_empty());
    let (host, origin, fetch_site, content_type) = (header(), header(), header(), header());
    let head = RequestHead { method, path: &path, query, host, origin, fetch_site, content_type };
    check(&head, route(&head, TOKEN))
}

/// Panics where something is answered that must not be.
fn check(head: &RequestHead<'_>, route: Route) -> bool {
    let route = match route {
        Route::OfTrace(trace, inner) => {
            assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()), "{trace:?}");
            assert!(!matches!(*inner, Route::OfTrace(..)), "a trace below a trace");
            *inner
        }
        route => route,
    };
    let inside = head.path.strip_prefix('/').and_then(|path| path.strip_prefix(TOKEN));
    let is_ours = head.host.is_some_and(|host| {
        let name = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map_or(host, |(name, _)| name);
        ["127.0.0.1", "localhost", "[::1]"].contains(&name)
    });
    let is_saved = matches!(route, Route::Notes(true));
    match route {
        Route::Refused(status, why) => {
            assert!((400..500).contains(&status) && !why.is_empty());
            return false;
        }
        Route::Malformed(why) => assert!(!why.is_empty()),
        Route::AddSlash => assert_eq!(inside, Some("")),
        Route::Questions => {}
        Route::News(_) | Route::Notes(_) => {
            assert!(head.fetch_site.is_none_or(|site| ["same-origin", "none"].contains(&site)));
        }
        Route::File(name) => {
            let is_plain = !name.contains(['/', '\\', '%', '\0']) && !name.starts_with('.');
            assert!(is_plain, "{name:?} is no file of the page");
        }
        // It is within one of these.
        Route::OfTrace(..) => {}
        Route::Lake(_) => assert!(head.fetch_site.is_none_or(|site| ["same-origin", "none"].contains(&site))),
        Route::Question(asked) => {
            let mut texts = asked.parameters.iter().flat_map(|(name, value)| [name, value]);
            assert!(texts.all(|text| !text.chars().any(char::is_control)), "{:?}", asked.parameters);
            assert!(head.fetch_site.is_none_or(|site| ["same-origin", "none"].contains(&site)));
        }
    }
    assert!(is_ours, "{:?} is not this machine", head.host);
    assert!(inside.is_some(), "{} is not the address", head.path);
    match is_saved {
        true => assert!(head.method == "POST" && head.content_type == Some("application/json")),
        false => assert!(matches!(head.method, "GET" | "HEAD")),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of our own: this crate has none.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % end
        }
    }

    #[test]
    fn mutated_heads() {
        let good = [
            "GET\n/$/\n\n127.0.0.1:8000\n\n",
            "GET\n/$/q/cpus\nfrom=%401&format=json&x=a+b%25\nlocalhost:1\nhttp://localhost:1\nsame-origin",
            "HEAD\n/$/main-1_2.js\n\n[::1]:80\n\nnone",
            "GET\n/$\n\nlocalhost\n\n",
            "GET\n/$/live\nafter=17\nlocalhost\n\nsame-origin",
            "GET\n/$/l/q/worst\nis=host%3Da%0Ab&format=json\nlocalhost\n\nsame-origin",
            "GET\n/$/t/0123456789abcdef0123456789abcdef/q/cpus\nfrom=%401\nlocalhost\n\nsame-origin",
            "POST\n/$/notes\n\nlocalhost\nhttp://localhost\nsame-origin\napplication/json",
        ];
        let pieces = [
            "%",
            "%2e",
            "../",
            "/",
            "$",
            "q/",
            "t/",
            "l/",
            "&",
            "=",
            "\n",
            "evil.example",
            ":",
            "\0",
            "+",
            "@",
            ".",
            "http://",
        ];
        let mut random = Random(1);
        let mut answered = 0;
        for round in 0..20_000 {
            let mut text = good[round % good.len()].as_bytes().to_vec();
            for _ in 0..random.below(4) {
                let (at, count) = (random.below(text.len() + 1), random.below(4));
                let end = (at + count).min(text.len());
                match random.below(3) {
                    0 => drop(text.drain(at..end)),
                    1 => drop(text.splice(at..end, pieces[random.below(pieces.len())].bytes())),
                    _ => drop(text.splice(at..at, [random.below(256) as u8])),
                }
            }
            answered += u64::from(head(&text));
        }
        // Those that were not changed, at least.
        assert!((4000..20_000).contains(&answered), "{answered}");
    }
}
