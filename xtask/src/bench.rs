//! `cargo xtask bench NAME [ARGUMENT]...`: builds what a bench needs, and runs it. The benches are in the folders `benches` of the crates.

use std::path::PathBuf;

use crate::libs::{self, Profile};
use crate::package;
use crate::project::{self, Project};
use crate::stop::Stop;
use crate::ttnn;
use crate::web::Browser;

pub(crate) const ARGUMENTS: &str = "NAME [--quick | --seconds N | --runs N | --hour]";

const TTNN: &str = "0.81.1";

/// Builds a program or folder that a bench uses. Returns the variable in which the bench expects its path.
type Need = fn(&Project) -> Result<(&'static str, PathBuf), String>;

type Bench = (&'static str, &'static str, &'static [Need], &'static str);

/// Name, package, needs, and cargo's profile for the bench itself. A bench that measures code of its own process is built as a release. All
/// others start released programs, and an optimised build of themselves would link the program once more, which takes minutes.
const BENCHES: &[Bench] = &[
    ("event", "ttmon-ledger", &[], "bench"),
    ("list", "ttmon-ledger-reader", &[], "bench"),
    ("off", "ttmon-client", &[], "bench"),
    ("deep", "ttmon-deep", &[], "bench"),
    ("intake", "ttmon-allocation-server", &[dynamic], "bench"),
    ("hook", "ttmon-hook", &[libraries, python], "dev"),
    ("snapshot", "ttmon", &[program, dynamic], "dev"),
    ("top", "ttmon", &[program], "dev"),
    ("host", "ttmon", &[program], "dev"),
    ("page", "ttmon", &[program, fonts], "dev"),
    ("mem", "ttmon", &[program], "dev"),
    ("run", "ttmon", &[libraries], "dev"),
];

/// Runs all benches shortly.
pub(crate) fn all(project: &Project) -> Result<(), String> {
    BENCHES.iter().try_for_each(|bench| start(project, bench, &["--quick".to_owned()]))
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let bench = arguments.first().and_then(|wanted| BENCHES.iter().find(|(name, ..)| name == wanted));
    let names = || BENCHES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    let bench = bench.ok_or_else(|| Stop::Usage(format!("bench wants one of: {}", names())))?;
    Ok(start(project, bench, &arguments[1..])?)
}

fn start(project: &Project, (name, package, needs, profile): &Bench, arguments: &[String]) -> Result<(), String> {
    let variables = needs.iter().map(|need| need(project)).collect::<Result<Vec<_>, _>>()?;
    let mut command = project.cargo(&["bench", "--quiet", "--profile", profile, "--package", package, "--bench", name]);
    if *profile == "bench" {
        command.env("RUSTFLAGS", project.remap());
    }
    project::run(command.arg("--").args(arguments).envs(variables))
}

/// The released static program.
fn program(project: &Project) -> Result<(&'static str, PathBuf), String> {
    Ok(("TTMON_BENCH_PROGRAM", package::program::build(project)?))
}

fn dynamic(project: &Project) -> Result<(&'static str, PathBuf), String> {
    project::run(&mut project.cargo(&["build", "--quiet", "--release", "--package", "ttmon"]))?;
    Ok(("TTMON_BENCH_DYNAMIC", project.target()?.join("release/ttmon")))
}

/// The folder of the released libraries, with the dynamic program.
fn libraries(project: &Project) -> Result<(&'static str, PathBuf), String> {
    dynamic(project)?;
    Ok(("TTMON_BENCH_LIBRARIES", libs::build(project, Profile::Release)?))
}

fn python(project: &Project) -> Result<(&'static str, PathBuf), String> {
    Ok(("TTMON_TTNN_PYTHON", format!("{TTNN}={}", ttnn::python(project, TTNN)?.display()).into()))
}

/// Without a browser, the rest of the bench is measured.
fn fonts(project: &Project) -> Result<(&'static str, PathBuf), String> {
    let browser = Browser::find_or_install(project).inspect_err(|why| eprintln!("xtask: NO BROWSER WILL OPEN THE PAGE: {why}"));
    Ok(("PAGE_FONTS", browser.map(|browser| browser.fonts).unwrap_or_default()))
}
