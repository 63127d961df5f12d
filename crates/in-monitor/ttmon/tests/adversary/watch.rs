//! The requirements during every attack: device samples are at most 3 intervals old, the service stays within its memory, and root, another
//! user and a scraper get answers within a second (in the gate: two).

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

pub(crate) const ROLES: &[Role] = &[("asker", asker)];

/// Clients of root, of a user and of a scraper, each in its own process. They send requests until `finish`.
pub(crate) struct Watch {
    askers: Vec<(&'static str, Actor)>,
    figures: JoinHandle<u64>,
    stop: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn begin(host: &Host) -> Self {
        let asker = |name, uid, place| (name, Actor::start(uid, "asker", &[place]));
        let askers = vec![asker("root", 0, API), asker("user", BYSTANDER, API), asker("scraper", BYSTANDER, HTTP)];
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, pid) = (Arc::clone(&stop), host.pid());
        let figures = thread::spawn(move || {
            let mut most = 0;
            while !stopped.load(Ordering::Relaxed) {
                most = most.max(crate::host::rss(pid));
                thread::sleep(Duration::from_millis(50));
            }
            most
        });
        Self { askers, figures, stop }
    }

    /// Stops the clients and checks the limits.
    pub(crate) fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        let rss = self.figures.join().unwrap();
        let mut broken = Vec::new();
        for (name, mut actor) in self.askers {
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

/// Sends requests to one place until its input ends. Then prints the longest wait, the oldest sample, and all violations.
fn asker(arguments: &[String]) {
    let place = arguments[0].clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        over.store(true, Ordering::Relaxed);
    });
    println!("ready");
    let (mut longest, mut oldest, mut count, mut broken) = (Duration::ZERO, Duration::ZERO, 0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let answer = ask(&place, "/metrics");
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
        thread::sleep(PAUSE);
    }
    let verdict = if broken.is_empty() { "all answered".to_owned() } else { format!("{} broken: {:?}", broken.len(), &broken[..1]) };
    println!("{count} answers, at most {longest:.0?}, samples at most {oldest:.1?} old; {verdict}");
}
