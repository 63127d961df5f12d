//! What a process is called: by what it runs, and by where it runs.

use crate::missing::{Missing, Reading};
use crate::snapshot::Process;

/// Programs whose first argument tells more than their own name.
const INTERPRETERS: [&str; 9] = ["python", "pypy", "bash", "sh", "dash", "zsh", "node", "perl", "ruby"];
/// Their flags that take the next word as a value.
const FLAGS_WITH_VALUE: [&str; 3] = ["-W", "-X", "-r"];

impl Process {
    /// A process by what it runs: `python3 serve.py` for `/usr/bin/python3 -u /srv/serve.py --port 8000`.
    pub fn title(&self) -> Reading<String> {
        match self.command.as_deref().map(|command| (command, short_command(command))) {
            // A program started under an empty name leaves a blank where its name would be.
            Ok((command, short)) if !short.is_empty() && !command.starts_with(' ') => Ok(short),
            _ => self.name.clone(),
        }
    }

    /// Where a process runs, by the id people know best: its job, its pod, else its container.
    pub fn workload(&self) -> Reading<String> {
        self.workloads().into_iter().next().ok_or(Missing::NoSource)
    }

    /// Everything known of where a process runs.
    pub fn workloads(&self) -> Vec<String> {
        [("job", &self.job), ("pod", &self.pod), ("container", &self.container)]
            .into_iter()
            .filter_map(|(word, id)| Some(format!("{word} {}", id.as_deref().ok()?)))
            .collect()
    }
}

fn short_command(command: &str) -> String {
    let mut words = command.split_whitespace();
    let program = words.next().map_or("", |path| base_name(path).trim_start_matches('-'));
    let is_interpreter = INTERPRETERS
        .iter()
        .any(|name| program.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.')));
    if !is_interpreter {
        return program.to_owned();
    }
    while let Some(word) = words.next() {
        match word {
            "-m" => return format!("{program} -m {}", words.next().unwrap_or_default()),
            "-c" | "-e" => return format!("{program} {word}"),
            _ if FLAGS_WITH_VALUE.contains(&word) => _ = words.next(),
            _ if word.starts_with('-') => {}
            script => return format!("{program} {}", base_name(script)),
        }
    }
    program.to_owned()
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_by_what_they_run() {
        for (command, short) in [
            ("/usr/bin/python3 -u /srv/models/serve.py --port 8000", "python3 serve.py"),
            ("python3.11 -X dev -W ignore a.py", "python3.11 a.py"),
            ("python -m vllm.entrypoints.api", "python -m vllm.entrypoints.api"),
            ("python3 -c import ttnn", "python3 -c"),
            ("python3", "python3"),
            ("pythonic x", "pythonic"),
            ("-bash", "bash"),
            ("/bin/sh /opt/run.sh", "sh run.sh"),
            ("./build/test_app --gtest_filter=a/b", "test_app"),
            ("VLLM::EngineCore", "VLLM::EngineCore"),
            ("", ""),
            ("/", ""),
        ] {
            assert_eq!(short_command(command), short, "{command}");
        }
    }
}
