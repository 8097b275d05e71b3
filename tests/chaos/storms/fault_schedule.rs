//! The faults of the programs: five concurrent sequences, all from numbers of a seed.

use fastrand::Rng;
use serde_json::{Value, json};

/// A blow to the operators. There are places for two.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blow {
    /// SIGKILL, and a new process after so many milliseconds.
    Kill { place: usize, down: u64 },
    /// SIGSTOP for so many milliseconds: then it continues with its old knowledge.
    Hold { place: usize, length: u64 },
    /// A second operator starts.
    Join,
    /// SIGKILL to the second, which stays away.
    Leave,
}

/// A fault of the API server and etcd.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quake {
    /// SIGKILL to the API server, which comes back after so many milliseconds.
    ApiServer { down: u64 },
    /// The same to etcd.
    Etcd { down: u64 },
    /// Every connection of the operators to the API server is cut.
    Cut,
    /// Nothing passes on them.
    Silence { length: u64 },
}

/// A fault of the service, for so many milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Outage {
    /// SIGSTOP.
    Hold,
    /// Connections are refused.
    Refuse,
    /// Connections are taken, and nothing passes.
    Silence,
    /// A fault of the reference service.
    Fault(Value),
    /// Every create arrives twice, so many milliseconds apart.
    Double(u64),
    /// Every event stream is cut.
    CutStreams,
}

/// A new token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    /// The old one is rejected before the Secret has the new one.
    pub(crate) late: bool,
    /// Time between the two, in milliseconds.
    pub(crate) gap: u64,
}

/// A blow, and when it falls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Struck {
    /// True: only when the operators have found everything and act, which on a busy machine takes some time.
    /// Else no operator would ever act.
    pub(crate) ready: bool,
    pub(crate) pause: u64,
    pub(crate) blow: Blow,
}

/// Everything that befalls a storm: each with the pause before it.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    pub(crate) blows: Vec<Struck>,
    pub(crate) quakes: Vec<(u64, Quake)>,
    pub(crate) outages: Vec<(u64, u64, Outage)>,
    pub(crate) rotations: Vec<(u64, Rotation)>,
    /// Seconds by which the operators' wall clock is wrong from then on.
    pub(crate) clocks: Vec<(u64, i64)>,
}

/// The clock is wrong by an hour at most.
pub(super) const WRONG: i64 = 3600;

impl Weather {
    /// For so many milliseconds; `restarts` each of API server and etcd.
    pub(crate) fn of(length: u64, restarts: usize, random: &mut Rng) -> Self {
        Self {
            blows: blows(length, random),
            quakes: quakes(length, restarts, random),
            outages: outages(length, random),
            rotations: rotations(length, random),
            clocks: clocks(length, random),
        }
    }
}

fn blows(length: u64, random: &mut Rng) -> Vec<Struck> {
    let mut blows = Vec::new();
    let mut at = 0;
    let mut two = false;
    while at < length {
        // Some pauses are long enough for everything that waits to be resumed.
        let pause = if random.u8(0..4) == 0 {
            random.u64(1500..3000)
        } else {
            random.u64(200..700)
        };
        let place = if two { random.usize(0..2) } else { 0 };
        let blow = match random.u8(0..10) {
            0..=6 => Blow::Kill {
                place,
                down: random.u64(0..300),
            },
            7 => Blow::Hold {
                place,
                length: random.u64(200..1500),
            },
            _ if two => Blow::Leave,
            _ => Blow::Join,
        };
        two = match blow {
            Blow::Join => true,
            Blow::Leave => false,
            Blow::Kill { .. } | Blow::Hold { .. } => two,
        };
        at += pause;
        blows.push(Struck {
            ready: random.u8(0..3) > 0,
            pause,
            blow,
        });
    }
    blows
}

fn quakes(length: u64, restarts: usize, random: &mut Rng) -> Vec<(u64, Quake)> {
    let mut quakes: Vec<Quake> = (0..restarts)
        .flat_map(|_| {
            let api_server = Quake::ApiServer {
                down: random.u64(0..1500),
            };
            let etcd = Quake::Etcd {
                down: random.u64(100..1500),
            };
            [api_server, etcd]
        })
        .collect();
    // A reset of the watches every three seconds or so.
    let resets = usize::try_from(length / 3000).unwrap_or_default() + 1;
    quakes.extend((0..resets).map(|n| {
        if n % 2 == 0 {
            Quake::Cut
        } else {
            Quake::Silence {
                length: random.u64(200..1500),
            }
        }
    }));
    random.shuffle(&mut quakes);
    let share = length / (quakes.len() as u64 + 1);
    let pause = |random: &mut Rng| random.u64((share / 2)..=share);
    quakes.into_iter().map(|q| (pause(random), q)).collect()
}

