//! `ttlSecondsAfterFinished` never overtakes a mark of Argo CD, Flux or Helm. What it deletes, and when, is proved in
//! `policy`.

use run_operator::api::Run;
use serde_json::json;

use crate::stale::stage;
use crate::support::{Asked, Fault, Hook, eventually};

/// The operator has decided on the deletion when the mark comes: it carries the version that it was decided on. A last
/// event of the run may lead to a write, and that to a second deletion.
/// Proves: P-ttl
#[tokio::test]
async fn a_deletion_never_overtakes_a_gitops_mark_set_just_before() {
    let (proxy, world) = stage().await;
    let (release, hook) = Hook::held();
    let deletes = |asked: &Asked| asked.is("delete", "runs");
    proxy.lasting(Fault::Delay(hook), deletes);
    let at_once = json!({"ttlSecondsAfterFinished": 0});
    world.create_run("marked", at_once.clone()).await;
    proxy.until("delete", "runs", 1).await;
    let manifest = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "marked"},
        "spec": at_once,
    });
    let apply = [
        "apply",
        "--server-side",
        "--field-manager=argocd-controller",
        "-f",
        "-",
    ];
    world.kubectl(&apply, &manifest.to_string()).await.unwrap();
    release();
    eventually("the deletion is refused", async || {
        match proxy.asked(deletes)[0].status {
            Some(409) => Ok(()),
            _ => Err("not yet"),
        }
    })
    .await;
    let told = |run: &Run| {
        let keeper = run.status.as_ref().and_then(|s| s.kept_by.as_deref());
        keeper == Some("Argo CD (field manager argocd-controller)")
    };
    world.run_until("marked", "stays and says why", told).await;
    world.create_run("unmarked", at_once).await;
    world.gone("unmarked").await;
}
