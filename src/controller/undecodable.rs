//! Objects that can't be decoded: counted, and shown in the object's status where it can be written.

use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use serde::{Serialize, de::DeserializeOwned};

use crate::clock::wall;
use crate::util::error_chain;

use super::{
    apiserver::{
        self, BadObject, Object,
        patch::{self, WriteError},
        reconciler::{Action, ReconcileError, Reconciled},
    },
    context::Context,
    refused::Refused,
};

/// Pause before a failed write of the status is retried: the watch may deliver no event meanwhile.
const AGAIN: Duration = Duration::from_mins(1);

/// Status of an object that can't be decoded: from the present one, what can't be decoded, the generation, the wall clock.
type Describe<S> = fn(S, &str, i64, Timestamp) -> S;

/// The present status is read live, since the watch's version can't be decoded. Fails the reconcile.
pub(crate) async fn show<K, S>(
    ctx: &Context,
    api: &Api<K>,
    bad: &BadObject,
    describe: Describe<S>,
) -> Reconciled
where
    K: Object,
    S: Serialize + DeserializeOwned + Default + Clone + PartialEq,
{
    ctx.metrics.undecodable.inc();
    let failed = ReconcileError::Undecodable(bad.error.clone());
    let meta = &bad.metadata;
    if !ctx.may_begin() || meta.deletion_timestamp.is_some() && meta.finalizers.is_none() {
        return Err(failed.again(Action::await_change()));
    }
    Err(failed.again(show_in_status(ctx, api, bad, describe).await))
}

async fn show_in_status<K, S>(
    ctx: &Context,
    api: &Api<K>,
    bad: &BadObject,
    describe: Describe<S>,
) -> Action
where
    K: Object,
    S: Serialize + DeserializeOwned + Default + Clone + PartialEq,
{
    let meta = &bad.metadata;
    let write = async {
        let name = meta.name.as_deref().unwrap_or_default();
        let read = apiserver::read_status::<K, S>(api, name);
        let Some((live, stored)) = patch::bounded(read).await? else {
            return Ok(());
        };
        let generation = meta.generation.unwrap_or_default();
        let status = describe(stored.clone(), &bad.error, generation, wall());
        if live.uid != meta.uid || status == stored {
            return Ok(());
        }
        let written = patch::send_status(api, &live, &status).await;
        if let Err(error) = &written {
            let object: PartialObjectMeta<K> = live.into_response_partial();
            let refused = Refused {
                writes: "status",
                error,
                times: 1,
                condition: None,
                client: None,
            };
            refused.tell(ctx, &object);
        }
        written.map(drop)
    };
    match write.await {
        // After a conflict the watch delivers a newer version.
        Ok(()) | Err(WriteError::Conflict | WriteError::Gone) => Action::await_change(),
        Err(error) => {
            tracing::warn!(
                k8s.kind = %K::kind(&()), k8s.namespace.name = meta.namespace.as_deref(), k8s.name = meta.name.as_deref(),
                error = %error_chain(&error), "failed to write the status of an object that can't be decoded; requeueing"
            );
            Action::requeue(AGAIN)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::{Run, RunStatus};
    use crate::clock::now;
    use crate::controller::apiserver::{Maybe, answer, decode, loopback, silent};
    use crate::decide::{EventDraft, conditions::undecodable_run};

    const REFUSED: &str = r#"{"kind": "Status", "status": "Failure", "message": "no", "code": 0}"#;

    fn refused(code: u16) -> String {
        answer(&code.to_string(), &REFUSED.replace('0', &code.to_string()))
    }

    fn odd(uid: &str, status: Option<&RunStatus>) -> String {
        let object = json!({
            "metadata": {"name": "odd", "namespace": "team", "uid": uid, "resourceVersion": "1"},
            "spec": {"workload": {}, "suspend": "perhaps"}, "status": status,
        });
        object.to_string()
    }

    fn bad(text: &str) -> Arc<BadObject> {
        let object = decode::<Run>(serde_json::from_str(text).unwrap());
        let Maybe::Bad(bad) = object else {
            panic!("{object:?}");
        };
        bad
    }

    /// Proves: F-undecodable, P-refused-writes
    #[rstest]
    #[case::written(&[200, 200], false)]
    #[case::gone_before_it_is_read(&[404], false)]
    #[case::no_answer_to_the_read(&[500], true)]
    #[case::changed_meanwhile(&[200, 409], false)]
    #[case::gone_meanwhile(&[200, 404], false)]
    #[case::no_answer_to_the_write(&[200, 500], true)]
    #[case::refused(&[200, 422], true)]
    #[tokio::test]
    async fn what_could_not_be_shown_is_tried_again(#[case] codes: &[u16], #[case] again: bool) {
        let text = odd("u", None);
        let bad = bad(&text);
        let answers = codes.iter().map(|code| match code {
            200 => answer("200", &text),
            code => refused(*code),
        });
        let api = Api::namespaced(loopback(answers.collect()), "team");
        let ctx = Context::idle(silent());
        let next = show_in_status::<Run, _>(&ctx, &api, &bad, undecodable_run).await;
        let expected = again.then_some(Duration::from_mins(1));
        assert_eq!(next.pause(), expected);
        let event = EventDraft::write_refused("status", "no", None, now());
        let told = !ctx.recorder.publish(&Maybe::<Run>::Bad(bad), &event);
        assert_eq!(told, codes.contains(&422));
    }

    /// Proves: P-guarded-writes
    #[rstest]
    #[case::shown_already("u", true)]
    #[case::of_another_object("other", false)]
    #[tokio::test]
    async fn nothing_is_written_where_nothing_is_to_be_shown(
        #[case] uid: &str,
        #[case] shown: bool,
    ) {
        let what = &bad(&odd("u", None)).error;
        let status = shown.then(|| undecodable_run(RunStatus::default(), what, 0, wall()));
        let text = |uid| odd(uid, status.as_ref());
        let bad = bad(&text("u"));
        // A write would find no server.
        let api = Api::namespaced(loopback(vec![answer("200", &text(uid))]), "team");
        let ctx = Context::idle(silent());
        let next = show_in_status::<Run, _>(&ctx, &api, &bad, undecodable_run).await;
        assert_eq!(next, Action::await_change());
    }
}
