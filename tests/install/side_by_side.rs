//! Operators of both versions at the same time, as during a rolling update: the one that leads acts, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::{Value, json};

use crate::image::Where;
use crate::installation::{Installation, RELEASE, RELEASED_TO, Version, say};
use crate::load::Load;
use crate::operator::Operator;
use crate::previous::Previous;
use crate::wait::eventually;
use test_cluster::{Output, Process, free_port};

/// The extra field of a request's user by which the API server distinguishes two tokens of one account.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Proves: I-upgrade-leader
#[tokio::test]
async fn of_two_versions_side_by_side_only_the_leader_acts() {
    let Some(previous) = Previous::find() else {
        return;
    };
    let because = "a node has one port for both".to_owned();
    let mut installation = Installation::prepare_in(Where::Process { because }).await;
    installation.version = previous.version.clone();
    installation.install().await;
    // The one that the harness started has no name of its own.
    installation.operator_ends().await;
    let late = json!({"type": "delay", "forMs": 700, "execute": true});
    let creates = json!({"operation": "createRun"});
    installation.service.lasting_fault(creates, late).await;
    let (runs, load) = (installation.runs(), Load::default());

    let old = previous.version;
    let order = [&old, &Version::today(), &old, &Version::today()];
    let mut leader = installation.start_beside(order[0], "operator-0").await;
    installation.led_by("operator-0").await;
    for (nth, version) in order.into_iter().enumerate().skip(1) {
        load.create(&runs, 12).await;
        let name = format!("operator-{nth}");
        let next = installation.start_beside(version, &name).await;
        load.create(&runs, 6).await;
        // Once as in an accident, twice as in a rolling update.
        if nth == 1 {
            leader.kill9();
        } else {
            leader.terminate();
        }
        load.create_during(&runs, installation.led_by(&name)).await;
        if nth != 1 {
            assert_eq!(leader.wait_exit(Duration::from_secs(30)).await, Some(0));
        }
        leader = next;
    }
    let counted = load.settles(&installation, 0).await;
    say(&counted);
    say(&only_leaders_act(&installation, order.len()));
    assert_eq!(installation.refusals(), Vec::<Value>::new());
    installation.operator = Operator::Process(Some(leader));
}

/// By the audit log: between the first write of the Lease with a token and the first one with the next, every write of
/// Runs and Workspaces was made with that token. Returns the counts.
fn only_leaders_act(installation: &Installation, operators: usize) -> String {
    let log = std::fs::read_to_string(installation.control_plane.audit_log().unwrap()).unwrap();
    let entries = log.lines().map(serde_json::from_str::<Value>);
    let mut writes: Vec<(String, String, bool)> =
        entries.filter_map(|entry| write_of(&entry.ok()?)).collect();
    writes.sort();
    let (mut leader, mut terms, mut acts) = (String::new(), Vec::new(), BTreeMap::new());
    for (time, token, lease) in writes {
        if lease {
            if leader != token {
                terms.push(token.clone());
            }
            leader = token;
        } else {
            assert_eq!(token, leader, "wrote at {time} without leading");
            *acts.entry(token).or_insert(0) += 1;
        }
    }
    // The operator of the installation led before these.
    assert_eq!(terms.len(), operators + 1, "{terms:?}");
    assert_eq!(terms.iter().collect::<BTreeSet<_>>().len(), terms.len());
    let counts: Vec<i32> = terms
        .iter()
        .map(|token| acts.get(token).copied().unwrap_or(0))
        .collect();
    assert!(counts.iter().skip(1).all(|count| *count > 0), "{counts:?}");
    format!("writes of Runs and Workspaces in each term: {counts:?}")
}

/// Time, token and kind of a successful write of the operator's account: of its Lease, or of an object.
fn write_of(entry: &Value) -> Option<(String, String, bool)> {
    let account = format!("system:serviceaccount:{RELEASED_TO}:{RELEASE}");
    let is = |field: &Value, of: &[&str]| field.as_str().is_some_and(|text| of.contains(&text));
    let code = entry["responseStatus"]["code"].as_u64()?;
    let lease = is(&entry["objectRef"]["resource"], &["leases"]);
    let counts = is(&entry["user"]["username"], &[&account])
        && is(&entry["verb"], &["create", "update", "patch", "delete"])
        && (lease || is(&entry["objectRef"]["apiGroup"], &["run-operator.dev"]))
        && (200..300).contains(&code);
    let token = entry["user"]["extra"][CREDENTIAL][0].as_str()?;
    let time = entry["requestReceivedTimestamp"].as_str()?;
    counts.then(|| (time.to_owned(), token.to_owned(), lease))
}

impl Installation {
    /// Starts an operator of a version with the Deployment's arguments, its own token and port, until it is ready.
    async fn start_beside(&mut self, version: &Version, name: &str) -> Process {
        self.version = version.clone();
        let mut spec = self.deployment().await.spec.unwrap().template.spec.unwrap();
        let address = format!("127.0.0.1:{}", free_port().unwrap());
        for arg in spec.containers[0].args.iter_mut().flatten() {
            if arg.starts_with("--listen=") {
                *arg = format!("--listen={address}");
            }
        }
        let mut command = self.as_pod(&spec).await;
        command.env("HOSTNAME", name);
        let log = Output::File(self.scratch.path().join(format!("{name}.log")));
        let process = Process::spawn(&command, log).unwrap();
        eventually(&format!("{name} is ready"), async || {
            match reqwest::get(format!("http://{address}/readyz")).await {
                Ok(answer) if answer.status() == 200 => Ok(()),
                other => Err(format!("{other:?}, {}", process.output())),
            }
        })
        .await;
        process
    }

    /// Waits until the Lease names this operator.
    async fn led_by(&self, name: &str) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), RELEASED_TO);
        eventually(&format!("{name} leads"), async || {
            let lease = leases.get(RELEASE).await.unwrap();
            let holder = lease
                .spec
                .unwrap_or_default()
                .holder_identity
                .unwrap_or_default();
            if holder.starts_with(&format!("{name}/")) {
                Ok(())
            } else {
                Err(holder)
            }
        })
        .await;
    }
}
