//! `ttmon`: parses the command line, runs the command, prints its error, and chooses the exit code.

#![warn(clippy::print_stderr, reason = "eprintln panics without a stderr: use failure::print_error")]

mod alerts;
mod alias;
mod before_main;
mod check;
mod cli;
mod completion;
mod config;
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
mod symbols;
mod terminal;
mod top;
mod wait;
mod watch;

use std::process::ExitCode;

use cli::{Cli, Command, values};
use failure::{Failure, print_error};
use invocation::Context;
use names::Name;
use output::Output;
use terminal::Terminal;

/// A sample makes thousands of small allocations. With musl's allocator the service takes half as much time again.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = ttmon_deep::run_as_reader().or_else(ttmon_sim::run_as_part) {
        return code;
    }
    // If a shell requests completions, this prints them and ends the program.
    clap_complete::CompleteEnv::with_factory(cli::command).complete();
    let name = std::env::args_os().next().and_then(|program| Name::of(&program));
    let words = names::translate(std::env::args_os());
    let cli = match cli::typed(&words, name) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let command = cli::command_among(&words);
            if let Some(answer) = names::of_another_tool(&error, &words, command.as_deref()) {
                print_error(&answer);
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
            let message = message.trim().trim_start_matches("error: ").trim_end_matches(';');
            print_error(&if values::is_whole_message(&error) { message.to_owned() } else { format!("{message}; see {help}") });
            return ExitCode::from(cli::usage_code(&words));
        }
        Err(answer) => {
            // clap returns help and version as errors. They are not errors here, even if nobody reads them.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
    };
    // The service opens no files whose names come from programs.
    if !matches!(cli.command, Some(Command::Serve(_))) {
        ttmon_collect::set_resolver(symbols::resolve);
    }
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                print_error(&failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let common = &cli.common;
    let Some(command) = &cli.command else {
        let terminal = || Terminal::of_stdout(common.color, common.ascii);
        return match &cli.snapshot {
            args if args.help_fields => pages::field_list(terminal(), ttmon_print::help_fields),
            args if args.help_query_gpu => pages::field_list(terminal(), ttmon_print::help_query_gpu),
            args if args.help_query_compute_apps => pages::field_list(terminal(), ttmon_print::help_query_compute_apps),
            args => show::run(common, args),
        };
    };
    invocation::check_common(cli, command)?;
    let context = || Context::new(common, &[]);
    let print = |text: &[u8]| Output::Stdout.write(text);
    match command {
        Command::Who { devices } => show::who(&Context::new(common, devices)?),
        Command::Topo(_) => show::topo(&context()?),
        Command::Dmon(args) => monitor::devices(common, args),
        Command::Pmon(args) => monitor::processes(common, args),
        Command::Wait(args) => wait::run(common, args),
        Command::Check(args) => check::run(common, args),
        Command::Doctor(args) => doctor::run(common, args),
        Command::Alerts(args) => alerts::run(common, args),
        Command::Mem(args) => mem::run(&context()?, args),
        Command::Oom { target } => oom::run(&context()?, target.as_deref()),
        Command::Events(args) => events::run(&context()?, args),
        Command::Top(args) => top::run(common, args),
        Command::Run(args) => run::run(common, args),
        Command::Env { ops, no_stacks } => print(env::run(*ops, !no_stacks)?.as_bytes()),
        Command::Serve(args) => serve::run(common, args),
        Command::Record(args) => record::run(common, args),
        Command::Alias(args) => print(alias::run(args)?.as_bytes()),
        Command::Completions { shell } => print(&pages::completions(*shell)?),
        Command::Help { command } => print(pages::help(command)?.as_bytes()),
        Command::Man { dir: Some(folder), .. } => pages::write_manual(folder),
        Command::Man { command, dir: None } => print(&pages::man(command.as_deref())?),
        Command::Fleet(args) => fleet::run(common, args),
        Command::Sd(args) => sd::run(args),
        Command::Report(args) => report::run(&args.input, &args.output),
        Command::Export(args) => export::run(common, args),
        Command::Token { token_file } => print(serve::print_token(token_file.as_deref())?.as_bytes()),
    }
}
