//! The places for event streams, as those who wait for them see them: the [`Table`] says who has one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

use super::{
    context::{Context, lock, now},
    stream_table::{Order, Table, Ticket},
};

/// How often it is looked whose turn is over.
const TICK: Duration = Duration::from_secs(1);

/// All places.
pub struct Places {
    inner: Mutex<Inner>,
    /// How many there are, for the metrics.
    limit: Gauge,
}

struct Inner {
    table: Table,
    tickets: u64,
    signals: HashMap<Ticket, Arc<Signal>>,
}

#[derive(Default)]
struct Signal {
    granted: AtomicBool,
    leaving: AtomicBool,
    changed: Notify,
}

/// A place among the open streams, or a wait for one. Dropped it is given back.
pub(super) struct Place {
    places: Arc<Places>,
    ticket: Ticket,
    signal: Arc<Signal>,
}

impl Places {
    /// So many places; `limit` shows how many there are.
    pub(super) fn new(most: usize, limit: Gauge) -> Self {
        let table = Table::new(most);
        let places = Self {
            inner: Mutex::new(Inner {
                table,
                tickets: 0,
                signals: HashMap::new(),
            }),
            limit,
        };
        places.with(|_| Vec::new());
        places
    }

    /// Asks for a place.
    pub(super) fn enter(self: &Arc<Self>, namespace: &str) -> Place {
        let signal = Arc::new(Signal::default());
        let mut ticket = 0;
        self.with(|inner| {
            inner.tickets += 1;
            ticket = inner.tickets;
            inner.signals.insert(ticket, Arc::clone(&signal));
            inner.table.enter(ticket, namespace, now())
        });
        Place {
            places: Arc::clone(self),
            ticket,
            signal,
        }
    }

    /// This process could open no more files. Returns to how many places it comes down, if that is news.
    pub(super) fn short_of_files(&self) -> Option<usize> {
        let mut news = false;
        let most = self.with(|inner| {
            let (shrunk, orders) = inner.table.short_of_files(now());
            news = shrunk;
            orders
        });
        news.then_some(most)
    }

    fn with(&self, change: impl FnOnce(&mut Inner) -> Vec<Order>) -> usize {
        let mut inner = lock(&self.inner);
        for order in change(&mut inner) {
            let (ticket, leaving) = match order {
                Order::Take(ticket) => (ticket, false),
                Order::Leave(ticket) => (ticket, true),
            };
            if let Some(signal) = inner.signals.get(&ticket) {
                let flag = if leaving {
                    &signal.leaving
                } else {
                    &signal.granted
                };
                flag.store(true, Ordering::Release);
                signal.changed.notify_one();
            }
        }
        let most = inner.table.most();
        self.limit.set(i64::try_from(most).unwrap_or(i64::MAX));
        most
    }
}

impl Place {
    /// Whether the place is there.
    pub(super) fn granted(&self) -> bool {
        self.signal.granted.load(Ordering::Acquire)
    }

    /// Waits until the place is there.
    pub(super) async fn wait(&self) {
        while !self.granted() {
            self.signal.changed.notified().await;
        }
    }

    /// Waits until the place is asked back.
    pub(super) async fn asked_back(&self) {
        while !self.signal.leaving.load(Ordering::Acquire) {
            self.signal.changed.notified().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.with(|inner| {
            inner.signals.remove(&self.ticket);
            inner.table.leave(self.ticket, now())
        });
    }
}

/// Lets places rotate until shutdown.
pub(super) async fn run(ctx: Arc<Context>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = ctx.shutdown.cancelled() => return,
        }
        ctx.streams.with(|inner| inner.table.tick(now()));
    }
}
