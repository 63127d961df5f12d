//! Builds the static program, which runs on any Linux of the architecture, with any C library or none.

use std::path::PathBuf;

use crate::project::{self, Project};
use crate::tools::{self, Tool};

const TARGET: &str = "x86_64-unknown-linux-musl";
/// Packs the relocations from 313 KB into 4 KB. The program reads all of them when it starts, so they count as memory of each snapshot.
const PACKED: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";
/// Adds the list of dependencies to the program, for scanners of known vulnerabilities.
const AUDITABLE: Tool = Tool { name: "cargo-auditable", version: "0.7.7" };

/// The first Rust whose musl (1.2.5) applies packed relocations. A program of an older Rust would not start.
const RUST_MIN: u32 = 93;

pub(crate) fn build(project: &Project) -> Result<PathBuf, String> {
    let version = project::output(&mut project.command("rustc", &["--version"]))?;
    if version.split('.').nth(1).and_then(|minor| minor.parse().ok()).is_none_or(|minor: u32| minor < RUST_MIN) {
        return Err(format!("the static program needs Rust 1.{RUST_MIN}, not {}; run: rustup update stable", version.trim()));
    }
    project::run(&mut project.command("rustup", &["--quiet", "target", "add", TARGET]))?;
    // Compiles the C code of dependencies (TLS, compression).
    tools::installed(project, "musl-gcc", "musl-tools")?;
    let mut command = project.command(AUDITABLE.find_or_install(project)?, &["auditable", "build", "--quiet", "--release", "--locked"]);
    command.args(["--target", TARGET, "--package", "ttmon", "--no-default-features", "--features", "tls"]);
    // The allocator's C code contains the build time, unless this variable is set.
    command.env("RUSTFLAGS", format!("{} {PACKED}", project.remap())).env("SOURCE_DATE_EPOCH", "0");
    project::run(&mut command)?;
    Ok(project.target()?.join(TARGET).join("release/ttmon"))
}
