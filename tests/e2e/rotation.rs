//! A token that expires every few seconds, under load.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use kube::api::ListParams;
use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase, conditions};

use crate::support::{Setup, TOKEN, World, condition_of, eventually, phase_of};

const RUNS: usize = 200;
/// Every so many Runs one goes on until the test ends it: on a slow machine the others may end within the first tokens.
const KEPT: usize = 10;
const ROTATIONS: usize = 6;
/// Tokens that streams are opened with, at least, before the Runs that are kept end.
const STREAMED: usize = 3;
/// Lifetime of a token, in milliseconds.
const LIFE: u64 = 4000;
/// Calls that may be refused for each token: those in flight when it expired, and the probes until its
/// successor came. The number of Runs does not matter.
const REFUSED_PER_ROTATION: usize = 32;
/// Bound of the test's length.
const MOST_ROTATIONS: usize = 40;

/// Plays the issuer of tokens.
struct Issuer<'a> {
    world: &'a World,
    /// The fingerprints of what was issued, in order.
    issued: Vec<(String, Instant)>,
    /// How many of them expired before their successor came.
    late: usize,
}

impl Issuer<'_> {
    /// Issues a token and sees it used; every other one expires before its successor comes.
    async fn turn(&mut self) {
        assert!(self.issued.len() < MOST_ROTATIONS, "it never ends");
        self.rotate().await;
        self.used().await;
        if self.issued.len().is_multiple_of(2) {
            self.expired().await;
            self.late += 1;
            if self.late == 2 && succeeded(self.world).await < RUNS {
                one_prober(self.world).await;
            }
        }
    }

    /// True if streams were opened with enough tokens, and one went on with another token than it began with.
    ///
    /// A token with a lifetime of a few seconds may be used only for creates: those come first after each pause.
    async fn streamed(&self) -> bool {
        let mut tokens = 0;
        for (fingerprint, _) in &self.issued {
            tokens += usize::from(self.requests(fingerprint, "streamEvents").await > 0);
        }
        tokens >= STREAMED && renewed_streams(self.world).await > 0
    }

    /// Puts a new token into the Secret, and waits until the Workspace was checked with it.
    async fn rotate(&mut self) {
        let token = format!("canary-of-rotation-{:03}", self.issued.len());
        let new = json!({"token": token, "expiresAfterMs": LIFE});
        let issued_at = Instant::now();
        let made = self.world.service.post("tokens", new).await;
        self.world.token(&token).await;
        let fingerprint = made["fingerprint"].as_str().unwrap().to_owned();
        eventually("the new token is in use", async || {
            if self.requests(&fingerprint, "getWorkspace").await > 0 {
                Ok(())
            } else {
                Err("no check with it")
            }
        })
        .await;
        self.issued.push((fingerprint, issued_at));
    }

    /// The number of requests with a token.
    async fn requests(&self, fingerprint: &str, operation: &str) -> usize {
        let requests = self.world.service.requests(operation).await;
        requests
            .iter()
            .filter(|r| r["token"] == fingerprint)
            .count()
    }

    /// Waits until the last token has expired and the Workspace shows it, or nothing is left to be done.
    async fn expired(&self) {
        eventually("the token has expired", async || {
            if self.rejected().await || succeeded(self.world).await == RUNS {
                Ok(())
            } else {
                Err("the Workspace is Ready")
            }
        })
        .await;
    }

    /// True if the Workspace shows that the last token was rejected.
    async fn rejected(&self) -> bool {
        let workspace = self.world.workspaces().get("default").await.unwrap();
        let conditions = workspace.status.unwrap_or_default().conditions;
        conditions::find(&conditions, Type::Ready).is_some_and(|c| c.reason == "Unauthorized")
    }

    /// Waits until calls were made with the last token, until it has expired unused on a slow machine, or until no Run
    /// is left.
    async fn used(&self) {
        let (last, issued_at) = self.issued.last().unwrap();
        eventually("calls are made with the token", async || {
            let calls =
                self.requests(last, "getRun").await + self.requests(last, "createRun").await;
            // The condition may still be that of the token before.
            let expired = issued_at.elapsed() > Duration::from_millis(LIFE);
            let over = expired && self.rejected().await;
            if calls >= 10 || over || succeeded(self.world).await == RUNS {
                Ok(())
            } else {
                Err(calls)
            }
        })
        .await;
    }
}

