//! `ttmon`: parses the command line, runs the command, prints its error, and chooses the exit code.

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

use failure::{Failure, complain};
use invocation::Invocation;
use names::Name;
use output::Output;

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
            // clap returns help and version as errors. They are not errors here.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
    };
    // The service opens no files whose names come from programs.
    if !matches!(cli.command, Some(cli::Command::Serve(_))) {
        ttmon_source::set_resolver(ttmon_symbols::resolve);
    }
    match invocation::meant(&cli).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                complain(&failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn run(invocation: Invocation) -> Result<(), Failure> {
    let print = |text: &[u8]| Output::Stdout.write(text);
    match invocation {
        Invocation::Snapshot(context, request) => show::run(&context, &request),
        Invocation::FieldList(terminal, list) => print(&pages::field_list(terminal, &list)?),
        Invocation::Who(context, format) => who::run(&context, format),
        Invocation::Topo(context, format) => topo::run(&context, format),
        Invocation::Dmon(context, request, columns) => monitor::devices(&context, &request, &columns),
        Invocation::Pmon(context, request) => monitor::processes(&context, &request),
        Invocation::Wait(context, timeout) => wait::run(&context, timeout),
        Invocation::Check(request) => check::run(&request),
        Invocation::Doctor(context, format, bundle) => doctor::run(&context, format, bundle.as_ref()),
        Invocation::Alerts(context, request) => alerts::run(&context, &request),
        Invocation::Memory(context, request) => mem::run(&context, &request),
        Invocation::Oom(context, format, target) => oom::run(&context, format, &target),
        Invocation::Events(context, request) => events::run(&context, &request),
        Invocation::Top(context, request) => top::run(&context, &request),
        Invocation::Run(context, request) => run::run(&context, &request),
        Invocation::Env { ops, stacks } => print(env::run(ops, stacks)?.as_bytes()),
        Invocation::Serve(context, request) => serve::run(&context, &request),
        Invocation::Record(context, request) => record::run(&context, &request),
        Invocation::Alias(request) => print(alias::run(&request)?.as_bytes()),
        Invocation::Page(request) => pages::run(&request),
        Invocation::Fleet(request) => fleet::run(&request),
        Invocation::Sd(request) => sd::run(request),
        Invocation::SimFleet(request) => sim_fleet::run(&request),
        Invocation::Report { input, output } => report::run(&input, &output),
        Invocation::Export(request) => export::run(&request),
        Invocation::Token(file) => print(serve::print_token(file.as_deref())?.as_bytes()),
    }
}
