//! Queries the terminal for its background colour (OSC 11), and finds the reply among the keys.
//!
//! The keyboard delivers the reply `ESC ] 11 ; rgb:ffff/ffff/ffff ESC \` as the keys Alt-], 1, 1 and so on. Not all terminals reply, and
//! the reply may arrive late.

use std::mem;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::theme::Background;

pub(crate) const QUERY: &str = "\x1b]11;?\x1b\\";
/// A reply after this time is ignored: the user is already reading the screen.
pub(crate) const REPLY_TIME_MAX: Duration = Duration::from_millis(50);
/// The beginning of a reply, after ESC.
const START: &str = "]11;";
/// The longest reply is `]11;rgba:ffff/ffff/ffff/ffff`.
const REPLY_CHARS_MAX: usize = 32;

#[derive(Debug, PartialEq)]
pub(crate) enum KeyOutcome {
    Keys(Vec<KeyEvent>),
    Reply(Option<Background>),
}

#[derive(Debug, Default)]
pub(crate) struct TerminalReplies {
    text: String,
    held: Vec<KeyEvent>,
}

impl TerminalReplies {
    pub(crate) fn take_key(&mut self, key: KeyEvent) -> KeyOutcome {
        let KeyCode::Char(character) = key.code else { return self.release(key) };
        let has = |modifier| key.modifiers.contains(modifier);
        // The string terminator is ESC \ or BEL.
        let is_end = (has(KeyModifiers::ALT) && character == '\\') || (has(KeyModifiers::CONTROL) && character == 'g');
        if is_end && self.text.starts_with(START) {
            self.held.clear();
            return KeyOutcome::Reply(background(&mem::take(&mut self.text)[START.len()..]));
        }
        let is_start = has(KeyModifiers::ALT) && character == ']';
        let is_next = match self.text.len() {
            0 => is_start,
            length if length < START.len() => START[length..].starts_with(character),
            length => length < REPLY_CHARS_MAX && (character.is_ascii_alphanumeric() || matches!(character, ':' | '/')),
        };
        if !is_next && !is_start {
            return self.release(key);
        }
        let before = if is_next { Vec::new() } else { mem::take(&mut self.held) };
        if is_start {
            self.text.clear();
        }
        self.text.push(character);
        self.held.push(key);
        // Perhaps this is the start of a reply. The next key decides.
        KeyOutcome::Keys(before)
    }

    fn release(&mut self, key: KeyEvent) -> KeyOutcome {
        self.text.clear();
        let mut keys = mem::take(&mut self.held);
        keys.push(key);
        KeyOutcome::Keys(keys)
    }
}

/// Parses `rgb:ffff/ffff/ffff` or `rgba:ff/ff/ff/ff`: 1 to 4 hexadecimal digits each.
fn background(text: &str) -> Option<Background> {
    let (name, values) = text.split_once(':')?;
    let share = |digits: &str| {
        // A sign is not a digit.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let most = 16u32.checked_pow(u32::try_from(digits.len()).ok().filter(|count| (1..=4).contains(count))?)? - 1;
        Some(f64::from(u32::from_str_radix(digits, 16).ok()?) / f64::from(most))
    };
    let shares: Vec<f64> = values.split('/').map(share).collect::<Option<_>>()?;
    let ((3, "rgb") | (4, "rgba")) = (shares.len(), name) else { return None };
    // Weights of ITU-R BT.709.
    let brightness = 0.2126 * shares[0] + 0.7152 * shares[1] + 0.0722 * shares[2];
    Some(if brightness > 0.5 { Background::Light } else { Background::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys that crossterm reports for a reply.
    fn keys(reply: &str) -> Vec<KeyEvent> {
        let mut keys = Vec::new();
        let mut modifiers = KeyModifiers::NONE;
        for character in reply.chars() {
            match character {
                '\x1b' => modifiers = KeyModifiers::ALT,
                '\x07' => keys.push(KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL)),
                _ => keys.push(KeyEvent::new(KeyCode::Char(character), mem::replace(&mut modifiers, KeyModifiers::NONE))),
            }
        }
        keys
    }

    /// Returns the keys that are not part of a reply, and the last reply.
    fn received(text: &str) -> (String, Option<Option<Background>>) {
        let (mut replies, mut left, mut reply) = (TerminalReplies::default(), String::new(), None);
        for key in keys(text) {
            match replies.take_key(key) {
                KeyOutcome::Keys(keys) => left.extend(keys.iter().filter_map(|key| key.code.as_char())),
                KeyOutcome::Reply(background) => reply = Some(background),
            }
        }
        (left, reply)
    }

    #[test]
    fn a_reply_is_not_a_key() {
        let light = Some(Some(Background::Light));
        assert_eq!(received("\x1b]11;rgb:ffff/ffff/dddd\x1b\\"), (String::new(), light));
        assert_eq!(received("2\x1b]11;rgba:ff/ff/ff/ff\x07]q"), ("2]q".to_owned(), light));
        assert_eq!(received("\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\"), (String::new(), Some(Some(Background::Dark))));
        assert_eq!(received("\x1b]11;unknown\x1b\\q"), ("q".to_owned(), Some(None)), "a reply without a colour");
    }

    #[test]
    fn keys_are_not_a_reply() {
        assert_eq!(received("\x1b]q"), ("]q".to_owned(), None));
        assert_eq!(received("]11;q"), ("]11;q".to_owned(), None));
        assert_eq!(received("\x1b]1\x1b]11;rgb:0/0/0\x07"), ("]1".to_owned(), Some(Some(Background::Dark))));
        let long = format!("\x1b]11;{}", "a".repeat(REPLY_CHARS_MAX));
        assert_eq!(received(&long).0.len(), long.len() - 1, "nothing is held forever");
    }

    #[test]
    fn colours_have_one_to_four_digits() {
        for (text, expected) in [
            ("rgb:f/f/f", Some(Background::Light)),
            ("rgb:000/000/fff", Some(Background::Dark)),
            ("rgb:0000/ffff/0000", Some(Background::Light)),
            ("rgb:ff/ff", None),
            ("rgb:fffff/0/0", None),
            ("rgb:+f/0/0", None),
            ("#ffffff", None),
        ] {
            assert_eq!(background(text), expected, "{text}");
        }
    }
}
