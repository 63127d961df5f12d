//! The requirements during every attack: device samples are at most 3 intervals old, the service stays within its memory, and root, another
//! user and a scraper get answers within a second (in the gate: two).

use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Role;
use crate::host::{API, Actor, BYSTANDER, HTTP, Host, INTERVAL, ask, strength};

/// In the gate, and with full strength. On two cores that attackers use, the scheduler alone has taken more than a second; an answer that
/// waits for an attacker takes longer than both.
const ANSWER_MAX: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(1)];
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(3 * INTERVAL.as_secs());
const RSS_MAX: u64 = 256 << 20;
/// Pause between two requests of one client.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval at which the memory of the service is read.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) const ROLES: &[Role] = &[("client", client)];

/// Clients of root, of a user and of a scraper, each in its own process. They send requests until `finish`.
pub(crate) struct Watch {
    clients: Vec<(&'static str, Actor)>,
    most_memory: JoinHandle<u64>,
    stop: Sender<()>,
}

impl Watch {
    pub(crate) fn begin(host: &Host) -> Self {
        let client = |name, uid, address| (name, Actor::start(uid, "client", &[address]));
        let clients = vec![client("root", 0, API), client("user", BYSTANDER, API), client("scraper", BYSTANDER, HTTP)];
        let (stop, stopped) = channel();
        let pid = host.pid();
        let most_memory = thread::spawn(move || {
            let mut most = crate::host::rss(pid);
            while stopped.recv_timeout(MEMORY_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                most = most.max(crate::host::rss(pid));
            }
            most
        });
        Self { clients, most_memory, stop }
    }

    /// Stops the clients and checks the limits.
    pub(crate) fn finish(self) {
        self.stop.send(()).unwrap();
        let rss = self.most_memory.join().unwrap();
        let mut broken = Vec::new();
        for (name, mut actor) in self.clients {
            actor.close();
            let line = actor.line();
            println!("  {name}: {line}");
            if !line.ends_with(" all answered") {
                broken.push(format!("{name}: {line}"));
            }
        }
        println!("  service: {} MB", rss >> 20);
        if rss > RSS_MAX {
            broken.push(format!("the service took {} MB", rss >> 20));
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }
}

/// Sends requests to one address until its input ends. Then prints the longest wait, the oldest sample, and all violations.
fn client(arguments: &[String]) {
    let address = &arguments[0];
    let (input_ended, end) = channel();
    thread::spawn(move || {
        // An error is an end too.
        let _ = std::io::stdin().read(&mut [0]);
        input_ended.send(()).unwrap();
    });
    println!("ready");
    let (mut longest, mut oldest, mut count, mut broken) = (Duration::ZERO, Duration::ZERO, 0, Vec::new());
    while end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        let begun = Instant::now();
        let answer = ask(address, "/metrics");
        let took = begun.elapsed();
        longest = longest.max(took);
        count += 1;
        match answer {
            Ok((200, text)) => {
                let age = text.lines().find_map(|line| line.strip_prefix("ttmon_sample_age_seconds ")?.parse().ok());
                let age = age.map_or(Duration::MAX, Duration::from_secs_f64);
                oldest = oldest.max(age);
                if age > SAMPLE_AGE_MAX {
                    broken.push(format!("the sample is {age:?} old"));
                }
            }
            other => broken.push(format!("{other:?}").chars().take(200).collect()),
        }
        if took > ANSWER_MAX[strength(0, 1)] {
            broken.push(format!("answered after {took:?}"));
        }
    }
    let verdict = if broken.is_empty() { "all answered".to_owned() } else { format!("{} broken: {:?}", broken.len(), &broken[..1]) };
    println!("{count} answers, at most {longest:.0?}, samples at most {oldest:.1?} old; {verdict}");
}
