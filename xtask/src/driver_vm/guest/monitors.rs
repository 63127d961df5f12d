//! Runs ttmon in its three long-running forms: `ttmon -l 1 --json`, `ttmon serve` and `ttmon top`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::top::Top;
use crate::service::{self, Ended, Service, TOKEN, until};

/// Time without a sample that is considered a hang. The interval is 1 s, but a busy machine may need more.
pub(super) const HANG: Duration = Duration::from_secs(30);
/// The default of 200 ms is too short for an emulated machine that waits for a processor.
pub(super) const READ_TIMEOUT: [&str; 2] = ["--read-timeout", "3000"];

pub(super) fn once(ttmon: &Path, arguments: &[&str]) -> Result<Output, String> {
    let output = Command::new(ttmon).args(arguments).args(READ_TIMEOUT).stdin(Stdio::null()).output();
    output.map_err(|error| format!("ttmon {}: {error}", arguments.join(" ")))
}

const DAY_MS: u64 = 86_400_000;

pub(super) struct Monitors {
    repeated: Ended,
    service: Service,
    pub(super) top: Top,
    /// The documents of each monitor. `ttmon -l` is the first.
    pub(super) samples: [(&'static str, Samples); 2],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// Milliseconds since midnight, UTC.
    day_ms: u64,
    pub(super) at: Instant,
}

#[derive(Clone, Default)]
pub(super) struct Samples(Arc<Mutex<Vec<Value>>>);

impl Monitors {
    pub(super) fn start(ttmon: &Path) -> Result<Self, String> {
        let mut command = Command::new(ttmon);
        command.args(["-l", "1", "--json", "--no-server"]).args(READ_TIMEOUT).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut repeated = Ended(command.spawn().map_err(|error| format!("ttmon -l: {error}"))?);
        let samples = [("ttmon -l", Samples::default()), ("ttmon serve", Samples::default())];
        samples[0].1.follow(repeated.0.stdout.take().ok_or("ttmon -l has no output")?);
        let service = Service::start(ttmon, &READ_TIMEOUT)?;
        let (answered, port) = (samples[1].1.clone(), service.port);
        thread::spawn(move || {
            let token = format!("Authorization: Bearer {TOKEN}\r\n");
            while let Ok(answer) = service::get(port, "/api/v1/snapshot", &token) {
                answered.add(&answer.body);
                thread::sleep(Duration::from_millis(200));
            }
        });
        Ok(Self { repeated, service, top: Top::start(ttmon, &[])?, samples })
    }

    pub(super) fn repeated(&self) -> &Samples {
        &self.samples[0].1
    }

    pub(super) fn next_document(&self) -> Result<Value, String> {
        let mut documents = self.repeated().wait(Mark::now(), 1)?;
        documents.pop().ok_or_else(|| "no sample".to_owned())
    }

    /// Ends the monitors. Returns an error if one had already ended.
    pub(super) fn end(&mut self) -> Result<String, String> {
        let ended = self.repeated.0.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            return Err(format!("expected ttmon -l to run, found that it has ended: {status}"));
        }
        self.service.get("/healthz").map_err(|error| format!("expected ttmon serve to run: {error}"))?;
        self.top.quit()?;
        Ok("-l, serve and top have run to the end; top ends on q".to_owned())
    }
}

impl Mark {
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = since.as_secs() % (DAY_MS / 1000) * 1000 + u64::from(since.subsec_millis());
        Self { day_ms: ms, at: Instant::now() }
    }

    fn is_before(self, day_ms: u64) -> bool {
        (day_ms + DAY_MS - self.day_ms) % DAY_MS < DAY_MS / 2
    }
}

/// Parses `2026-11-16T05:52:24.966Z` to milliseconds since midnight.
fn day_ms(time: &str) -> Option<u64> {
    let clock = time.split_once('T')?.1.trim_end_matches('Z');
    let mut parts = clock.split([':', '.']).map(|part| part.parse::<u64>().ok());
    let mut next = || parts.next().flatten();
    Some(((next()? * 60 + next()?) * 60 + next()?) * 1000 + next()?)
}

