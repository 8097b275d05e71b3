//! Proxies: to the API server, as kubectl uses them, and to the service.

use std::path::PathBuf;
use std::process::Command;

use kube::config::Kubeconfig;
use run_operator::api::Phase;
use serde_json::json;
use test_support::{connect_proxy::ConnectProxy, programs};

use crate::support::{Setup, World, eventually, output_of};

/// Nothing listens there.
const NO_PROXY_HERE: &str = "http://127.0.0.1:9";

/// The world's kubeconfig with a name of the API server that only a proxy can resolve, and perhaps with a proxy.
fn behind_a_proxy(world: &World, proxy: Option<&str>) -> PathBuf {
    let mut kubeconfig = Kubeconfig::read_from(world.control_plane.kubeconfig()).unwrap();
    for cluster in &mut kubeconfig.clusters {
        let cluster = cluster.cluster.as_mut().unwrap();
        let server = cluster.server.as_mut().unwrap();
        *server = server.replace("127.0.0.1", "api.example");
        cluster.tls_server_name = Some("127.0.0.1".to_owned());
        cluster.proxy_url = proxy.map(str::to_owned);
    }
    let path = world.folder().join("behind-a-proxy");
    std::fs::write(&path, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
    path
}

/// The tool lists the Runs, with this kubeconfig and these variables.
async fn list(
    world: &World,
    kubeconfig: PathBuf,
    variables: &[(&str, &str)],
) -> Result<(), String> {
    let mut list = Command::new(programs::kubectl_runop());
    list.args(["list", "-o", "name", "-n", &world.namespace])
        .env("KUBECONFIG", kubeconfig)
        .envs(variables.iter().copied());
    output_of(list, "").await.map(drop)
}

/// Proves: P-api-proxy
#[tokio::test]
async fn the_tool_uses_the_proxy_of_the_environment_and_none_to_its_own_machine() {
    let world = World::unattended(Setup::default()).await;
    let proxy = ConnectProxy::start().await;
    let kubeconfig = behind_a_proxy(&world, None);
    let variables = [
        ("HTTPS_PROXY", proxy.url.as_str()),
        ("NO_PROXY", "a.example,"),
    ];
    list(&world, kubeconfig.clone(), &variables).await.unwrap();
    assert!(proxy.requests()[0].starts_with("CONNECT api.example:"));
    let refused = list(&world, kubeconfig, &[("https_proxy", NO_PROXY_HERE)]).await;
    let error = refused.unwrap_err();
    assert!(error.contains("the API server gave no answer"), "{error}");
    let local = world.control_plane.kubeconfig().to_owned();
    let variables = [("HTTPS_PROXY", NO_PROXY_HERE)];
    list(&world, local, &variables).await.unwrap();
}

/// Proves: P-api-proxy
#[tokio::test]
async fn the_operator_uses_the_proxy_of_its_kubeconfig_and_none_to_the_service() {
    let mut world = World::unattended(Setup::default()).await;
    let proxy = ConnectProxy::start().await;
    world.recipe.kubeconfig = behind_a_proxy(&world, Some(&proxy.url));
    world.recipe.variables = vec![
        ("HTTPS_PROXY", NO_PROXY_HERE.into()),
        ("HTTP_PROXY", NO_PROXY_HERE.into()),
        ("NO_PROXY", "api.example".into()),
    ];
    world.start_operator().await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    let requests = proxy.requests();
    let of_others = |head: &&String| !head.starts_with("CONNECT api.example:");
    assert_eq!(requests.iter().find(of_others), None);
}

/// Proves: P-service-proxy
#[tokio::test]
async fn the_service_is_reached_through_its_own_proxy() {
    let proxy = ConnectProxy::start().await;
    let url: &'static str = proxy.url.clone().leak();
    let _world = World::with(Setup {
        no_base_url: true,
        operator: vec![
            "--base-url",
            "https://runs.example:9/api/v1",
            "--service-proxy",
            url,
        ],
        ..Setup::default()
    })
    .await;
    eventually("the proxy is asked for the service", async || {
        let requests = proxy.requests();
        let asked = |head: &String| head.starts_with("CONNECT runs.example:9 ");
        let asked = requests.iter().any(asked);
        asked.then_some(()).ok_or(requests.join("; "))
    })
    .await;
}