async fn succeeded(world: &World) -> usize {
    let runs = world.runs().list(&ListParams::default()).await.unwrap();
    let ended = |run: &&run_operator::api::Run| phase_of(run) == Some(Phase::Succeeded);
    runs.items.iter().filter(ended).count()
}

/// While the token is bad no Run makes a call, and each probe is one of each call.
async fn one_prober(world: &World) {
    let probes = async || {
        let identity = world.service.requests("getWorkspace").await.len();
        (world.service.requests("getVersion").await.len(), identity)
    };
    // The calls in flight when the token expired have been answered by the next probe.
    let (_, identity) = probes().await;
    world.asked("getWorkspace", identity + 1).await;
    let (before, calls) = (probes().await, world.service.run_calls().await);
    world.asked("getWorkspace", before.1 + 2).await;
    let after = probes().await;
    assert_eq!(world.service.run_calls().await, calls, "a Run makes calls");
    let (versions, identities) = (after.0 - before.0, after.1 - before.1);
    // A probe may be half way at either look.
    assert!(
        versions.abs_diff(identities) <= 1,
        "{versions}, {identities}"
    );
    assert!(identities <= 3, "{identities} probes in two steps");
}

/// The number of runs whose stream was opened with more than one token.
async fn renewed_streams(world: &World) -> usize {
    let mut tokens: HashMap<String, HashSet<String>> = HashMap::new();
    for stream in world.service.requests("streamEvents").await {
        let field = |name: &str| stream[name].as_str().unwrap_or_default().to_owned();
        tokens
            .entry(field("runId"))
            .or_default()
            .insert(field("token"));
    }
    tokens.values().filter(|tokens| tokens.len() > 1).count()
}

/// Proves: P-rotation, P-one-probe
#[tokio::test]
async fn two_hundred_runs_succeed_while_their_token_keeps_expiring() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    let history = world.history().await;
    let mut issuer = Issuer {
        world: &world,
        issued: Vec::new(),
        late: 0,
    };
    world.token("canary-of-rotation-none").await;
    world.create_workspace("default", json!({})).await;
    let created = (0..RUNS).map(async |n| {
        let simulate = if n.is_multiple_of(KEPT) {
            json!({"runId": format!("kept-{n}"), "outcome": "never"})
        } else {
            json!({"runTimeMs": 500 + n * 100})
        };
        world.simulate(&format!("run-{n}"), simulate).await
    });
    futures::future::join_all(created).await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    one_prober(&world).await;

    let began = async || world.service.runs().await.len() == RUNS;
    while issuer.issued.len() < ROTATIONS || !began().await || !issuer.streamed().await {
        issuer.turn().await;
    }
    for n in (0..RUNS).step_by(KEPT) {
        let end = json!({"state": "succeeded"});
        world
            .service
            .post(&format!("runs/kept-{n}/state"), end)
            .await;
    }
    while succeeded(&world).await < RUNS {
        issuer.turn().await;
    }

    let refused = usize::try_from(world.unauthorized().await).unwrap();
    let (rotations, late) = (issuer.issued.len(), issuer.late);
    println!("{rotations} rotations, {late} of them late, {refused} calls refused");
    assert!(late >= 3 && rotations >= ROTATIONS);
    assert!(
        refused <= rotations * REFUSED_PER_ROTATION,
        "{refused} calls were refused in {rotations} rotations"
    );
    assert_eq!(world.service.runs().await.len(), RUNS);
    world.one_run_each().await;
    for n in 0..RUNS {
        for run in history.of(&format!("run-{n}")) {
            assert_ne!(phase_of(&run), Some(Phase::Failed));
            assert_eq!(condition_of(&run, Type::Stalled), None);
        }
    }
    history.holds().await;
}
