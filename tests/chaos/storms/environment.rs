//! The stage of a storm: a world whose operators reach API server and service over wires that the storm has in its hand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::fault_schedule::WRONG;
use super::finalizer_race::Removals;
use crate::support::{
    Operator, Plane, Proxy, Recipe, Setup, TOKEN, WallClock, Wire, World, eventually_after,
};
use test_cluster::{ControlPlane, skipped};

/// An object that was created.
#[derive(Clone, Debug)]
pub(crate) struct Born {
    pub(crate) uid: String,
    /// Index of its life, and of the object in that life.
    pub(crate) life: usize,
    pub(crate) nth: usize,
}

/// A namespace in a storm.
pub(crate) struct Stage {
    pub(crate) world: World,
    /// Of bytes: TLS and HTTP/2 are the API server's own.
    pub(crate) to_api_server: Wire,
    pub(crate) to_service: Proxy,
    /// The operators', where it can be moved.
    pub(super) clock: Option<WallClock>,
    pub(crate) born: Mutex<Vec<Born>>,
    pub(crate) tokens: Mutex<Vec<String>>,
    /// How often the storm did what.
    pub(crate) counts: Mutex<BTreeMap<&'static str, u64>>,
    /// When an operator ended, or the answers of the service got lost on their way.
    pub(crate) losses: Mutex<Vec<SystemTime>>,
    recipes: [Recipe; 2],
    pub(super) held_from_birth: bool,
    /// The limit of the Workspace.
    pub(super) max_active: Option<u32>,
    pub(super) removals: Mutex<Removals>,
}

impl Stage {
    /// A new one on this control plane, with a Workspace and no operator.
    pub(crate) async fn set(control_plane: &'static ControlPlane) -> Self {
        let world = World::unattended(Setup {
            plane: Plane::Own(control_plane),
            ..Setup::default()
        })
        .await;
        let to_service = Proxy::to_service(world.service.address());
        let clock = WallClock::POSSIBLE.then(|| WallClock::new(world.folder()));
        if clock.is_none() {
            let because = "no library can be loaded before the operator's own here";
            skipped("the steps of the wall clock", because);
        }
        let (to_api_server, kubeconfig) = Wire::to_api_server(control_plane, world.folder());
        let base_url = to_service.base_url();
        let trace = "info,run_operator=trace";
        let args = ["--base-url", &base_url, "--log-filter", trace];
        let first = Recipe {
            kubeconfig,
            args: args.map(str::to_owned).into(),
            variables: clock.as_ref().map(WallClock::variables).unwrap_or_default(),
            ..world.recipe()
        };
        let second = Recipe {
            log: first.log.with_file_name("operator-2.log"),
            ..first.clone()
        };
        Self {
            world,
            to_api_server,
            to_service,
            clock,
            born: Mutex::default(),
            tokens: Mutex::new(vec![TOKEN.to_owned()]),
            counts: Mutex::default(),
            losses: Mutex::default(),
            recipes: [first, second],
            held_from_birth: false,
            max_active: None,
            removals: Mutex::default(),
        }
    }

    /// Lets so many Runs be active at the same time from now on.
    pub(super) async fn limit(&mut self, max: u32) {
        self.max_active = Some(max);
        let limit = json!({"maxActiveRuns": max});
        self.world.patch_workspace("default", limit).await;
    }

    /// Counts one.
    pub(crate) fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }

    /// Notes that an operator ends now, or that answers of the service get lost.
    #[allow(
        clippy::disallowed_methods,
        reason = "compared with the times of the service's record"
    )]
    pub(super) fn loses(&self) {
        self.losses.lock().unwrap().push(SystemTime::now());
    }

    /// Starts an operator in this place, and waits for nothing.
    pub(crate) fn launch(&self, place: usize) -> Operator {
        Operator::launch(&self.recipes[place])
    }

    /// Whether an operator has logged a time of the clock as it was set at last, far ahead.
    #[allow(
        clippy::disallowed_methods,
        reason = "compared with the times of the operators' logs"
    )]
    pub(crate) fn showed_its_clock(&self) -> bool {
        let ahead = Timestamp::now() + SignedDuration::from_secs(WRONG / 2);
        let is_ahead = |line: &str| {
            let time = line.split(' ').next().and_then(|time| time.parse().ok());
            time.is_some_and(|time: Timestamp| time > ahead)
        };
        let text = |log: PathBuf| std::fs::read_to_string(log).unwrap_or_default();
        let logs = self.logs().map(text);
        self.clock.is_none() || logs.iter().flat_map(|log| log.lines()).any(is_ahead)
    }

    /// The operators' log files.
    pub(crate) fn logs(&self) -> [PathBuf; 2] {
        self.recipes.each_ref().map(|recipe| recipe.log.clone())
    }

    /// Makes a new token, and puts it where the operators look for it; the one before it is rejected, before
    /// or after.
    pub(crate) async fn rotate(&self, late: bool, gap: Duration) {
        let service = &self.world.service;
        let new = format!("canary-{}", uuid::Uuid::new_v4().simple());
        let old = self.tokens.lock().unwrap().last().unwrap().clone();
        service.post("tokens", json!({"token": new})).await;
        self.tokens.lock().unwrap().push(new.clone());
        let reject = async || {
            let path = format!("tokens/{old}");
            service.patch(&path, json!({"expiresAfterMs": 0})).await;
        };
        if late {
            reject().await;
            tokio::time::sleep(gap).await;
        }
        self.put_token(&new).await;
        if !late {
            tokio::time::sleep(gap).await;
            reject().await;
        }
        self.count("rotations");
    }

    /// Like [`World::token`], where the API server may be down.
    async fn put_token(&self, token: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "run-operator-token"},
            "stringData": {"token": token},
        });
        let params = PatchParams::apply("tests").force();
        let what = "the token is in the Secret";
        eventually_after(Duration::from_mins(3), what, async || {
            let secrets = self.world.secrets();
            let patch = Patch::Apply(&secret);
            let patched = secrets.patch("run-operator-token", &params, &patch).await;
            patched.map(drop)
        })
        .await;
    }
}
