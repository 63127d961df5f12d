//! Fields of devices and processes are shown by loops over the field table. Other code that accesses members directly is counted.

use super::code::{is_word, words};
use super::length::test_blocks;
use super::{File, Finding};

const TABLES: &[&str] = &["crates/model/src/fields/device.rs", "crates/model/src/fields/process.rs"];
/// Crates that show, send or store snapshots. `monitor` is not included, because its C ABI names each member.
const FACES: &[&str] = &["ask", "doctor", "intake", "print", "serve", "top", "ttmon", "wire"];
/// Members that identify a device or a process. Code uses them everywhere for joins, so they are not counted.
const IDENTITIES: &[&str] = &["id", "key"];
/// Names of variables for devices and processes. Other names are not detected.
const RECEIVERS: &[&str] = &["device", "process", "d", "p"];
/// Number of direct accesses. Lower it if the count falls. If it must rise, explain why in the commit.
const ACCESSES: usize = 228;

pub(super) fn accesses(files: &[File]) -> Vec<Finding> {
    other_than(files, ACCESSES)
}

fn other_than(files: &[File], held: usize) -> Vec<Finding> {
    let tables: Vec<&File> = files.iter().filter(|file| TABLES.contains(&file.path.as_str())).collect();
    let members: Vec<&str> = tables.iter().flat_map(|file| members(&file.code)).collect();
    let count: usize = files.iter().filter(|file| is_face(file)).map(|file| count(file, &members)).sum();
    let advice = if count > held { "loop over the field table, or compute it in the model" } else { "lower the number" };
    let message = format!("faces name members of devices and processes {count} times, {held} in xtask/src/tidy/fields.rs: {advice}");
    tables.first().filter(|_| count != held).map(|table| table.finding(1, message)).into_iter().collect()
}

/// Matches `let temperature: Reading<Celsius> = …` and `memory: Memory = …`.
fn members(code: &str) -> Vec<&str> {
    let name = |line: &'_ str| {
        let (name, rest) = line.split_once(':')?;
        let name = name.trim().trim_start_matches("let ");
        (rest.contains(" = ") && name.chars().all(is_word)).then_some(name.len())?;
        Some((line.find(name)?, name.len()))
    };
    code.lines().filter_map(|line| name(line).map(|(at, length)| &line[at..at + length])).collect()
}

fn is_face(file: &File) -> bool {
    let is_test = file.is_test() || file.path.ends_with("fixture.rs");
    let mut parts = file.path.split('/');
    let is_face = parts.next() == Some("crates") && parts.next().is_some_and(|name| FACES.contains(&name));
    is_face && parts.next() == Some("src") && !is_test
}

fn count(file: &File, members: &[&str]) -> usize {
    let tests = test_blocks(&file.code);
    let is_access = |(at, word): &(usize, &str)| {
        let before = file.code[..*at].strip_suffix('.').unwrap_or_default();
        let receiver = before.rsplit(|character| !is_word(character)).next().unwrap_or_default();
        let is_call = file.code[at + word.len()..].starts_with('(');
        let is_tested = tests.iter().any(|(start, end)| (*start..*end).contains(at));
        RECEIVERS.contains(&receiver) && members.contains(word) && !IDENTITIES.contains(word) && !is_call && !is_tested
    };
    words(&file.code).filter(is_access).count()
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    const TABLE: &str = "Device DEVICE {\n memory: Memory = Memory::none();\n}\nlet temperature: Reading<Celsius> = or(A), \"a: b = c\";\nlet name: A = or(B);\nlet id: A = is(B);\n";

    fn found(path: &str, text: &str, held: usize) -> Vec<String> {
        said(&other_than(&[File::new(TABLES[0], TABLE), File::new(path, text)], held))
    }

    #[test]
    fn members_are_those_of_the_table() {
        assert_eq!(members(&File::new("a.rs", TABLE).code), ["memory", "temperature", "name", "id"]);
    }

    #[test]
    fn accesses_are_counted() {
        let text = "fn a() { device.temperature; device.id; process.name(); other.name; d.memory.name; device.state }\n#[cfg(test)]\nmod tests { fn b() { device.name } }";
        let message = |count: usize, held: usize, advice: &str| {
            format!(
                "{}:1: faces name members of devices and processes {count} times, {held} in xtask/src/tidy/fields.rs: {advice}",
                TABLES[0]
            )
        };
        assert_eq!(found("crates/top/src/a.rs", text, 2), [""; 0]);
        assert_eq!(found("crates/top/src/a.rs", text, 1), [message(2, 1, "loop over the field table, or compute it in the model")]);
        assert_eq!(found("crates/top/src/a.rs", text, 3), [message(2, 3, "lower the number")]);
        for elsewhere in ["crates/model/src/a.rs", "crates/monitor/src/a.rs", "crates/top/src/tests/a.rs", "crates/top/tests/a.rs"] {
            assert_eq!(found(elsewhere, text, 0), [""; 0], "{elsewhere}");
        }
    }
}
