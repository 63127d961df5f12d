//! Compares the simulated tree with that of the real driver: names, modes and formats of every file, for each driver version.
//!
//! `driver-real.tsv` is made from dumps of the real driver on simulated boards. docs/simulation.md lists the differences that regular files
//! cannot avoid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use ttmon_model::units::Version;
use ttmon_sim::{Machine, Spec};

const REAL: &str = include_str!("../driver-real.tsv");
const DRIVERS: [&str; 4] = ["2.5", "2.7", "2.9", "2.10"];
const CLASS: &str = "sys/class/tenstorrent/tenstorrent!0";

struct Real {
    path: &'static str,
    mode: &'static str,
    formats: Vec<&'static str>,
}

/// Returns the files that a driver has for a board of an architecture.
fn real(column: usize, driver: &str) -> Vec<Real> {
    let version = |text: &str| Version::parse(&format!("{text}.0")).unwrap();
    let rows = REAL.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|row| row[column] != "-" && version(row[column]) <= version(driver))
        .map(|row| Real { path: row[0], mode: row[1], formats: row[4].split(" | ").collect() })
        .collect()
}

fn write(spec: &str, tick: u64) -> TempDir {
    let directory = ttmon_testing::directory();
    let machine = Machine::new(&Spec::parse(spec).unwrap(), 42).unwrap();
    let pids: Vec<Option<u32>> = (0..machine.process_count()).map(|_| Some(150)).collect();
    machine.write(directory.path(), tick, &pids).unwrap();
    directory
}

/// Maps a path of the table to the simulated tree.
fn place(root: &Path, path: &str) -> PathBuf {
    let hwmon = fs::read_dir(root.join(CLASS).join("device/hwmon")).into_iter().flatten().flatten().next();
    let hwmon = hwmon.map_or_else(|| "hwmonK".to_owned(), |entry| entry.file_name().into_string().unwrap());
    let path = path.replace("hwmonK", &hwmon);
    if let Some(file) = path.strip_prefix("BRIDGE/") {
        return fs::canonicalize(root.join(CLASS).join("device")).unwrap().parent().unwrap().join(file);
    }
    match path.strip_prefix("CLASS/") {
        Some(file) => root.join(CLASS).join(file),
        None => root.join(path.trim_start_matches('/')),
    }
}

fn token(text: &str) -> String {
    let is_hex = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    match text {
        _ if text.strip_prefix("0x").is_some_and(|digits| is_hex(&digits.to_ascii_uppercase())) => format!("0x{}", text.len() - 2),
        _ if text.len() == 16 && is_hex(text) => "H16".to_owned(),
        _ if text.len() > 40 => "LONG".to_owned(),
        _ if text.len() == 4 && is_hex(text) && !text.bytes().all(|byte| byte.is_ascii_digit()) => "H4".to_owned(),
        _ => {
            let mut out = String::new();
            for letter in text.chars() {
                match letter {
                    '0'..='9' if out.ends_with('N') => {}
                    '0'..='9' => out.push('N'),
                    _ => out.push(letter),
                }
            }
            out
        }
    }
}

/// Returns the format of a file's contents, in the notation of the table.
fn format(content: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in content.split('\n') {
        let mut out = String::new();
        let mut word = String::new();
        for letter in line.chars().chain(['\0']) {
            if letter.is_ascii_alphanumeric() {
                word.push(letter);
            } else {
                out.push_str(&token(&std::mem::take(&mut word)));
                out.extend((letter != '\0').then_some(letter));
            }
        }
        let line = out.trim_end_matches(' ').to_owned();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines.join("\\n")
}

/// Returns the differences between a simulated board and the real driver's files, one per line.
fn differences(spec: &str, column: usize, driver: &str) -> Vec<String> {
    let tree = write(&format!("{spec},driver={driver}"), 0);
    let mut found = Vec::new();
    let rows = real(column, driver);
    for row in &rows {
        let path = place(tree.path(), row.path);
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            found.push(format!("{} is missing", row.path));
            continue;
        };
        if metadata.is_symlink() != (row.mode == "link") {
            found.push(format!("{} is a link, or should be one", row.path));
            continue;
        }
        let mode = format!("{:04o}", metadata.permissions().mode() & 0o7777);
        // The mode of a directory differs for other users, because only root could remove a directory that is not writable.
        let is_spared = row.formats == ["DIR"] && mode == "0755" && !rustix::process::geteuid().is_root();
        if row.mode != "link" && mode != row.mode && !is_spared {
            found.push(format!("{} has mode {mode} instead of {}", row.path, row.mode));
        }
        let content = match row.mode {
            "link" => format!("-> {}", fs::read_link(&path).unwrap().display()),
            _ if metadata.is_dir() => "DIR".to_owned(),
            _ => {
                let text = fs::read_to_string(&path).unwrap();
                text.strip_suffix('\n').unwrap_or(&text).to_owned()
            }
        };
        if !row.formats.contains(&format(&content).as_str()) && row.formats != ["<EIO>"] {
            found.push(format!("{} reads {:?} instead of {:?}", row.path, format(&content), row.formats));
        }
    }
    let known: BTreeSet<PathBuf> = rows.iter().map(|row| place(tree.path(), row.path)).map(|path| canonical(&path)).collect();
    let strangers = files_of_device(tree.path()).into_iter().filter(|path| !known.contains(path));
    found.extend(strangers.map(|path| format!("{} is not the driver's", path.strip_prefix(tree.path()).unwrap_or(&path).display())));
    found
}

/// Resolves the directory of a path, but not its last component.
fn canonical(path: &Path) -> PathBuf {
    path.parent()
        .and_then(|parent| fs::canonicalize(parent).ok())
        .map_or_else(|| path.to_owned(), |parent| parent.join(path.file_name().unwrap()))
}

fn files_of_device(root: &Path) -> Vec<PathBuf> {
    let mut directories = vec![fs::canonicalize(root.join(CLASS).join("device")).unwrap(), root.join("sys/module/tenstorrent")];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() { directories.push(entry.path()) } else { files.push(canonical(&entry.path())) }
        }
    }
    files
}

#[test]
fn the_simulated_tree_is_the_real_drivers() {
    // An unprivileged process cannot create a device node.
    const IMPOSSIBLE: [&str; 1] = ["/dev/tenstorrent/0 is missing"];
    let mut found = BTreeMap::new();
    for (spec, column) in [("n150", 2), ("p150", 3)] {
        for driver in DRIVERS {
            let differences: Vec<String> =
                differences(spec, column, driver).into_iter().filter(|line| !IMPOSSIBLE.contains(&line.as_str())).collect();
            if !differences.is_empty() {
                found.insert(format!("{spec} on {driver}"), differences);
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
