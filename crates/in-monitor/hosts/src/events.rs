//! Server-sent events, one after another, while the service runs.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use crate::stream::{Deadline, Stream};
use crate::{RequestError, status};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of header fields of an answer. The service sends six.
const HEADERS_MAX: usize = 64;
/// Longest line.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Events in the order of arrival.
pub struct Events {
    stream: BufReader<Box<dyn Stream>>,
    deadline: Deadline,
    silence: Duration,
}

impl Events {
    /// Reads the header of the answer, which must report success.
    pub(crate) fn new(stream: Box<dyn Stream>, deadline: Deadline, silence: Duration) -> Result<Self, RequestError> {
        let mut events = Self { stream: BufReader::with_capacity(PIECE_BYTES, stream), deadline, silence };
        match status(&events.line()?) {
            Some(200) => {}
            Some(401 | 403) => return Err(RequestError::Refused),
            Some(status) => return Err(RequestError::Status(status)),
            None => return Err(RequestError::Strange("it does not speak HTTP".to_owned())),
        }
        for _ in 0..HEADERS_MAX {
            if events.line()?.is_empty() {
                return Ok(events);
            }
        }
        Err(RequestError::Endless)
    }

    /// Waits for the next event and returns its name and data. After an error there are no more events.
    pub fn wait(&mut self) -> Result<(String, String), RequestError> {
        let mut name = String::new();
        loop {
            self.deadline.put_off(self.silence);
            let line = self.line()?;
            if let Some(word) = line.strip_prefix("event: ") {
                word.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Ok((name, data.to_owned()));
            }
        }
    }

    /// Whether another event has arrived, completely or in part. Empty lines separate events.
    pub fn has_more(&self) -> bool {
        self.stream.buffer().iter().any(|byte| !byte.is_ascii_whitespace())
    }

    /// Returns the next line, without its end.
    fn line(&mut self) -> Result<String, RequestError> {
        let mut line = Vec::new();
        (&mut self.stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(RequestError::silent)?;
        if !line.ends_with(b"\n") {
            return Err(if line.len() as u64 >= LINE_BYTES_MAX { RequestError::Endless } else { RequestError::Half });
        }
        let line = String::from_utf8(line).map_err(|_| RequestError::NotText)?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}
