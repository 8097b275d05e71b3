//! `/metrics` over TLS: only for tokens of the cluster whose user may get it.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Response;
use reqwest::tls::TlsInfo;
use serde_json::json;

use crate::security::hits;
use crate::support::{Audit, DEPLOYED, Rights, Setup, World, eventually, says};
use test_cluster::free_port;

/// The user that scrapes.
const SCRAPER: &str = "prometheus";

/// A scraper that verifies no certificate, and so shows which one it met.
struct Scraper {
    http: reqwest::Client,
    port: u16,
}

impl Scraper {
    fn new(port: u16) -> Self {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .tls_info(true);
        Self {
            http: http.build().unwrap(),
            port,
        }
    }

    async fn get(&self, path: &str, authorization: Option<&str>) -> reqwest::Result<Response> {
        let url = format!("https://127.0.0.1:{}/{path}", self.port);
        let mut request = self.http.get(url);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        request.send().await
    }

    /// A scrape with this token.
    async fn scrape(&self, token: &str) -> Response {
        let bearer = format!("Bearer {token}");
        self.get("metrics", Some(&bearer)).await.unwrap()
    }

    /// Waits for this status of a scrape: verdicts are kept for some seconds.
    async fn until(&self, token: &str, status: u16) -> Response {
        eventually(&format!("a scrape is answered {status}"), async || {
            let answer = self.scrape(token).await;
            if answer.status() == status {
                Ok(answer)
            } else {
                Err(format!("{answer:?}"))
            }
        })
        .await
    }
}

fn reviews(world: &World, resource: &str) -> usize {
    let requests = Audit::of(world).all_requests();
    let of = requests.iter().filter(|request| {
        request["objectRef"]["resource"] == resource
            && request["responseStatus"]["code"] == 201
            && request["verb"] == "create"
    });
    of.count()
}

/// Proves: X-secure-metrics, X-canary
#[tokio::test]
async fn only_a_valid_token_whose_user_may_get_metrics_is_served() {
    let scraper = Scraper::new(free_port().unwrap());
    let mut world = World::with(Setup {
        everywhere: true,
        operator: vec![
            "--metrics-listen",
            format!("127.0.0.1:{}", scraper.port).leak(),
        ],
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await;
    // A user who may do nothing.
    let create = ["create", "serviceaccount", SCRAPER];
    world.kubectl(&create, "").await.unwrap();
    let token = world.kubectl(&["create", "token", SCRAPER], "").await;
    let token = token.unwrap().trim().to_owned();

    // The operator may not ask yet.
    let answer = scraper.scrape(&token).await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "1");
    let ask = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]);
    let operator = (DEPLOYED, DEPLOYED);
    world.grant("Cluster", "metrics-auth", &ask, operator).await;

    // A user of the cluster without the permission.
    scraper.until(&token, 403).await;
    let read = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let (account, reader) = ((world.namespace.as_str(), SCRAPER), "metrics-reader");
    world.grant("Cluster", reader, &read, account).await;
    let text = scraper.until(&token, 200).await.text().await.unwrap();
    says(&text, &["run_operator_runs{phase=\"Active\"} 0"]);

    refused_without_a_token(&scraper).await;
    many_scrapes_cost_few_reviews(&scraper, &world, &token).await;

    // Taken away, it ends with the verdict's age.
    let delete = ["delete", "clusterrolebinding", "metrics-reader"];
    world.kubectl(&delete, "").await.unwrap();
    scraper.until(&token, 403).await;

    // While the API server is away there is no verdict, and afterwards there is one.
    world.control_plane.stop_apiserver().unwrap();
    let answer = scraper.until(&token, 503).await;
    assert_eq!(answer.headers()["retry-after"], "1");
    world.control_plane.start_apiserver().await.unwrap();
    scraper.until(&token, 403).await;

    let (status, moved) = world.operator().fetch("metrics").await.unwrap();
    assert_eq!(status, 404);
    says(&moved, &[&format!("over TLS at port {}", scraper.port)]);
    for path in ["healthz", "readyz"] {
        assert_eq!(world.operator().fetch(path).await.unwrap().0, 200);
    }
    assert_eq!(world.operator.as_mut().unwrap().terminate().await, Some(0));
    let log = world.operator_log();
    assert!(log.contains("TRACE"), "the log is not at trace");
    for message in [
        "failed to review a scraper's token",
        "scrapers' tokens are reviewed again",
    ] {
        assert!(log.matches(message).count() >= 2, "{message}");
    }
    let found = hits(&[("log", log)], &token);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

