//! The slots for event streams, with waiting and signals; the [`Table`] assigns them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::now;
use crate::controller::metrics::gauge;
use crate::util::lock;

use super::stream_table::{Order, Table, Ticket};

/// Interval at which ended turns are detected.
const TICK: Duration = Duration::from_secs(1);

/// All slots.
pub struct StreamSlots {
    inner: Mutex<Inner>,
    /// Metric of the number of slots.
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

/// A slot for an open stream, or a wait for one. Released when dropped.
pub(crate) struct StreamSlot {
    slots: Arc<StreamSlots>,
    ticket: Ticket,
    signal: Arc<Signal>,
}

impl StreamSlots {
    /// Creates `most` slots; `limit` is set to their number.
    pub(crate) fn new(most: usize, limit: Gauge) -> Self {
        let table = Table::new(most);
        let slots = Self {
            inner: Mutex::new(Inner {
                table,
                tickets: 0,
                signals: HashMap::new(),
            }),
            limit,
        };
        slots.with(|_| Vec::new());
        slots
    }

    /// Requests a slot.
    pub(crate) fn enter(self: &Arc<Self>, namespace: &str) -> StreamSlot {
        let signal = Arc::new(Signal::default());
        let mut ticket = 0;
        self.with(|inner| {
            inner.tickets += 1;
            ticket = inner.tickets;
            inner.signals.insert(ticket, Arc::clone(&signal));
            inner.table.enter(ticket, namespace, now())
        });
        StreamSlot {
            slots: Arc::clone(self),
            ticket,
            signal,
        }
    }

    /// Handles a lack of files. Returns the reduced number of slots if it shrank now.
    pub(crate) fn short_of_files(&self) -> Option<usize> {
        let mut shrunk = false;
        let most = self.with(|inner| {
            let (now_fewer, orders) = inner.table.short_of_files(now());
            shrunk = now_fewer;
            orders
        });
        shrunk.then_some(most)
    }

    fn with(&self, change: impl FnOnce(&mut Inner) -> Vec<Order>) -> usize {
        let mut inner = lock(&self.inner);
        for order in change(&mut inner) {
            let (Order::Take(ticket) | Order::Leave(ticket)) = order;
            if let Some(signal) = inner.signals.get(&ticket) {
                let flag = match order {
                    Order::Take(_) => &signal.granted,
                    Order::Leave(_) => &signal.leaving,
                };
                flag.store(true, Ordering::Release);
                signal.changed.notify_one();
            }
        }
        let most = inner.table.most();
        self.limit.set(gauge(most));
        most
    }
}

impl StreamSlot {
    /// Whether the slot is granted.
    pub(crate) fn granted(&self) -> bool {
        self.signal.granted.load(Ordering::Acquire)
    }

    /// Waits until the slot is granted.
    pub(crate) async fn wait(&self) {
        while !self.granted() {
            self.signal.changed.notified().await;
        }
    }

    /// Waits until the slot must be returned.
    pub(crate) async fn asked_back(&self) {
        while !self.signal.leaving.load(Ordering::Acquire) {
            self.signal.changed.notified().await;
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.slots.with(|inner| {
            inner.signals.remove(&self.ticket);
            inner.table.leave(self.ticket, now())
        });
    }
}

/// Rotates the slots until shutdown.
pub(crate) async fn run(slots: Arc<StreamSlots>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = shutdown.cancelled() => return,
        }
        slots.with(|inner| inner.table.tick(now()));
    }
}
