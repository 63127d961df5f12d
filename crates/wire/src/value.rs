//! Single values: how a number, a moment or a text is written.

use std::fmt::Write;
use std::io;

use serde::ser::{Serialize, Serializer};
use ttmon_model::Reading;
use ttmon_model::fields::Value;

/// A reading: its value, or `null`.
pub(crate) struct ReadingJson(pub(crate) Reading<Value>);

impl Serialize for ReadingJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(Value::Text(text)) => serializer.serialize_str(text),
            Ok(Value::Integer(number)) => serializer.serialize_u64(*number),
            Ok(Value::Float(number)) => serializer.serialize_f64(rounded(*number)),
            Ok(Value::Bool(truth)) => serializer.serialize_bool(*truth),
            Ok(Value::List(texts)) => texts.serialize(serializer),
            Ok(Value::Time(time)) => serializer.serialize_str(&time.rfc3339()),
            Err(_) => serializer.serialize_none(),
        }
    }
}

/// A number to three decimals, the resolution of the driver's own files: 54.312, not 54.312000000000005.
pub fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Writes characters that a terminal obeys or hides as JSON escapes: names come from other users' processes. JSON
/// itself escapes only those below U+0020. Outside its strings a document is plain ASCII, so the text may be treated
/// as a whole.
pub(crate) fn escape_invisible(text: String) -> String {
    // Nearly always all of it is plain ASCII, which is told much faster.
    if text.bytes().all(|byte| byte < 0x7f) || !text.contains(is_invisible) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_invisible(character) {
            write!(escaped, "\\u{:04x}", u32::from(character)).expect("a String takes everything");
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Does the same to what is written through it. A text comes in pieces of whole characters, as serde_json writes them.
pub(crate) struct Escaping<W>(pub(crate) W);

impl<W: io::Write> io::Write for Escaping<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.write_all(piece)?;
        Ok(piece.len())
    }

    fn write_all(&mut self, piece: &[u8]) -> io::Result<()> {
        if piece.iter().all(|byte| *byte < 0x7f) {
            return self.0.write_all(piece);
        }
        let text = str::from_utf8(piece).map_err(|_| io::ErrorKind::InvalidData)?;
        self.0.write_all(escape_invisible(text.to_owned()).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// DEL and the C1 controls, and the characters that turn the direction of writing.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
