//! `/metrics` over TLS: only for tokens of the cluster whose user may get it.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::tls::TlsInfo;
use serde_json::json;

use crate::security::hits;
use crate::support::{Audit, DEPLOYED, Plane, Rights, Setup, World, eventually, free_port};

/// The user that scrapes.
const SCRAPER: &str = "prometheus";

/// An answer to a scrape.
#[derive(Debug)]
struct Answer {
    status: u16,
    retry_after: Option<String>,
    challenge: Option<String>,
    text: String,
    certificate: Vec<u8>,
}

/// A scraper that verifies no certificate, and so shows which one it met.
struct Scraper {
    http: reqwest::Client,
    port: u16,
}

impl Scraper {
    fn new(port: u16) -> Self {
        let http = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .tls_info(true);
        Self {
            http: http.build().unwrap(),
            port,
        }
    }

    async fn get(&self, path: &str, authorization: Option<&str>) -> Result<Answer, String> {
        let url = format!("https://127.0.0.1:{}/{path}", self.port);
        let mut request = self.http.get(url);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let answer = request.send().await.map_err(|e| format!("{e:?}"))?;
        let header = |name: &str| {
            let value = answer.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let tls = answer.extensions().get::<TlsInfo>();
        Ok(Answer {
            status: answer.status().as_u16(),
            retry_after: header("retry-after"),
            challenge: header("www-authenticate"),
            certificate: tls.unwrap().peer_certificate().unwrap().to_owned(),
            text: answer.text().await.map_err(|e| format!("{e:?}"))?,
        })
    }

    /// A scrape with this token.
    async fn scrape(&self, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.get("metrics", Some(&bearer)).await.unwrap()
    }

    /// Waits for this status of a scrape: verdicts are kept for some seconds.
    async fn until(&self, token: &str, status: u16) -> Answer {
        eventually(&format!("a scrape is answered {status}"), async || {
            let answer = self.scrape(token).await;
            if answer.status == status {
                Ok(answer)
            } else {
                Err(format!("{answer:?}"))
            }
        })
        .await
    }
}

/// A `ServiceAccount` that may do nothing, and a token of it.
async fn scraper_token(world: &World) -> String {
    let create = ["create", "serviceaccount", SCRAPER];
    world.kubectl(&create, "").await.unwrap();
    let token = world.kubectl(&["create", "token", SCRAPER], "").await;
    token.unwrap().trim().to_owned()
}

/// A world with the permissions of the chart's roles, whose metrics are served over TLS; the port.
async fn least_world() -> (World, Scraper) {
    let port = free_port();
    let listen: &str = format!("127.0.0.1:{port}").leak();
    let world = World::with(Setup {
        plane: Plane::Alone,
        everywhere: true,
        operator: vec!["--metrics-listen", listen],
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await;
    (world, Scraper::new(port))
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
    let (mut world, scraper) = least_world().await;
    let token = scraper_token(&world).await;

    // The operator may not ask yet.
    let answer = scraper.scrape(&token).await;
    assert_eq!(
        (answer.status, answer.retry_after.as_deref()),
        (503, Some("1")),
        "{answer:?}"
    );
    let ask = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]);
    let operator = (DEPLOYED, DEPLOYED);
    world.grant("Cluster", "metrics-auth", &ask, operator).await;

    // A user of the cluster without the permission.
    scraper.until(&token, 403).await;
    let read = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let account = (world.namespace.as_str(), SCRAPER);
    world
        .grant("Cluster", "metrics-reader", &read, account)
        .await;
    let answer = scraper.until(&token, 200).await;
    assert!(
        answer
            .text
            .contains("run_operator_runs{phase=\"Active\"} 0"),
        "{}",
        answer.text
    );

    refused_without_a_token(&scraper).await;
    many_scrapes_cost_few_reviews(&scraper, &world, &token).await;

    // Taken away, it ends with the verdict's age.
    let delete = ["delete", "clusterrolebinding", "metrics-reader"];
    world.kubectl(&delete, "").await.unwrap();
    scraper.until(&token, 403).await;

    // While the API server is away there is no verdict, and afterwards there is one.
    world.control_plane.stop_apiserver().unwrap();
    let answer = scraper.until(&token, 503).await;
    assert_eq!(answer.retry_after.as_deref(), Some("1"), "{answer:?}");
    world.control_plane.start_apiserver().await.unwrap();
    scraper.until(&token, 403).await;

    let moved = world.operator().fetch("metrics").await.unwrap();
    assert_eq!(moved.0, 404);
    assert!(
        moved
            .1
            .contains(&format!("over TLS at port {}", scraper.port)),
        "{}",
        moved.1
    );
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
        assert_eq!(answer.status, 401, "{authorization:?}: {answer:?}");
        assert_eq!(answer.challenge.as_deref(), Some("Bearer"));
        assert!(!answer.text.contains("run_operator_"), "{}", answer.text);
    }
    for path in ["healthz", "readyz", ""] {
        assert_eq!(scraper.get(path, None).await.unwrap().status, 404);
    }
    let long = format!("Bearer {}", "x".repeat(32 * 1024));
    let refused = scraper.get("metrics", Some(&long)).await;
    assert!(
        !matches!(&refused, Ok(answer) if answer.status != 431),
        "{refused:?}"
    );
}

