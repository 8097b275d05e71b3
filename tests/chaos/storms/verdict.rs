//! Checks after the storm: each object at its right end, and each run at the service some object's.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use run_operator::api::{Phase, Run};
use serde_json::Value;

use super::environment::{Born, Stage};
use super::workload::{End, Kind, Life, Runs};
use crate::support::{active_at_creates, held, phase_of};

/// A violation.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) what: String,
    /// The object that it is about.
    pub(crate) born: Option<Born>,
    /// The key that it is about.
    pub(crate) key: Option<String>,
}

/// Cluster and service at one moment.
pub(crate) struct Scene {
    pub(crate) objects: HashMap<String, Run>,
    pub(crate) runs: Vec<Value>,
    /// POSTs by key, each with the digest of its body.
    pub(crate) posts: HashMap<String, Vec<String>>,
    /// The uids of objects that the API server removed in spite of their finalizer.
    pub(crate) overtaken: HashSet<String>,
    /// The keys whose create lost an answer, or after whose create an operator ended: the process that knew of the run
    /// may be gone. Only then may the run of an overtaken object be left (docs/limits.md).
    pub(crate) forgotten: HashSet<String>,
    /// True if a Run has its finalizer before it is submitted.
    pub(crate) held_from_birth: bool,
}

impl Scene {
    pub(crate) async fn of(stage: &Stage) -> Result<Self, kube::Error> {
        let objects = stage.world.runs().list(&ListParams::default()).await?;
        let mut posts: HashMap<String, Vec<String>> = HashMap::new();
        let mut forgotten = HashSet::new();
        let last_loss = stage.losses.lock().unwrap().last().copied();
        for post in stage.world.service.requests("createRun").await {
            let text = |field: &str| post[field].as_str().unwrap_or_default().to_owned();
            let (key, at) = (text("idempotencyKey"), text("at"));
            let at: Timestamp = at.parse().unwrap();
            let after = last_loss.is_some_and(|lost| lost >= SystemTime::from(at));
            if after || post["cut"] == true || !post["fault"].is_null() {
                forgotten.insert(key.clone());
            }
            posts.entry(key).or_default().push(text("bodySha256"));
        }
        let objects = objects.items.into_iter();
        Ok(Self {
            objects: objects.map(|run| (run.uid().unwrap(), run)).collect(),
            runs: stage.world.service.runs().await,
            posts,
            overtaken: stage.overtaken(),
            forgotten,
            held_from_birth: stage.held_from_birth,
        })
    }

    /// The objects of live runs that were removed in spite of their finalizer.
    pub(crate) fn left_by_the_api_server(&self, born: &[Born]) -> Vec<Finding> {
        let left =
            |uid: &str| self.overtaken.contains(uid) && self.runs_of(uid).into_iter().any(live);
        let born = born.iter().filter(|born| left(&born.uid));
        born.map(|born| Finding {
            what: format!("{}: removed in spite of its finalizer", born.uid),
            born: Some(born.clone()),
            key: Some(born.uid.clone()),
        })
        .collect()
    }

    /// Whether the run of an object may be left: the API server removed the object in spite of its finalizer, and the
    /// process that knew of the run may be gone.
    fn may_be_left(&self, uid: &str) -> bool {
        self.overtaken.contains(uid) && self.forgotten.contains(uid)
    }

    fn runs_of(&self, key: &str) -> Vec<&Value> {
        let of_key = |run: &&Value| run["idempotencyKey"] == key;
        self.runs.iter().filter(of_key).collect()
    }
}

/// The key with which an object is submitted.
fn key_of(namespace: &str, life: &Life, born: &Born) -> String {
    match &life.own_key {
        Some(key) => format!("{namespace}/{key}"),
        None => born.uid.clone(),
    }
}

fn live(run: &Value) -> bool {
    let state = run["state"].as_str().unwrap_or_default();
    !["succeeded", "failed", "cancelled"].contains(&state)
}

