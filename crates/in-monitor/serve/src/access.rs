//! Access control.
//!
//! On the Unix socket the kernel identifies the user. Root sees everything. Other users see their own processes in full, and only pid,
//! name, owner and totals of other processes. On HTTP a client with the token sees everything; other clients see what a user without
//! processes would see. Requests from a web page of another site are refused, for any name that the site gave this host.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use ttmon_model::{Missing, Process, ProcessKey, Snapshot};

use crate::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use crate::page;
use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Visibility {
    Whole,
    /// The processes of this user in full.
    User(u32),
    /// No process in full.
    Public,
}

impl Visibility {
    /// Returns the visibility of a user on the Unix socket. Root and the service's own user see everything.
    pub(crate) fn of_user(uid: u32) -> Self {
        if uid == 0 || uid == rustix::process::geteuid().as_raw() { Self::Whole } else { Self::User(uid) }
    }

    pub(crate) fn has(self, process: &Process) -> bool {
        match self {
            Self::Whole => true,
            Self::User(uid) => process.uid == Ok(u64::from(uid)),
            Self::Public => false,
        }
    }

    /// Whether the processes of a user may be shown in full.
    pub(crate) fn has_user(self, uid: u32) -> bool {
        self == Self::Whole || self == Self::User(uid)
    }

    /// Returns the snapshot without the values that this client may not see.
    pub(crate) fn of(self, snapshot: &Snapshot) -> Cow<'_, Snapshot> {
        if self == Self::Whole {
            return Cow::Borrowed(snapshot);
        }
        let mut seen = snapshot.clone();
        self.hide(&mut seen);
        Cow::Owned(seen)
    }

    /// Removes the values that this client may not see.
    pub(crate) fn hide(self, snapshot: &mut Snapshot) {
        if self == Self::Whole {
            return;
        }
        let seen: HashSet<ProcessKey> = snapshot.processes.iter().filter(|process| self.has(process)).map(|process| process.key).collect();
        for process in snapshot.processes.iter_mut().filter(|process| !seen.contains(&process.key)) {
            process.command = Err(Missing::NoPermission);
            // The job name comes from the environment of the process.
            process.job_name = process.job_name.as_ref().map_err(|reason| *reason).and(Err(Missing::NoPermission));
            process.cpu = Err(Missing::NoPermission);
            process.rss = Err(Missing::NoPermission);
        }
        snapshot.allocators.retain(|allocator| seen.contains(&allocator.process));
        snapshot.buffers.retain(|buffer| seen.contains(&buffer.process()));
        snapshot.circulars.retain(|circular| seen.contains(&circular.process));
    }
}

/// A secret that gives access to all data. It is compared in constant time and never printed.
pub struct Token(Vec<u8>);

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum TokenError {
    #[error("the token is shorter than {TOKEN_BYTES_MIN} characters; make one: head -c 24 /dev/urandom | base64")]
    Short,
    #[error("the token is not one word of at most {TOKEN_BYTES_MAX} plain characters")]
    NotOneWord,
    #[error("{0}: {1}")]
    Unreadable(PathBuf, io::Error),
    #[error("{0}: {1}")]
    InFile(PathBuf, Box<Self>),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Parses a token from the text of a file or of the environment.
    pub fn new(text: &[u8]) -> Result<Self, TokenError> {
        let text = text.trim_ascii();
        if text.len() < TOKEN_BYTES_MIN {
            return Err(TokenError::Short);
        }
        if text.len() > TOKEN_BYTES_MAX || !text.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::NotOneWord);
        }
        Ok(Self(text.to_vec()))
    }

    /// Returns the secret itself, for requests to another service.
    pub fn reveal(&self) -> &str {
        std::str::from_utf8(&self.0).expect("`new` accepts only ASCII")
    }

    /// Reads a token from a file. Other users must not be able to read the file.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text = ttmon_os::read_secret(path, 2 * TOKEN_BYTES_MAX);
        let text = text.map_err(|error| TokenError::Unreadable(path.to_owned(), error))?;
        Self::new(&text).map_err(|error| TokenError::InFile(path.to_owned(), Box::new(error)))
    }

    /// Returns whether a request has the right token, or `None` if it has no token.
    fn is_in(&self, headers: &HeaderMap) -> Option<bool> {
        let value = headers.get(AUTHORIZATION)?.as_bytes();
        // A header that is too short for a token is a wrong token, not a missing one.
        let (scheme, given) = value.split_at_checked(7).unwrap_or_default();
        Some(scheme.eq_ignore_ascii_case(b"Bearer ") && self.is(given.trim_ascii()))
    }

    /// Compares a token in a time that depends only on the length.
    fn is(&self, given: &[u8]) -> bool {
        let differences = self.0.iter().zip(given).fold(0u8, |all, (ours, theirs)| std::hint::black_box(all | (ours ^ theirs)));
        self.0.len() == given.len() && differences == 0
    }
}

