//! Server-sent events, one after the other, for as long as the service lives.

use std::io;
use std::time::Duration;

use crate::stream::{Deadline, Stream};
use crate::{PIECE_BYTES, Trouble, status};

/// Fields of a header: the service's has six.
const HEADERS_MAX: usize = 64;
/// Longest line.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Events as they come.
pub struct Events {
    stream: Box<dyn Stream>,
    deadline: Deadline,
    silence: Duration,
    /// What came and was not taken yet.
    buffer: Vec<u8>,
    piece: Vec<u8>,
}

impl Events {
    /// Takes the header of the answer, which must be a good one.
    pub(crate) fn new(stream: Box<dyn Stream>, deadline: Deadline, silence: Duration) -> Result<Self, Trouble> {
        let mut events = Self { stream, deadline, silence, buffer: Vec::new(), piece: vec![0; PIECE_BYTES] };
        match status(&events.line()?) {
            Some(200) => {}
            Some(401 | 403) => return Err(Trouble::Refused),
            Some(status) => return Err(Trouble::Status(status)),
            None => return Err(Trouble::Strange("it does not speak HTTP".to_owned())),
        }
        for _ in 0..HEADERS_MAX {
            if events.line()?.is_empty() {
                return Ok(events);
            }
        }
        Err(Trouble::Endless)
    }

    /// The name and the data of the next one, waited for. An error is the end of them.
    pub fn wait(&mut self) -> Result<(String, String), Trouble> {
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

    /// Whether another one is here already, in whole or in part. Between them are empty lines.
    pub fn has_more(&self) -> bool {
        self.buffer.iter().any(|byte| !byte.is_ascii_whitespace())
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<String, Trouble> {
        let mut looked = 0;
        let end = loop {
            match self.buffer[looked..].iter().position(|byte| *byte == b'\n') {
                Some(position) => break looked + position,
                None => looked = self.buffer.len(),
            }
            if looked > LINE_BYTES_MAX {
                return Err(Trouble::Endless);
            }
            self.fill()?;
        };
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        let line = String::from_utf8(line).map_err(|_| Trouble::NotText)?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn fill(&mut self) -> Result<(), Trouble> {
        loop {
            match self.stream.read(&mut self.piece) {
                Ok(0) => return Err(Trouble::Half),
                Ok(count) => {
                    self.buffer.extend_from_slice(&self.piece[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::silent(error)),
            }
        }
    }
}
