//! `deploy/quickstart` on a node, by the commands that `docs/quickstart.md` has. Only the network is another: Pods of
//! this node share the machine's, on loopback, and there is no DNS.

use std::process::Command;

use serde_json::{Value, json};

use crate::image::{on_a_node, service_image};
use test_cluster::{ControlPlane, Options, free_port, run, skipped};

const PAGE: &str = include_str!("../../docs/quickstart.md");
const APPLY: &str = "kubectl apply --server-side -k deploy/quickstart";

/// A cluster with a node that has both images.
struct Quickstart(ControlPlane);

impl Quickstart {
    /// None without a node.
    async fn prepare() -> Option<Self> {
        let images = match (on_a_node(), service_image()) {
            (Ok(image), Ok(service)) => [image, service],
            (Err(because), _) | (_, Err(because)) => {
                skipped("the quickstart", &because);
                return None;
            }
        };
        let options = Options {
            controller_manager: true,
            node: true,
        };
        let control_plane = ControlPlane::start(options).await.unwrap();
        for image in images {
            control_plane.import_image(&image).await.unwrap();
        }
        Some(Self(control_plane))
    }

    /// What kubectl prints, within two minutes.
    async fn kubectl(&self, words: &[&str], input: &str) -> String {
        let kubectl = self.0.kubectl();
        let mut command = Command::new("timeout");
        command.arg("120").arg(kubectl.get_program()).args(words);
        command.env("KUBECONFIG", self.0.kubeconfig());
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || run(command, &input)).await;
        output.unwrap().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Follows a section of the page, and returns the number of commands that it has.
    async fn follow(&self, heading: &str) -> usize {
        let commands = commands(heading);
        for command in &commands {
            if command == APPLY {
                let objects = self.on_loopback().await;
                let apply = ["apply", "--server-side", "-f", "-"];
                self.kubectl(&apply, &objects.to_string()).await;
                continue;
            }
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            // It needs its program in the PATH.
            if words[0] != "runop" {
                self.kubectl(&words, "").await;
            }
        }
        commands.len()
    }

    /// Waits until a Run has a phase, and returns the id of its run.
    async fn phase(&self, name: &str, phase: &str) -> String {
        let run = format!("runs.run-operator.dev/{name}");
        let wanted = format!("--for=jsonpath={{.status.phase}}={phase}");
        let here = ["--namespace", "quickstart"];
        let wait = ["wait", &run, &wanted, "--timeout=2m"];
        self.kubectl(&[&here[..], &wait].concat(), "").await;
        let get = ["get", &run, "-o", "jsonpath={.status.runID}"];
        self.kubectl(&[&here[..], &get].concat(), "").await
    }

    /// Waits until a RunSchedule has had a tick, and its Run exists.
    async fn ticked(&self, name: &str) {
        let schedule = format!("runschedules.run-operator.dev/{name}");
        let ticked = "--for=jsonpath={.status.lastScheduleTime}";
        let here = ["--namespace", "quickstart"];
        let wait = ["wait", &schedule, ticked, "--timeout=2m"];
        self.kubectl(&[&here[..], &wait].concat(), "").await;
        let get = ["get", &schedule, "-o", "jsonpath={.status.active[*].name}"];
        let active = self.kubectl(&[&here[..], &get].concat(), "").await;
        assert!(active.starts_with(&format!("{name}-")), "{active}");
    }

    /// The objects of the quickstart, with the network of this node.
    async fn on_loopback(&self) -> Value {
        let yaml = self.kubectl(&["kustomize", "deploy/quickstart"], "").await;
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
        // The network of the machine is not for restricted Pods.
        for namespace in objects.iter_mut().filter(|o| o["kind"] == "Namespace") {
            let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
            namespace["metadata"]["labels"] = labels;
        }
        let [service, operator] = [(); 2].map(|()| free_port().unwrap());
        for object in objects.iter_mut().filter(|o| o["kind"] == "Deployment") {
            let port = match object["metadata"]["name"].as_str() {
                Some("run-operator") => operator,
                _ => service,
            };
            let pod = &mut object["spec"]["template"]["spec"];
            pod["hostNetwork"] = json!(true);
            pod["dnsPolicy"] = json!("Default");
            let container = &mut pod["containers"][0];
            container["ports"][0]["containerPort"] = json!(port);
            for probe in ["livenessProbe", "readinessProbe"] {
                if let Some(probe) = container.get_mut(probe) {
                    probe["httpGet"]["host"] = json!("127.0.0.1");
                }
            }
            for arg in container["args"].as_array_mut().unwrap() {
                if arg.as_str().unwrap().starts_with("--listen=") {
                    *arg = json!(format!("--listen=127.0.0.1:{port}"));
                }
            }
            let api = self.0.api_port().unwrap().to_string();
            let mut env = container["env"].as_array().cloned().unwrap_or_default();
            for variable in &mut env {
                if variable["name"] == "RUN_OPERATOR_BASE_URL" {
                    variable["value"] = json!(format!("http://127.0.0.1:{service}/api/v1"));
                }
            }
            env.push(json!({"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"}));
            env.push(json!({"name": "KUBERNETES_SERVICE_PORT", "value": api}));
            container["env"] = json!(env);
        }
        json!({"apiVersion": "v1", "kind": "List", "items": objects})
    }
}

/// The commands of kubectl in a section of the page.
fn commands(heading: &str) -> Vec<String> {
    let section = PAGE.split("\n## ").find(|part| part.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("the page has no section {heading:?}"));
    let lines = section.lines().filter(|line| line.starts_with("kubectl "));
    lines
        .map(|line| line.split('#').next().unwrap_or_default().trim().to_owned())
        .collect()
}

/// Proves: P-recipes
#[tokio::test]
async fn the_quickstart_works_by_its_page() {
    let Some(quickstart) = Quickstart::prepare().await else {
        return;
    };
    assert_eq!(quickstart.follow("2. Operator and service").await, 3);
    assert_eq!(quickstart.follow("3. Three Runs").await, 5);
    quickstart.phase("train", "Succeeded").await;
    quickstart.phase("evaluate", "Failed").await;
    let run = quickstart.phase("sweep", "Active").await;

    assert_eq!(quickstart.follow("4. Kill the operator").await, 3);
    assert_eq!(quickstart.phase("sweep", "Active").await, run);
    assert_eq!(quickstart.follow("5. Delete a Run").await, 1);
    let runs = [
        "get",
        "runs.run-operator.dev",
        "-o",
        "name",
        "-n",
        "quickstart",
    ];
    let left = quickstart.kubectl(&runs, "").await;
    let others = "run.run-operator.dev/evaluate\nrun.run-operator.dev/train\n";
    assert_eq!(left, others);

    assert_eq!(quickstart.follow("6. A schedule").await, 3);
    quickstart.ticked("tick").await;

    assert_eq!(quickstart.follow("7. Remove everything").await, 4);
    let all = ["get", "crds,namespaces", "-o", "name"];
    let left = quickstart.kubectl(&all, "").await;
    for word in ["run-operator", "quickstart"] {
        assert!(!left.contains(word), "{left}");
    }
}