/// The most runs that were active when the service made one of them. Without those that the operator doesn't count, and
/// those of objects that the API server removed in spite of their finalizer.
pub(crate) fn most_active(namespace: &str, lives: &[Life], born: &[Born], scene: &Scene) -> usize {
    let uncounted =
        |born: &&Born| !lives[born.life].kind.has_a_slot() || scene.overtaken.contains(&born.uid);
    let uncounted = born.iter().filter(uncounted);
    let uncounted: HashSet<String> = uncounted
        .map(|born| key_of(namespace, &lives[born.life], born))
        .collect();
    let mut runs = scene.runs.clone();
    runs.retain(|run| {
        let key = run["idempotencyKey"].as_str().unwrap_or_default();
        !uncounted.contains(key)
    });
    active_at_creates(&runs)
        .into_iter()
        .max()
        .unwrap_or_default()
}

/// Everything that is not as it must be.
pub(crate) fn findings(
    namespace: &str,
    lives: &[Life],
    born: &[Born],
    scene: &Scene,
) -> Vec<Finding> {
    let keys = born.iter();
    let keys = keys.map(|born| key_of(namespace, &lives[born.life], born));
    let keys: Vec<String> = keys.collect();
    let mut findings = Vec::new();
    for (born, key) in born.iter().zip(&keys) {
        let life = &lives[born.life];
        let end = life.kind.end(born.nth);
        let runs = scene.runs_of(key);
        let object = scene.objects.get(&born.uid);
        let found = [
            of_object(scene, object, life.kind, &end, &runs),
            of_runs(&end, &runs, scene.may_be_left(&born.uid)),
        ];
        findings.extend(found.into_iter().flatten().map(|what| Finding {
            what: format!("{} ({}): {what}", life.name, born.uid),
            born: Some(born.clone()),
            key: Some(key.clone()),
        }));
    }
    findings.extend(unknown(&keys, scene));
    findings
}

impl Stage {
    /// Everything here that is not as it must be.
    pub(crate) fn findings(&self, lives: &[Life], scene: &Scene) -> Vec<Finding> {
        let born = self.born.lock().unwrap();
        findings(&self.world.namespace, lives, &born, scene)
    }

    pub(crate) fn most_active(&self, lives: &[Life], scene: &Scene) -> usize {
        let born = self.born.lock().unwrap();
        most_active(&self.world.namespace, lives, &born, scene)
    }

    /// Whether more runs were active at the same time than the Workspace's limit allows. Two operators that act as leaders
    /// may give each slot twice: each counts what it submits itself, and the other's once it knows of it.
    pub(crate) fn exceeded(&self, lives: &[Life], scene: &Scene) -> Option<Finding> {
        let max = usize::try_from(self.max_active?).unwrap();
        let two = self.counts.lock().unwrap().contains_key("second operators");
        let at_most = if two { 2 * max } else { max };
        let most = self.most_active(lives, scene);
        (most > at_most).then(|| Finding {
            what: format!("{most} runs were active at the same time, of {at_most}"),
            born: None,
            key: None,
        })
    }
}

/// Runs and POSTs that no object explains, and POSTs of one key with several bodies.
fn unknown<'a>(keys: &'a [String], scene: &'a Scene) -> impl Iterator<Item = Finding> + use<'a> {
    let nobody = |key: &&str| !keys.iter().any(|known| known == key);
    let runs = scene
        .runs
        .iter()
        .filter_map(|r| r["idempotencyKey"].as_str());
    let posts = scene.posts.keys().map(String::as_str);
    let unknown = runs.chain(posts).filter(nobody).map(|key| Finding {
        what: format!("{key}: no object knows of it"),
        born: None,
        key: Some(key.to_owned()),
    });
    let bodies = scene.posts.iter().filter_map(|(key, digests)| {
        let other = digests.iter().any(|digest| *digest != digests[0]);
        other.then(|| Finding {
            what: format!("{key}: POSTs with several bodies: {digests:?}"),
            born: None,
            key: Some(key.clone()),
        })
    });
    unknown.chain(bodies)
}

