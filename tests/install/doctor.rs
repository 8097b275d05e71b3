//! `helm test`: whether what is installed can work here.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};

use crate::installation::{Installation, RELEASE, RELEASED_TO};
use crate::operator::Operator;
use test_cluster::{Output, Process};

impl Installation {
    /// `helm test`: what its Pod printed, and whether it passed (`Ok`) or not.
    pub(crate) async fn helm_test(&self) -> Result<String, String> {
        if !matches!(self.operator, Operator::Pod) {
            return self.test_as_process().await;
        }
        let test = ["test", RELEASE, "--logs", "--timeout", "1m"];
        match self.helm(&test).await {
            Ok(output) => Ok(output),
            // Helm removes the Pod of a test that has passed, and leaves the other.
            Err(error) => {
                let params = LogParams::default();
                let log = self.pods().logs(&test_pod(), &params).await;
                Err(log.unwrap_or_else(|_| panic!("{error}")))
            }
        }
    }

    /// The test as the Pod would run it, with the permissions that Helm would grant.
    async fn test_as_process(&self) -> Result<String, String> {
        let hooks = self.helm(&["get", "hooks", RELEASE]).await.unwrap();
        // The first install has the Workspace for a hook, too.
        let of_tests = hooks
            .split("---\n")
            .filter(|hook| hook.contains("helm.sh/hook: test"));
        let hooks = of_tests.collect::<Vec<_>>().join("---\n");
        let apply = ["apply", "--server-side", "-f", "-"];
        self.kubectl(&apply, &hooks).await.unwrap();

        let pods: Api<Pod> = Api::namespaced(self.client.clone(), RELEASED_TO);
        let pod = pods.get(&test_pod()).await.unwrap();
        let command = self.as_pod(&pod.spec.unwrap()).await;
        let log = format!("test-{}.log", uuid::Uuid::new_v4());
        let log = Output::File(self.scratch.path().join(log));
        let mut process = Process::spawn(&command, log).unwrap();
        let code = process.wait_exit(Duration::from_mins(1)).await;

        let delete = ["delete", "--now", "-f", "-"];
        self.kubectl(&delete, &hooks).await.unwrap();
        if code == Some(0) {
            Ok(process.output())
        } else {
            Err(process.output())
        }
    }
}

fn test_pod() -> String {
    format!("{RELEASE}-test")
}
