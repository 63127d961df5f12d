//! Open connections and event streams, and their holders. A new connection is always accepted. If all slots are in use, the user or address
//! with the most connections loses its oldest one; idle connections are closed before those with a response in progress.
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
use ttmon_os::lock;

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
    open: Mutex<OpenConnections>,
    /// Notified when an evicted connection has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last: u64,
    /// Connections that were not evicted, the oldest first.
    by_holder: HashMap<Holder, BTreeMap<u64, Arc<Entry>>>,
    count: usize,
    /// Evicted connections that are still open.
    evicted: HashSet<u64>,
}

#[derive(Debug)]
struct Entry {
    holder: Holder,
    responses: AtomicUsize,
    /// Notified when the connection must end.
    evict: Notify,
}

/// The slot of a connection. It is released when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    entry: Arc<Entry>,
}

/// Maximum number of evicted connections that are still open. The kernel may wait long for their clients.
const EVICTED_MAX: usize = 512;

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default(), ended: Notify::new() })
    }

    /// Returns a slot, and whether another connection had to end for it.
    pub(crate) async fn admit(self: &Arc<Self>, holder: Holder) -> (ConnectionSlot, bool) {
        loop {
            // Created before the check, so that no end between the check and the wait is missed.
            let ended = self.ended.notified();
            if lock(&self.open).evicted.len() < EVICTED_MAX {
                break;
            }
            ended.await;
        }
        let mut open = lock(&self.open);
        let is_full = open.count >= self.most;
        if is_full {
            open.evict_one();
        }
        open.last += 1;
        open.count += 1;
        let number = open.last;
        let entry = Arc::new(Entry { holder, responses: AtomicUsize::new(0), evict: Notify::new() });
        open.by_holder.entry(holder).or_default().insert(number, Arc::clone(&entry));
        drop(open);
        (ConnectionSlot { connections: Arc::clone(self), number, entry }, is_full)
    }
}

impl OpenConnections {
    /// Evicts the oldest connection of the holder with the most connections. If several holders have the
    /// most, the one with the oldest connection is chosen.
    fn evict_one(&mut self) {
        let size = |slots: &BTreeMap<u64, Arc<Entry>>| (slots.len(), Reverse(slots.keys().next().copied()));
        let Some((holder, slots)) = self.by_holder.iter().max_by_key(|(_, slots)| size(slots)) else { return };
        let idle = slots.iter().find(|(_, entry)| entry.responses.load(Ordering::Relaxed) == 0);
        let Some((number, entry)) = idle.or_else(|| slots.iter().next()) else { return };
        entry.evict.notify_one();
        let (holder, number) = (*holder, *number);
        self.remove(holder, number);
        self.evicted.insert(number);
    }

    /// Removes a connection from those that were not evicted.
    fn remove(&mut self, holder: Holder, number: u64) {
        if let hash_map::Entry::Occupied(mut slots) = self.by_holder.entry(holder)
            && slots.get_mut().remove(&number).is_some()
        {
            self.count -= 1;
            if slots.get().is_empty() {
                slots.remove();
            }
        }
    }
}

impl ConnectionSlot {
    /// Runs a connection until it ends. Returns `None` if it must end to release its slot.
    pub(crate) async fn run_until_evicted<T>(&self, connection: impl Future<Output = T>) -> Option<T> {
        let (mut connection, mut evict) = (pin!(connection), pin!(self.entry.evict.notified()));
        std::future::poll_fn(|context| match evict.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => connection.as_mut().poll(context).map(Some),
        })
        .await
    }

    /// Marks the connection as busy while a response is in progress.
    pub(crate) fn begin_response(&self) -> ResponseInProgress {
        self.entry.responses.fetch_add(1, Ordering::Relaxed);
        ResponseInProgress(Arc::clone(&self.entry))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = lock(&self.connections.open);
        if open.evicted.remove(&self.number) {
            self.connections.ended.notify_waiters();
        }
        open.remove(self.entry.holder, self.number);
    }
}

#[derive(Debug)]
pub(crate) struct ResponseInProgress(Arc<Entry>);

impl ResponseInProgress {
    pub(crate) fn holder(&self) -> Holder {
        self.0.holder
    }
}

impl Drop for ResponseInProgress {
    fn drop(&mut self) {
        self.0.responses.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
    }

    async fn admit(connections: &Arc<Connections>, holder: Holder, count: usize) -> Vec<ConnectionSlot> {
        let mut slots = Vec::new();
        for _ in 0..count {
            slots.push(connections.admit(holder).await.0);
        }
        slots
    }

    fn evicted(slots: &[ConnectionSlot]) -> Vec<bool> {
        slots.iter().map(|slot| lock(&slot.connections.open).evicted.contains(&slot.number)).collect()
    }

    #[test]
    fn a_new_connection_evicts_one_of_the_largest_holder() {
        run(async {
            let connections = Connections::new(4);
            let root = admit(&connections, Holder::User(0), 1).await;
            let attacker = admit(&connections, Holder::User(7), 3).await;
            let (user, has_evicted) = connections.admit(Holder::User(8)).await;
            assert!(has_evicted);
            assert_eq!((evicted(&root), evicted(&attacker)), (vec![false], vec![true, false, false]));
            assert_eq!(attacker[0].run_until_evicted(std::future::pending::<()>()).await, None);
            assert_eq!(user.run_until_evicted(std::future::ready(5)).await, Some(5));
            drop((root, attacker, user));
            let open = lock(&connections.open);
            assert_eq!((open.count, open.by_holder.len(), open.evicted.len()), (0, 0, 0));
        });
    }

    #[test]
    fn idle_connections_are_evicted_before_busy_ones() {
        run(async {
            let connections = Connections::new(3);
            let slots = admit(&connections, Holder::User(7), 3).await;
            let response = slots[0].begin_response();
            let more = admit(&connections, Holder::User(7), 3).await;
            assert_eq!((evicted(&slots), evicted(&more)), (vec![false, true, true], vec![true, false, false]));
            drop(response);
            admit(&connections, Holder::User(7), 1).await;
            assert_eq!(evicted(&slots), [true; 3]);
        });
    }

    #[test]
    fn new_connections_wait_until_an_evicted_one_has_ended() {
        run(async {
            let connections = Connections::new(1);
            let mut evicted_slots = admit(&connections, Holder::User(7), EVICTED_MAX + 1).await;
            let newest = evicted_slots.pop();
            let polls = Arc::new(AtomicUsize::new(0));
            let arrive = |holder| {
                let (connections, polls) = (Arc::clone(&connections), Arc::clone(&polls));
                tokio::spawn(async move {
                    let mut entering = pin!(connections.admit(holder));
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
            assert_eq!(polls.load(Ordering::Relaxed), arrivals.len(), "each was polled once and waits");
            // There is room for both: the first one needs no other to end, because the newest has ended too.
            drop((newest, evicted_slots.pop()));
            turns().await;
            assert!(arrivals.iter().all(tokio::task::JoinHandle::is_finished));
        });
    }

    #[test]
    fn loopback_is_one_holder_and_so_is_an_ipv6_network() {
        let holder = |text: &str| Holder::from(text.parse::<IpAddr>().expect("an address"));
        assert_eq!(
            (holder("127.0.0.9"), holder("::1"), holder("::ffff:127.0.0.1")),
            (Holder::Loopback, Holder::Loopback, Holder::Loopback)
        );
        assert_eq!(holder("2001:db8::1"), holder("2001:db8::ffff:1"));
        assert_ne!(holder("10.0.0.1"), holder("10.0.0.2"));
    }
}
