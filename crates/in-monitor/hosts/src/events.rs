//! Server-sent events, one after another, while the service runs.

use std::io::BufReader;
use std::time::Duration;

use crate::RequestError;
use crate::head::{Head, read_line};
use crate::stream::{Deadline, Stream};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Events in the order of arrival.
pub struct Events {
    stream: BufReader<Box<dyn Stream>>,
    deadline: Deadline,
    silence: Duration,
}

impl Events {
    /// Reads the header of the answer, which must report success.
    pub(crate) fn new(stream: Box<dyn Stream>, deadline: Deadline, silence: Duration) -> Result<Self, RequestError> {
        let mut stream = BufReader::with_capacity(PIECE_BYTES, stream);
        Head::read(&mut stream)?;
        Ok(Self { stream, deadline, silence })
    }

    /// Waits for the next event and returns its name and data. After an error there are no more events.
    pub fn wait(&mut self) -> Result<(String, String), RequestError> {
        let mut name = String::new();
        loop {
            self.deadline.put_off(self.silence);
            let line = read_line(&mut self.stream)?;
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
}
