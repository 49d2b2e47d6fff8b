// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may ask what [spec/view.md 1]: from the head of a request to what is answered. Pure: no socket, no trace.

/// What of a request decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestHead<'r> {
    /// `GET` as a rule.
    pub method: &'r str,
    /// The path, as it was sent.
    pub path: &'r str,
    /// Behind the question mark.
    pub query: &'r str,
    /// The only header `Host`; none where there is none, or several.
    pub host: Option<&'r str>,
    /// The header `Origin`.
    pub origin: Option<&'r str>,
    /// The header `Sec-Fetch-Site`.
    pub fetch_site: Option<&'r str>,
    /// The header `Content-Type`.
    pub content_type: Option<&'r str>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// A file of the page; empty: the page.
    File(String),
    /// The list of questions.
    Questions,
    /// A question.
    Question(QuestionRequest),
    /// The user's bookmarks; true: a body has new ones.
    Notes(bool),
    /// What is new behind this number; without one, what is there now.
    News(Option<u64>),
    /// A question about the lake.
    Lake(QuestionRequest),
    /// Something of the trace of the lake with this identity.
    OfTrace(String, Box<Route>),
    /// To the same address with a slash at its end.
    AddSlash,
    /// Nothing: status and reason.
    Refused(u16, &'static str),
    /// A query that is none.
    Malformed(&'static str),
}

/// A question and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRequest {
    /// Its name.
    pub question: String,
    /// All but `format`.
    pub parameters: Vec<(String, String)>,
    /// As JSON and not as a frame.
    pub json: bool,
    /// Of which trace: 0 is the first one, others are beside it or of other hosts.
    pub of: usize,
}

/// Decides.
pub fn route(head: &RequestHead<'_>, token: &str) -> Route {
    let Some(host) = head.host.filter(|host| is_loopback(host)) else {
        return Route::Refused(403, "the Host of the request is not this machine");
    };
    if head.origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Route::Refused(403, "the request comes from another origin");
    }
    let is_saved = head.method == "POST" && head.path.ends_with("/notes");
    if !matches!(head.method, "GET" | "HEAD") && !is_saved {
        return Route::Refused(405, "only GET and HEAD");
    }
    let Some(rest) = head.path.strip_prefix('/') else { return nothing() };
    let (own, rest) = rest.split_once('/').map_or((rest, None), |(own, rest)| (own, Some(rest)));
    if !is_same(own, token) {
        return nothing();
    }
    let Some(rest) = rest else { return Route::AddSlash };
    match rest.strip_prefix("t/").and_then(|rest| rest.split_once('/')) {
        Some((trace, rest)) if is_identity(trace) => {
            Route::OfTrace(trace.to_owned(), Box::new(below(head, rest, is_saved)))
        }
        _ => below(head, rest, is_saved),
    }
}

/// What is below the token, or below a trace.
fn below(head: &RequestHead<'_>, rest: &str, is_saved: bool) -> Route {
    if rest == "notes" {
        return notes(head, is_saved);
    }
    if is_saved {
        return Route::Refused(405, "only GET and HEAD");
    }
    let is_question = |rest: &&str| rest.starts_with("q/");
    let lake = rest.strip_prefix("l/").filter(is_question);
    let other = rest.strip_prefix("o/").and_then(number_of).filter(|(_, rest)| is_question(rest));
    let (of, own) = other.unwrap_or((0, lake.unwrap_or(rest)));
    let question = own.strip_prefix("q/").or((rest == "live").then_some(rest));
    match question {
        // A page of another origin may lead here by a link, but not ask.
        Some(_) if head.fetch_site.is_some_and(|site| !matches!(site, "same-origin" | "none")) => {
            Route::Refused(403, "the request comes from another site")
        }
        Some(_) if rest == "live" => news(head.query),
        Some("") if lake.is_some() || of > 0 => nothing(),
        Some("") => Route::Questions,
        Some(question) if is_word(question) => match ask(question, head.query, lake.is_some()) {
            Ok(asked) if lake.is_some() => Route::Lake(asked),
            Ok(asked) => Route::Question(QuestionRequest { of, ..asked }),
            Err(why) => Route::Malformed(why),
        },
        None if rest.is_empty() || is_file_name(rest) => Route::File(rest.to_owned()),
        _ => nothing(),
    }
}

