//! Requests to a ttmon service: on this host over its Unix socket, or on another host over HTTP or HTTPS.
//!
//! Each connection has one request, in HTTP/1.0. The answer ends with the connection, so there is no length to trust and there are no
//! chunks. Every request has one deadline up to the last byte, and a limit on the size of the answer. Only the lookup of a host name has no
//! deadline, so a caller that must not wait uses a thread.

mod address;
mod error;
mod events;
pub mod fleet;
mod head;
mod past;
mod post;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;

use std::io::{self, BufReader, Read};
use std::time::Duration;

use ttmon_model::Snapshot;
use ttmon_model::limits::DOCUMENT_BYTES_MAX;
use ttmon_model::sample::Origin;

pub use address::{BadAddress, ServiceAddress};
pub use error::{RequestError, RootsError};
pub use events::Events;
pub use past::{Past, Series};
pub use post::{Credentials, Target, get, post};
pub use tls::Roots;

use head::Head;
use stream::{Deadline, Stream};

/// A service that accepts requests.
#[derive(Debug)]
pub struct Service {
    address: ServiceAddress,
    token: Option<Credentials>,
    roots: Option<Roots>,
}

impl Service {
    /// Creates a service at an address, with an optional token. `https://` needs trusted certificates.
    pub fn new(address: ServiceAddress, token: Option<String>, roots: Option<Roots>) -> Self {
        Self { address, token: token.map(Credentials::Bearer), roots }
    }

    /// Returns its address.
    pub fn address(&self) -> &ServiceAddress {
        &self.address
    }

    /// Requests the newest snapshot.
    pub fn snapshot(&self, timeout: Duration) -> Result<Snapshot, RequestError> {
        self.document("/api/v1/snapshot", timeout)
    }

    /// Requests the newest snapshot, with the parts of another path.
    pub fn document(&self, path: &str, timeout: Duration) -> Result<Snapshot, RequestError> {
        Ok(self.aged_document(path, timeout)?.0)
    }

    /// Like `document`, but also returns the age of the snapshot at the time of the request, by the service's own clock. The clock of
    /// another host may be wrong.
    pub fn aged_document(&self, path: &str, timeout: Duration) -> Result<(Snapshot, Duration), RequestError> {
        let deadline = Deadline::after(timeout);
        let (text, age) = self.answer(path, &deadline)?;
        let mut snapshot = ttmon_json::read_within(&text, Some(deadline.instant())).map_err(|error| RequestError::unreadable(&error))?;
        if snapshot.origin == Origin::Local {
            snapshot.origin = Origin::Server;
        }
        Ok((snapshot, age))
    }

    /// Requests the history of some devices and fields in full resolution, from this many seconds ago.
    pub fn past(&self, since: Duration, fields: &[&str], devices: &[u32], timeout: Duration) -> Result<Past, RequestError> {
        let devices: Vec<String> = devices.iter().map(u32::to_string).collect();
        let (since, fields, devices) = (since.as_secs(), fields.join(","), devices.join(","));
        let deadline = Deadline::after(timeout);
        let path = format!("/api/v1/history?since={since}&fields={fields}&device={devices}");
        let (text, _) = self.answer(&path, &deadline)?;
        Past::read(&text, Some(deadline.instant())).map_err(|error| RequestError::unreadable(&error))
    }

    /// Requests the text at a path.
    pub fn get(&self, path: &str, timeout: Duration) -> Result<String, RequestError> {
        Ok(self.answer(path, &Deadline::after(timeout))?.0)
    }

    /// Requests the text at a path. Returns it with its age.
    fn answer(&self, path: &str, deadline: &Deadline) -> Result<(String, Duration), RequestError> {
        read_whole(self.ask(path, "application/json", deadline.clone())?, DOCUMENT_BYTES_MAX)
    }

    /// Opens the events at a path. The header must arrive within `timeout`; later silence is limited by `silence`.
    pub fn events(&self, path: &str, timeout: Duration, silence: Duration) -> Result<Events, RequestError> {
        let deadline = Deadline::after(timeout);
        Events::new(self.ask(path, "text/event-stream", deadline.clone())?, deadline, silence)
    }

    fn ask(&self, path: &str, accept: &str, deadline: Deadline) -> Result<Box<dyn Stream>, RequestError> {
        let stream = stream::open(&self.address, self.roots.as_ref(), deadline)?;
        stream::get(stream, &self.address, path, accept, self.token.as_ref())
    }
}

/// Reads an answer to its end. Returns its body and its age.
fn read_whole(stream: impl Read, bytes_max: usize) -> Result<(String, Duration), RequestError> {
    let mut stream = BufReader::new(stream.take(bytes_max as u64 + 1));
    let head = Head::read(&mut stream)?;
    let mut body = Vec::new();
    match stream.read_to_end(&mut body) {
        // If a TLS peer closes without notice, the answer may be incomplete. The length below decides.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(RequestError::silent(error)),
        _ if stream.get_ref().limit() == 0 => return Err(RequestError::Endless),
        _ if head.number("content-length").is_some_and(|length| (body.len() as u64) < length) => return Err(RequestError::Half),
        _ => {}
    }
    let text = String::from_utf8(body).map_err(|_| RequestError::NotText)?;
    Ok((text, Duration::from_secs(head.number("age").unwrap_or(0))))
}

/// Parses a whole answer, and its body as history. For the fuzzer.
#[cfg(fuzzing)]
pub fn read_answer(bytes: &[u8]) {
    if let Ok((text, _)) = read_whole(bytes, DOCUMENT_BYTES_MAX) {
        // Either result is right, as long as there is one.
        let _ = Past::read(&text, None);
    }
}

#[cfg(test)]
mod tests;