fn outages(length: u64, random: &mut Rng) -> Vec<(u64, u64, Outage)> {
    let mut outages = Vec::new();
    let mut at = 0;
    while at < length {
        let pause = random.u64(100..1200);
        let lasts = random.u64(300..2500);
        let outage = match random.u8(0..16) {
            0 | 1 => Outage::Hold,
            2 | 3 => Outage::Refuse,
            4 => Outage::Silence,
            5 | 6 => Outage::Double(random.u64(0..1500)),
            7 => Outage::CutStreams,
            _ => Outage::Fault(fault(random)),
        };
        at += pause + lasts;
        outages.push((pause, lasts, outage));
    }
    outages
}

/// A fault of the reference service. None of them may end a Run: repeated requests must succeed in the end.
fn fault(random: &mut Rng) -> Value {
    let page = |status: u16| json!({"type": "answer", "status": status, "body": "<html>", "contentType": "text/html"});
    let answer = |status: u16| json!({"type": "answer", "status": status});
    let slow = random.u64(300..3000);
    let late = |kind: &str| json!({"type": kind, "forMs": slow, "execute": true});
    let delay = || json!({"type": "delay", "forMs": slow});
    let empty = json!({"type": "answer", "status": 200, "body": "", "contentType": "text/html"});
    let throttled = json!({"type": "answer", "status": 429, "headers": {"Retry-After": "1"}});
    let lost = || json!({"type": "doThenLose"});
    // The effect took place, and the answer is an error.
    let done = json!({"type": "answer", "status": 503, "execute": true});
    let cut = json!({"type": "stream", "afterEvents": 1, "then": "cut"});
    let cut_inside = json!({"type": "stream", "afterEvents": 2, "inside": true, "then": "cut"});
    let faults = [
        // A proxy speaks for the service, to whatever is asked.
        (None, page(404)),
        (None, page(408)),
        (None, empty),
        (Some("getVersion"), answer(503)),
        (Some("getVersion"), page(502)),
        (Some("getWorkspace"), answer(503)),
        (None, answer(503)),
        (None, page(502)),
        (None, page(429)),
        (None, throttled),
        (None, json!({"type": "loseBefore"})),
        (None, lost()),
        (Some("createRun"), done),
        (Some("createRun"), lost()),
        // The effect comes late, even after the client has given up.
        (Some("createRun"), delay()),
        (Some("createRun"), late("delay")),
        (Some("createRun"), late("hang")),
        (Some("createRun"), json!({"type": "truncatedBody"})),
        (Some("cancelRun"), lost()),
        (Some("cancelRun"), answer(503)),
        (Some("cancelRun"), delay()),
        (Some("getRun"), page(500)),
        (Some("getRun"), delay()),
        (Some("streamEvents"), answer(503)),
        (Some("streamEvents"), cut),
        (Some("streamEvents"), cut_inside),
    ];
    let (operation, action) = &faults[random.usize(0..faults.len())];
    let fits = operation.map_or(json!({}), |operation| json!({"operation": operation}));
    let chance = f64::from(random.u32(3..10)) / 10.0;
    json!({"match": fits, "action": action, "times": 0, "probability": chance, "seed": random.u32(..)})
}

/// Steps every two seconds or so. The last one sets the clock as far ahead as it ever was: every time that
/// was stored under any of these clocks has then passed.
fn clocks(length: u64, random: &mut Rng) -> Vec<(u64, i64)> {
    let mut clocks = Vec::new();
    let mut at = 0;
    while at < length {
        let pause = random.u64(500..4000);
        at += pause;
        clocks.push((pause, random.i64(-WRONG..=WRONG)));
    }
    clocks.push((0, WRONG));
    clocks
}

fn rotations(length: u64, random: &mut Rng) -> Vec<(u64, Rotation)> {
    let mut rotations = Vec::new();
    let mut at = 0;
    while at < length {
        let pause = random.u64(1500..4000);
        let rotation = Rotation {
            late: random.bool(),
            gap: random.u64(50..1500),
        };
        at += pause + rotation.gap;
        rotations.push((pause, rotation));
    }
    rotations
}
