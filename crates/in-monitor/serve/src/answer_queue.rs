//! Limits expensive answers: live buffers, recorders, history. The answers of one user are computed one after the other, so that a user
//! with many requests does not delay other users. The memory of answers is limited until they are sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Visibility;
use crate::limits::{ANSWERS_KIB_MAX, ANSWERS_KIB_PER_USER_MAX, TURNS_PER_USER_MAX};
use crate::problem::Problem;

#[derive(Debug)]
pub(crate) struct AnswerQueue {
    making: Arc<Semaphore>,
    /// Memory for answers until they are sent, in KiB.
    room: Arc<Semaphore>,
    /// The limits of that memory: in total, and for one user.
    kib_max: [usize; 2],
    users: Mutex<HashMap<Visibility, Arc<User>>>,
}

#[derive(Debug)]
struct User {
    places: Arc<Semaphore>,
    making: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// A text with its reserved memory. The memory is released when the text is sent.
struct QueuedText {
    text: String,
    _room: [OwnedSemaphorePermit; 2],
}

impl AsRef<[u8]> for QueuedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl AnswerQueue {
    pub(crate) fn new(at_once: usize) -> Self {
        Self::bounded(at_once, [ANSWERS_KIB_MAX, ANSWERS_KIB_PER_USER_MAX])
    }

    fn bounded(at_once: usize, kib_max: [usize; 2]) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { making: semaphore(at_once), room: semaphore(kib_max[0]), kib_max, users: Mutex::default() }
    }

    /// Computes an answer on another thread when it is its turn.
    pub(crate) async fn make(
        &self,
        visibility: Visibility,
        work: impl FnOnce() -> Result<String, Problem> + Send + 'static,
    ) -> Result<Bytes, Problem> {
        let user = self.user(visibility);
        let place = Arc::clone(&user.places).try_acquire_owned().map_err(|_| Problem::Busy)?;
        let own = Arc::clone(&user.making).acquire_owned().await.map_err(|_| Problem::Defect)?;
        let turn = Arc::clone(&self.making).acquire_owned().await.map_err(|_| Problem::Defect)?;
        let working = tokio::task::spawn_blocking(move || {
            // Keep the permits until the answer is complete, even if the client has disconnected. Otherwise a client could bypass the
            // limits by disconnecting.
            let _turn = (place, own, turn);
            work()
        });
        let text = working.await.map_err(|_| Problem::Defect)??;
        let take = |room: &Arc<Semaphore>, most: usize| {
            let kib = u32::try_from((text.len() / 1024 + 1).min(most)).unwrap_or(u32::MAX);
            Arc::clone(room).try_acquire_many_owned(kib).map_err(|_| Problem::Busy)
        };
        let room = [take(&user.room, self.kib_max[1])?, take(&self.room, self.kib_max[0])?];
        Ok(Bytes::from_owner(QueuedText { text, _room: room }))
    }

    fn user(&self, visibility: Visibility) -> Arc<User> {
        let mut users = crate::lock(&self.users);
        // Users without a request in progress are removed.
        let is_busy = |user: &User| user.places.available_permits() < TURNS_PER_USER_MAX || user.room.available_permits() < self.kib_max[1];
        users.retain(|_, user| Arc::strong_count(user) > 1 || is_busy(user));
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let new = || {
            let (places, making) = (semaphore(TURNS_PER_USER_MAX), semaphore(1));
            Arc::new(User { places, making, room: semaphore(self.kib_max[1]) })
        };
        Arc::clone(users.entry(visibility).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::mpsc;

    use super::*;
    use crate::limits::TURNS_AT_ONCE;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(TURNS_AT_ONCE).build().expect("a runtime").block_on(work)
    }

    fn text(kib: usize) -> Result<String, Problem> {
        Ok("x".repeat(kib * 1024))
    }

    #[test]
    fn many_requests_of_one_user_do_not_delay_others() {
        run(async {
            let turns = Arc::new(AnswerQueue::new(TURNS_AT_ONCE));
            let (release, held) = mpsc::channel::<()>();
            let slow = Arc::clone(&turns);
            let first =
                tokio::spawn(async move { slow.make(Visibility::User(7), move || held.recv().map_or(text(1), |()| text(1))).await });
            let more: Vec<_> = (1..TURNS_PER_USER_MAX)
                .map(|_| {
                    let turns = Arc::clone(&turns);
                    tokio::spawn(async move { turns.make(Visibility::User(7), || text(1)).await })
                })
                .collect();
            tokio::task::yield_now().await;
            assert_eq!(turns.make(Visibility::User(7), || text(1)).await, Err(Problem::Busy));
            assert!(turns.make(Visibility::Whole, || text(1)).await.is_ok());
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
            let turns = AnswerQueue::bounded(TURNS_AT_ONCE, [100, 60]);
            let first = turns.make(Visibility::User(7), || text(30)).await.expect("an answer");
            let part = first.slice(0..10);
            drop(first);
            assert_eq!(turns.make(Visibility::User(7), || text(30)).await, Err(Problem::Busy));
            let other = turns.make(Visibility::User(8), || text(50)).await;
            assert!(other.is_ok());
            assert_eq!(turns.make(Visibility::Whole, || text(40)).await, Err(Problem::Busy), "there is no room at all");
            drop((part, other));
            assert!(turns.make(Visibility::User(7), || text(30)).await.is_ok());
            assert!(turns.make(Visibility::User(7), || text(200)).await.is_ok(), "one is always answered");
        });
    }

    /// Work in progress counts until it is complete, even if its client has disconnected.
    #[test]
    fn a_disconnected_request_keeps_its_share_until_it_is_complete() {
        run(async {
            let turns = Arc::new(AnswerQueue::new(TURNS_AT_ONCE));
            let (release, held) = mpsc::channel::<()>();
            let (begun, begins) = mpsc::channel::<()>();
            let asked = Arc::clone(&turns);
            let gone = tokio::spawn(async move {
                let work = move || {
                    let _ = begun.send(());
                    held.recv().map_or(text(1), |()| text(1))
                };
                asked.make(Visibility::User(7), work).await
            });
            while begins.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            gone.abort();
            assert!(gone.await.is_err());
            assert_eq!(turns.user(Visibility::User(7)).making.available_permits(), 0);
            drop(release);
            assert!(turns.make(Visibility::User(7), || text(1)).await.is_ok());
        });
    }
}
