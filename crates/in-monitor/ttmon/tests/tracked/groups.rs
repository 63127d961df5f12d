//! `ttmon mem --buffers` and `--by`: order, length, groups and their growth.

use serde_json::Value;

use super::Tracked;

pub(super) fn groups_grow_since_a_mark() {
    let mut program = Tracked::start();
    program.does(&["t weights", "a 0 4096 100", "a 0 1024 200"]);
    let groups = |program: &Tracked| program.mem("--by tag")["groups"].as_array().unwrap().clone();
    assert_eq!((&groups(&program)[0]["bytes"], &groups(&program)[0]["growth_bytes"]), (&5120.into(), &Value::Null), "no mark yet");
    let (text, _, _) = program.ttmon("mem --by tag");
    assert!(!text.contains("growth"), "{text}");
    program.does(&["mark", "f 0 200", "t cache", "a 0 2048 300", "a 0 512 400", "f 0 400"]);
    let figures: Vec<(u64, u64, i64)> = groups(&program)
        .iter()
        .map(|group| (group["bytes"].as_u64().unwrap(), group["count"].as_u64().unwrap(), group["growth_bytes"].as_i64().unwrap()))
        .collect();
    assert_eq!(figures, [(4096, 1, -1024), (2048, 1, 2048)]);
    let (text, _, _) = program.ttmon("mem --by tag --since 3600");
    assert!(text.contains("    growth    <3600s  tag") && text.contains("   +2.0KB     2.0KB  "), "{text}");
    let (csv, _, code) = program.ttmon("mem --by tag --top 1 --csv -");
    assert!(csv.starts_with("tag, bytes, buffers, largest, oldest_age_s, growth_bytes, since_bytes\n") && code == 0, "{csv}");
    assert!(csv.lines().nth(1).unwrap().ends_with(", -1024, ") && csv.lines().count() == 2, "{csv}");
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("tables");
    for (by, name) in [("line", "memory_by_line.csv"), ("op", "memory_by_op.csv")] {
        let ran = program.ttmon(&format!("mem --by {by} --csv {}", place.display()));
        assert_eq!((ran.0.as_str(), ran.2), ("", 0), "{}", ran.1);
        assert_eq!(std::fs::read_to_string(place.join(name)).unwrap().lines().count(), 2, "{name}");
    }
    // More events than the ring keeps.
    program.does(&["many 40000"]);
    let (text, _, _) = program.ttmon("mem --by tag");
    assert!(text.contains("growth is not known: events since the mark were overwritten"), "{text}");
    for arguments in ["mem --by tag --csv x -w", "mem --by tag --diff x", "mem --since 5", "mem --by tag --since -1"] {
        assert_eq!(program.ttmon(arguments).2, 2, "{arguments}");
    }
}

pub(super) fn buffers_are_sorted_and_cut() {
    let mut program = Tracked::start();
    program.does(&["t b", "a 0 10 300", "t a", "a 0 30 100", "t c", "a 0 20 200"]);
    let order = |arguments: &str| -> Vec<u64> {
        program.mem(&format!("--buffers {arguments}"))["buffers"].as_array().unwrap().iter().map(|b| b["size"].as_u64().unwrap()).collect()
    };
    assert_eq!(order(""), [30, 20, 10]);
    assert_eq!(order("--sort age"), [10, 30, 20]);
    assert_eq!(order("--sort address"), [30, 20, 10]);
    assert_eq!(order("--sort tag"), [30, 10, 20]);
    assert_eq!(order("--top 1"), [30]);
    let (text, _, _) = program.ttmon("mem --buffers --top 2");
    let pid = program.process.id().to_string();
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with(&pid)).count(), 2, "{text}");
    assert!(text.contains("and 1 more, left out by --top"), "{text}");
    // A shortened list cannot be used for a comparison.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.json");
    std::fs::write(&file, program.ttmon("mem --json --buffers --top 2").0).unwrap();
    let (_, errors, code) = program.ttmon(&format!("mem --diff {}", file.display()));
    assert!(code == 1 && errors.contains("--top left 1 buffers out"), "{errors}");
}
