//! The workspace: its path, its metadata, and how cargo is called.

use std::collections::BTreeSet;
use std::env;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use serde_json::Value;

/// The features of the released program.
pub(crate) const FEATURES: &str = "--features=ttmon/tls";

/// Most tests wait for processes and for time to pass, so fewer threads would leave processors idle.
const TEST_THREADS_MIN: usize = 6;

pub(crate) struct Project {
    pub(crate) root: PathBuf,
    cargo: PathBuf,
}

pub(crate) struct Metadata {
    pub(crate) members: Vec<Member>,
    pub(crate) target: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Member {
    /// Its name in the map of crates: `print` for the package `ttmon-print`.
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    /// The members that it needs to be built and run, without those that only its tests need.
    pub(crate) needs: BTreeSet<String>,
}

/// Returns the directory for files that are built or downloaded once, for all checkouts of this user.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let home = env::var_os("HOME").ok_or("HOME is not set")?;
    Ok(Path::new(&home).join(".cache/ttmon"))
}

impl Project {
    pub(crate) fn find() -> Result<Self, String> {
        // `cargo run` sets both variables. The compiled-in path is for a binary that is started by hand.
        let own = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = own.parent().ok_or("xtask has no directory above it")?.to_path_buf();
        let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
        Ok(Self { root, cargo })
    }

    /// Returns a cargo command in the workspace that does not read the keyboard. Release builds have the same flags everywhere, because
    /// cargo recompiles everything if flags change.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.cargo, arguments);
        // `cargo xtask` sets variables of this package. Some build scripts depend on them and would run again.
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
        if arguments.contains(&"--release") {
            command.env("RUSTFLAGS", self.remap());
        }
        command
    }

    /// Returns `cargo test` for the whole workspace, with more arguments that may choose test programs. Cargo compiles dependencies again
    /// if other packages or features are chosen, so all stages choose the same.
    pub(crate) fn tests(&self, arguments: &[&str]) -> Command {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).max(TEST_THREADS_MIN);
        let mut command = self.cargo(&[&["test", "--workspace", FEATURES], arguments].concat());
        command.env("RUST_TEST_THREADS", threads.to_string());
        command
    }

    /// Builds the program with its tests, and returns its path. `cargo build` would compile it again, because dependencies of tests change
    /// the features of others.
    pub(crate) fn debug_program(&self) -> Result<PathBuf, String> {
        run(&mut self.tests(&["--quiet", "--no-run", "--test", "all"]))?;
        Ok(self.target()?.join("debug/ttmon"))
    }

    pub(crate) fn command(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        command
    }

    /// Returns compiler flags that replace the folders of this machine by fixed names, so that two machines give the same bytes.
    pub(crate) fn remap(&self) -> String {
        let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| format!("{home}/.cargo")));
        let cargo = home.map(|home| format!(" --remap-path-prefix={home}=/cargo")).unwrap_or_default();
        format!("--remap-path-prefix={}=/ttmon{cargo}", self.root.display())
    }

    pub(crate) fn target(&self) -> Result<PathBuf, String> {
        Ok(self.metadata()?.target)
    }

    pub(crate) fn metadata(&self) -> Result<Metadata, String> {
        let text = output(&mut self.cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
        parse_metadata(&text).ok_or_else(|| "cargo metadata is not of the form 1 that we know".to_owned())
    }
}

/// Runs a command without its output, to find out whether it works here.
pub(crate) fn probe(command: &mut Command) -> Result<(), String> {
    run(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", called(command)))?;
    succeeded(command, status)
}

pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{}: {error}", called(command)))?;
    succeeded(command, output.status)?;
    String::from_utf8(output.stdout).map_err(|error| format!("{}: its output is not UTF-8: {error}", called(command)))
}

pub(crate) fn succeeded(command: &Command, status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", called(command))) }
}

/// Returns the command line, with only the name of the program.
pub(crate) fn called(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text += &argument.to_string_lossy();
    }
    text
}

fn parse_metadata(text: &str) -> Option<Metadata> {
    let document: Value = serde_json::from_str(text).ok()?;
    let packages = document["packages"].as_array()?;
    let names: Vec<&str> = packages.iter().map(|package| package["name"].as_str()).collect::<Option<_>>()?;
    let members = packages.iter().map(|package| parse_member(package, &names)).collect::<Option<_>>()?;
    Some(Metadata { members, target: document["target_directory"].as_str()?.into() })
}

fn parse_member(package: &Value, names: &[&str]) -> Option<Member> {
    let mut needs = BTreeSet::new();
    for dependency in package["dependencies"].as_array()? {
        let name = dependency["name"].as_str()?;
        let only_for_tests = dependency["kind"].as_str() == Some("dev");
        if !only_for_tests && !dependency["path"].is_null() && names.contains(&name) {
            needs.insert(short(name).to_owned());
        }
    }
    Some(Member { name: short(package["name"].as_str()?).to_owned(), manifest: package["manifest_path"].as_str()?.into(), needs })
}

fn short(package: &str) -> &str {
    package.strip_prefix("ttmon-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "target_directory": "/t",
        "packages": [
            { "name": "ttmon-model", "manifest_path": "/w/crates/in-monitor/model/Cargo.toml", "dependencies": [
                { "name": "proptest", "kind": "dev", "path": null } ] },
            { "name": "ttmon-json", "manifest_path": "/w/crates/in-monitor/json/Cargo.toml", "dependencies": [
                { "name": "serde", "kind": null, "path": null },
                { "name": "ttmon-model", "kind": null, "path": "/w/crates/in-monitor/model" },
                { "name": "ttmon", "kind": "build", "path": "/w/crates/in-monitor/ttmon" } ] },
            { "name": "ttmon", "manifest_path": "/w/crates/in-monitor/ttmon/Cargo.toml", "dependencies": [
                { "name": "ttmon-json", "kind": "dev", "path": "/w/crates/in-monitor/json" } ] } ] }"#;

    #[test]
    fn members_need_what_they_are_built_from_and_not_what_their_tests_use() {
        let metadata = parse_metadata(METADATA).unwrap();
        let needs: Vec<String> = metadata
            .members
            .iter()
            .map(|member| format!("{} -> {}", member.name, member.needs.iter().cloned().collect::<Vec<_>>().join(" ")))
            .collect();
        assert_eq!(needs, ["model -> ", "json -> model ttmon", "ttmon -> "]);
        assert_eq!(metadata.target, Path::new("/t"));
    }

    #[test]
    fn metadata_of_another_form_is_refused() {
        assert!(parse_metadata("{}").is_none());
        assert!(parse_metadata("error: no manifest").is_none());
    }

    #[test]
    fn a_command_is_shown_as_typed() {
        let project = Project { root: "/w".into(), cargo: "/opt/rust/bin/cargo".into() };
        assert_eq!(called(&project.cargo(&["fmt", "--all"])), "cargo fmt --all");
    }
}
