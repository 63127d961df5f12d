//! The head of an answer: its status and its header fields.

use std::io::{self, BufRead, Read};

use crate::RequestError;

/// Maximum number of header fields of an answer. The service sends six.
const FIELDS_MAX: usize = 64;
/// Longest line, also of the events that follow a head.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// The header fields of a successful answer, as they were sent.
pub(crate) struct Head(Vec<String>);

impl Head {
    /// Reads up to the empty line. An answer without success is an error.
    pub(crate) fn read(stream: &mut impl BufRead) -> Result<Self, RequestError> {
        match status(&read_line(stream)?) {
            Some(200) => {}
            Some(401 | 403) => return Err(RequestError::Refused),
            Some(status) => return Err(RequestError::Status(status)),
            None => return Err(RequestError::Strange("it does not speak HTTP".to_owned())),
        }
        let mut fields = Vec::new();
        while fields.len() < FIELDS_MAX {
            let line = read_line(stream)?;
            if line.is_empty() {
                return Ok(Self(fields));
            }
            fields.push(line);
        }
        Err(RequestError::Endless)
    }

    /// Returns the number in a header field.
    pub(crate) fn number(&self, wanted: &str) -> Option<u64> {
        let mut fields = self.0.iter().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?.1.trim().parse().ok()
    }
}

/// Returns the next line, without its end.
pub(crate) fn read_line(stream: &mut impl BufRead) -> Result<String, RequestError> {
    let mut line = Vec::new();
    match stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        // A TLS peer that closes without notice.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(RequestError::Half),
        Err(error) => return Err(RequestError::silent(error)),
        Ok(_) if line.ends_with(b"\n") => {}
        Ok(bytes) => return Err(if bytes as u64 >= LINE_BYTES_MAX { RequestError::Endless } else { RequestError::Half }),
    }
    let line = String::from_utf8(line).map_err(|_| RequestError::NotText)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns the status in the first line of an answer.
pub(crate) fn status(line: &str) -> Option<u16> {
    line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}
