//! Actions of people meanwhile. Each is repeated until the API server has taken it.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Error, ResourceExt};
use run_operator::api::{Run, names};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::environment::{Born, Stage};
use super::workload::{Act, Life};
use crate::support::eventually_after;

/// Time that a storm adds to every wait.
const STORM: Duration = Duration::from_mins(3);

impl Stage {
    /// Lives one life, act by act.
    pub(crate) async fn live(&self, index: usize, life: &Life, began: Instant) {
        if let Some(image) = &life.refused {
            let fits = json!({"operation": "createRun", "image": image});
            let refusal = json!({"type": "answer", "status": 403, "code": "forbidden"});
            self.world.service.fault(fits, refusal).await;
        }
        let mut births = 0;
        for (at, act) in &life.acts {
            sleep_until(began + Duration::from_millis(*at)).await;
            match act {
                Act::Create(spec) | Act::Copy(spec) => {
                    let intent = match act {
                        Act::Copy(_) => Some(self.foreign_intent().await),
                        _ => None,
                    };
                    self.create(index, births, life, spec, intent).await;
                    births += 1;
                }
                Act::Delete => self.delete(index, &life.name).await,
                Act::Change(patch) => self.change(&life.name, patch).await,
                Act::Strip => self.strip(&life.name).await,
            }
        }
    }

    async fn create(
        &self,
        life: usize,
        nth: usize,
        of: &Life,
        spec: &Value,
        intent: Option<String>,
    ) {
        let mut object = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": of.name, "namespace": self.world.namespace}, "spec": spec,
        });
        if let Some(intent) = intent {
            object["metadata"]["annotations"] = json!({names::INTENT_ANNOTATION: intent});
        }
        let object: Run = serde_json::from_value(object).unwrap();
        let what = format!("the Run {} is created", of.name);
        let uid = eventually_after(STORM, &what, async || self.created(&object).await).await;
        self.born.lock().unwrap().push(Born { uid, life, nth });
    }

    /// The uid of the object that was created now, or by a request whose answer was lost.
    async fn created(&self, object: &Run) -> Result<String, String> {
        let runs = self.world.runs();
        let run = match runs.create(&PostParams::default(), object).await {
            Ok(run) => run,
            Err(Error::Api(status)) if status.code == 409 => {
                let there = runs.get(&object.name_any()).await;
                there.map_err(|error| error.to_string())?
            }
            Err(error) => return Err(error.to_string()),
        };
        let uid = run.uid().unwrap();
        let known = self.born.lock().unwrap().iter().any(|born| born.uid == uid);
        if known {
            Err("the name is not free yet".to_owned())
        } else {
            Ok(uid)
        }
    }

    /// The intent of some other object, or one of an unknown uid where there is none yet.
    async fn foreign_intent(&self) -> String {
        let all = eventually_after(STORM, "the Runs are listed", async || {
            self.world.runs().list(&ListParams::default()).await
        })
        .await;
        let intent_of = |run: &Run| run.annotations().get(names::INTENT_ANNOTATION).cloned();
        all.items.iter().find_map(intent_of).unwrap_or_else(|| {
            let uid = uuid::Uuid::new_v4().to_string();
            json!({"uid": uid, "of": "a backup"}).to_string()
        })
    }

    async fn delete(&self, life: usize, name: &str) {
        let uid = {
            let born = self.born.lock().unwrap();
            born.iter().rfind(|b| b.life == life).unwrap().uid.clone()
        };
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
        eventually_after(STORM, &format!("the Run {name} is deleted"), async || {
            match self.world.runs().delete(name, &params).await {
                // It was already removed, or another one has its name: then it is deleted.
                Err(Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
                other => other.map(drop),
            }
        })
        .await;
    }

    /// Applies a merge patch; does nothing if the object no longer exists.
    pub(crate) async fn change(&self, name: &str, patch: &Value) {
        let params = PatchParams::default();
        eventually_after(STORM, &format!("the Run {name} is changed"), async || {
            let patch = Patch::Merge(patch);
            match self.world.runs().patch(name, &params, &patch).await {
                Err(Error::Api(status)) if status.code == 404 => Ok(()),
                other => other.map(drop),
            }
        })
        .await;
    }

    /// Replaces an object whose run is known by what a person has in a file.
    async fn strip(&self, name: &str) {
        let known = eventually_after(STORM, &format!("the run of {name} is known"), async || {
            let run = self.world.runs().get(name).await;
            let run = run.map_err(|error| error.to_string())?;
            let known = run.status.as_ref().is_some_and(|s| s.run_id.is_some());
            if known {
                Ok(run)
            } else {
                Err(format!("{:?}", run.status))
            }
        })
        .await;
        let file = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": name}, "spec": known.spec,
        });
        let file = file.to_string();
        eventually_after(STORM, &format!("the Run {name} is replaced"), async || {
            self.world.kubectl(&["replace", "-f", "-"], &file).await
        })
        .await;
    }
}
