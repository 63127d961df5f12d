//! A store with Prometheus's HTTP API: Prometheus, VictoriaMetrics, Thanos, Mimir.

use std::fmt;

use ttmon_ask::{Credentials, Roots, Target, Trouble};

use crate::answer::{AnswerError, Vector};
use crate::limits::{ANSWER_BYTES_MAX, QUERY_TIMEOUT};
use crate::overview::Overview;
use crate::promql::query_path;

/// A store that can be asked.
#[derive(Debug)]
pub struct Store {
    url: String,
    target: Target,
    roots: Option<Roots>,
    credentials: Option<Credentials>,
}

/// Why a store cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadStore {
    /// Its address is none.
    Address,
    /// A password would be sent in the open.
    InTheOpen,
}

impl fmt::Display for BadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("give http://HOST:PORT[/PATH] or https://HOST[:PORT][/PATH], without a user or a query"),
            Self::InTheOpen => {
                f.write_str("the token or password could be read on its way; use https://, or a tunnel and http://localhost")
            }
        }
    }
}

impl std::error::Error for BadStore {}

/// Why a query has no answer.
#[derive(Debug)]
pub enum StoreError {
    /// The store does not answer.
    Trouble(Trouble),
    /// Its answer is none.
    Answer(AnswerError),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trouble(trouble) => trouble.fmt(f),
            Self::Answer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

impl Store {
    /// The one at an address. `https://` needs to know whom to trust.
    pub fn new(url: &str, roots: Option<Roots>, credentials: Option<Credentials>) -> Result<Self, BadStore> {
        let target: Target = url.parse().map_err(|_| BadStore::Address)?;
        if url.contains('?') {
            return Err(BadStore::Address);
        }
        if credentials.is_some() && !target.is_private() {
            return Err(BadStore::InTheOpen);
        }
        Ok(Self { url: url.to_owned(), target, roots, credentials })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Answers an instant query.
    pub fn query(&self, query: &str) -> Result<Vector, StoreError> {
        let target = self.target.joined(&query_path(query));
        let text = ttmon_ask::get(&target, self.roots.as_ref(), self.credentials.as_ref(), ANSWER_BYTES_MAX, QUERY_TIMEOUT);
        Vector::parse(&text.map_err(StoreError::Trouble)?).map_err(StoreError::Answer)
    }

    /// What it knows of all hosts.
    pub fn overview(&self) -> Overview {
        Overview::ask(&self.url, |query| self.query(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let token = || Some(Credentials::Bearer("secret".to_owned()));
        for (url, has_token, expected) in [
            ("http://prometheus:9090", false, Ok(())),
            ("http://store/select/0/prometheus", false, Ok(())),
            ("http://localhost:9090", true, Ok(())),
            ("http://prometheus:9090", true, Err(BadStore::InTheOpen)),
            ("prometheus:9090", false, Err(BadStore::Address)),
            ("http://user:password@store", false, Err(BadStore::Address)),
            ("http://store?query=1", false, Err(BadStore::Address)),
        ] {
            let store = Store::new(url, None, if has_token { token() } else { None });
            assert_eq!(store.map(|_| ()), expected, "{url}");
        }
    }
}
