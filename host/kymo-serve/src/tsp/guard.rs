// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may speak the Trace Server Protocol [spec/view.md 10]. Its clients send no token, so it is part of the path; web
//! views of editors are of another origin, which is told that it may read. Pure.

use crate::route::{RequestHead, is_loopback, is_same};

/// What is decided of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is not for this protocol.
    Elsewhere,
    /// Nothing: status and reason.
    Refused(u16, &'static str),
    /// A browser asks whether it may ask.
    Preflight,
    /// A call: its path below `api`, without the first slash.
    Call(String),
}

/// Decides.
pub fn admit(head: &RequestHead<'_>, token: &str) -> Admitted {
    let own = head.path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let Some(rest) = own.filter(|(own, _)| is_same(own, token)).and_then(|(_, rest)| rest.strip_prefix("tsp/api/"))
    else {
        return Admitted::Elsewhere;
    };
    if !head.host.is_some_and(is_loopback) {
        return Admitted::Refused(403, "the Host of the request is not this machine");
    }
    match (head.origin, head.fetch_site) {
        (Some(origin), _) if !may_read(origin) => {
            return Admitted::Refused(403, "the request comes from another origin");
        }
        // A page that embeds the address instead of asking for it.
        (None, Some(site)) if !matches!(site, "same-origin" | "none") => {
            return Admitted::Refused(403, "the request comes from another site");
        }
        _ => {}
    }
    match head.method {
        "OPTIONS" => Admitted::Preflight,
        "GET" | "DELETE" => Admitted::Call(rest.to_owned()),
        // No form of a page can send this kind.
        "POST" | "PUT" if head.content_type.is_some_and(is_json) => Admitted::Call(rest.to_owned()),
        "POST" | "PUT" => Admitted::Refused(415, "the body is not application/json"),
        _ => Admitted::Refused(405, "GET, POST, PUT, DELETE or OPTIONS"),
    }
}

/// Whether a script of this origin may read: web views of VS Code and its kin, and pages that this machine serves.
pub fn may_read(origin: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let of_editor = origin.strip_prefix("vscode-webview://").filter(|name| !name.is_empty());
    of_editor.is_some_and(|name| name.bytes().all(is_plain)) || origin.strip_prefix("http://").is_some_and(is_loopback)
}

/// The kind of a body, without what follows it.
fn is_json(kind: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn head(path: &str) -> RequestHead<'_> {
        RequestHead { method: "GET", path, host: Some("localhost:8000"), ..RequestHead::default() }
    }

    fn own(rest: &str) -> String {
        format!("/{TOKEN}/tsp/api/{rest}")
    }

    #[test]
    fn only_who_knows_the_token_comes_this_far() {
        for path in ["/tsp/api/health", "/00112233445566778899aabbccddeefe/tsp/api/health", "/", "//tsp/api/health"] {
            assert_eq!(admit(&head(path), TOKEN), Admitted::Elsewhere, "{path}");
        }
        assert_eq!(admit(&head("//tsp/api/health"), ""), Admitted::Elsewhere);
        assert_eq!(admit(&head(&own("health")), TOKEN), Admitted::Call("health".to_owned()));
        assert_eq!(admit(&head(&format!("/{TOKEN}/tsp/other")), TOKEN), Admitted::Elsewhere);
        let elsewhere = RequestHead { host: Some("evil.example"), ..head("/") };
        let path = own("health");
        assert!(matches!(admit(&RequestHead { path: &path, ..elsewhere }, TOKEN), Admitted::Refused(403, _)));
    }

    #[test]
    fn web_views_and_this_machine_may_read() {
        for origin in ["vscode-webview://1a2b-3c", "http://localhost:3000", "http://127.0.0.1", "http://[::1]:80"] {
            assert!(may_read(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "https://localhost",
            "vscode-webview://",
            "vscode-webview://a/b",
            "http://localhost.evil.example",
            "vscode-webview://a\r\nx",
            "file://",
        ] {
            assert!(!may_read(origin), "{origin:?}");
            let path = own("health");
            let found = admit(&RequestHead { origin: Some(origin), ..head(&path) }, TOKEN);
            assert!(matches!(found, Admitted::Refused(403, _)), "{origin:?}");
        }
    }

    #[test]
    fn forms_and_images_of_pages_get_nothing() {
        let path = own("experiments");
        let post = RequestHead { method: "POST", ..head(&path) };
        for (kind, expect) in [
            (None, Some(415)),
            (Some("text/plain"), Some(415)),
            (Some("application/x-www-form-urlencoded"), Some(415)),
            (Some("application/json"), None),
            (Some("application/json; charset=utf-8"), None),
        ] {
            let found = match admit(&RequestHead { content_type: kind, ..post }, TOKEN) {
                Admitted::Refused(status, _) => Some(status),
                _ => None,
            };
            assert_eq!(found, expect, "{kind:?}");
        }
        let image = RequestHead { fetch_site: Some("cross-site"), ..head(&path) };
        assert!(matches!(admit(&image, TOKEN), Admitted::Refused(403, _)));
        let view = RequestHead { origin: Some("vscode-webview://a"), ..image };
        assert!(matches!(admit(&view, TOKEN), Admitted::Call(_)));
        let ask = RequestHead { method: "OPTIONS", ..view };
        assert_eq!(admit(&ask, TOKEN), Admitted::Preflight);
        assert!(matches!(admit(&RequestHead { method: "PATCH", ..view }, TOKEN), Admitted::Refused(405, _)));
    }
}
