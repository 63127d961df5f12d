//! Posts a message to a receiver on this host or another: a webhook, an Alertmanager.

use std::fmt;
use std::io::{BufReader, Write};
use std::str::FromStr;
use std::time::Duration;

use crate::head::{read_line, status};
use crate::stream::{self, Deadline};
use crate::{BadAddress, RequestError, Roots, ServiceAddress, read_whole};

/// An address with a path: `http://HOST[:PORT]/PATH`.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    address: ServiceAddress,
    path: String,
}

/// Never prints the address, because some addresses are secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Target(..)")
    }
}

impl FromStr for Target {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (scheme, rest) = text.split_once("://").ok_or(BadAddress)?;
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(BadAddress),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let behind_address = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
        let address = if behind_address.contains(':') { authority.to_owned() } else { format!("{authority}:{port}") };
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if !path.bytes().all(is_plain) {
            return Err(BadAddress);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { address: format!("{scheme}://{address}").parse()?, path })
    }
}

impl Target {
    /// Whether others cannot read the request: TLS, or the local host.
    pub fn is_private(&self) -> bool {
        self.address.is_private()
    }

    /// Whether the address uses TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.address, ServiceAddress::Tcp { is_tls: true, .. })
    }

    /// Returns the address with `path` appended.
    pub fn joined(&self, path: &str) -> Self {
        Self { address: self.address.clone(), path: format!("{}{path}", self.path.trim_end_matches('/')) }
    }
}

/// Credentials of a request.
#[derive(Clone)]
pub enum Credentials {
    /// `Authorization: Bearer`
    Bearer(String),
    /// `Authorization: Basic`, of `USER:PASSWORD`
    Basic(String),
}

/// Never prints the credentials.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl Credentials {
    pub(crate) fn header(&self) -> String {
        match self {
            Self::Bearer(token) => format!("Authorization: Bearer {token}\r\n"),
            Self::Basic(pair) => format!("Authorization: Basic {}\r\n", base64(pair.as_bytes())),
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u32| char::from(LETTERS[usize::try_from(bits & 63).unwrap_or(0)]);
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits: u32, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for index in 0..4 {
            text.push(if index <= three.len() { letter(bits >> (18 - 6 * index)) } else { '=' });
        }
    }
    text
}

/// Gets the text at an address, up to a size. One deadline covers the whole request, as in [`post`]. Redirects are not followed.
pub fn get(
    target: &Target,
    roots: Option<&Roots>,
    credentials: Option<&Credentials>,
    bytes_max: usize,
    timeout: Duration,
) -> Result<String, RequestError> {
    let stream = stream::open(&target.address, roots, Deadline::after(timeout))?;
    let stream = stream::get(stream, &target.address, &target.path, "application/json", credentials)?;
    Ok(read_whole(stream, bytes_max)?.0)
}

/// Posts JSON, and returns when the receiver has accepted it. One deadline covers the whole request, from connecting on; only the
/// lookup of the host's name has no deadline.
pub fn post(target: &Target, roots: Option<&Roots>, bearer: Option<&str>, body: &str, timeout: Duration) -> Result<(), RequestError> {
    let mut stream = stream::open(&target.address, roots, Deadline::after(timeout))?;
    let bearer = bearer.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{bearer}\r\n",
        target.path,
        target.address.host_header(),
        body.len(),
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).and_then(|()| stream.flush()).map_err(RequestError::silent)?;
    let status = match read_line(&mut BufReader::new(stream)) {
        Ok(line) => status(&line),
        Err(RequestError::Half | RequestError::NotText | RequestError::Endless) => None,
        Err(error) => return Err(error),
    };
    match status {
        None => Err(RequestError::Strange("it does not speak HTTP".to_owned())),
        Some(200..=299) => Ok(()),
        Some(status @ 300..=399) => Err(RequestError::Redirect(status)),
        Some(status) => Err(RequestError::NotAccepted(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn addresses_are_read() {
        for (text, host, path) in [
            ("http://example.org", "example.org:80", "/"),
            ("https://example.org/a/b?c=d", "example.org:443", "/a/b?c=d"),
            ("http://127.0.0.1:9093/", "127.0.0.1:9093", "/"),
            ("http://[::1]:9093?x", "[::1]:9093", "/?x"),
            ("https://[::1]/x", "[::1]:443", "/x"),
        ] {
            let target: Target = text.parse().unwrap_or_else(|_| panic!("{text}"));
            assert_eq!((target.address.host_header().as_str(), target.path.as_str()), (host, path));
            assert_eq!(format!("{target:?}"), "Target(..)");
        }
        for text in [
            "",
            "example.org",
            "unix:/x",
            "http://",
            "http://a b/",
            "http://a/b c",
            "http://a/\r\nX: y",
            "http://u:p@a/",
            "ftp://a",
            "http://a/#b",
        ] {
            assert_eq!(text.parse::<Target>(), Err(BadAddress), "{text}");
        }
        let target: Target = "http://a:1/am/".parse().expect("a target");
        assert_eq!(target.joined("/api/v2/alerts").path, "/am/api/v2/alerts");
    }

    /// Posts to a server with this answer, and returns the request that it read.
    fn answered(answer: &'static str, bearer: Option<&str>) -> (Result<(), RequestError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target: Target = format!("http://{}/hook", listener.local_addr().expect("an address")).parse().expect("a target");
        let server = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a peer");
            let mut received = Vec::new();
            let mut bytes = [0; 1024];
            while !received.ends_with(b"{}") {
                let count = peer.read(&mut bytes).expect("bytes");
                received.extend_from_slice(&bytes[..count]);
            }
            peer.write_all(answer.as_bytes()).expect("an answer");
            String::from_utf8(received).expect("text")
        });
        let result = post(&target, None, bearer, "{}", Duration::from_secs(20));
        (result, server.join().expect("a server"))
    }

    #[test]
    fn the_status_decides_whether_a_message_is_accepted() {
        let (result, received) = answered("HTTP/1.1 204 No Content\r\n\r\n", Some("sesame"));
        assert!(result.is_ok(), "{result:?}");
        assert!(
            received.starts_with("POST /hook HTTP/1.1\r\nHost: 127.0.0.1:") && received.contains("Authorization: Bearer sesame\r\n"),
            "{received}"
        );
        assert!(received.contains("Content-Length: 2\r\n"), "{received}");
        let message = |answer| answered(answer, None).0.map_err(|error| error.to_string());
        assert_eq!(
            message("HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n"),
            Err("answers with a redirect (302), which is not followed; give the final address".to_owned())
        );
        assert_eq!(message("HTTP/1.0 500 No\r\n\r\n"), Err("answers with status 500".to_owned()));
        assert_eq!(message("hello\n"), Err("answers in another way than this ttmon knows (it does not speak HTTP)".to_owned()));
        assert_eq!(message(""), Err("answers in another way than this ttmon knows (it does not speak HTTP)".to_owned()));
    }

    #[test]
    fn credentials_are_encoded() {
        for (text, encoded) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("user:päss", "dXNlcjpww6Rzcw==")] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        let pair = Credentials::Basic("u:p".to_owned());
        assert_eq!((pair.header().as_str(), format!("{pair:?}").as_str()), ("Authorization: Basic dTpw\r\n", "Credentials(..)"));
    }

    #[test]
    fn a_silent_receiver_is_left_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target: Target = format!("http://{}", listener.local_addr().expect("an address")).parse().expect("a target");
        let result = post(&target, None, None, "{}", Duration::from_millis(50));
        assert!(matches!(result, Err(RequestError::Late)), "{result:?}");
    }
}