impl Samples {
    /// Adds a document, unless it is the newest one again.
    fn add(&self, text: &str) {
        let Ok(document) = serde_json::from_str::<Value>(text) else { return };
        if let Ok(mut all) = self.0.lock()
            && all.last().is_none_or(|last| last["time"] != document["time"])
        {
            all.push(document);
        }
    }

    /// Adds each line that a process prints from now on.
    pub(super) fn follow(&self, output: ChildStdout) {
        let printed = self.clone();
        thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).for_each(|line| printed.add(&line)));
    }

    pub(super) fn since(&self, mark: Mark) -> Vec<Value> {
        let is_since = |document: &&Value| document["time"].as_str().and_then(day_ms).is_some_and(|time| mark.is_before(time));
        self.0.lock().map(|all| all.iter().filter(is_since).cloned().collect()).unwrap_or_default()
    }

    fn wait(&self, mark: Mark, count: usize) -> Result<Vec<Value>, String> {
        let (mut had, mut last) = (0, Instant::now());
        until("sampled", || {
            let has = self.since(mark).len();
            if has > had {
                (had, last) = (has, Instant::now());
            }
            has >= count || last.elapsed() > HANG
        })?;
        let samples = self.since(mark);
        if samples.len() < count {
            return Err(format!("expected {count} samples, found {} and then none for {} s: it hangs", samples.len(), HANG.as_secs()));
        }
        Ok(samples)
    }

    /// Checks that the first correct sample is at most the `samples_max`th after the mark, and that later samples are correct too. Returns
    /// its number.
    pub(super) fn judge(&self, mark: Mark, samples_max: usize, check: impl Fn(&Value) -> Result<(), String>) -> Result<usize, String> {
        let verdicts: Vec<Result<(), String>> = self.wait(mark, samples_max + 1)?.iter().map(check).collect();
        first_right(&verdicts, samples_max)
    }
}

fn first_right(verdicts: &[Result<(), String>], samples_max: usize) -> Result<usize, String> {
    let first = verdicts.iter().position(Result::is_ok).unwrap_or(usize::MAX);
    let from = first.min(samples_max.saturating_sub(1));
    match verdicts.iter().enumerate().skip(from).find_map(|(index, verdict)| Some((index, verdict.as_ref().err()?))) {
        Some((index, why)) => Err(format!("sample {} after it: {why}", index + 1)),
        None => Ok(first + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_across_midnight() {
        assert_eq!(day_ms("2026-11-16T05:52:24.966Z"), Some(21_144_966));
        let mark = |day_ms| Mark { day_ms, at: Instant::now() };
        assert!(mark(1000).is_before(1000) && mark(1000).is_before(1001) && !mark(1000).is_before(999));
        assert!(mark(DAY_MS - 1).is_before(0) && !mark(0).is_before(DAY_MS - 1));
    }

    #[test]
    fn a_right_sample_must_come_in_time_and_stay() {
        let wrong = || Err("wrong".to_owned());
        assert_eq!(first_right(&[Ok(()), Ok(()), Ok(())], 2), Ok(1));
        assert_eq!(first_right(&[wrong(), Ok(()), Ok(())], 2), Ok(2));
        assert_eq!(first_right(&[wrong(), wrong(), Ok(())], 2), Err("sample 2 after it: wrong".to_owned()));
        assert_eq!(first_right(&[Ok(()), wrong(), Ok(())], 2), Err("sample 2 after it: wrong".to_owned()));
        assert_eq!(first_right(&[wrong(), Ok(()), wrong()], 2), Err("sample 3 after it: wrong".to_owned()));
    }

    #[test]
    fn the_same_document_is_one_sample() {
        let samples = Samples::default();
        for text in [r#"{"time": "2026-11-16T05:52:24.966Z"}"#, r#"{"time": "2026-11-16T05:52:24.966Z"}"#, "no JSON"] {
            samples.add(text);
        }
        assert_eq!(samples.since(Mark { day_ms: 0, at: Instant::now() }).len(), 1);
    }
}
