//! `cargo xtask screens`: creates the pictures of the README from the output of the program.
//!
//! `ttmon top` plays a recording (docs/screens/t3k.ttmon) in a pseudo-terminal to its end. The last screen becomes an SVG, cell by cell.
//! The same recording gives the same pictures, so they can be compared. Chromium creates the picture of the page from the same recording.

mod shot;
mod svg;

use std::path::Path;
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use vt100::{Parser, Screen};

use crate::generated::{self, Generated};
use crate::project::{self, Project};
use crate::stop::Stop;
use crate::terminal::{self, Size, Terminal};
use crate::web;

const NAME: &str = "screens";
const RECORDING: &str = "docs/screens/t3k.ttmon";
const PATIENCE: Duration = Duration::from_secs(120);

struct Picture {
    path: &'static str,
    size: Size,
    /// Keys that are pressed at the end of the recording.
    keys: &'static str,
    /// Text on the complete screen.
    shows: &'static str,
}

const PICTURES: &[Picture] = &[
    Picture { path: "docs/screens/main.svg", size: (120, 38), keys: "", shows: "Processes (5)" },
    Picture { path: "docs/screens/charts.svg", size: (120, 36), keys: "2", shows: "the last 60 seconds" },
    Picture { path: "docs/screens/memory.svg", size: (120, 36), keys: "4", shows: "CBs by core" },
    Picture { path: "docs/screens/mesh.svg", size: (120, 24), keys: "5", shows: "Mesh: t3k" },
];

/// The animated picture: a recording, step by step.
const ANIMATION: Picture = Picture { path: "docs/screens/top.svg", size: (104, 30), keys: "", shows: "Processes (5)" };
/// Number of frames, steps of the recording between two frames, and seconds that each frame is shown.
const FRAMES: usize = 8;
const STEP: usize = 7;
const FRAME_SECONDS: f64 = 0.8;

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    if let [word, rest @ ..] = arguments
        && word == "shot"
    {
        return shot::run(rest);
    }
    generated::run(project, NAME, arguments, || draw(project))?;
    if arguments.is_empty() { Ok(page(project)?) } else { Ok(()) }
}

/// Creates the picture of the page, with its layout. The stage `page` compares the layout.
fn page(project: &Project) -> Result<(), String> {
    let browser = web::Browser::have(project).map_err(|why| format!("docs/screens/page.png is as it was: {why}"))?;
    let program = project.target()?.join("debug/ttmon");
    project::run(browser.command(project, &program).arg("--picture"))?;
    println!("screens: wrote docs/screens/page.png");
    Ok(())
}

pub(crate) fn check(project: &Project) -> Result<(), String> {
    generated::check(project, NAME, &draw(project)?)
}

fn draw(project: &Project) -> Result<Vec<Generated>, String> {
    project::run(&mut project.cargo(&["build", "--quiet", "--package", "ttmon"]))?;
    let program = project.target()?.join("debug/ttmon");
    let one = |picture: &Picture| {
        let screens = screens(project, &program, picture, |player| player.play_to_end(picture))?;
        Ok((picture.path, screens.last().map_or_else(String::new, |screen| svg::of(screen, svg::DARK))))
    };
    let mut pictures: Vec<(&'static str, String)> = PICTURES.iter().map(one).collect::<Result<_, String>>()?;
    let frames = screens(project, &program, &ANIMATION, |player| player.step_by_step(&ANIMATION))?;
    pictures.push((ANIMATION.path, svg::animated(&frames, svg::DARK, FRAME_SECONDS)));
    Ok(pictures)
}

struct Player {
    parser: Parser,
    terminal: Terminal,
}

impl Player {
    /// Reads until the screen fulfils a condition and no more output arrives.
    fn wait(&mut self, is_so: impl Fn(&str) -> bool) -> Result<(), String> {
        const QUIET: Duration = Duration::from_millis(300);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.terminal.output.recv_timeout(QUIET) {
                Ok((_, bytes)) => self.parser.process(&bytes),
                Err(_) if is_so(&self.parser.screen().contents()) => return Ok(()),
                Err(_) => {}
            }
            if Instant::now() > deadline {
                return Err(format!("what was waited for did not come; the screen is:\n{}", self.parser.screen().contents()));
            }
        }
    }

    fn play_to_end(&mut self, picture: &Picture) -> Result<Vec<Screen>, String> {
        self.terminal.press("++++++")?;
        self.wait(|text| text.contains("PAUSED"))?;
        self.terminal.press(picture.keys)?;
        self.wait(|text| text.contains(picture.shows))?;
        Ok(vec![self.parser.screen().clone()])
    }

    /// Returns screens of the recording, some frames apart. The last one is at its end.
    fn step_by_step(&mut self, picture: &Picture) -> Result<Vec<Screen>, String> {
        let mut screens = self.play_to_end(picture)?;
        let contents = self.parser.screen().contents();
        let last: usize = contents
            .split("frame ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse().ok())
            .ok_or("the place in the recording is not on the screen")?;
        for frame in 1..FRAMES {
            self.terminal.press(&",".repeat(STEP))?;
            // Each step is drawn. The picture is the last one.
            let place = format!("frame {} of ", last.saturating_sub(frame * STEP));
            self.wait(|text| text.contains(&place))?;
            screens.push(self.parser.screen().clone());
        }
        screens.reverse();
        Ok(screens)
    }
}

/// Starts the recording. Returns the screens that `play` took.
fn screens(
    project: &Project,
    program: &Path,
    picture: &Picture,
    play: impl FnOnce(&mut Player) -> Result<Vec<Screen>, String>,
) -> Result<Vec<Screen>, String> {
    let mut player = Player { parser: terminal::parser(picture.size), terminal: Terminal::start(command(project, program), picture.size)? };
    let played = player.wait(|text| text.contains("[REPLAY]")).and_then(|()| play(&mut player));
    played.map_err(|text| format!("{}: {text}", picture.path))
}

fn command(project: &Project, program: &Path) -> CommandBuilder {
    let mut command = CommandBuilder::new(program);
    command.args(["top", "--replay", RECORDING, "--config", "/dev/null"]);
    command.cwd(&project.root);
    for variable in ["NO_COLOR", "LC_ALL", "LC_CTYPE", "COLORFGBG", "COLUMNS", "TTMON_SIM", "TTMON_ROOT"] {
        command.env_remove(variable);
    }
    for (name, value) in [("LANG", "C.UTF-8"), ("TZ", "UTC"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor")] {
        command.env(name, value);
    }
    command
}