/// The violation of an object, or of its absence.
fn of_object(
    scene: &Scene,
    object: Option<&Run>,
    kind: Kind,
    end: &End,
    runs: &[&Value],
) -> Option<String> {
    let (run, phase) = match (object, end.phase) {
        (None, None) => return None,
        (None, Some(_)) => return Some("the object is gone".to_owned()),
        (Some(run), None) => {
            return Some(format!(
                "the object is still there, {:?}, finalizers {:?}, deletion asked for: {}",
                phase_of(run),
                run.finalizers(),
                run.metadata.deletion_timestamp.is_some()
            ));
        }
        (Some(run), Some(phase)) => (run, phase),
    };
    if phase_of(run) != Some(phase) {
        return Some(format!("is {:?}, and not {phase:?}", phase_of(run)));
    }
    let status = run.status.clone().unwrap_or_default();
    let says = |reason: &&str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|c| c.status == "True" && c.reason == **reason)
    };
    if let Some(reason) = end.reason.as_ref().filter(|reason| !says(reason)) {
        return Some(format!("no condition says {reason}"));
    }
    let waits = scene.held_from_birth && phase == Phase::Pending;
    if held(run) && !waits {
        return Some("still has the finalizer".to_owned());
    }
    if status.observed_generation != run.metadata.generation {
        return Some("its last change was not observed".to_owned());
    }
    let at_the_service = runs.first().copied();
    let id = at_the_service.and_then(|run| run["runId"].as_str());
    if status.run_id.as_deref() != id {
        return Some(format!(
            "shows the run {:?}, and it is {id:?}",
            status.run_id
        ));
    }
    let state = match (phase, kind) {
        (Phase::Succeeded, _) => Some("succeeded"),
        (Phase::Failed, Kind::Deadline) | (Phase::Cancelled, _) => Some("cancelled"),
        (Phase::Failed, _) => Some("failed"),
        _ => None,
    };
    let is = at_the_service.and_then(|run| run["state"].as_str());
    (is.is_some() && is != state).then(|| format!("is {phase:?}, and its run is {is:?}"))
}

/// The violation by the runs of an object's key. One may be live if it may be left.
fn of_runs(end: &End, runs: &[&Value], may_be_left: bool) -> Option<String> {
    let right = match end.runs {
        Runs::None => runs.is_empty(),
        Runs::AtMostOne => runs.len() <= 1,
        Runs::One => runs.len() == 1,
    };
    if !right {
        return Some(format!("{} runs, and not {:?}", runs.len(), end.runs));
    }
    let alive = runs
        .iter()
        .find(|run| live(run) && !end.may_live && !may_be_left);
    alive.map(|run| format!("its run {} is {}", run["runId"], run["state"]))
}

/// A run that is at the service twice, if there is one. Nothing heals that: it need not be waited for.
pub(crate) fn doubled(scene: &Scene) -> Option<Finding> {
    let key = scene.runs.iter().find_map(|run| {
        let key = run["idempotencyKey"].as_str()?;
        (scene.runs_of(key).len() > 1).then_some(key)
    })?;
    Some(Finding {
        what: format!("{key}: several runs"),
        born: None,
        key: Some(key.to_owned()),
    })
}

/// The places where a token can be read: logs, objects, Events.
pub(crate) async fn leaks(stage: &Stage) -> Vec<String> {
    let mut texts = Vec::new();
    for log in stage.logs() {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        texts.push((log.display().to_string(), text));
    }
    let kinds = "runs,workspaces,events.events.k8s.io";
    let objects = stage.world.kubectl(&["get", kinds, "-o", "yaml"], "").await;
    texts.push(("the objects".to_owned(), objects.unwrap()));
    let tokens = stage.tokens.lock().unwrap().clone();
    let leaks = texts.iter().flat_map(|(place, text)| {
        let found = tokens.iter().filter(|token| text.contains(*token));
        found.map(move |token| format!("{place} has the token {token}"))
    });
    leaks.collect()
}
