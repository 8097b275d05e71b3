//! From the previous release to this version and back under load, and both versions at the same time.

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::image::Where;
use crate::installation::{Installation, RELEASED_TO, Version, say};
use crate::load::Load;
use crate::mixed::Mixed;
use crate::operator::Operator;
use crate::previous::{Previous, TAG};

/// A change of the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Upgrade,
    /// `helm rollback`.
    Rollback,
    /// `helm upgrade` with the previous chart: the same way back, for tools that never roll back.
    Downgrade,
}

/// Proves: I-upgrade-previous, I-upgrade-crds
#[tokio::test]
async fn the_previous_release_is_upgraded_and_restored_under_load() {
    let Some(previous) = Previous::find() else {
        return;
    };
    let mut installation = Installation::prepare().await;
    installation.import(&previous).await;
    installation.version = previous.version.clone();
    installation.install().await;
    let old_crds = installation.crds().await;
    Mixed::refuse(&installation).await;
    // The effect at once, its answer late: an operator that ends has some creates in flight.
    let late = json!({"type": "delay", "forMs": 700, "execute": true});
    let creates = json!({"operation": "createRun"});
    installation.service.lasting_fault(creates, late).await;
    let load = Load::default();
    load.create(&installation.runs(), 30).await;
    load.running(&installation, 0, 10).await;

    let changes = [
        Change::Upgrade,
        Change::Rollback,
        Change::Upgrade,
        Change::Downgrade,
        Change::Upgrade,
    ];
    for (nth, change) in changes.into_iter().enumerate() {
        let before = load.len();
        let mixed = Mixed::before(&installation, &load, nth).await;
        load.delete(&installation, 2 * nth, 2).await;
        let runs = installation.runs();
        load.create(&runs, 10).await;
        let made = Box::pin(make(&mut installation, &previous, change));
        load.create_during(&runs, made).await;
        let crds = installation.crds().await;
        let restored = change != Change::Upgrade;
        assert_eq!(crds == old_crds, restored, "the CRDs after {change:?}");
        // A field of only one version would be dropped at the next write under the other.
        let (crds, old_crds) = (shape(&crds), shape(&old_crds));
        assert_eq!(
            crds, old_crds,
            "docs/upgrade.md has to list what a rollback drops"
        );
        mixed.after(&installation).await;
        say(&format!(
            "{change:?} while {} more Runs were created",
            load.len() - before
        ));
    }
    let counted = load.settles(&installation, 10).await;
    say(&counted);
    assert!(load.len() >= 110, "{counted}");
    for run in installation
        .runs()
        .list(&ListParams::default())
        .await
        .unwrap()
    {
        assert!(run.finalizers().is_empty(), "{run:?}");
    }
    assert_eq!(installation.refusals(), Vec::<Value>::new());
}

async fn make(installation: &mut Installation, previous: &Previous, change: Change) {
    installation.version = match change {
        Change::Upgrade => Version::today(),
        Change::Rollback | Change::Downgrade => previous.version.clone(),
    };
    match change {
        Change::Upgrade | Change::Downgrade => installation.upgrade(&[]).await,
        // The first revision is the installation.
        Change::Rollback => installation.rollback("1").await,
    }
    if matches!(installation.operator, Operator::Pod) {
        let (pod, _) = installation.ready_pod().await;
        let image = pod.spec.unwrap().containers[0].image.clone().unwrap();
        let old = image.ends_with(&format!(":{TAG}"));
        assert_eq!(old, change != Change::Upgrade, "{image}");
    }
}

impl Installation {
    /// Gives the node the previous image, under its own name and under the tag of [`TAG`].
    async fn import(&self, previous: &Previous) {
        if matches!(self.operator, Operator::Pod) {
            let name = format!("docker.io/library/run-operator:{TAG}");
            let imported = self.control_plane.import_image_as(&previous.image, &name);
            imported.await.unwrap();
            // Before a release both versions have one number, and so one name.
            if let Where::Pod { image } = Where::choose() {
                self.control_plane.import_image(&image).await.unwrap();
            }
            let (image, to) = (previous.image.display(), RELEASED_TO);
            say(&format!("the previous release in {to} is from {image}"));
        }
    }

    /// The versions of the CRDs, whose schemas have each release's own descriptions. All that is stored is stored in
    /// the one version that there is.
    async fn crds(&self) -> Value {
        let mut crds = Vec::new();
        for kind in ["runs", "workspaces", "clusterworkspaces"] {
            let get = [
                "get",
                "crd",
                &format!("{kind}.run-operator.dev"),
                "-o",
                "json",
            ];
            let crd = self.kubectl(&get, "").await.unwrap();
            let crd: Value = serde_json::from_str(&crd).unwrap();
            assert_eq!(crd["status"]["storedVersions"], json!(["v1alpha1"]));
            crds.push(crd["spec"]["versions"].clone());
        }
        crds.into()
    }
}

/// A schema without the sentences in it, and without the upper bounds of numbers: neither decides what is dropped.
fn shape(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let other = |name: &str, field: &Value| {
                field.is_string() && ["description", "message"].contains(&name)
                    || field.is_number() && name == "maximum"
            };
            let kept = fields.iter().filter(|(name, field)| !other(name, field));
            let kept = kept.map(|(name, field)| (name.clone(), shape(field)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(shape).collect(),
        other => other.clone(),
    }
}
