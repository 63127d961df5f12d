//! Formats single values: numbers, times and texts.

use std::fmt::Write;
use std::io;

use serde::ser::{Serialize, Serializer};
use ttmon_model::Reading;
use ttmon_model::fields::{Field, Value};
use ttmon_model::units::Unit;

/// A reading, serialized as its value or `null`.
pub(crate) struct ReadingJson {
    pub(crate) reading: Reading<Value>,
    unit: Unit,
}

impl ReadingJson {
    pub(crate) fn of<T>(field: &Field<T>, item: &T) -> Self {
        Self { reading: (field.get)(item), unit: field.unit }
    }
}

impl Serialize for ReadingJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.reading {
            Ok(Value::Text(text)) => serializer.serialize_str(text),
            Ok(Value::Integer(number)) => serializer.serialize_u64(*number),
            Ok(Value::Float(number)) => serializer.serialize_f64(rounded(*number, self.unit)),
            Ok(Value::Bool(truth)) => serializer.serialize_bool(*truth),
            Ok(Value::List(texts)) => texts.serialize(serializer),
            Ok(Value::Numbers(numbers)) => serializer.collect_seq(numbers.iter().map(|number| rounded(*number, self.unit))),
            Ok(Value::Time(time)) => serializer.serialize_str(&time.rfc3339()),
            Err(_) => serializer.serialize_none(),
        }
    }
}

/// Rounds a number to three decimals, the resolution of the driver's files: 54.312, not 54.312000000000005. A ratio has four decimals.
pub fn rounded(number: f64, unit: Unit) -> f64 {
    let scale = if unit == Unit::Ratio { 10_000.0 } else { 1000.0 };
    (number * scale).round() / scale
}

/// Writes characters that a terminal interprets or hides as JSON escapes, because names come from other users' processes. JSON itself
/// escapes only characters below U+0020. Outside its strings a document is plain ASCII, so the whole text can be processed at once.
pub(crate) fn escape_invisible(text: String) -> String {
    // Nearly all texts are plain ASCII, which is much faster to check.
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

/// A writer that escapes all text. It must receive the text in pieces of whole characters, as serde_json writes them.
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

/// Returns whether a character is DEL, a C1 control, invisible, or changes the direction of writing.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
