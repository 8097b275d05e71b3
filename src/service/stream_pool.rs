//! Connections for event streams. Streams over HTTP/2 share connections, apart from those of calls: streams that last
//! would use up a connection's limit of concurrent requests.
//!
//! A client of the HTTP library has one connection of HTTP/2 to a service, and silently queues what exceeds the
//! service's limit (`SETTINGS_MAX_CONCURRENT_STREAMS`), which it doesn't tell. So streams are spread over as many
//! clients as they need. With HTTP/1.1 each stream has a connection of its own, whichever client it uses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::util::lock;

/// Streams that a connection takes. RFC 9113 recommends that no service allows fewer.
const STREAMS: usize = 100;
/// Time for which a smaller number counts that a service seemed to allow.
const LEARNED_FOR: Duration = Duration::from_mins(10);

/// Makes one more client, if that is possible.
type Build = Box<dyn Fn() -> Option<reqwest::Client> + Send + Sync>;

/// The clients for the event streams of one service.
pub(super) struct StreamPool {
    build: Build,
    state: Mutex<State>,
}

struct State {
    clients: Vec<Client>,
    /// Identifies a client: it moves within the list when others leave.
    next_id: u64,
    /// A smaller number of streams that a connection took, and until when it counts.
    learned: Option<(usize, Instant)>,
}

struct Client {
    id: u64,
    http: reqwest::Client,
    /// Streams that use it, open or not yet.
    assigned: usize,
    /// Those that the service has answered over HTTP/2.
    open: usize,
}

/// A stream's place on a connection. Dropping it frees the place.
pub(super) struct Place {
    pool: Arc<StreamPool>,
    id: u64,
    http: reqwest::Client,
    open: bool,
}

impl StreamPool {
    /// A pool with one client; `build` makes others like it.
    pub(super) fn new(first: reqwest::Client, build: Build) -> Self {
        let first = Client {
            id: 0,
            http: first,
            assigned: 0,
            open: 0,
        };
        Self {
            build,
            state: Mutex::new(State {
                clients: vec![first],
                next_id: 1,
                learned: None,
            }),
        }
    }

    /// A place on the fullest connection that takes one more stream, so that others become empty and are closed.
    pub(super) fn place(self: &Arc<Self>, now: Instant) -> Place {
        let mut state = lock(&self.state);
        let limit = state.limit(now);
        let free = |client: &&mut Client| client.assigned < limit;
        let fullest = state.clients.iter_mut().filter(free);
        let index = match fullest.max_by_key(|client| client.assigned) {
            Some(client) => {
                client.assigned += 1;
                return self.at(client);
            }
            None => state.add(&self.build),
        };
        let client = &mut state.clients[index];
        client.assigned += 1;
        self.at(client)
    }

    fn at(self: &Arc<Self>, client: &Client) -> Place {
        Place {
            pool: Arc::clone(self),
            id: client.id,
            http: client.http.clone(),
            open: false,
        }
    }

    /// Number of clients.
    #[cfg(test)]
    fn size(&self) -> usize {
        lock(&self.state).clients.len()
    }
}

impl State {
    fn limit(&self, now: Instant) -> usize {
        let learned = self.learned.filter(|(_, until)| now < *until);
        learned.map_or(STREAMS, |(limit, _)| limit)
    }

    /// Adds a client and returns its index. One like it was made before; if this one can't be, the first is overfull.
    fn add(&mut self, build: &Build) -> usize {
        let Some(http) = build() else {
            return 0;
        };
        self.clients.push(Client {
            id: self.next_id,
            http,
            assigned: 0,
            open: 0,
        });
        self.next_id += 1;
        self.clients.len() - 1
    }

    fn client(&mut self, id: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.id == id)
    }
}

impl Place {
    /// The client to open the stream with.
    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Records that the service has answered, over HTTP/2 or not.
    pub(super) fn opened(&mut self, http2: bool) {
        let first = http2 && !std::mem::replace(&mut self.open, true);
        if let Some(client) = lock(&self.pool.state).client(self.id).filter(|_| first) {
            client.open += 1;
        }
    }

