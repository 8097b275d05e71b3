//! The operator of an installation: a Pod, or a process that plays the Pod.

use std::process::Command;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams};

use crate::installation::{Installation, RELEASED_TO};
use crate::wait::eventually;
use test_cluster::Process;

/// The running operator.
pub(crate) enum Operator {
    /// In the Pod of the chart's Deployment.
    Pod,
    /// A process with that Pod's service account, arguments and environment; none while it is down.
    Process(Option<Process>),
}

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

    /// kill -9 of the operator's process. It is back when this returns.
    pub(crate) async fn kill_operator(&mut self) {
        if let Operator::Process(_) = &self.operator {
            self.operator_ends().await;
            self.start_process().await;
            return;
        }
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
    pub(crate) async fn delete_pod(&mut self) {
        if let Operator::Process(_) = &self.operator {
            self.operator_ends().await;
            self.start_process().await;
            return;
        }
        let (pod, _) = self.ready_pod().await;
        let params = DeleteParams::default().grace_period(0);
        self.pods().delete(&pod.name_any(), &params).await.unwrap();
        let (next, _) = self.ready_pod().await;
        assert_ne!(pod.uid(), next.uid());
    }

    /// After a change of the release: the Pod has already been replaced (`--wait`); a process is restarted.
    pub(crate) async fn operator_follows(&mut self) {
        if let Operator::Process(process) = &mut self.operator {
            // As the Deployment's strategy has it, the old one ends first.
            if let Some(mut old) = process.take() {
                old.terminate();
                assert_eq!(
                    old.wait_exit(std::time::Duration::from_secs(30)).await,
                    Some(0)
                );
            }
            self.start_process().await;
        }
    }

    /// Waits until the operator has ended, after an uninstall or by kill -9.
    pub(crate) async fn operator_ends(&mut self) {
        match &mut self.operator {
            Operator::Process(process) => drop(process.take()),
            Operator::Pod => {
                let none = ListParams::default();
                eventually("the Pod is gone", async || {
                    let pods = self.pods().list(&none).await.unwrap().items;
                    pods.is_empty().then_some(()).ok_or(format!("{pods:?}"))
                })
                .await;
            }
        }
    }

    /// The operator's log since it was last started.
    pub(crate) async fn log(&self) -> String {
        match &self.operator {
            Operator::Process(process) => process.as_ref().unwrap().output(),
            Operator::Pod => {
                let (pod, _) = self.ready_pod().await;
                let params = LogParams::default();
                let log = self.pods().logs(&pod.name_any(), &params).await;
                log.unwrap()
            }
        }
    }
}

fn container(pod: &Pod) -> Option<ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.first().cloned()
}
