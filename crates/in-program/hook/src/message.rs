//! Extracts the readable sentence from the text of TT-Metal's exceptions, without source location and backtrace.

/// Precedes the sentence in `TT_FATAL @ file:line: condition\ninfo:\nsentence\nbacktrace:\n...`.
const BEFORE: &[u8] = b"info:\n";

/// Returns the sentence, up to the first invalid byte or the limit.
pub(crate) fn words_of<'a>(message: &[u8], into: &'a mut [u8]) -> &'a str {
    let start = message.windows(BEFORE.len()).position(|window| window == BEFORE).map_or(0, |at| at + BEFORE.len());
    let rest = message.get(start..).unwrap_or_default();
    let sentence = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut length = 0;
    for (to, from) in into.iter_mut().zip(sentence) {
        *to = *from;
        length += 1;
    }
    let bytes = into.get(..length).unwrap_or_default();
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: &str) {
        assert_eq!(words_of(message.as_bytes(), &mut [0; 24]), expected);
    }

    #[test]
    fn the_sentence_stands_between_place_and_stack() {
        check("TT_FATAL @ a.cpp:7: false\ninfo:\nOut of Memory: no\nbacktrace:\n --- x", "Out of Memory: no");
        check("Out of Memory", "Out of Memory");
        check("info:\n", "");
        check("", "");
        check(&"x".repeat(99), &"x".repeat(24));
        check(&"\u{1F9E0}".repeat(9), &"\u{1F9E0}".repeat(6));
    }
}