    /// Records that no answer came in time. If a connection of HTTP/2 has open streams, it probably takes no more than
    /// these.
    pub(super) fn unanswered(&self, now: Instant) {
        let mut state = lock(&self.pool.state);
        let limit = state.limit(now);
        let open = state.client(self.id).map_or(0, |client| client.open);
        if open > 0 && open < limit {
            state.learned = Some((open, now + LEARNED_FOR));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        let others = state.clients.len() > 1;
        if let Some(client) = state.client(self.id) {
            client.assigned -= 1;
            client.open -= usize::from(self.open);
            if client.assigned == 0 && others {
                state.clients.retain(|client| client.id != self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Arc<StreamPool> {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let build = || {
            let client = reqwest::Client::builder().tls_certs_only([]).build();
            client.ok()
        };
        Arc::new(StreamPool::new(build().unwrap(), Box::new(build)))
    }

    fn places(pool: &Arc<StreamPool>, count: usize, now: Instant) -> Vec<Place> {
        let place = |_| {
            let mut place = pool.place(now);
            place.opened(true);
            place
        };
        (0..count).map(place).collect()
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn streams_share_connections_up_to_the_usual_limit() {
        let (pool, now) = (pool(), Instant::now());
        let mut places = places(&pool, 250, now);
        assert_eq!(pool.size(), 3);
        places.drain(..100);
        assert_eq!(pool.size(), 2, "an empty connection is closed");
        places.push(pool.place(now));
        assert_eq!(pool.size(), 2, "the fullest one with a place is used");
        places.truncate(149);
        assert_eq!(pool.size(), 2, "one with other streams stays open");
        drop(places);
        assert_eq!(pool.size(), 1);
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn a_smaller_limit_of_the_service_is_learned_for_a_while() {
        let (pool, now) = (pool(), Instant::now());
        let mut all = places(&pool, 30, now);
        let late = pool.place(now);
        late.unanswered(now);
        drop(late);
        all.push(pool.place(now));
        assert_eq!(pool.size(), 2);
        let shortly_before = now + Duration::from_secs(9 * 60 + 59);
        all.extend(places(&pool, 30, shortly_before));
        assert_eq!(pool.size(), 3);
        let later = now + Duration::from_mins(10);
        all.extend(places(&pool, 70, later));
        assert_eq!(pool.size(), 3, "the usual limit counts again");
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn a_limit_that_was_learned_is_not_learned_again() {
        let (pool, now) = (pool(), Instant::now());
        let mut all = places(&pool, 30, now);
        pool.place(now).unanswered(now);
        let shortly_before = now + Duration::from_secs(9 * 60 + 59);
        all[0].unanswered(shortly_before);
        all.extend(places(&pool, 70, now + Duration::from_mins(10)));
        assert_eq!(pool.size(), 1, "the usual limit counts again");
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn streams_that_were_closed_do_not_count_for_the_limit() {
        let (pool, now) = (pool(), Instant::now());
        let mut all = places(&pool, 30, now);
        all.truncate(20);
        pool.place(now).unanswered(now);
        all.extend(places(&pool, 1, now));
        assert_eq!(pool.size(), 2, "twenty were open");
    }

    #[tokio::test]
    async fn a_place_has_the_client_of_its_connection() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().tls_certs_only([]);
        let first = builder.user_agent("first").build().unwrap();
        let pool = Arc::new(StreamPool::new(first, Box::new(|| None)));
        let client = format!("{:?}", pool.place(Instant::now()).http());
        assert!(client.contains("first"), "{client}");
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn with_http1_an_unanswered_stream_teaches_nothing() {
        let (pool, now) = (pool(), Instant::now());
        let mut open = pool.place(now);
        open.opened(false);
        pool.place(now).unanswered(now);
        let more = places(&pool, 99, now);
        assert_eq!(pool.size(), 1);
        drop((open, more));
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn a_silent_service_does_not_lower_the_limit() {
        let (pool, now) = (pool(), Instant::now());
        let silent: Vec<Place> = (0..10).map(|_| pool.place(now)).collect();
        for place in &silent {
            place.unanswered(now);
        }
        let more = places(&pool, 90, now);
        assert_eq!(pool.size(), 1);
        drop((silent, more));
    }
}
