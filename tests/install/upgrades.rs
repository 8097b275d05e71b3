//! A release is changed and the operator killed while Runs are created, run and are deleted.

use serde_json::{Value, json};

use crate::installation::{Installation, say};
use crate::load::Load;

/// Proves: I-upgrade
#[tokio::test]
async fn upgrades_rollbacks_and_kills_lose_and_duplicate_no_run() {
    let mut installation = Installation::prepare().await;
    installation.install().await;
    // The effect at once, its answer late: an operator that is killed has some creates in flight.
    let late = json!({"type": "delay", "forMs": 700, "execute": true});
    let creates = json!({"operation": "createRun"});
    installation.service.lasting_fault(creates, late).await;
    let load = Load::default();
    load.create(&installation.runs(), 30).await;
    load.running(&installation, 0, 10).await;

    for (nth, change) in [
        Change::Upgrade,
        Change::Kill,
        Change::DeletePod,
        Change::Rollback,
    ]
    .into_iter()
    .enumerate()
    {
        let before = load.len();
        // Some wait for their cancellation when the operator ends.
        load.delete(&installation, 2 * nth, 2).await;
        let runs = installation.runs();
        load.create(&runs, 10).await;
        let changed = Box::pin(make(&mut installation, change));
        load.create_during(&runs, changed).await;
        say(&format!(
            "{change:?} while {} more Runs were created",
            load.len() - before
        ));
    }
    let counted = load.settles(&installation, 8).await;
    say(&counted);
    assert!(load.len() >= 60, "{counted}");
    assert_eq!(installation.refusals(), Vec::<Value>::new());
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Upgrade,
    Kill,
    DeletePod,
    Rollback,
}

async fn make(installation: &mut Installation, change: Change) {
    match change {
        // Another form of the log, few streams, a contract file: another Pod, with one mount more.
        Change::Upgrade => {
            let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/contract/profile.yaml");
            let contract = format!("contract={contract}");
            let values = ["--set", "logging.format=text,maxStreams=5"];
            let values = [&values[..], &["--set-file", &contract]].concat();
            installation.upgrade(&values).await;
            let arguments = installation.arguments().await;
            assert!(arguments.contains(&"--max-streams=5".to_owned()));
            assert!(arguments.iter().any(|arg| arg.starts_with("--contract=")));
        }
        Change::Kill => installation.kill_operator().await,
        Change::DeletePod => installation.delete_pod().await,
        Change::Rollback => {
            installation.rollback("1").await;
            assert!(
                !installation
                    .arguments()
                    .await
                    .contains(&"--max-streams=5".to_owned())
            );
        }
    }
}
