// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of relay daemons and their sessions: `net://HOST[:PORT][/host/HOSTNAME/SESSION]`; `net4://` and `net6://` for
//! one family of addresses, as LTTng has them.

use std::fmt;
use std::net::SocketAddr;

/// The port on which a relay daemon waits for viewers.
pub const DEFAULT_PORT: u16 = 5344;

/// Which addresses of a host are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `net://`: whatever it has.
    Any,
    /// `net4://`.
    V4,
    /// `net6://`.
    V6,
}

impl Family {
    const ALL: [Family; 3] = [Family::Any, Family::V4, Family::V6];

    fn scheme(self) -> &'static str {
        match self {
            Family::Any => "net://",
            Family::V4 => "net4://",
            Family::V6 => "net6://",
        }
    }

    /// Whether an address is one of it.
    pub fn has(self, address: &SocketAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }

    /// Of a URL, and what is behind the scheme.
    fn of(text: &str) -> Option<(Family, &str)> {
        Family::ALL.into_iter().find_map(|family| Some((family, text.strip_prefix(family.scheme())?)))
    }
}

/// A relay daemon, or one session of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Of the addresses that the host may have.
    pub family: Family,
    /// Name or address of its machine.
    pub host: String,
    /// Where it waits for viewers.
    pub port: u16,
    /// The host that is traced, and the name of the session.
    pub session: Option<(String, String)>,
}

/// Whether a text is meant as one.
pub fn is_url(text: &str) -> bool {
    Family::of(text).is_some()
}

impl Url {
    /// # Errors
    /// It is none, in words.
    pub fn parse(text: &str) -> Result<Url, String> {
        let wrong =
            |why: &str| format!("{text}: {why}; write net://HOST[:PORT] or net://HOST[:PORT]/host/HOSTNAME/SESSION");
        let (family, rest) = Family::of(text).ok_or_else(|| wrong("no URL of a relay daemon"))?;
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match place.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((address, port))) => (address, port.strip_prefix(':')),
            Some(None) => return Err(wrong("`[` without `]`")),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(wrong("no host"));
        }
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).map_err(|_| wrong("the port is a number"))?;
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let session = match parts[..] {
            [] => None,
            ["host", target, session] => Some((target.to_owned(), session.to_owned())),
            _ => return Err(wrong("no name of a session")),
        };
        Ok(Url { family, host: host.to_owned(), port, session })
    }

    /// Of a session of the same relay daemon.
    pub fn of(&self, target: &str, session: &str) -> Url {
        Url { session: Some((target.to_owned(), session.to_owned())), ..self.clone() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.family.scheme();
        match self.host.contains(':') {
            true => write!(f, "{scheme}[{}]", self.host)?,
            false => write!(f, "{scheme}{}", self.host)?,
        }
        if self.port != DEFAULT_PORT {
            write!(f, ":{}", self.port)?;
        }
        match &self.session {
            Some((target, session)) => write!(f, "/host/{target}/{session}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let of =
            |text: &str| Url::parse(text).map(|url| (url.host.clone(), url.port, url.session.clone(), url.to_string()));
        let session = Some(("box".to_owned(), "s1".to_owned()));
        for (text, host, port, session, shown) in [
            ("net://lab", "lab", 5344, None, "net://lab"),
            ("net://lab/", "lab", 5344, None, "net://lab"),
            ("net://lab:99", "lab", 99, None, "net://lab:99"),
            ("net://lab/host/box/s1", "lab", 5344, session.clone(), "net://lab/host/box/s1"),
            ("net4://lab/host/box/s1", "lab", 5344, session.clone(), "net4://lab/host/box/s1"),
            ("net6://lab:99", "lab", 99, None, "net6://lab:99"),
            ("net://[::1]:99/host/box/s1/", "::1", 99, session, "net://[::1]:99/host/box/s1"),
        ] {
            assert_eq!(of(text), Ok((host.to_owned(), port, session, shown.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_none_says_why() {
        for (text, why) in [
            ("net://", "no host"),
            ("net://:5344", "no host"),
            ("net://lab:high", "the port is a number"),
            ("net://lab:70000", "the port is a number"),
            ("net://[::1", "`[` without `]`"),
            ("net://lab/box/s1", "no name of a session"),
            ("net://lab/host/box", "no name of a session"),
            ("net://lab/host/box/s1/x", "no name of a session"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(why) && error.contains("write net://HOST"), "{text}: {error}");
        }
        assert!(is_url("net://x") && is_url("net4://x") && is_url("net6://x"));
        assert!(!is_url("net5://x") && !is_url("net") && !is_url("net4:x"));
    }

    #[test]
    fn families_have_their_addresses() {
        let [v4, v6]: [SocketAddr; 2] = ["127.0.0.1:1", "[::1]:1"].map(|text| text.parse().unwrap());
        let has = Family::ALL.map(|family| (family.has(&v4), family.has(&v6)));
        assert_eq!(has, [(true, true), (true, false), (false, true)]);
    }
}
