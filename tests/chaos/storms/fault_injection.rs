//! The execution of the weather: each of its sequences is one concurrent task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::environment::Stage;
use super::fault_schedule::{Blow, Outage, Quake, Rotation, Struck};
use crate::support::{Asked, Fault, Operator};

fn millis(length: u64) -> Duration {
    Duration::from_millis(length)
}

/// Time for an operator to find everything, after which it is struck all the same.
const READY: Duration = Duration::from_secs(8);

/// Waits for `least`, and then, if no operator has met the fault, until one does, for [`READY`] at most.
async fn lasts_until(least: Duration, met: impl AsyncFn() -> bool) {
    sleep(least).await;
    let somebody = async {
        while !met().await {
            sleep(millis(50)).await;
        }
    };
    let _ = timeout(READY, somebody).await;
}

impl Stage {
    /// Strikes operators and starts others. The first of them then continues as the only one, and is
    /// restarted when it ends, until all else is `over`.
    pub(crate) async fn strike(&self, blows: &[Struck], over: &AtomicBool) -> Operator {
        let mut places = [Some(self.launch(0)), None];
        for struck in blows {
            if struck.ready {
                // The wait may fail: there may be no API server.
                let _ = timeout(READY, self.at_work(&places)).await;
            }
            sleep(millis(struck.pause)).await;
            for (place, operator) in places.iter_mut().enumerate() {
                self.revive(place, operator);
            }
            match struck.blow {
                Blow::Kill { place, down } => {
                    // Its end is waited for, and then no operator runs for a moment.
                    drop(places[place].take());
                    self.loses();
                    self.count("kills");
                    sleep(millis(down)).await;
                    places[place] = Some(self.launch(place));
                }
                Blow::Hold { place, length } => {
                    if let Some(operator) = &places[place] {
                        operator.hold();
                        sleep(millis(length)).await;
                        operator.go_on();
                        self.count("holds");
                    }
                }
                Blow::Join => {
                    places[1] = Some(self.launch(1));
                    self.count("second operators");
                }
                Blow::Leave => {
                    drop(places[1].take());
                    self.loses();
                    self.count("kills");
                }
            }
        }
        let [mut first, second] = places;
        drop(second);
        while !over.load(Ordering::Relaxed) {
            self.revive(0, &mut first);
            sleep(millis(100)).await;
        }
        first.unwrap()
    }

    /// Waits until the operators that are there have found everything, and the service was asked for something.
    async fn at_work(&self, places: &[Option<Operator>]) {
        for operator in places.iter().flatten() {
            while !matches!(operator.fetch("readyz").await, Ok((200, _))) {
                sleep(millis(25)).await;
            }
        }
        let asked = async || self.world.service.get("stats").await["requests"].clone();
        let before = asked().await;
        while asked().await == before {
            sleep(millis(50)).await;
        }
    }

    /// Starts an operator again that has ended unasked, as a kubelet does.
    pub(crate) fn revive(&self, place: usize, operator: &mut Option<Operator>) {
        if operator.as_mut().is_some_and(|o| o.exit_code().is_some()) {
            self.loses();
            self.count("exits");
            *operator = Some(self.launch(place));
        }
    }

    /// The cluster's own trouble.
    pub(crate) async fn quake(&self, quakes: &[(u64, Quake)]) {
        let plane = self.world.control_plane;
        for (pause, quake) in quakes {
            sleep(millis(*pause)).await;
            match *quake {
                Quake::ApiServer { down } => {
                    plane.stop_apiserver().unwrap();
                    sleep(millis(down)).await;
                    plane.start_apiserver().await.unwrap();
                    self.count("API servers");
                }
                Quake::Etcd { down } => {
                    plane.stop_etcd().unwrap();
                    sleep(millis(down)).await;
                    plane.start_etcd().await.unwrap();
                    self.count("etcds");
                }
                Quake::Cut => {
                    self.to_api_server.cut();
                    self.count("resets");
                }
                Quake::Silence { length } => {
                    self.to_api_server.silence();
                    sleep(millis(length)).await;
                    self.to_api_server.open();
                    self.to_api_server.cut();
                    self.count("resets");
                }
            }
        }
    }

    /// The service's.
    pub(crate) async fn fail(&self, outages: &[(u64, u64, Outage)]) {
        let service = &self.world.service;
        for (pause, lasts, outage) in outages {
            sleep(millis(*pause)).await;
            match outage {
                Outage::Hold => {
                    service.hold();
                    sleep(millis(*lasts)).await;
                    service.go_on();
                }
                Outage::Refuse | Outage::Silence => {
                    match outage {
                        Outage::Refuse => self.to_service.wire.refuse(),
                        _ => self.to_service.wire.silence(),
                    }
                    sleep(millis(*lasts)).await;
                    // The service has answered what was cut off.
                    self.loses();
                    self.to_service.wire.open();
                }
                Outage::Fault(fault) => self.with_fault(fault, millis(*lasts)).await,
                Outage::Double(after) => {
                    let before = self.to_service.repeated();
                    let creates =
                        |asked: &Asked| asked.is("create", "runs") && asked.name.is_none();
                    self.to_service
                        .lasting(Fault::Again(millis(*after)), creates);
                    let met = async || self.to_service.repeated() > before;
                    lasts_until(millis(*lasts), met).await;
                    self.to_service.clear();
                }
                Outage::CutStreams => {
                    service.delete("streams").await;
                }
            }
            self.count("outages");
        }
    }

    async fn with_fault(&self, fault: &Value, lasts: Duration) {
        let service = &self.world.service;
        let id = service.post("faults", fault.clone()).await["id"].clone();
        let fired = async || {
            let all = service.get("faults").await;
            let this = all.as_array().unwrap().iter().find(|f| f["id"] == id);
            this.and_then(|f| f["fired"].as_u64()).unwrap()
        };
        lasts_until(lasts, async || fired().await > 0).await;
        for _ in 0..fired().await {
            self.count("faults");
        }
        service.delete(&format!("faults/{id}")).await;
    }

    /// The operators' wall clock steps.
    pub(crate) async fn step_clocks(&self, clocks: &[(u64, i64)]) {
        for (pause, wrong) in clocks {
            sleep(millis(*pause)).await;
            if let Some(clock) = &self.clock {
                clock.is_wrong_by(*wrong);
                self.count("clock steps");
            }
        }
    }

    /// Rotates tokens.
    pub(crate) async fn rotate_all(&self, rotations: &[(u64, Rotation)]) {
        for (pause, rotation) in rotations {
            sleep(millis(*pause)).await;
            self.rotate(rotation.late, millis(rotation.gap)).await;
        }
    }
}