/// The number of another trace, from 1 to 999, and what is behind it.
fn number_of(rest: &str) -> Option<(usize, &str)> {
    let (number, rest) = rest.split_once('/')?;
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| is_number && !number.starts_with('0'))?;
    Some((number, rest))
}

/// Bookmarks are saved for a script of our page only: no form and no page of another origin can send this kind of body.
fn notes(head: &RequestHead<'_>, is_saved: bool) -> Route {
    if head.fetch_site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Route::Refused(403, "the request comes from another site");
    }
    if is_saved && head.content_type != Some("application/json") {
        return Route::Refused(415, "the body is not application/json");
    }
    Route::Notes(is_saved)
}

fn nothing() -> Route {
    Route::Refused(404, "there is nothing at this address")
}

fn news(query: &str) -> Route {
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match query.strip_prefix("after=") {
        Some(text) => number(text).map_or(Route::Malformed("after is a number"), |after| Route::News(Some(after))),
        None if query.is_empty() => Route::News(None),
        None => Route::Malformed("the only parameter is after"),
    }
}

/// `is_any`: values are any text, as labels of a lake are.
fn ask(question: &str, query: &str, is_any: bool) -> Result<QuestionRequest, &'static str> {
    let (mut parameters, mut json) = (Vec::new(), None);
    let is_fine = |text: &String| is_any || !text.chars().any(char::is_control);
    let decoded = |text: &str| decoded(text).filter(is_fine);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return Err("a parameter is not UTF-8 text in percent-encoding, or has control characters");
        };
        if name != "format" {
            parameters.push((name, value));
        } else if json.replace(value == "json").is_some() || !matches!(value.as_str(), "json" | "binary") {
            return Err("format is json or binary, once");
        }
    }
    let question = question.to_owned();
    Ok(QuestionRequest { question, parameters, json: json.unwrap_or(false), of: 0 })
}

/// Names and numbers of this machine, with a port or without.
pub fn is_loopback(host: &str) -> bool {
    let rest = ["127.0.0.1", "localhost", "[::1]"].iter().find_map(|name| host.strip_prefix(name));
    match rest {
        Some("") => true,
        Some(port) => port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok() && !port.starts_with('+')),
        None => false,
    }
}

/// Takes as long for each text of that length.
pub fn is_same(text: &str, token: &str) -> bool {
    let differences = text.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    text.len() == token.len() && !token.is_empty() && differences == 0
}

