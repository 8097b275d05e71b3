//! The operator of an installation, in the Pod of the chart's Deployment.

use std::process::Command;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams};

use crate::installation::{Installation, RELEASE, RELEASED_TO};
use crate::wait::eventually;

impl Installation {
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), RELEASED_TO)
    }

    /// The operator's one Pod, ready, and its container.
    pub(crate) async fn ready_pod(&self) -> (Pod, ContainerStatus) {
        let selector = ListParams::default().labels("app.kubernetes.io/component=controller");
        eventually("one Pod of the operator is ready", async || {
            let mut pods = self.pods().list(&selector).await.unwrap().items;
            pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            let ready = pods.first().and_then(container).filter(|c| c.ready);
            match (pods.pop(), ready) {
                (Some(pod), Some(container)) if pods.is_empty() => Ok((pod, container)),
                (pod, _) => Err(format!("{pod:?}")),
            }
        })
        .await
    }

    /// kill -9 of the operator's process. The kubelet has started it again when this returns.
    pub(crate) async fn kill_operator(&self) {
        let (pod, before) = self.ready_pod().await;
        let id = before.container_id.as_deref();
        for pid in self.control_plane.pod_pids(id).unwrap() {
            let kill = ["-c", "kill -9 \"$0\"", &pid.to_string()];
            let killed = Command::new("sh").args(kill).status();
            assert!(killed.unwrap().success());
        }
        let name = pod.name_any();
        eventually("the kubelet has started the container again", async || {
            let now = container(&self.pods().get(&name).await.unwrap());
            let again =
                |now: &ContainerStatus| now.ready && now.restart_count > before.restart_count;
            let is_back = now.as_ref().is_some_and(again);
            is_back.then_some(()).ok_or(format!("{now:?}"))
        })
        .await;
    }

    /// `kubectl delete pod --grace-period=0 --force`. Its successor is ready when this returns.
    pub(crate) async fn delete_pod(&self) {
        let (pod, _) = self.ready_pod().await;
        let params = DeleteParams::default().grace_period(0);
        self.pods().delete(&pod.name_any(), &params).await.unwrap();
        let (next, _) = self.ready_pod().await;
        assert_ne!(pod.uid(), next.uid());
    }

    /// Waits until the operator has ended, after an uninstall.
    pub(crate) async fn operator_ends(&self) {
        let none = ListParams::default();
        eventually("the Pod is gone", async || {
            let pods = self.pods().list(&none).await.unwrap().items;
            pods.is_empty().then_some(()).ok_or(format!("{pods:?}"))
        })
        .await;
    }

    /// The operator's log since it was last started.
    pub(crate) async fn log(&self) -> String {
        let (pod, _) = self.ready_pod().await;
        let params = LogParams::default();
        let log = self.pods().logs(&pod.name_any(), &params).await;
        log.unwrap()
    }

    /// `helm test`: what its Pod printed, and whether it passed (`Ok`) or not.
    pub(crate) async fn helm_test(&self) -> Result<String, String> {
        let test = ["test", RELEASE, "--logs", "--timeout", "1m"];
        match self.helm(&test).await {
            Ok(output) => Ok(output),
            // Helm removes the Pod of a test that has passed, and leaves the other.
            Err(error) => {
                let (pod, params) = (format!("{RELEASE}-test"), LogParams::default());
                let log = self.pods().logs(&pod, &params).await;
                Err(log.unwrap_or_else(|_| panic!("{error}")))
            }
        }
    }
}

fn container(pod: &Pod) -> Option<ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.first().cloned()
}
