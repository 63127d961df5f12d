//! A store with Prometheus's HTTP API: Prometheus, VictoriaMetrics, Thanos, Mimir.

use std::panic::resume_unwind;
use std::thread;

use crate::{Credentials, RequestError, Roots, Target};

use crate::fleet::answer::Vector;
use crate::fleet::find::{FindRequest, MatchingHost};
use crate::fleet::limits::{ANSWER_BYTES_MAX, QUERY_TIMEOUT, SERIES_MAX};
use crate::fleet::overview::Overview;
use crate::fleet::promql::query_path;

/// A store with its address and credentials.
#[derive(Debug)]
pub struct Store {
    url: String,
    target: Target,
    roots: Option<Roots>,
    credentials: Option<Credentials>,
}

/// Why a store, or its answer, cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum StoreError {
    #[error("give http://HOST:PORT[/PATH] or https://HOST[:PORT][/PATH], without a user or a query")]
    Url,
    #[error("the token or password could be read on its way; use https://, or a tunnel and http://localhost")]
    Exposed,
    #[error("wants a token or password that it knows (--store-token-file, --store-password-file)")]
    Refused,
    #[error(transparent)]
    Request(RequestError),
    #[error("refuses the query ({0})")]
    Query(String),
    #[error("answers with more than {SERIES_MAX} series; load the recording rules of deploy/, or ask for less")]
    TooLarge,
    #[error("answers in another way than Prometheus's HTTP API ({0})")]
    Strange(String),
}

impl Store {
    /// Creates a store at an address. `https://` needs trusted certificates.
    pub fn new(url: &str, roots: Option<Roots>, credentials: Option<Credentials>) -> Result<Self, StoreError> {
        let address = url.parse().ok().filter(|_| !url.contains('?'));
        let target: Target = address.ok_or(StoreError::Url)?;
        if credentials.is_some() && !target.is_private() {
            return Err(StoreError::Exposed);
        }
        Ok(Self { url: url.to_owned(), target, roots, credentials })
    }

    /// Returns its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs an instant query.
    pub fn query(&self, query: &str) -> Result<Vector, StoreError> {
        let target = self.target.joined(&query_path(query));
        let text = crate::get(&target, self.roots.as_ref(), self.credentials.as_ref(), ANSWER_BYTES_MAX, QUERY_TIMEOUT);
        let text = text.map_err(|error| match error {
            RequestError::Refused => StoreError::Refused,
            error => StoreError::Request(error),
        })?;
        Vector::parse(&text)
    }

    /// Queries the hosts with idle chips.
    pub fn find(&self, request: &FindRequest) -> Result<Vec<MatchingHost>, StoreError> {
        request.ask(|query| self.query(query))
    }

    /// Queries the overview of all hosts.
    pub fn overview(&self) -> Overview {
        Overview::ask(&self.url, |queries| self.query_all(queries))
    }

    /// Runs a few instant queries at the same time.
    fn query_all(&self, queries: &[&str]) -> Result<Vec<Vector>, StoreError> {
        thread::scope(|scope| {
            let ask = |query| move || self.query(query);
            // If no thread can be started, this thread runs the query.
            let asking = queries.iter().map(|query| thread::Builder::new().spawn_scoped(scope, ask(query)).map_err(|_| query));
            let asking: Vec<_> = asking.collect();
            asking
                .into_iter()
                .map(|query| match query {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    Err(query) => self.query(query),
                })
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::fleet::limits::QUERIES_AT_ONCE;

    /// Starts a store with a thread that serves it.
    fn store(serve: impl FnOnce(TcpListener) + Send + 'static) -> (Store, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        (Store::new(&url, None, None).expect("a store"), thread::spawn(move || serve(listener)))
    }

    /// Reads a request. Returns its first line.
    fn request(peer: &TcpStream) -> String {
        let mut lines = BufReader::new(peer).lines().map_while(Result::ok);
        let first = lines.next().unwrap_or_default();
        lines.find(String::is_empty);
        first
    }

    /// The store sends no answer before it has all requests. Queries one after the other would time out.
    #[test]
    fn queries_are_asked_at_the_same_time() {
        let (store, serving) = store(|listener| {
            let peers: Vec<TcpStream> = listener.incoming().take(QUERIES_AT_ONCE).map_while(Result::ok).collect();
            for mut peer in peers.into_iter().rev() {
                let number = request(&peer).split("query=").nth(1).and_then(|rest| rest.chars().next()).expect("a query");
                let series = format!("{{\"metric\":{{}},\"value\":[1,\"{number}\"]}}");
                let answer = format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[{series}]}}}}");
                let _ = write!(peer, "HTTP/1.0 200 OK\r\n\r\n{answer}");
            }
        });
        let answers = store.query_all(&["1", "2", "3", "4"]).expect("answers");
        let values: Vec<f64> = answers.iter().map(|answer| answer.0[0].1).collect();
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
        serving.join().expect("the store");
    }

    #[test]
    fn refused_secret_names_the_flags_of_the_store() {
        for status in ["401 Unauthorized", "403 Forbidden"] {
            let (store, serving) = store(move |listener| {
                let (mut peer, _) = listener.accept().expect("a peer");
                request(&peer);
                let _ = write!(peer, "HTTP/1.0 {status}\r\n\r\n");
            });
            let error = store.query("up").expect_err("refused");
            assert_eq!(
                error.to_string(),
                "wants a token or password that it knows (--store-token-file, --store-password-file)",
                "{status}"
            );
            serving.join().expect("the store");
        }
    }

    #[test]
    fn addresses_are_checked() {
        let token = || Some(Credentials::Bearer("secret".to_owned()));
        for (url, has_token, expected) in [
            ("http://prometheus:9090", false, Ok::<_, &str>(())),
            ("http://store/select/0/prometheus", false, Ok(())),
            ("http://localhost:9090", true, Ok(())),
            ("http://prometheus:9090", true, Err("the token")),
            ("prometheus:9090", false, Err("give http://")),
            ("http://user:password@store", false, Err("give http://")),
            ("http://store?query=1", false, Err("give http://")),
        ] {
            let store = Store::new(url, None, if has_token { token() } else { None });
            match (store, expected) {
                (Err(why), Err(beginning)) => assert!(why.to_string().starts_with(beginning), "{url}: {why}"),
                (store, expected) => assert_eq!(store.is_ok(), expected.is_ok(), "{url}"),
            }
        }
    }
}
