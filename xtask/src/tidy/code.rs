//! Rust text without comments and literals, so that a word in a string is not treated as code.
//!
//! Blanked bytes become spaces and line ends are kept, so positions are the same in the text and in the code.

/// Returns the text with comments, strings and characters blanked.
pub(super) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        match opaque(&bytes[at..], before) {
            None => at += 1,
            Some(length) => {
                for byte in code[at..at + length].iter_mut().filter(|byte| **byte != b'\n') {
                    *byte = b' ';
                }
                at += length;
            }
        }
    }
    String::from_utf8(code).expect("whole characters are blanked: every literal and comment ends at one")
}

/// Returns the calls of these macros, with their positions.
pub(super) fn macro_calls<'a>(code: &'a str, names: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> {
    words(code).filter(|(at, word)| names.contains(word) && code[at + word.len()..].starts_with('!'))
}

/// Returns the identifiers, keywords and numbers of some code, with their positions.
pub(super) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(is_word)?;
        let length = code[start..].find(|character| !is_word(character)).unwrap_or(code.len() - start);
        rest = start + length;
        Some((start, &code[start..rest]))
    })
}

pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Splits `LedgerEvent` and `ledger_event` into ledger, event.
pub(super) fn parts(name: &str) -> Vec<String> {
    let is_constant = !name.contains(char::is_lowercase);
    let mut split = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !is_constant {
            split.push('_');
        }
        split.extend(character.to_lowercase());
    }
    split.split(['_', '-']).map(str::to_owned).collect()
}

/// Returns the start and end of the first block in `code`, unless a `;` is before it.
pub(super) fn block(code: &str) -> Option<(usize, usize)> {
    let mut nested = 0_usize;
    let mut open = None;
    for (at, byte) in code.bytes().enumerate() {
        match (byte, open) {
            (b'{', None) if nested == 0 => open = Some((at, 1_usize)),
            (b';', None) if nested == 0 => return None,
            (b'(' | b'[', None) => nested += 1,
            (b')' | b']', None) => nested = nested.saturating_sub(1),
            (b'{', Some((start, depth))) => open = Some((start, depth + 1)),
            (b'}', Some((start, 1))) => return Some((start, at)),
            (b'}', Some((start, depth))) => open = Some((start, depth - 1)),
            _ => {}
        }
    }
    None
}

/// Returns the length of the comment or literal at the beginning of `rest`, if there is one.
fn opaque(rest: &[u8], before: Option<u8>) -> Option<usize> {
    match rest {
        [b'/', b'/', ..] => Some(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(block_comment(rest)),
        [b'"', ..] => Some(quoted(rest, b'"')),
        [b'\'', b'\\', ..] => Some(quoted(rest, b'\'')),
        [b'\'', ..] => character(rest),
        [b'r' | b'b' | b'c', ..] if !before.is_some_and(|byte| is_word(char::from(byte))) => raw_string(rest),
        _ => None,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Distinguishes a character `'x'` from a lifetime `'x`.
fn character(rest: &[u8]) -> Option<usize> {
    let width = match *rest.get(1)? {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

/// Matches `r"…"`, `br#"…"#` and similar literals, but not `r#name`.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = [&b"r"[..], b"br", b"cr"].iter().find(|prefix| rest.starts_with(prefix))?.len();
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let start = prefix + hashes;
    if rest.get(start) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let found = rest[start + 1..].windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |at| start + 1 + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str) {
        assert_eq!(blank(text).split_whitespace().collect::<Vec<_>>().join(" "), code, "{text}");
        assert_eq!(blank(text).len(), text.len());
        assert_eq!(blank(text).matches('\n').count(), text.matches('\n').count());
    }

    #[test]
    fn comments_go() {
        check("a // b \"c\nd", "a d");
        check("a /* b /* c */ d\n */ e", "a e");
        check("a /* never closed", "a");
        check("a / b", "a / b");
    }

    #[test]
    fn strings_go() {
        check(r#"a("b \" c // {", d)"#, "a( , d)");
        check("a(r\"\\\", b)", "a( , b)");
        check("a(r#\"b \" c\"#, br##\"d \"# e\"##, b\"f\")", "a( , , b )");
        check("a(\"ä\u{1f600}\", b)", "a( , b)");
        check("r#fn(bar\"b\")", "r#fn(bar )");
    }

    #[test]
    fn characters_go_and_lifetimes_stay() {
        check("f::<'a>('{', '\\'', b'\\\\', 'ä', '\u{1f600}', '\\u{7d}')", "f::<'a>( , , b , , , )");
        check("&'static str, 'x: loop {}", "&'static str, 'x: loop {}");
    }

    #[test]
    fn words_come_with_their_places() {
        assert_eq!(words("fn a_1(b)").collect::<Vec<_>>(), [(0, "fn"), (3, "a_1"), (7, "b")]);
        assert_eq!(words("").count(), 0);
    }

    #[test]
    fn a_block_is_found_behind_its_signature() {
        assert_eq!(block("(a: [u8; 2]) -> b { c { } }"), Some((18, 26)));
        assert_eq!(block("(a); fn b() {}"), None);
        assert_eq!(block("{ never closed"), None);
    }
}
