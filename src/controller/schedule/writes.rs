//! Creates, reads, cancels and deletes the Runs of a schedule.

use std::time::Duration;

use kube::{Api, Resource};

use crate::api::schedule::Tick;
use crate::api::{Run, RunSchedule};
use crate::clock::wall;
use crate::controller::{
    apiserver::{
        self, ListError, Maybe, ObjectVersion,
        patch::{self, WriteError},
    },
    context::Context,
    refused::Refused,
    state::schedules::Schedules,
};
use crate::decide::schedule::{Effect, Outcome, OwnedRun, Source, manifest, owner};

const TIMEOUT: Duration = Duration::from_secs(15);

/// Error of an effect that is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EffectError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Read(#[from] ListError),
}

/// The Runs of one schedule.
pub(crate) struct Runs<'a> {
    pub(crate) ctx: &'a Context,
    pub(crate) schedule: &'a RunSchedule,
    /// Policy creates and tries nothing without one.
    pub(crate) source: Option<&'a Source>,
    /// Attempts in a row that have failed.
    pub(crate) failures: u32,
}

impl Runs<'_> {
    /// Carries out an effect. Returns what its memory has to take in.
    pub(crate) async fn carry_out(&self, effect: &Effect) -> Result<Option<Outcome>, EffectError> {
        match (effect, self.source) {
            (Effect::Try, Some(source)) => self.try_out(source).await,
            (Effect::Create(tick), Some(source)) => self.create(source, *tick).await,
            (Effect::Try | Effect::Create(_), None) => Ok(None),
            (Effect::Look(name), _) => self.look(name).await,
            (Effect::Cancel(run), _) => {
                let written = patch::cancel(&self.api(), &version(self.schedule, run)).await;
                self.changed(run, "spec", written, Schedules::cancelling)
            }
            (Effect::Delete(run), _) => {
                let deleted = patch::delete(&self.api(), &version(self.schedule, run)).await;
                self.changed(run, "delete", deleted, Schedules::deleting)
            }
        }
    }

    fn api(&self) -> Api<Run> {
        let namespace = self.schedule.metadata.namespace.as_deref();
        Api::namespaced(self.ctx.client.clone(), namespace.unwrap_or_default())
    }

    async fn try_out(&self, source: &Source) -> Result<Option<Outcome>, EffectError> {
        let tried = manifest::trial(self.schedule, source).map_err(WriteError::Serialize)?;
        match patch::create(&self.api(), &tried, true).await {
            Ok(tried) => Ok(Some(accepted(&tried))),
            Err(error) if can_not_be_tried(&error) => Ok(Some(Outcome::Untried)),
            Err(error) => self.refused("create", error),
        }
    }

    /// What memory takes in of a Run that was to be cancelled or deleted. `note`: what the watch has yet to show.
    fn changed(
        &self,
        run: &OwnedRun,
        writes: &'static str,
        written: Result<(), WriteError>,
        note: fn(&Schedules, &str),
    ) -> Result<Option<Outcome>, EffectError> {
        match written {
            Ok(()) => note(&self.ctx.schedules, &run.uid),
            // The watch shows it; until then nothing is left to do for it.
            Err(WriteError::Gone) => return Ok(Some(Outcome::Kept(run.uid.clone()))),
            Err(error) => {
                let refused = self.refused(writes, error)?;
                return Ok(refused.map(|_| Outcome::Kept(run.uid.clone())));
            }
        }
        Ok(None)
    }

    async fn create(&self, source: &Source, tick: Tick) -> Result<Option<Outcome>, EffectError> {
        let new = manifest::of_tick(self.schedule, source, tick);
        let new = new.map_err(WriteError::Serialize)?;
        match patch::create(&self.api(), &new, false).await {
            Ok(run) => {
                self.ctx.schedules.answered(&run);
                let late = wall().duration_since(tick.at);
                let late = (tick.attempt == 1).then(|| late.try_into().unwrap_or_default());
                self.ctx.metrics.created_run(late);
                tracing::info!(
                    k8s.namespace.name = self.schedule.metadata.namespace.as_deref(),
                    schedule.name = self.schedule.metadata.name.as_deref(),
                    run.name = run.meta().name.as_deref(), tick = %tick.at, attempt = tick.attempt,
                    "created the Run of a tick"
                );
                Ok(Some(accepted(&run)))
            }
            // Created before, by a process that has ended, or by this one without an answer; or another's.
            Err(WriteError::Conflict) => {
                let name = manifest::name_of(self.schedule, tick);
                let Some(run) = apiserver::read_named(&self.api(), &name, TIMEOUT).await? else {
                    return Err(WriteError::Conflict.into());
                };
                if self.owns(&run) {
                    self.ctx.schedules.answered(&run);
                    return Ok(Some(Outcome::Accepted));
                }
                Ok(Some(Outcome::Taken(name)))
            }
            Err(error) => self.refused("create", error),
        }
    }

    /// Tells that the API server refuses a write, if it does; any other error is returned.
    fn refused(
        &self,
        writes: &'static str,
        error: WriteError,
    ) -> Result<Option<Outcome>, EffectError> {
        let refused = Refused {
            writes,
            error: &error,
            times: self.failures.saturating_add(1),
            condition: None,
            client: None,
        };
        match refused.tell(self.ctx, self.schedule) {
            Some(sentence) => Ok(Some(Outcome::Refused(sentence))),
            None => Err(error.into()),
        }
    }

    /// Takes in a Run that is read live. Without its owner it is no longer this schedule's.
    async fn look(&self, name: &str) -> Result<Option<Outcome>, EffectError> {
        let found = apiserver::read_named(&self.api(), name, TIMEOUT).await?;
        if let Some(run) = found.filter(|run| self.owns(run)) {
            self.ctx.schedules.answered(&run);
        }
        Ok(Some(Outcome::Looked(name.to_owned())))
    }

    fn owns(&self, run: &Maybe<Run>) -> bool {
        let uid = self.schedule.metadata.uid.as_deref();
        owner(run.meta()).is_some_and(|owner| Some(owner.uid.as_str()) == uid)
    }
}

/// Of a Run that another controller runs, the end would not be known here.
fn accepted(run: &Maybe<Run>) -> Outcome {
    let elsewhere = run.good().is_some_and(|run| run.spec.managed_elsewhere());
    if elsewhere {
        let sentence =
            "its spec.managedBy, which something in this cluster sets, names another controller.";
        Outcome::Refused(sentence.to_owned())
    } else {
        Outcome::Accepted
    }
}

/// Whether a webhook takes no trials: what it says of a Run shows at its creation.
fn can_not_be_tried(error: &WriteError) -> bool {
    let refusal = error.refusal(1);
    refusal.is_some_and(|status| status.message.contains("does not support dry run"))
}

fn version(schedule: &RunSchedule, run: &OwnedRun) -> ObjectVersion {
    ObjectVersion {
        uid: run.uid.as_str().into(),
        namespace: schedule
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
            .into(),
        name: run.name.as_str().into(),
        version: run.version.as_str().into(),
    }
}
