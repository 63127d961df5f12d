//! Checks that all tests exist that docs/security.md names.

use super::{File, Finding};

const PAGE: &str = "docs/security.md";

/// Returns tests in the last column of tables for tests that no Rust file has.
pub(super) fn without_a_test(files: &[File]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut is_of_tests = false;
    for (number, line) in (1..).zip(page.text.lines()) {
        let Some(last) = line.strip_suffix('|').and_then(|row| row.rsplit('|').next()) else {
            is_of_tests = false;
            continue;
        };
        is_of_tests |= last.trim_start().starts_with("test");
        // Every second part is between backquotes.
        for name in last.split('`').skip(1).step_by(2).filter(|_| is_of_tests) {
            let name = name.rsplit("::").next().unwrap_or(name);
            let is_path = name.contains('/');
            if !is_path && !exists(files, name) {
                findings.push(page.finding(number, format!("no test is called {name}")));
            }
        }
    }
    findings
}

fn exists(files: &[File], name: &str) -> bool {
    let (function, case) = (format!("fn {name}("), format!("\"{name}\""));
    files.iter().filter(|file| file.is_rust()).any(|file| file.text.contains(&function) || file.text.contains(&case))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let page = "| promise | test of `a/b` |\n| --- | --- |\n| `x` holds | `held`, `tests::lost` |\n\n| a | b |\n| c | `d` |\n";
        let files = [File::new(PAGE, page), File::new("a.rs", "fn held() {}")];
        assert_eq!(super::super::said(&without_a_test(&files)), ["docs/security.md:3: no test is called lost"]);
    }
}
