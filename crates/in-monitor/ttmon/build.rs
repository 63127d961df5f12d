//! Builds hook and stub and embeds them in the program, so that `ttmon run` works after `cargo install`.
//!
//! Only optimised builds with the feature `embedded` contain them. A debug build has the libraries beside the program, a package has
//! them as files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOOK: &str = "libttmon_hook.so";
const STUB: &str = "libttmon_stub.so";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(variable("OUT_DIR"));
    let wanted = env::var_os("CARGO_FEATURE_EMBEDDED").is_some() && variable("PROFILE") == "release";
    let libraries = if wanted { build(&out) } else { Vec::new() };
    let rows: String = libraries.iter().map(|(name, path)| format!("(\"{name}\", include_bytes!({path:?})),\n")).collect();
    let text = format!("pub(super) static LIBRARIES: &[(&str, &[u8])] = &[\n{rows}];\n");
    fs::write(out.join("embedded.rs"), text).expect("OUT_DIR is writable");
}

fn build(out: &Path) -> Vec<(&'static str, PathBuf)> {
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../in-program");
    for source in ["hook", "client", "ledger", "pystack", "stub"] {
        // Do not watch the whole folder, because tests write headers into it.
        for part in ["src", "Cargo.toml", "build.rs"].map(|part| crates.join(source).join(part)).iter().filter(|part| part.exists()) {
            println!("cargo::rerun-if-changed={}", part.display());
        }
    }
    let target = out.join("libraries");
    let host = variable("HOST");
    let hook = ["rustc", "--release", "--package", "ttmon-hook", "--crate-type", "cdylib"];
    cargo(&hook, &crates.join("hook/Cargo.toml"), &target, &host);
    cargo(&["build", "--release"], &crates.join("stub/Cargo.toml"), &target, &host);
    [HOOK, STUB].map(|name| (name, target.join(&host).join("release").join(name))).to_vec()
}

/// Runs cargo for the host's own C library, even if ttmon is built for another one, because programs of the host load the libraries.
fn cargo(arguments: &[&str], manifest: &Path, target: &Path, host: &str) {
    let mut command = Command::new(variable("CARGO"));
    command.args(arguments).arg("--locked").arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target).args(["--target", host]);
    // The first three variables are for the program's target. The last one makes clippy check instead of build.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "the libraries of `ttmon run` were not built: {status}; --no-default-features leaves them out");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