fn is_word(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// As lakes name traces.
fn is_identity(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_file_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.bytes().all(is_plain) && !text.starts_with('.')
}

/// Text of percent-encoding, with plus signs for spaces.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn head(path: &str) -> RequestHead<'_> {
        RequestHead { method: "GET", path, host: Some("127.0.0.1:8000"), ..RequestHead::default() }
    }

    fn refused(head: &RequestHead<'_>) -> Option<u16> {
        match route(head, TOKEN) {
            Route::Refused(status, _) => Some(status),
            _ => None,
        }
    }

    fn path(rest: &str) -> String {
        format!("/{TOKEN}/{rest}")
    }

    #[test]
    fn only_this_machine_is_a_host() {
        let page = path("");
        for (host, expect) in [
            (Some("127.0.0.1:1"), None),
            (Some("127.0.0.1"), None),
            (Some("localhost:65535"), None),
            (Some("[::1]:80"), None),
            (None, Some(403)),
            (Some("localhost:65536"), Some(403)),
            (Some("localhost.evil.example"), Some(403)),
            (Some("127.0.0.1.evil.example:80"), Some(403)),
            (Some("evil.example"), Some(403)),
            (Some("127.0.0.1:+80"), Some(403)),
            (Some("127.0.0.1:"), Some(403)),
            (Some(""), Some(403)),
            (Some("0.0.0.0:80"), Some(403)),
        ] {
            assert_eq!(refused(&RequestHead { host, ..head(&page) }), expect, "{host:?}");
        }
    }

    #[test]
    fn only_the_same_origin_may_ask() {
        let question = path("q/cpus");
        for (origin, expect) in [
            (None, None),
            (Some("http://127.0.0.1:8000"), None),
            (Some("https://127.0.0.1:8000"), Some(403)),
            (Some("http://127.0.0.1:8001"), Some(403)),
            (Some("http://localhost:8000"), Some(403)),
            (Some("http://evil.example"), Some(403)),
            (Some("null"), Some(403)),
            (Some(""), Some(403)),
        ] {
            assert_eq!(refused(&RequestHead { origin, ..head(&question) }), expect, "{origin:?}");
        }
        for (fetch_site, expect) in [
            (Some("none"), None),
            (Some("same-origin"), None),
            (Some("same-site"), Some(403)),
            (Some("cross-site"), Some(403)),
        ] {
            assert_eq!(refused(&RequestHead { fetch_site, ..head(&question) }), expect, "{fetch_site:?}");
        }
        // A link of a chat leads to the page.
        assert_eq!(refused(&RequestHead { fetch_site: Some("cross-site"), ..head(&path("")) }), None);
    }

    #[test]
    fn a_wrong_token_and_a_wrong_address_look_the_same() {
        let short = &TOKEN[1..];
        let others = [
            "/".to_owned(),
            String::new(),
            "*".to_owned(),
            "/q/cpus".to_owned(),
            format!("/{short}/"),
            format!("/{TOKEN}0/"),
            format!("//{TOKEN}/"),
            format!("/{}/", TOKEN.to_uppercase()),
            path("q/../cpus"),
            path("../../etc/passwd"),
            path("%2e%2e/x"),
            path(".hidden"),
            path("a/b.js"),
            path("a\\b.js"),
            path("q/CPUS"),
            path("q/cpus/"),
        ];
        let expect = Route::Refused(404, "there is nothing at this address");
        for other in others {
            assert_eq!(route(&head(&other), TOKEN), expect, "{other}");
        }
        assert_eq!(route(&head("//"), ""), expect);
        assert_eq!(route(&head(&format!("/{TOKEN}")), TOKEN), Route::AddSlash);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"] {
            assert_eq!(refused(&RequestHead { method, ..head(&path("")) }), Some(405));
        }
    }

    #[test]
    fn parameters_are_decoded_once() {
        let question = path("q/slices");
        let asked = |query: &str| route(&RequestHead { query, ..head(&question) }, TOKEN);
        let Route::Question(found) = asked("span=a%3Abegin%2C+a:end&span=%25&format=json&x") else {
            panic!("no question")
        };
        assert_eq!((found.question.as_str(), found.json), ("slices", true));
        let pairs: Vec<_> = found.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("span", "a:begin, a:end"), ("span", "%"), ("x", "")]);
        for query in
            ["a=%", "a=%f", "a=%zz", "a=%ff", "a=%00", "a=%0a", "%1b=1", "format=xml", "format=json&format=json"]
        {
            assert!(matches!(asked(query), Route::Malformed(_)), "{query}");
        }
        assert!(matches!(asked("format=binary"), Route::Question(QuestionRequest { json: false, .. })));
    }

    #[test]
    fn bookmarks_are_saved_by_our_page_only() {
        let notes = path("notes");
        let post = RequestHead { method: "POST", content_type: Some("application/json"), ..head(&notes) };
        assert_eq!(route(&head(&notes), TOKEN), Route::Notes(false));
        assert_eq!(route(&post, TOKEN), Route::Notes(true));
        for (other, status) in [
            (RequestHead { content_type: None, ..post }, 415),
            (RequestHead { content_type: Some("text/plain"), ..post }, 415),
            (RequestHead { fetch_site: Some("cross-site"), ..post }, 403),
            (RequestHead { origin: Some("http://evil.example"), ..post }, 403),
            (RequestHead { origin: Some("null"), ..post }, 403),
            (RequestHead { host: Some("evil.example"), ..post }, 403),
            (RequestHead { method: "PUT", ..post }, 405),
            (RequestHead { path: "/notes", ..post }, 404),
        ] {
            assert_eq!(refused(&other), Some(status), "{other:?}");
        }
        let below = path("q/notes");
        assert_eq!(refused(&RequestHead { path: &below, ..post }), Some(405));
    }

    #[test]
    fn news_and_other_traces_have_their_addresses() {
        let asked = |rest: &str, query: &str| {
            let path = path(rest);
            route(&RequestHead { query, ..head(&path) }, TOKEN)
        };
        assert_eq!(asked("live", ""), Route::News(None));
        assert_eq!(asked("live", "after=17"), Route::News(Some(17)));
        for query in
            ["after=", "after=-1", "after=+1", "after=x", "x=1", "after=1&after=2", "after=18446744073709551616"]
        {
            assert!(matches!(asked("live", query), Route::Malformed(_)), "{query}");
        }
        for (rest, expect) in [("q/cpus", 0), ("o/1/q/cpus", 1), ("o/999/q/cpus", 999)] {
            assert!(matches!(asked(rest, ""), Route::Question(QuestionRequest { of, .. }) if of == expect), "{rest}");
        }
        for rest in [
            "o/1/live",
            "o/1/main.js",
            "o/1/o/1/q/cpus",
            "o/1/q/../x",
            "live/",
            "o/1/q/",
            "o/0/q/cpus",
            "o/01/q/cpus",
            "o/1000/q/cpus",
            "o/-1/q/cpus",
            "o/+1/q/cpus",
            "o//q/cpus",
            "o/q/cpus",
            "b/q/cpus",
            "o/1/l/q/worst",
        ] {
            assert!(matches!(asked(rest, ""), Route::Refused(404, _)), "{rest}");
        }
        for rest in ["live", "o/1/q/cpus"] {
            let path = path(rest);
            assert_eq!(refused(&RequestHead { fetch_site: Some("cross-site"), ..head(&path) }), Some(403), "{rest}");
        }
    }

    #[test]
    fn traces_of_a_lake_are_asked_for_by_their_identity() {
        let id = "0123456789abcdef0123456789abcdef";
        let asked = |rest: &str| {
            let path = path(rest);
            route(&head(&path), TOKEN)
        };
        let of = |inner: Route| Route::OfTrace(id.to_owned(), Box::new(inner));
        assert_eq!(asked(&format!("t/{id}/")), of(Route::File(String::new())));
        assert_eq!(asked(&format!("t/{id}/app.js")), of(Route::File("app.js".to_owned())));
        assert_eq!(asked(&format!("t/{id}/live")), of(Route::News(None)));
        assert_eq!(asked(&format!("t/{id}/notes")), of(Route::Notes(false)));
        assert!(
            matches!(asked(&format!("t/{id}/q/cpus")), Route::OfTrace(_, inner) if matches!(*inner, Route::Question(_)))
        );
        assert!(matches!(asked("l/q/worst"), Route::Lake(QuestionRequest { of: 0, .. })));
        // Labels are any text.
        let worst = path("l/q/worst");
        let Route::Lake(found) = route(&RequestHead { query: "is=label:a%3Db%0A%27", ..head(&worst) }, TOKEN) else {
            panic!("no question of the lake")
        };
        assert_eq!(found.parameters, [("is".to_owned(), "label:a=b\n'".to_owned())]);
        // Neither a path nor another trace below one.
        let long = format!("{id}0");
        for trace in ["..", "", "/etc", "%2e%2e", &id[1..], &id.to_uppercase(), &long] {
            assert_eq!(asked(&format!("t/{trace}/")), nothing(), "{trace}");
        }
        let inner = |rest: &str| match asked(&format!("t/{id}/{rest}")) {
            Route::OfTrace(_, inner) => *inner,
            other => other,
        };
        for rest in [format!("t/{id}/"), "../x".to_owned(), "a/b".to_owned(), ".x".to_owned()] {
            assert_eq!(inner(&rest), nothing(), "{rest}");
        }
        for rest in ["l/q/", "l/live", "l/q/../x", "l/o/1/q/cpus", "l/"] {
            assert_eq!(asked(rest), nothing(), "{rest}");
        }
        for rest in ["l/q/worst".to_owned(), format!("t/{id}/q/cpus"), format!("t/{id}/live"), format!("t/{id}/notes")]
        {
            let path = path(&rest);
            let found = route(&RequestHead { fetch_site: Some("cross-site"), ..head(&path) }, TOKEN);
            let found = if let Route::OfTrace(_, inner) = found { *inner } else { found };
            assert!(matches!(found, Route::Refused(403, _)), "{rest}");
        }
    }

    #[test]
    fn files_are_asked_for_by_their_names() {
        assert_eq!(route(&head(&path("")), TOKEN), Route::File(String::new()));
        assert_eq!(route(&head(&path("main-1_2.js")), TOKEN), Route::File("main-1_2.js".to_owned()));
        assert_eq!(route(&head(&path("q/")), TOKEN), Route::Questions);
    }
}