/// A verdict is used for ten seconds, however long the scrapes take on this machine.
async fn many_scrapes_cost_few_reviews(scraper: &Scraper, world: &World, token: &str) {
    let before = [
        reviews(world, "tokenreviews"),
        reviews(world, "subjectaccessreviews"),
    ];
    let began = Instant::now();
    for _ in 0..10 {
        let five = [(); 5].map(|()| scraper.scrape(token));
        for answer in futures::future::join_all(five).await {
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    let most = usize::try_from(began.elapsed().as_secs()).unwrap() / 10 + 2;
    let after = [
        reviews(world, "tokenreviews"),
        reviews(world, "subjectaccessreviews"),
    ];
    for (before, after) in before.into_iter().zip(after) {
        assert!(
            after - before <= most,
            "{} reviews of 50 scrapes",
            after - before
        );
    }
}

/// A self-signed certificate for 127.0.0.1 in two files; as DER.
fn write_certificate(files: &[PathBuf; 2]) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let der = made.cert.der().to_vec();
    std::fs::write(
        &files[1],
        pem("PRIVATE KEY", made.signing_key.serialized_der()),
    )
    .unwrap();
    std::fs::write(&files[0], pem("CERTIFICATE", &der)).unwrap();
    der
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|l| std::str::from_utf8(l).unwrap())
        .collect();
    format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n",
        lines.join("\n")
    )
}

/// Proves: X-secure-metrics
#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let scratch = test_cluster::Scratch::new("metrics").unwrap();
    let files = ["tls.crt", "tls.key"].map(|name| scratch.path().join(name));
    let first = write_certificate(&files);
    let port = free_port();
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
        Scraper::new(port)
            .get("metrics", None)
            .await
            .map(|a| a.certificate)
    };
    assert_eq!(met().await.unwrap(), first);

    std::fs::write(&files[0], "no certificate").unwrap();
    world.logs("the previous one stays in use").await;
    assert_eq!(met().await.unwrap(), first);

    let second = write_certificate(&files);
    eventually("the new certificate is used", async || match met().await {
        Ok(shown) if shown == second => Ok(()),
        other => Err(format!("{:?}", other.map(|der| der == first))),
    })
    .await;
}

/// A listener on `[::]` takes IPv4 too. The certificate is made at the start.
/// Proves: X-secure-metrics, P-scrape
#[tokio::test]
async fn silent_clients_delay_no_probe_and_lose_their_place() {
    const SILENT: usize = 100;
    let port = free_port();
    let world = World::with(Setup {
        operator: vec!["--metrics-listen", format!("[::]:{port}").leak()],
        ..Setup::default()
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
    }
    assert_eq!(world.operator().fetch("healthz").await.unwrap().0, 200);
    eventually("it is scraped again", async || {
        match Scraper::new(port).get("metrics", None).await {
            Ok(answer) if answer.status == 401 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let by_ipv6 = TcpStream::connect(("::1", port));
    assert!(by_ipv6.is_ok(), "{by_ipv6:?}");
}