/// The socket on which a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// The Unix socket, with the uid of the client.
    Unix(u32),
    /// A TCP port that only this host can reach.
    Loopback,
    /// A TCP port that other hosts can reach.
    Remote,
    /// A TCP port for scrapers, which serves only metrics of devices and workloads.
    Metrics,
}

/// Whether a path shows no data: the health check and the files of the page.
pub(crate) fn is_open_to_all(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz") || page::find(path).is_some()
}

/// Returns what a client may see, or why the request is refused. If the request has a full address, its host counts instead of the Host
/// header.
pub(crate) fn authorize(
    origin: RequestOrigin,
    authority: Option<&str>,
    path: &str,
    headers: &HeaderMap,
    token: Option<&Token>,
) -> Result<Visibility, Problem> {
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Err(Problem::SeveralHosts);
    }
    if let RequestOrigin::Unix(uid) = origin {
        return Ok(Visibility::of_user(uid));
    }
    if origin == RequestOrigin::Metrics {
        return if origin_is_ours("", headers) { Ok(Visibility::Public) } else { Err(Problem::ForeignOrigin) };
    }
    // Requests from other hosts are not checked by name: they need the token, which a page of another site cannot have.
    // A host that is no text is none of ours.
    let host = authority.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok())).unwrap_or_default();
    if origin == RequestOrigin::Loopback && !host_is_ours(host) {
        return Err(Problem::ForeignHost);
    }
    // A link on another site may lead to the page, which has no data.
    if !origin_is_ours(host, headers) && page::find(path).is_none() {
        return Err(Problem::ForeignOrigin);
    }
    match token.map(|token| token.is_in(headers)) {
        Some(Some(true)) => Ok(Visibility::Whole),
        Some(Some(false)) => Err(Problem::WrongToken),
        None if headers.contains_key(AUTHORIZATION) => Err(Problem::WrongToken),
        _ if origin == RequestOrigin::Loopback || is_open_to_all(path) => Ok(Visibility::Public),
        _ => Err(Problem::NoToken),
    }
}

/// Whether a name always resolves to loopback, so that the name server of an attacker cannot use it for this host.
fn host_is_ours(host: &str) -> bool {
    let name = without_port(host);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => host,
    }
}

