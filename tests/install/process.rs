//! A process that does what a Pod of the release would do, with the same rights.

use std::path::PathBuf;
use std::process::Command;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

use crate::installation::{Installation, RELEASED_TO};
use crate::operator::Operator;
use crate::wait::eventually;
use test_cluster::{Output, Process};

impl Installation {
    /// Starts the operator with the Deployment's arguments, and waits until it is ready.
    pub(crate) async fn start_process(&mut self) {
        let spec = self.deployment().await.spec.unwrap().template.spec.unwrap();
        let mut command = self.as_pod(&spec).await;
        command.env("RUST_BACKTRACE", "0");
        let log = format!("operator-{}.log", uuid::Uuid::new_v4());
        let log = Output::File(self.scratch.path().join(log));
        let process = Process::spawn(&command, log).unwrap();
        self.operator = Operator::Process(Some(process));
        // As the kubelet would ask.
        let container = spec.containers[0].clone();
        let probe = container.readiness_probe.unwrap().http_get.unwrap();
        let (host, path) = (probe.host.unwrap(), probe.path.unwrap());
        let port = container.ports.unwrap()[0].container_port;
        let url = format!("http://{host}:{port}{path}");
        eventually("the operator is ready", async || {
            match reqwest::get(&url).await {
                Ok(answer) if answer.status() == 200 => Ok(()),
                other => Err(format!("{other:?}, {}", self.log().await)),
            }
        })
        .await;
    }

    /// The command of a Pod of this kind: the arguments and the environment of its container, and a
    /// kubeconfig with a token of its service account.
    pub(crate) async fn as_pod(&self, spec: &PodSpec) -> Command {
        let account = spec.service_account_name.as_deref().unwrap();
        let token = ["--namespace", RELEASED_TO, "create", "token", account];
        let token = self.kubectl(&token, "").await.unwrap();
        let administrator = std::fs::read_to_string(self.control_plane.kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&administrator).unwrap();
        kubeconfig["users"][0]["user"]["token"] = token.trim().into();
        let path = self.scratch.path().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string()).unwrap();

        let container = &spec.containers[0];
        let mut command = Command::new(&self.version.program);
        command.env("KUBECONFIG", path);
        for variable in container.env.iter().flatten() {
            let value = variable.value.as_deref().unwrap_or_default();
            command.env(&variable.name, value);
        }
        for arg in container.args.iter().flatten() {
            if arg.starts_with("--contract=") {
                let file = self.contract_file(spec).await;
                command.arg("--contract").arg(file);
            } else {
                command.arg(arg);
            }
        }
        command
    }

    /// The file that the Pod has by a mount.
    async fn contract_file(&self, spec: &PodSpec) -> PathBuf {
        let mut volumes = spec.volumes.iter().flatten();
        let name = volumes.find_map(|volume| volume.config_map.as_ref());
        let get = [
            "--namespace",
            RELEASED_TO,
            "get",
            "--output=jsonpath={.data.*}",
        ];
        let get = [&get[..], &["configmap", &name.unwrap().name]].concat();
        let text = self.kubectl(&get, "").await.unwrap();
        let path = self.scratch.path().join("contract.yaml");
        std::fs::write(&path, text).unwrap();
        path
    }
}
