//! Open connections and event streams, and their holders. A new connection is always accepted. If all slots are in use, the user or address
//! with the most connections loses its oldest one; idle connections are closed before those with an answer in progress.
//!
//! So idle connections never block other clients, however many there are, and root and scrapers need no reserved slots.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, hash_map};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tokio::sync::Notify;

use crate::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// A user on the Unix socket.
    User(u32),
    /// Any program of this host over TCP, because a program can use every loopback address.
    Loopback,
    /// Another host, by its IPv4 address.
    V4([u8; 4]),
    /// Another network, by the first 64 bits of its IPv6 address, because a host may have all addresses of its /64.
    V6([u8; 8]),
}

impl From<IpAddr> for Holder {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Self::Loopback,
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// The connections of one listener, or the event streams of all listeners.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    open: Mutex<Open>,
    /// Notified when a connection that was asked to end has ended.
    left: Notify,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    /// Connections that were not asked to end, the oldest first.
    staying: HashMap<Holder, BTreeMap<u64, Arc<Entry>>>,
    count: usize,
    /// Connections that were asked to end.
    leaving: HashSet<u64>,
}

#[derive(Debug)]
struct Entry {
    holder: Holder,
    answers: AtomicUsize,
    /// Notified when the connection must end.
    leave: Notify,
}

/// The slot of a connection. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    crowd: Arc<Connections>,
    number: u64,
    entry: Arc<Entry>,
}

/// Maximum number of connections that were asked to end and are still open. The kernel may wait long for their clients.
const LEAVING_MAX: usize = 512;

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default(), left: Notify::new() })
    }

    /// Returns a slot, and whether another connection had to end for it.
    pub(crate) async fn enter(self: &Arc<Self>, holder: Holder) -> (ConnectionSlot, bool) {
        loop {
            // Created before the check, so that no end between the check and the wait is missed.
            let left = self.left.notified();
            if lock(&self.open).leaving.len() < LEAVING_MAX {
                break;
            }
            left.await;
        }
        let mut open = lock(&self.open);
        let is_full = open.count >= self.most;
        if is_full {
            open.dismiss_one();
        }
        open.last += 1;
        open.count += 1;
        let number = open.last;
        let entry = Arc::new(Entry { holder, answers: AtomicUsize::new(0), leave: Notify::new() });
        open.staying.entry(holder).or_default().insert(number, Arc::clone(&entry));
        drop(open);
        (ConnectionSlot { crowd: Arc::clone(self), number, entry }, is_full)
    }
}

impl Open {
    /// Asks the oldest connection of the holder with the most connections to end. If several holders have the
    /// most, the one with the oldest connection is chosen.
    fn dismiss_one(&mut self) {
        let size = |seats: &BTreeMap<u64, Arc<Entry>>| (seats.len(), Reverse(seats.keys().next().copied()));
        let Some((holder, seats)) = self.staying.iter().max_by_key(|(_, seats)| size(seats)) else { return };
        let idle = seats.iter().find(|(_, entry)| entry.answers.load(Ordering::Relaxed) == 0);
        let Some((number, entry)) = idle.or_else(|| seats.iter().next()) else { return };
        entry.leave.notify_one();
        let (holder, number) = (*holder, *number);
        self.remove(holder, number);
        self.leaving.insert(number);
    }

    /// Removes a connection from those that stay.
    fn remove(&mut self, holder: Holder, number: u64) {
        if let hash_map::Entry::Occupied(mut seats) = self.staying.entry(holder)
            && seats.get_mut().remove(&number).is_some()
        {
            self.count -= 1;
            if seats.get().is_empty() {
                seats.remove();
            }
        }
    }
}

impl ConnectionSlot {
    /// Runs a connection until it ends. Returns `None` if it must end to release its slot.
    pub(crate) async fn hold<T>(&self, connection: impl Future<Output = T>) -> Option<T> {
        let (mut connection, mut leave) = (pin!(connection), pin!(self.entry.leave.notified()));
        std::future::poll_fn(|context| match leave.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => connection.as_mut().poll(context).map(Some),
        })
        .await
    }

    /// Marks the connection as busy while an answer is in progress.
    pub(crate) fn answering(&self) -> Answering {
        self.entry.answers.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(&self.entry))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = lock(&self.crowd.open);
        if open.leaving.remove(&self.number) {
            self.crowd.left.notify_waiters();
        }
        open.remove(self.entry.holder, self.number);
    }
}

