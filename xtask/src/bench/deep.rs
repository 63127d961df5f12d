//! `cargo xtask bench deep`: measures a sample of a chip. The chip is simulated in memory, so the response time of the hardware is not
//! included.

use super::limits::Bound::AtMost;
use super::limits::{Limit, Part};
use super::snapshot::load;
use super::verdicts::Verdicts;
use crate::project::{self, Project};

const LIMITS: &[Limit] = &[
    Limit(&["wormhole:", "blackhole:"], Part::After("cpu_us"), AtMost(200.0), "us"),
    Limit(&["wormhole:", "blackhole:"], Part::After("words"), AtMost(60.0), "words"),
];

pub(super) fn run(project: &Project) -> Result<(), String> {
    project::run(&mut project.cargo(&["build", "--release", "--package", "ttmon-deep", "--example", "deep_bench"]))?;
    let program = project.metadata()?.target.join("release/examples/deep_bench");
    println!("# A sample of a chip, beside its limits\n\nload before: {}\n", load());
    let mut verdicts = Verdicts::default();
    verdicts.judge(&mut project.command(program, &[]), LIMITS)?;
    println!("\nload after:  {}\n\n{verdicts}", load());
    Ok(())
}
