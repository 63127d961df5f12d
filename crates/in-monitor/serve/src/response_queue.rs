//! Limits expensive responses: live buffers, recorders, history. The responses of one user are computed one after the other, so that a
//! user with many requests does not delay other users. The memory of responses is limited until they are sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hyper::body::Bytes;
use tokio::sync::Semaphore;
use ttmon_os::lock;

use crate::access::Visibility;
use crate::limits::{REQUESTS_PER_USER_MAX, RESPONSE_BYTES_MAX, RESPONSE_BYTES_PER_USER_MAX};
use crate::problem::Problem;
use crate::shares::{Share, Shares};

#[derive(Debug)]
pub(crate) struct ResponseQueue {
    /// Requests that wait or are computed.
    requests: Arc<Shares>,
    /// Memory of responses until they are sent, in bytes.
    memory: Arc<Shares>,
    /// Responses that may be computed at once.
    turns: Arc<Semaphore>,
    /// The turn of each user with a request.
    user_turns: Mutex<HashMap<Visibility, Arc<Semaphore>>>,
}

/// A text with its share of the memory. The memory is released when the text is sent.
struct QueuedText {
    text: String,
    _memory: Share,
}

impl AsRef<[u8]> for QueuedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl ResponseQueue {
    pub(crate) fn new(at_once: usize) -> Self {
        Self::bounded(at_once, RESPONSE_BYTES_MAX, RESPONSE_BYTES_PER_USER_MAX)
    }

    fn bounded(at_once: usize, bytes_max: usize, user_bytes_max: usize) -> Self {
        Self {
            requests: Shares::new(usize::MAX, REQUESTS_PER_USER_MAX),
            memory: Shares::new(bytes_max, user_bytes_max),
            turns: Arc::new(Semaphore::new(at_once)),
            user_turns: Mutex::default(),
        }
    }

    /// Computes a response on another thread when it is its turn.
    pub(crate) async fn make(
        &self,
        user: Visibility,
        work: impl FnOnce() -> Result<String, Problem> + Send + 'static,
    ) -> Result<Bytes, Problem> {
        let request = self.requests.take(user, 1).ok_or(Problem::Busy)?;
        let user_turn = self.user_turn(user).acquire_owned().await.map_err(|_| Problem::Defect)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| Problem::Defect)?;
        let working = tokio::task::spawn_blocking(move || {
            // Keep the shares until the response is complete, even if the client has disconnected. Otherwise a client could bypass the
            // limits by disconnecting.
            let _shares = (request, user_turn, turn);
            work()
        });
        let text = working.await.map_err(|_| Problem::Defect)??;
        let memory = self.memory.take(user, text.len()).ok_or(Problem::Busy)?;
        Ok(Bytes::from_owner(QueuedText { text, _memory: memory }))
    }

    fn user_turn(&self, user: Visibility) -> Arc<Semaphore> {
        let mut turns = lock(&self.user_turns);
        // Users without a request in progress are removed.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(user).or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::mpsc;

    use super::*;
    use crate::limits::RESPONSES_AT_ONCE;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(RESPONSES_AT_ONCE).build().expect("a runtime").block_on(work)
    }

    fn text(kib: usize) -> Result<String, Problem> {
        Ok("x".repeat(kib * 1024))
    }

    #[test]
    fn many_requests_of_one_user_do_not_delay_others() {
        run(async {
            let queue = Arc::new(ResponseQueue::new(RESPONSES_AT_ONCE));
            let (release, held) = mpsc::channel::<()>();
            let slow = Arc::clone(&queue);
            let first =
                tokio::spawn(async move { slow.make(Visibility::User(7), move || held.recv().map_or(text(1), |()| text(1))).await });
            let more: Vec<_> = (1..REQUESTS_PER_USER_MAX)
                .map(|_| {
                    let queue = Arc::clone(&queue);
                    tokio::spawn(async move { queue.make(Visibility::User(7), || text(1)).await })
                })
                .collect();
            tokio::task::yield_now().await;
            assert_eq!(queue.make(Visibility::User(7), || text(1)).await, Err(Problem::Busy));
            assert!(queue.make(Visibility::Whole, || text(1)).await.is_ok());
            assert!(more.iter().all(|waiting| !waiting.is_finished()));
            drop(release);
            assert!(first.await.expect("an end").is_ok());
            for waiting in more {
                assert!(waiting.await.expect("an end").is_ok());
            }
        });
    }

    #[test]
    fn the_memory_of_unsent_responses_has_a_limit() {
        run(async {
            let queue = ResponseQueue::bounded(RESPONSES_AT_ONCE, 100 * 1024, 60 * 1024);
            let first = queue.make(Visibility::User(7), || text(31)).await.expect("a response");
            let part = first.slice(0..10);
            drop(first);
            assert_eq!(queue.make(Visibility::User(7), || text(31)).await, Err(Problem::Busy));
            let other = queue.make(Visibility::User(8), || text(50)).await;
            assert!(other.is_ok());
            assert_eq!(queue.make(Visibility::Whole, || text(40)).await, Err(Problem::Busy), "the total is used up");
            drop((part, other));
            assert!(queue.make(Visibility::User(7), || text(30)).await.is_ok());
            assert!(queue.make(Visibility::User(7), || text(200)).await.is_ok(), "a single one is always made");
        });
    }

    /// Work in progress counts until it is complete, even if its client has disconnected.
    #[test]
    fn a_disconnected_request_keeps_its_share_until_it_is_complete() {
        run(async {
            let queue = Arc::new(ResponseQueue::new(RESPONSES_AT_ONCE));
            let (release, held) = mpsc::channel::<()>();
            let (begun, begins) = mpsc::channel::<()>();
            let other = Arc::clone(&queue);
            let gone = tokio::spawn(async move {
                let work = move || {
                    let _ = begun.send(());
                    held.recv().map_or(text(1), |()| text(1))
                };
                other.make(Visibility::User(7), work).await
            });
            while begins.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            gone.abort();
            assert!(gone.await.is_err());
            assert_eq!(queue.user_turn(Visibility::User(7)).available_permits(), 0);
            drop(release);
            assert!(queue.make(Visibility::User(7), || text(1)).await.is_ok());
        });
    }
}
