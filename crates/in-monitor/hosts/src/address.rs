//! Addresses of services: `unix:PATH`, `http://HOST[:PORT]`, `https://HOST[:PORT]`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The default port.
const PORT_DEFAULT: u16 = 9477;

/// Address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceAddress {
    /// A socket of this host.
    Unix(PathBuf),
    /// A TCP address.
    Tcp {
        /// Host name or IP address.
        host: String,
        /// Its port.
        port: u16,
        /// Whether TLS is used.
        is_tls: bool,
    },
}

/// The text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give http://HOST:PORT, https://HOST:PORT or unix:PATH")]
pub struct BadAddress;

impl FromStr for ServiceAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(BadAddress) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        let (rest, is_tls) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            (None, None) => return Err(BadAddress),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split_port(rest)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_name) {
            return Err(BadAddress);
        }
        Ok(Self::Tcp { host: host.to_owned(), port, is_tls })
    }
}

/// Parses `host:9477`, `[::1]:9477` or `host`.
fn split_port(text: &str) -> Result<(&str, u16), BadAddress> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').ok_or(BadAddress)?;
        return match behind.strip_prefix(':') {
            Some(port) => Ok((host, port.parse().map_err(|_| BadAddress)?)),
            None if behind.is_empty() => Ok((host, PORT_DEFAULT)),
            None => Err(BadAddress),
        };
    }
    match text.split_once(':') {
        Some((host, port)) => Ok((host, port.parse().map_err(|_| BadAddress)?)),
        None => Ok((text, PORT_DEFAULT)),
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp { host, port, is_tls } => write!(f, "http{}://{}:{port}", if *is_tls { "s" } else { "" }, bracketed(host)),
        }
    }
}

impl ServiceAddress {
    /// Whether other users or hosts cannot read the connection: a socket, TLS, or the local host.
    pub fn is_private(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp { is_tls: true, .. } => true,
            Self::Tcp { host, .. } => host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        }
    }

    /// Returns a short name, which is shown until the host has reported its own.
    pub fn name(&self) -> String {
        match self {
            Self::Unix(path) => path.display().to_string(),
            Self::Tcp { host, port, .. } => format!("{}:{port}", bracketed(host)),
        }
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn host_header(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp { .. } => self.name(),
        }
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown, is_private) in [
            ("unix:/run/ttmon/api.sock", "/run/ttmon/api.sock", true),
            ("http://localhost", "http://localhost:9477", true),
            ("http://127.0.0.1:80/", "http://127.0.0.1:80", true),
            ("http://tt-qb-01:9000", "http://tt-qb-01:9000", false),
            ("https://tt-qb-01", "https://tt-qb-01:9477", true),
            ("https://[fe80::1]:1", "https://[fe80::1]:1", true),
        ] {
            let address: ServiceAddress = text.parse().unwrap_or_else(|_| panic!("{text}"));
            assert_eq!((address.to_string().as_str(), address.is_private()), (shown, is_private));
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in
            ["", "unix:", "host:9477", "ftp://host", "http://", "http://:1", "http://a:b", "http://a\r\nb", "http://[::1", "http://a/b"]
        {
            assert_eq!(text.parse::<ServiceAddress>(), Err(BadAddress), "{text}");
        }
    }
}