#[derive(Debug)]
pub(crate) struct Answering(Arc<Entry>);

impl Answering {
    pub(crate) fn holder(&self) -> Holder {
        self.0.holder
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
    }

    async fn enter(crowd: &Arc<Connections>, holder: Holder, count: usize) -> Vec<ConnectionSlot> {
        let mut seats = Vec::new();
        for _ in 0..count {
            seats.push(crowd.enter(holder).await.0);
        }
        seats
    }

    fn leaving(seats: &[ConnectionSlot]) -> Vec<bool> {
        seats.iter().map(|seat| lock(&seat.crowd.open).leaving.contains(&seat.number)).collect()
    }

    #[test]
    fn newcomer_takes_the_place_of_the_largest_holder() {
        run(async {
            let crowd = Connections::new(4);
            let root = enter(&crowd, Holder::User(0), 1).await;
            let attacker = enter(&crowd, Holder::User(7), 3).await;
            let (user, has_pushed) = crowd.enter(Holder::User(8)).await;
            assert!(has_pushed);
            assert_eq!((leaving(&root), leaving(&attacker)), (vec![false], vec![true, false, false]));
            assert_eq!(attacker[0].hold(std::future::pending::<()>()).await, None);
            assert_eq!(user.hold(std::future::ready(5)).await, Some(5));
            drop((root, attacker, user));
            let open = lock(&crowd.open);
            assert_eq!((open.count, open.staying.len(), open.leaving.len()), (0, 0, 0));
        });
    }

    #[test]
    fn idle_connections_go_before_answered_ones() {
        run(async {
            let crowd = Connections::new(3);
            let seats = enter(&crowd, Holder::User(7), 3).await;
            let answering = seats[0].answering();
            let more = enter(&crowd, Holder::User(7), 3).await;
            assert_eq!((leaving(&seats), leaving(&more)), (vec![false, true, true], vec![true, false, false]));
            drop(answering);
            enter(&crowd, Holder::User(7), 1).await;
            assert_eq!(leaving(&seats), [true; 3]);
        });
    }

    #[test]
    fn new_connections_sleep_until_a_dismissed_one_has_ended() {
        run(async {
            let crowd = Connections::new(1);
            let mut dismissed = enter(&crowd, Holder::User(7), LEAVING_MAX + 1).await;
            let newest = dismissed.pop();
            let polls = Arc::new(AtomicUsize::new(0));
            let arrive = |holder| {
                let (crowd, polls) = (Arc::clone(&crowd), Arc::clone(&polls));
                tokio::spawn(async move {
                    let mut entering = pin!(crowd.enter(holder));
                    std::future::poll_fn(|context| {
                        polls.fetch_add(1, Ordering::Relaxed);
                        entering.as_mut().poll(context)
                    })
                    .await
                })
            };
            let arrivals = [arrive(Holder::User(8)), arrive(Holder::User(9))];
            let turns = async || {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            };
            turns().await;
            assert_eq!(polls.load(Ordering::Relaxed), arrivals.len(), "each was polled once and sleeps");
            // There is room for both: the first one needs no other to end, because the newest has ended too.
            drop((newest, dismissed.pop()));
            turns().await;
            assert!(arrivals.iter().all(tokio::task::JoinHandle::is_finished));
        });
    }

    #[test]
    fn loopback_is_one_holder_and_so_is_a_network() {
        let holder = |text: &str| Holder::from(text.parse::<IpAddr>().expect("an address"));
        assert_eq!(
            (holder("127.0.0.9"), holder("::1"), holder("::ffff:127.0.0.1")),
            (Holder::Loopback, Holder::Loopback, Holder::Loopback)
        );
        assert_eq!(holder("2001:db8::1"), holder("2001:db8::ffff:1"));
        assert_ne!(holder("10.0.0.1"), holder("10.0.0.2"));
    }
}
