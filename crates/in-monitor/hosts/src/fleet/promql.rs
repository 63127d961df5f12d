//! Escapes texts in PromQL.

use std::fmt::Write;

/// Returns a text as a PromQL string, with quotes. The escapes of JSON are valid in PromQL.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a regular expression, as a PromQL string, for texts that begin with this text.
pub(crate) fn regex_prefix(text: &str) -> String {
    let is_special = |letter: char| r"\.+*?()|[]{}^$".contains(letter);
    let escaped: String = text.chars().flat_map(|letter| is_special(letter).then_some('\\').into_iter().chain([letter])).collect();
    quoted(&format!("{escaped}.*"))
}

/// Returns the path of an instant query below a store's address.
pub(crate) fn query_path(query: &str) -> String {
    let encoded = query.bytes().fold(String::new(), |mut out, byte| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let _ = if is_plain { write!(out, "{}", char::from(byte)) } else { write!(out, "%{byte:02X}") };
        out
    });
    format!("/api/v1/query?query={encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any input stays inside its quotes.
    #[test]
    fn parameters_are_escaped() {
        assert_eq!(quoted("a\"} or vector(1) #\\\n"), r#""a\"} or vector(1) #\\\n""#);
        assert_eq!(quoted("\u{7}"), "\"\\u0007\"");
        assert_eq!(regex_prefix("n300"), "\"n300.*\"");
        assert_eq!(regex_prefix("a.b|c\""), r#""a\\.b\\|c\".*""#);
        assert_eq!(query_path("up{a=\"b\"} + 1&x=y"), "/api/v1/query?query=up%7Ba%3D%22b%22%7D%20%2B%201%26x%3Dy");
    }
}