/// Requests of a page name the page's site. It must be the host of the request.
fn origin_is_ours(host: &str, headers: &HeaderMap) -> bool {
    let fetched_by = headers.get(HeaderName::from_static("sec-fetch-site")).map(|value| value.as_bytes());
    if !matches!(fetched_by, None | Some(b"same-origin" | b"none")) {
        return false;
    }
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let site = origin.as_bytes().strip_prefix(b"http://").or_else(|| origin.as_bytes().strip_prefix(b"https://"));
    site.is_some_and(|site| site.eq_ignore_ascii_case(host.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::machine;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header's value"))).collect()
    }

    fn token() -> Token {
        Token::new(b"0123456789abcdef0123\n").expect("a good token")
    }

    /// At this port, a token is neither required nor checked, and a page of another site gets nothing.
    #[test]
    fn the_metrics_endpoint_needs_no_token() {
        let decision =
            |pairs: &[(&'static str, &str)]| authorize(RequestOrigin::Metrics, None, "/metrics", &headers(pairs), Some(&token()));
        assert_eq!(decision(&[("host", "tt-01:9478")]), Ok(Visibility::Public));
        assert_eq!(decision(&[("authorization", "Bearer of-another-service")]), Ok(Visibility::Public));
        assert_eq!(decision(&[("origin", "http://evil.example")]), Err(Problem::ForeignOrigin));
        assert_eq!(decision(&[("sec-fetch-site", "cross-site")]), Err(Problem::ForeignOrigin));
    }

    #[test]
    fn only_loopback_names_are_accepted() {
        for ours in ["localhost", "localhost:9477", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9477", "127.1.2.3:80", "[::1]:9477", "[::1]"] {
            assert!(host_is_ours(ours), "{ours}");
        }
        for foreign in
            ["", "evil.example", "evil.example:9477", "10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io:9477", "[fe80::1]", "0.0.0.0"]
        {
            assert!(!host_is_ours(foreign), "{foreign}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let check = |pairs: &[(&'static str, &str)]| authorize(RequestOrigin::Loopback, None, "/metrics", &headers(pairs), None);
        let host = ("host", "localhost:9477");
        assert_eq!(check(&[host]), Ok(Visibility::Public));
        assert_eq!(check(&[host, ("origin", "http://localhost:9477")]), Ok(Visibility::Public));
        assert_eq!(check(&[host, ("origin", "http://localhost:8080")]), Err(Problem::ForeignOrigin));
        assert_eq!(check(&[host, ("origin", "null")]), Err(Problem::ForeignOrigin));
        assert_eq!(check(&[host, ("origin", "https://evil.example")]), Err(Problem::ForeignOrigin));
        assert_eq!(check(&[host, ("sec-fetch-site", "cross-site")]), Err(Problem::ForeignOrigin));
        assert_eq!(check(&[("host", "evil.example"), ("origin", "http://evil.example")]), Err(Problem::ForeignHost));
        assert_eq!(check(&[]), Err(Problem::ForeignHost));
    }

    /// With two names, a proxy may have checked only the other one. A full address in the request takes precedence over the header.
    #[test]
    fn a_request_with_two_hosts_is_refused() {
        let mut two = headers(&[("host", "localhost")]);
        two.append(HOST, "evil.example".parse().expect("a name"));
        for origin in [RequestOrigin::Loopback, RequestOrigin::Remote, RequestOrigin::Unix(7)] {
            assert_eq!(authorize(origin, None, "/metrics", &two, None), Err(Problem::SeveralHosts));
        }
        let whole = |authority| authorize(RequestOrigin::Loopback, Some(authority), "/metrics", &headers(&[("host", "localhost")]), None);
        assert_eq!(whole("localhost:9477"), Ok(Visibility::Public));
        for foreign in ["evil.example", "localhost@evil.example", "localhost:80@evil.example:80"] {
            assert_eq!(whole(foreign), Err(Problem::ForeignHost), "{foreign}");
        }
    }

    #[test]
    fn only_the_right_token_shows_everything() {
        let token = token();
        let host = ("host", "localhost");
        let check = |origin, path, pairs: &[(&'static str, &str)]| authorize(origin, None, path, &headers(pairs), Some(&token));
        let good = ("authorization", "Bearer 0123456789abcdef0123");
        assert_eq!(check(RequestOrigin::Loopback, "/metrics", &[host, good]), Ok(Visibility::Whole));
        assert_eq!(
            check(RequestOrigin::Loopback, "/metrics", &[host, ("authorization", "bearer 0123456789abcdef0123")]),
            Ok(Visibility::Whole)
        );
        let wrongs =
            ["Bearer 0123456789abcdef0124", "Bearer 0123456789abcdef012", "Basic 0123456789abcdef0123", "Bearer ", "Bearer", "x", ""];
        for wrong in wrongs {
            let answer = check(RequestOrigin::Loopback, "/metrics", &[host, ("authorization", wrong)]);
            assert_eq!(answer, Err(Problem::WrongToken), "{wrong}");
        }
        assert_eq!(check(RequestOrigin::Loopback, "/metrics", &[host]), Ok(Visibility::Public));
        assert_eq!(check(RequestOrigin::Remote, "/metrics", &[host]), Err(Problem::NoToken));
        assert_eq!(check(RequestOrigin::Remote, "/healthz", &[host]), Ok(Visibility::Public));
        assert_eq!(check(RequestOrigin::Remote, "/metrics", &[("host", "gpu7.example"), good]), Ok(Visibility::Whole));
        assert_eq!(authorize(RequestOrigin::Loopback, None, "/metrics", &headers(&[host, good]), None), Err(Problem::WrongToken));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn bad_tokens_are_refused_at_the_start() {
        assert!(Token::new(b"short").is_err());
        assert!(Token::new(b"two words are not a token").is_err());
        assert!(Token::new(&[b'x'; TOKEN_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn another_user_sees_only_totals() {
        let snapshot = machine();
        let (own, foreign) = (&snapshot.processes[0], &snapshot.processes[1]);
        let uid = u32::try_from(own.uid.expect("a uid")).expect("32 bits");
        assert_ne!(own.uid, foreign.uid);
        let seen = Visibility::User(uid).of(&snapshot);
        assert_eq!(&seen.processes[0], own);
        assert_eq!(seen.processes[1].command, Err(Missing::NoPermission));
        assert_eq!((&seen.processes[1].name, &seen.processes[1].devices), (&foreign.name, &foreign.devices));
        assert!(Visibility::Public.of(&snapshot).processes.iter().all(|process| process.command == Err(Missing::NoPermission)));
        assert!(matches!(Visibility::Whole.of(&snapshot), Cow::Borrowed(_)));
        for hidden in [Visibility::Public, Visibility::User(uid + 77)] {
            assert!(hidden.of(&snapshot).allocators.is_empty() && hidden.of(&snapshot).buffers.is_empty());
        }
    }
}
