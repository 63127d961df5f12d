//! Measures the cost of preloading for a program that never uses TT-Metal, and of `ttmon run` around a program.

use std::path::{Path, PathBuf};

use super::cost::Launcher;
use super::snapshot::load;
use super::statistics::Durations;
use crate::libs::{self, Profile};
use crate::project::{self, Project};

const STUB_US_MAX: f64 = 100.0;
const WARM_UP_RUNS: usize = 5;

struct Way {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    limit_us: Option<f64>,
    wall: Durations,
    cpu: Durations,
}

pub(super) fn run(project: &Project, runs: usize) -> Result<(), String> {
    project::run(&mut project.cargo(&["build", "--release", "--package", "ttmon"]))?;
    let libraries = libs::build(project, Profile::Release)?;
    let launcher = Launcher::build(project)?;
    let mut ways = ways(&libraries)?;
    println!("load before: {}", load());
    for round in 0..WARM_UP_RUNS + runs {
        for way in &mut ways {
            let arguments: Vec<&str> = way.arguments.iter().map(String::as_str).collect();
            let cost = launcher.measure(&way.program, &arguments)?;
            if round >= WARM_UP_RUNS {
                way.wall.push(cost.wall);
                way.cpu.push(cost.cpu);
            }
        }
    }
    println!("load after:  {}", load());
    print!("{}", table(&ways, runs));
    Ok(())
}

/// `env` starts all except the last, so that they differ only in the preloaded library.
fn ways(libraries: &Path) -> Result<Vec<Way>, String> {
    let preload =
        |name: &str| libraries.join(name).to_str().map(|path| format!("LD_PRELOAD={path}")).ok_or("the target directory is not UTF-8");
    let way = |name, variable: String, limit_us| Way {
        name,
        program: PathBuf::from("/usr/bin/env"),
        arguments: vec![variable, "true".to_owned()],
        limit_us,
        wall: Durations::default(),
        cpu: Durations::default(),
    };
    let run = ["run", "--quiet", "--", "true"].map(str::to_owned).to_vec();
    Ok(vec![
        way("true", "NOTHING=preloaded".to_owned(), None),
        way("true with the stub", preload("libttmon_stub.so")?, Some(STUB_US_MAX)),
        way("true with the hook", preload("libttmon_hook.so")?, None),
        Way { program: libraries.join("ttmon"), arguments: run, ..way("ttmon run -- true", String::new(), None) },
    ])
}

fn table(ways: &[Way], runs: usize) -> String {
    let mut text =
        format!("\n{:<20} {:>9} {:>9} {:>9} {:>11} {:>9}  verdict\n", "start of", "wall us", "p90", "CPU us", "more than 1", "limit");
    let plain = ways.first().map_or(0.0, |way| way.wall.median_ms());
    for way in ways {
        let more = (way.wall.median_ms() - plain) * 1000.0;
        let (limit, verdict) = match way.limit_us {
            Some(limit) if more > limit => (format!("{limit:.0}"), format!("MISSED: {more:.0} > {limit:.0} us")),
            Some(limit) => (format!("{limit:.0}"), "holds".to_owned()),
            None => ("-".to_owned(), String::new()),
        };
        text += &format!(
            "{:<20} {:>9.0} {:>9.0} {:>9.0} {:>11.0} {limit:>9}  {verdict}\n",
            way.name,
            way.wall.median_ms() * 1000.0,
            way.wall.p90_ms() * 1000.0,
            way.cpu.median_ms() * 1000.0,
            more,
        );
    }
    text +=
        &format!("\nMedians of {runs} runs a row, taken in turns, from exec to exit by a small launcher; `env` starts all but the last.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_difference_is_judged() {
        let mut ways = ways(Path::new("/l")).unwrap();
        assert_eq!(ways[1].arguments[0], "LD_PRELOAD=/l/libttmon_stub.so");
        for (way, us) in ways.iter_mut().zip([500, 600, 700, 1500]) {
            way.wall.push(Duration::from_micros(us));
        }
        assert!(table(&ways, 1).contains("holds"));
        ways[1].wall = Durations::default();
        ways[1].wall.push(Duration::from_micros(601));
        assert!(table(&ways, 1).contains("MISSED: 101 > 100 us"), "{}", table(&ways, 1));
    }
}
