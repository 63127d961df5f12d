//! `ttmon`: the doorman. Parses, calls, prints the error, chooses the exit code.

mod alerts;
mod alias;
mod check;
mod cli;
mod completion;
mod diff;
mod doctor;
mod earlier;
mod env;
mod events;
mod export;
mod failure;
mod fleet;
mod invocation;
mod mem;
mod monitor;
mod names;
mod oom;
mod open;
mod output;
mod pages;
mod record;
mod report;
mod run;
mod sd;
mod serve;
mod server;
mod show;
mod sim_fleet;
mod terminal;
mod top;
mod topo;
mod wait;
mod watch;
mod who;

use std::process::ExitCode;

use ttmon_print::Style;

use cli::{Cli, Command, Page, SnapshotArgs};
use failure::{Failure, complain};
use invocation::Context;
use names::Name;
use output::Output;
use show::VERSION;
use terminal::Terminal;

/// A sample is thousands of small allocations. musl's own allocator makes the service take half as much time again.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = ttmon_deep::run_as_reader().or_else(ttmon_sim::run_as_part) {
        return code;
    }
    // A shell asks what a word may become: this answers, and ends the program.
    clap_complete::CompleteEnv::with_factory(cli::command).complete();
    let name = std::env::args_os().next().and_then(|program| Name::of(&program));
    let words = names::translate(std::env::args_os());
    let cli = match cli::typed(&words, name) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let command = cli::command_among(&words);
            if let Some(answer) = names::of_another_tool(&error, &words, command.as_deref()) {
                complain(&answer);
                return ExitCode::from(cli::usage_code(&words));
            }
            let text = error.to_string();
            let parts: Vec<&str> =
                text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
            let message = parts.join(" ").replace("  ", "; ");
            let help = match (name, command) {
                (Some(name), _) => format!("{} --help", name.name),
                (None, Some(command)) => format!("ttmon {command} --help"),
                (None, None) => "ttmon --help".to_owned(),
            };
            complain(&format!("{}; see {help}", message.trim().trim_start_matches("error: ").trim_end_matches(';')));
            return ExitCode::from(cli::usage_code(&words));
        }
        Err(answer) => {
            // Help and version are answers, not errors.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
    };
    match dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                complain(&failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(cli: &Cli) -> Result<(), Failure> {
    if cli.command.is_some() && cli.snapshot != SnapshotArgs::default() {
        return Err(Failure::usage("flags of the snapshot (-w, -l, -L, -q, --fields, -f ...) do not go with a sub-command"));
    }
    if matches!(
        cli.command,
        Some(
            Command::Env { .. }
                | Command::Alias(_)
                | Command::Report(_)
                | Command::Sd(_)
                | Command::Token { .. }
                | Command::Completions { .. }
                | Command::Man { .. }
                | Command::Help { .. }
                | Command::Markdown { .. }
        )
    ) && cli.common.names_a_machine()
    {
        return Err(Failure::usage("this command looks at no machine; leave -d, -i, --json, --root, --sim, --seed and --cluster out"));
    }
    match &cli.command {
        None if cli.snapshot.help_fields => list(cli, ttmon_print::help_fields),
        None if cli.snapshot.help_query_gpu => list(cli, ttmon_print::help_query_gpu),
        None if cli.snapshot.help_query_compute_apps => list(cli, ttmon_print::help_query_compute_apps),
        None => {
            let (context, asked) = invocation::snapshot(&cli.common, &cli.snapshot)?;
            show::run(&context, &asked)
        }
        Some(Command::Who { devices }) => who::run(&Context::new(&cli.common, devices)?),
        Some(Command::Dmon(args)) => monitor::devices(&cli.common, args),
        Some(Command::Pmon(args)) => monitor::processes(&cli.common, args),
        Some(Command::Topo(_)) => topo::run(&Context::new(&cli.common, &[])?),
        Some(Command::Wait(args)) => wait::run(&Context::new(&cli.common, &args.devices)?, args),
        Some(Command::Check(args)) => check::run(&cli.common, args),
        Some(Command::Doctor(args)) => doctor::run(&cli.common, args),
        Some(Command::Alerts(args)) => {
            let devices: Vec<String> = cli.common.device.iter().chain(&cli.common.id).cloned().collect();
            alerts::run(&Context::new(&cli.common, &[])?, &devices, args.command.as_ref())
        }
        Some(Command::Mem(args)) => mem::run(&Context::new(&cli.common, &[])?, args),
        Some(Command::Oom { target }) => oom::run(&Context::new(&cli.common, &[])?, target.as_deref()),
        Some(Command::Events(args)) => events::run(&Context::new(&cli.common, &[])?, args),
        Some(Command::Top(args)) => top::run(&Context::new(&cli.common, &[])?.with_deep(args.deep), args),
        Some(Command::Run(args)) => run::run(&cli.common, args),
        Some(Command::Env { ops, no_stacks }) => Output::Stdout.write(env::run(*ops, !no_stacks)?.as_bytes()),
        Some(Command::Serve(args)) => serve::run(&Context::new(&cli.common, &[])?.with_deep(args.deep), args),
        Some(Command::Record(args)) => record::run(&Context::new(&cli.common, &[])?.with_deep(args.deep), args),
        Some(Command::Alias(args)) => Output::Stdout.write(alias::run(args)?.as_bytes()),
        Some(Command::Completions { shell }) => Output::Stdout.write(&pages::completions(*shell)?),
        Some(Command::Help { command }) => Output::Stdout.write(pages::help(command)?.as_bytes()),
        Some(Command::Man { dir: Some(dir), .. }) => pages::write_manual(dir),
        Some(Command::Man { command, dir: None }) => Output::Stdout.write(&pages::man(command.as_deref())?),
        Some(Command::Markdown { page: Page::Cli, .. }) => Output::Stdout.write(pages::markdown().as_bytes()),
        Some(Command::Markdown { page: Page::Metrics, .. }) => Output::Stdout.write(ttmon_serve::metrics_markdown().as_bytes()),
        Some(Command::Markdown { page: Page::Openapi, .. }) => Output::Stdout.write(ttmon_serve::openapi().as_bytes()),
        Some(Command::Markdown { page: Page::Deploy, file }) => Output::Stdout.write(pages::deploy(file.as_deref())?.as_bytes()),
        Some(Command::Fleet(args)) => fleet::run(&cli.common, args),
        Some(Command::Sd(args)) => sd::run(args),
        Some(Command::SimFleet(args)) => sim_fleet::run(&cli.common, args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Export(args)) => export::run(&cli.common, args),
        Some(Command::Token { token_file }) => Output::Stdout.write(serve::print_token(token_file.as_deref())?.as_bytes()),
    }
}

/// Prints a list of fields.
fn list(cli: &Cli, print: fn(&Style<'_>, &mut dyn std::io::Write) -> std::io::Result<()>) -> Result<(), Failure> {
    let mut text = Vec::new();
    let terminal = Terminal::of_stdout(cli.common.color, cli.common.ascii);
    print(&Style { width: terminal.columns, ascii: terminal.ascii, ..Style::plain(VERSION) }, &mut text)?;
    Output::Stdout.write(&text)
}