async fn refused_without_a_token(scraper: &Scraper) {
    for authorization in [
        None,
        Some("Bearer"),
        Some("Bearer "),
        Some("Basic dXNlcjpwYXNz"),
        Some("Bearer no-token-of-this-cluster"),
    ] {
        let answer = scraper.get("metrics", authorization).await.unwrap();
        assert_eq!(answer.status(), 401, "{authorization:?}");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        let text = answer.text().await.unwrap();
        assert!(!text.contains("run_operator_"), "{text}");
    }
    for path in ["healthz", "readyz", ""] {
        assert_eq!(scraper.get(path, None).await.unwrap().status(), 404);
    }
    let long = format!("Bearer {}", "x".repeat(32 * 1024));
    let refused = scraper.get("metrics", Some(&long)).await;
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status() == 431));
}

/// A verdict is used for ten seconds, however long the scrapes take on this machine.
async fn many_scrapes_cost_few_reviews(scraper: &Scraper, world: &World, token: &str) {
    let reviews = || ["tokenreviews", "subjectaccessreviews"].map(|kind| reviews(world, kind));
    let before = reviews();
    let began = Instant::now();
    for _ in 0..10 {
        let five = [(); 5].map(|()| scraper.scrape(token));
        for answer in futures::future::join_all(five).await {
            assert_eq!(answer.status(), 200);
        }
    }
    let most = usize::try_from(began.elapsed().as_secs()).unwrap() / 10 + 2;
    for (before, after) in before.into_iter().zip(reviews()) {
        let made = after - before;
        assert!(made <= most, "{made} reviews of 50 scrapes");
    }
}

/// A self-signed certificate for 127.0.0.1 in two files; as DER.
fn write_certificate(files: &[PathBuf; 2]) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let der = made.cert.der().to_vec();
    let key = made.signing_key.serialized_der();
    for (file, kind, der) in [(1, "PRIVATE KEY", key), (0, "CERTIFICATE", der.as_slice())] {
        let text = STANDARD.encode(der);
        let pem = format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
        std::fs::write(&files[file], pem).unwrap();
    }
    der
}

/// Proves: X-secure-metrics
#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let scratch = test_cluster::Scratch::new("metrics").unwrap();
    let files = ["tls.crt", "tls.key"].map(|name| scratch.path().join(name));
    let first = write_certificate(&files);
    let port = free_port().unwrap();
    let leaked = |path: &Path| -> &'static str { path.display().to_string().leak() };
    let world = World::with(Setup {
        operator: vec![
            "--metrics-listen",
            format!("127.0.0.1:{port}").leak(),
            "--metrics-cert",
            leaked(&files[0]),
            "--metrics-key",
            leaked(&files[1]),
        ],
        ..Setup::default()
    })
    .await;
    // A scraper without a token meets the certificate as well as any. Each has a connection of its own.
    let met = async || {
        let answer = Scraper::new(port).get("metrics", None).await.unwrap();
        let tls: &TlsInfo = answer.extensions().get().unwrap();
        tls.peer_certificate().unwrap().to_owned()
    };
    assert_eq!(met().await, first);

    std::fs::write(&files[0], "no certificate").unwrap();
    world.logs("the previous one stays in use").await;
    assert_eq!(met().await, first);

    let second = write_certificate(&files);
    eventually("the new certificate is used", async || match met().await {
        shown if shown == second => Ok(()),
        _ => Err("another"),
    })
    .await;
}

/// A listener on `[::]` takes IPv4 too. The certificate is made at the start.
/// Proves: X-secure-metrics, P-metrics
#[tokio::test]
async fn silent_clients_delay_no_probe_and_lose_their_place() {
    const SILENT: usize = 100;
    let port = free_port().unwrap();
    let world = World::with_flags(&["--metrics-listen", format!("[::]:{port}").leak()]).await;
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
    }
    assert_eq!(world.operator().fetch("healthz").await.unwrap().0, 200);
    eventually("it is scraped again", async || {
        match Scraper::new(port).get("metrics", None).await {
            Ok(answer) if answer.status() == 401 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let by_ipv6 = TcpStream::connect(("::1", port));
    assert!(by_ipv6.is_ok(), "{by_ipv6:?}");
}
