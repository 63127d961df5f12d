//! `ttmon alerts`: rules, tests, silences, and which configuration files are trusted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::program::run::{CommandResult, ttmon};

fn config(directory: &Path, text: &str, mode: u32) -> PathBuf {
    let path = directory.join("config.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn alerts(arguments: &str, file: &Path) -> CommandResult {
    ttmon(&format!("alerts {arguments} --config {}", file.display()))
}

#[test]
fn rules_are_listed_with_their_promql() {
    let directory = tempfile::tempdir().unwrap();
    let file = config(directory.path(), "[[alerts.rule]]\nname = \"mine\"\nwhen = \"power > 100\"\nfor = \"2m\"\n", 0o600);
    let listed = alerts("list", &file);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stdout.starts_with("RULE ") && listed.stdout.contains("power > 100 for 2m"), "{}", listed.stdout);
    assert!(listed.stdout.contains("dram-full") && listed.stdout.contains("No service was asked"), "{}", listed.stdout);
    let document: serde_json::Value = serde_json::from_str(&alerts("list --json", &file).stdout).unwrap();
    let mine = document["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == "mine").unwrap();
    assert_eq!((&mine["promql"], &mine["alert_name"]), (&"ttmon_device_power_watts > 100".into(), &"TtmonMine".into()));
}

/// A file that another user can write must not start programs.
#[test]
fn alerts_of_a_file_that_others_can_write_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let received = directory.path().join("received");
    let text = format!("[[alerts.command]]\nargv = [\"/usr/bin/tee\", \"{}\"]\n", received.display());
    for mode in [0o666, 0o620, 0o602] {
        let file = config(directory.path(), &text, mode);
        for ran in [alerts("test hot", &file), ttmon(&format!("--sim n150 serve --listen off --config {}", file.display()))] {
            assert_eq!(ran.code, 1, "{mode:o}: {}", ran.stdout);
            assert!(ran.stderr.contains("other users may write it; it has alerts"), "{mode:o}: {}", ran.stderr);
        }
    }
    assert!(!received.exists());
    let ran = alerts("test hot", &config(directory.path(), &text, 0o644));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "command-1: sent\n"), "{}", ran.stderr);
    let message: serde_json::Value = serde_json::from_str(&fs::read_to_string(&received).unwrap()).unwrap();
    assert_eq!((&message["test"], &message["alerts"][0]["rule"]), (&true.into(), &"hot".into()));
    assert_eq!(config(directory.path(), "theme = \"dark\"\n", 0o666), directory.path().join("config.toml"));
    assert_eq!(alerts("list", &directory.path().join("config.toml")).code, 0, "without alerts it is only settings");
}

#[test]
fn invalid_alerts_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let of = |text: &str, arguments: &str| alerts(arguments, &config(directory.path(), text, 0o600));
    let wrong = of("[[alerts.rule]]\nname = \"x\"\nwhen = \"temprature > 1\"\n", "list");
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.stderr.contains("config.toml: alerts.rule x: when: no field temprature (ttmon --help-fields lists them)"),
        "{}",
        wrong.stderr
    );
    let none = of("[alerts]\n", "test hot");
    assert!(none.code == 1 && none.stderr.contains("no receiver"), "{}", none.stderr);
    let unknown = of("[alerts]\n", "test nonsense");
    assert!(unknown.code == 2 && unknown.stderr.contains("no rule nonsense (available: hot, warm, "), "{}", unknown.stderr);
    assert_eq!(alerts("list", &directory.path().join("none.toml")).code, 1);
    let dead = of("[[alerts.webhook]]\nurl = \"http://127.0.0.1:9/\"\n", "test hot");
    assert!(dead.code == 1 && dead.stdout.starts_with("webhook-1: failed: cannot be reached"), "{}{}", dead.stdout, dead.stderr);
}

#[test]
fn silences_are_written_and_ended() {
    let state = tempfile::tempdir().unwrap();
    let silence = |arguments: &str| ttmon(&format!("alerts silence {arguments} --state-dir {}", state.path().display()));
    let ran = silence("hot -d 3,5 --for 2h --comment fan");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("hot on device 3: silenced until 2"), "{}", ran.stdout);
    let names = || {
        let mut names: Vec<String> =
            fs::read_dir(state.path().join("silences")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["hot.3.json", "hot.5.json"]);
    assert_eq!(silence("all").code, 0);
    assert_eq!(silence("hot -d 3 --end").stdout, "hot on device 3: no longer silenced\n");
    assert_eq!(names(), ["ALL.all.json", "hot.5.json"]);
    assert_eq!(silence("hot -d 3 --end").code, 1, "there is none");
    for wrong in ["../x", "hot --for 5", "hot --for 99d", "hot -d x"] {
        assert_eq!(silence(wrong).code, 2, "{wrong}");
    }
}
