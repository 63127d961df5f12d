//! Finds names without meaning, such as `common` or `manager`.

use super::code::{parts, words};
use super::{File, Finding};

const NAMELESS: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "manager", "managers"];

pub(super) fn nameless_paths(file: &File) -> Vec<Finding> {
    if !file.is_rust() && !file.path.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    parts.filter_map(nameless).map(|word| file.finding(1, message(word))).collect()
}

pub(super) fn nameless_items(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = "";
    for (at, word) in words(&file.code) {
        if matches!(before, "mod" | "struct" | "enum" | "union" | "trait" | "type") {
            findings.extend(nameless(word).map(|nameless| file.finding(file.line_of(at), message(nameless))));
        }
        before = word;
    }
    findings
}

/// Returns the meaningless word in `common_parts` or `DeviceManager`.
fn nameless(name: &str) -> Option<&'static str> {
    parts(name).into_iter().find_map(|part| NAMELESS.iter().copied().find(|word| *word == part))
}

fn message(word: &str) -> String {
    format!("{word} says nothing: put each thing beside the noun it serves")
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    #[test]
    fn paths_have_names() {
        let said = said(&nameless_paths(&File::new("crates/source/src/utils.rs", "")));
        assert_eq!(said, ["crates/source/src/utils.rs:1: utils says nothing: put each thing beside the noun it serves"]);
        assert_eq!(nameless_paths(&File::new("crates/tt-common/src/lib.rs", "")).len(), 1);
        assert_eq!(nameless_paths(&File::new("tests/misc/a.rs", "")).len(), 1);
        assert_eq!(nameless_paths(&File::new("crates/source/src/hwmon.rs", "")), []);
        assert_eq!(nameless_paths(&File::new("fixtures/common/attributes.txt", "")), []);
    }

    #[test]
    fn items_have_names() {
        let file = File::new("a.rs", "use b;\nstruct DeviceManager;\nmod helpers;\n// mod utils\nstruct Uncommon;\nlet common = 1;");
        let lines: Vec<usize> = nameless_items(&file).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
