//! Extracts one string from a JSON document of another program, without parsing the rest.

/// Returns the value of the first key with this name, if it is a string. Quotes in strings are escaped, so no key is found in one.
pub(super) fn of_key(json: &str, key: &str) -> Option<String> {
    let quoted = format!("\"{key}\"");
    let mut rest = json;
    while let Some((_, after)) = rest.split_once(&quoted) {
        if let Some(value) = after.trim_start().strip_prefix(':') {
            return first(value.trim_start());
        }
        rest = after;
    }
    None
}

/// Returns the string at the start of a piece of JSON, or the first item of a list of strings.
fn first(value: &str) -> Option<String> {
    let text = value.strip_prefix('[').map_or(value, str::trim_start).strip_prefix('"')?;
    // Names contain no character that JSON escapes. A document with an escape is not in the expected format.
    let (text, rest) = text.split_at(text.find(['"', '\\'])?);
    rest.starts_with('"').then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_found_by_key() {
        let json = r#"{"State":{"Pid":7},"Note":"\"Name\":\"/no\"","Name":"/vllm","Names": [ "a", "b"]}"#;
        assert_eq!(of_key(json, "Name").as_deref(), Some("/vllm"));
        assert_eq!(of_key(json, "Names").as_deref(), Some("a"));
        assert_eq!(of_key(r#"{"a":"userName","userName":"ana"}"#, "userName").as_deref(), Some("ana"));
        for bad in ["", "{", r#"{"Name":7}"#, r#"{"Name":"x"#, r#"{"Name":"a\u0062"}"#, r#"{"Name":[]}"#] {
            assert_eq!(of_key(bad, "Name"), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]{}\":a-c, \\\\]{0,60}") {
            let _ = of_key(&text, "a");
        }
    }
}
