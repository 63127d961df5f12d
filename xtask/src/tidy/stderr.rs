//! ttmon speaks to stderr in one place.

use super::code::words;
use super::{File, Finding};

const PROGRAM: &str = "crates/ttmon/src/";
/// Its `complain` does not mind a stderr that is closed or full.
const HOME: &str = "crates/ttmon/src/failure.rs";
const MACROS: &[&str] = &["eprintln", "eprint"];

/// The macros panic where stderr cannot be written to, and a monitor must outlive its terminal.
pub(super) fn panicking_macros(file: &File) -> Vec<Finding> {
    if !file.path.starts_with(PROGRAM) || file.path == HOME {
        return Vec::new();
    }
    let calls = words(&file.code).filter(|(at, word)| MACROS.contains(word) && file.code[at + word.len()..].starts_with('!'));
    calls.map(|(at, word)| file.finding(file.line_of(at), format!("{word}! panics without a stderr: use failure::complain"))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    const TEXT: &str = "// eprintln!()\nfn a() { eprintln!(\"eprint!\"); }\nfn eprint() { eprint!(\"b\") }\n";

    #[test]
    fn what_panics_without_a_stderr_is_found() {
        let found = said(&panicking_macros(&File::new("crates/ttmon/src/watch/frame.rs", TEXT)));
        let says = |line: usize, word: &str| {
            format!("crates/ttmon/src/watch/frame.rs:{line}: {word}! panics without a stderr: use failure::complain")
        };
        assert_eq!(found, [says(2, "eprintln"), says(3, "eprint")]);
    }

    #[test]
    fn its_home_and_other_programs_may() {
        for path in [HOME, "crates/ttmon/tests/json.rs", "xtask/src/main.rs"] {
            assert_eq!(panicking_macros(&File::new(path, TEXT)), [], "{path}");
        }
    }
}
