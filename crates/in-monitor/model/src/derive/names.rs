//! Display names of a process: its command and its container, pod or job.

use crate::missing::{Missing, Reading};
use crate::snapshot::Process;

/// Programs whose first argument describes a process better than their own name.
const INTERPRETERS: [&str; 9] = ["python", "pypy", "bash", "sh", "dash", "zsh", "node", "perl", "ruby"];
/// Flags of the interpreters that take the next argument as a value.
const FLAGS_WITH_VALUE: [&str; 3] = ["-W", "-X", "-r"];

impl Process {
    /// Returns the short command of a process: `python3 serve.py` for `/usr/bin/python3 -u /srv/serve.py --port 8000`.
    pub fn title(&self) -> Reading<String> {
        match self.command.as_deref().map(|command| (command, short_command(command))) {
            // A program that was started with an empty name has a blank first argument.
            Ok((command, short)) if !short.is_empty() && !command.starts_with(' ') => Ok(short),
            _ => self.name.clone(),
        }
    }

    /// Returns the most useful id of the place where a process runs: its job, else its pod, else its container.
    pub fn workload(&self) -> Reading<String> {
        self.workloads().into_iter().next().ok_or(Missing::NoSource)
    }

    /// Returns all known ids of the place where a process runs.
    pub fn workloads(&self) -> Vec<String> {
        let job = self.job.as_deref().ok().map(|id| match &self.job_name {
            Ok(name) => format!("job {id} {name}"),
            Err(_) => format!("job {id}"),
        });
        let pod = match (&self.pod_name, &self.namespace, &self.pod) {
            (Ok(name), Ok(namespace), _) => Some(format!("pod {namespace}/{name}")),
            (_, _, Ok(uid)) => Some(format!("pod {uid}")),
            _ => None,
        };
        let container = self.container_name.as_deref().or(self.container.as_deref()).ok().map(|name| format!("container {name}"));
        [job, pod, container].into_iter().flatten().collect()
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
            // Python ends at once without a module.
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
    fn names_stand_for_ids() {
        let mut process =
            Process { pod: Ok("1b4e".to_owned()), container: Ok("4f5e".to_owned()), job: Ok("7".to_owned()), ..Process::absent() };
        assert_eq!(process.workloads(), ["job 7", "pod 1b4e", "container 4f5e"]);
        (process.pod_name, process.namespace) = (Ok("vllm-0".to_owned()), Ok("ml".to_owned()));
        (process.container_name, process.job_name) = (Ok("server".to_owned()), Ok("train".to_owned()));
        assert_eq!(process.workloads(), ["job 7 train", "pod ml/vllm-0", "container server"]);
    }

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
