//! The tests of `crates/in-monitor/ttmon/tests/tools`, which run programs of other projects. A stage finds or installs these programs,
//! tells the tests in variables where they are, and calls cargo. A variable that is set stays as it is, to test other versions.

use std::env;
use std::path::PathBuf;

use super::{Gate, Outcome};
use crate::files;
use crate::project::{self, Project};
use crate::stop::{NotPassed, untested};
use crate::tools;
use crate::web::Browser;

/// Some tests of a stage, and what they need. If that cannot be had, the other rows of the stage run without this one.
struct Row {
    stage: &'static str,
    needs: &'static [Need],
    /// Arguments of the test program.
    tests: &'static [&'static str],
}

enum Need {
    /// A program of PATH, and Debian's package of it.
    Program(&'static str, &'static str),
    /// A command that succeeds. Nothing is installed for it.
    Success(&'static [&'static str]),
    /// A variable, and what it has.
    Variable(&'static str, Value),
}

enum Value {
    /// A folder of a Debian package, which is unpacked and not installed.
    Debian(&'static str, &'static str),
    /// A program of a Python package in a version.
    Python(&'static str, &'static str),
    Alertmanager,
    FontsOfBrowser,
    Text(&'static str),
}

use Need::{Program, Success, Variable};

const PROMETHEUS: Need = Variable("TTMON_TEST_PROMETHEUS", Value::Debian("prometheus", "usr/bin"));
const VICTORIA: Need = Variable("TTMON_TEST_VICTORIA", Value::Debian("victoria-metrics", "usr/bin"));
const ALERTMANAGER: Need = Variable("TTMON_TEST_ALERTMANAGER", Value::Alertmanager);
const FONTS: Need = Variable("TTMON_TEST_FONTS", Value::FontsOfBrowser);
const SCHEMATHESIS: Need = Variable("TTMON_TEST_SCHEMATHESIS", Value::Python("schemathesis", "4.32.5"));
const NETCAT: Need = Variable("TTMON_TEST_NETCAT", Value::Debian("netcat-openbsd", "bin"));
const HUNDRED: Need = Variable("TTMON_TEST_HOSTS", Value::Text("100"));
const OPENSSL: Need = Program("openssl", "openssl");
const SYSTEMD: Need = Success(&["systemd-analyze", "--version"]);
const SECCOMP: Need = Success(&["python3", "-c", "import ctypes; ctypes.CDLL('libseccomp.so.2')"]);
/// For tests that mostly wait for scrapes and evaluations of rules, on any number of processors.
const WAITING: &str = "--test-threads=4";

const fn row(stage: &'static str, needs: &'static [Need], tests: &'static [&'static str]) -> Row {
    Row { stage, needs, tests }
}

const ROWS: &[Row] = &[
    row("prometheus", &[PROMETHEUS], &["prometheus::", WAITING]),
    row("prometheus", &[PROMETHEUS, VICTORIA, ALERTMANAGER, OPENSSL], &["fleet::", "tls::store::", "--skip=fleet::page", WAITING]),
    row("alertmanager", &[ALERTMANAGER], &["alertmanager::", WAITING]),
    // Two fleets of this size at the same time would be late for each other.
    row("fleet", &[PROMETHEUS, VICTORIA, ALERTMANAGER, HUNDRED], &["fleet::", "--skip=fleet::page", "--test-threads=1"]),
    row("fleet", &[PROMETHEUS, FONTS, HUNDRED], &["fleet::page::"]),
    row("api", &[SCHEMATHESIS], &["api::"]),
    row("tls", &[OPENSSL, Program("curl", "curl")], &["tls::", "--skip=tls::store::"]),
    row("shells", &[Program("zsh", "zsh")], &["shells::zsh"]),
    row("shells", &[Program("fish", "fish")], &["shells::fish"]),
    row("systemd", &[SYSTEMD], &["systemd::", "--skip=systemd::filter::", "--skip=systemd::socket::"]),
    row("systemd", &[SYSTEMD, SECCOMP], &["systemd::filter::"]),
    row("systemd", &[SYSTEMD, NETCAT], &["systemd::socket::"]),
];

pub(super) fn run(gate: &mut Gate, stage: &str) -> Outcome {
    let mut skipped = Vec::new();
    assert!(ROWS.iter().any(|row| row.stage == stage), "the stage {stage} has rows");
    for row in ROWS.iter().filter(|row| row.stage == stage) {
        match row.run(gate) {
            Err(NotPassed::Skipped(why)) => skipped.push(why),
            ran => ran?,
        }
    }
    if skipped.is_empty() { Ok(()) } else { Err(NotPassed::Skipped(skipped.join("; "))) }
}

impl Row {
    fn run(&self, gate: &mut Gate) -> Outcome {
        let mut variables = Vec::new();
        for need in self.needs {
            let found = need.find(gate.project).map_err(untested(&format!("NOT TESTED: {}", self.tests.join(" "))))?;
            variables.extend(found);
        }
        let mut cargo = gate.project.tests(&["--test", "tools", "--", "--ignored"]);
        gate.tests(cargo.args(self.tests).envs(variables))
    }
}

impl Need {
    /// Installs it if necessary. Returns a variable of the tests. The error explains why it is not available here.
    fn find(&self, project: &Project) -> Result<Option<(&'static str, String)>, String> {
        let (variable, value) = match self {
            Program(program, package) => return tools::installed(project, program, package).map(|()| None),
            Success(command) => return project::probe(&mut project.command(command[0], &command[1..])).map(|()| None),
            Variable(variable, _) if env::var_os(variable).is_some() => return Ok(None),
            Variable(variable, value) => (*variable, value),
        };
        let path = match value {
            Value::Debian(package, folder) => tools::debian(project, package)?.join(folder),
            Value::Python(package, version) => {
                let environment = project.target()?.join("tools").join(package);
                tools::python(project, &environment, &[&format!("{package}=={version}")])?;
                environment.join("bin").join(package)
            }
            Value::Alertmanager => alertmanager(project)?,
            Value::FontsOfBrowser => Browser::find_or_install(project)?.fonts,
            Value::Text(text) => PathBuf::from(text),
        };
        Ok(Some((variable, path.to_string_lossy().into_owned())))
    }
}

/// Adds a program `alertmanager` to Debian's package. The one of the package reads its templates below /usr/share, so they are mounted
/// there, in a private namespace.
fn alertmanager(project: &Project) -> Result<PathBuf, String> {
    let unpacked = tools::debian(project, "prometheus-alertmanager")?;
    let folder = unpacked.join("usr/bin");
    let user = if rustix::process::geteuid().is_root() { "" } else { "--map-root-user" };
    let script = format!(
        "#!/bin/sh\nexec unshare {user} --mount sh -c 'mount --bind \"$0/usr/share\" /usr/share && \
         exec \"$0/usr/bin/prometheus-alertmanager\" \"$@\"' '{}' \"$@\"\n",
        unpacked.display()
    );
    let program = folder.join("alertmanager");
    files::write_with_mode(&program, script, 0o755)?;
    project::probe(project.command(&program, &[]).arg("--version")).map(|()| folder)
}
