//! Commands with a time limit, after which they and their children are killed.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::project::called;

/// Starts the command in its own process group, so that the whole group can be killed.
pub(super) fn start(command: &mut Command) -> Result<Child, String> {
    command.process_group(0).spawn().map_err(|error| format!("{}: {error}", called(command)))
}

pub(super) fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group may already have ended.
        let _gone = kill_process_group(group, Signal::KILL);
    }
    let _reaped = child.wait();
}

/// Returns the exit status, or an error if the command exceeds the time limit.
pub(super) fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + limit;
    // The pauses grow, so that a short command is detected quickly and a long one costs nothing.
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            kill(child);
            return Err(format!("not done after {} s", limit.as_secs()));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<Output, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command)?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, limit).map_err(|why| format!("{}: {why}", called(command)));
    let join = |reader: thread::JoinHandle<Vec<u8>>| reader.join().map_err(|_| "a reader of a pipe died".to_owned());
    let (stdout, stderr) = (join(stdout)?, join(stderr)?);
    Ok(Output { status: status?, stdout, stderr })
}

fn collect(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut from) = from {
            // After an error, the data that was read so far is returned.
            let _end = from.read_to_end(&mut all);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo started; wait"]);
        let error = output(&mut command, Duration::from_millis(300)).map(|output| output.status).unwrap_err();
        assert_eq!(error, "sh -c sleep 1000 & echo started; wait: not done after 0 s");
    }

    #[test]
    fn both_outputs_come_whole() {
        let output = output(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]), Duration::from_secs(60)).unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice(), output.status.code()), (&b"out\n"[..], &b"err\n"[..], Some(3)));
    }
}
