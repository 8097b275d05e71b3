//! A release is changed and the operator killed while Runs are created, wait, run, are cancelled and are deleted.

use std::path::{Path, PathBuf};

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::image::on_a_node;
use crate::installation::{Installation, Version};
use crate::load::Load;
use crate::mixed::Mixed;
use test_support::root;

/// The name that the last release's image has on the node: its version may still be that of this source.
const LAST: &str = "last";

/// Proves: I-upgrade
#[tokio::test]
async fn upgrades_rollbacks_and_kills_lose_and_duplicate_no_run() {
    let Some(mut installation) = Installation::prepare().await else {
        return;
    };
    if let Some(folder) = last_release() {
        installation.prefer(&folder).await;
    }
    let first = installation.version.clone();
    installation.install().await;
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
        Change::Kill,
        Change::DeletePod,
        Change::Rollback,
        Change::Upgrade,
    ];
    for (nth, change) in changes.into_iter().enumerate() {
        let mixed = Mixed::before(&installation, &load, nth).await;
        // Some wait for their cancellation when the operator ends.
        load.delete(&installation, 2 * nth, 2).await;
        let runs = installation.runs();
        load.create(&runs, 10).await;
        let making = Box::pin(make(&mut installation, change, &first));
        load.create_during(&runs, making).await;
        mixed.after(&installation).await;
    }
    let counted = load.settles(&installation, 10).await;
    assert!(load.len() >= 110, "{counted}");
    let left = installation.runs().list(&ListParams::default()).await;
    for run in left.unwrap() {
        assert!(run.finalizers().is_empty(), "{run:?}");
    }
    assert_eq!(installation.refusals(), Vec::<Value>::new());
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Upgrade,
    Kill,
    DeletePod,
    Rollback,
}

async fn make(installation: &mut Installation, change: Change, first: &Version) {
    let few_streams = "--max-streams=5".to_owned();
    match change {
        // Another form of the log, few streams, a contract file: another Pod, with one mount more.
        Change::Upgrade => {
            installation.version = Version::today();
            let contract = root().join("contract/profile.yaml");
            let contract = format!("service.contract={}", contract.display());
            let set = "logging.format=text,maxStreams=5";
            let values = ["--set", set, "--set-file", &contract];
            installation.change("upgrade", &values).await;
            let arguments = installation.arguments().await;
            assert!(arguments.contains(&few_streams));
            assert!(arguments.iter().any(|arg| arg.starts_with("--contract=")));
        }
        Change::Kill => installation.kill_operator().await,
        Change::DeletePod => installation.delete_pod().await,
        Change::Rollback => {
            installation.version = first.clone();
            // The first revision is the installation.
            installation.rollback("1").await;
            assert!(!installation.arguments().await.contains(&few_streams));
        }
    }
}

/// The folder of the last release, which `.ci/last-release` builds. Without it this version is upgraded to itself, with
/// other values.
fn last_release() -> Option<PathBuf> {
    let given = std::env::var_os("RUN_OPERATOR_LAST_RELEASE");
    given.filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

impl Installation {
    /// Installs the release in the folder first.
    async fn prefer(&mut self, folder: &Path) {
        let name = format!("docker.io/library/run-operator:{LAST}");
        let image = folder.join("image.tar");
        let imported = self.control_plane.import_image_as(&image, &name);
        imported.await.unwrap();
        // Both may have one version, and so one name.
        let image = on_a_node().unwrap();
        self.control_plane.import_image(&image).await.unwrap();
        eprintln!("upgraded from {}", folder.display());
        self.version = Version {
            chart: folder.join("charts/run-operator"),
            tag: Some(LAST),
        };
    }
}
