//! The rules without HTTP, then the service by raw bytes over TCP.

mod faulty;
mod http;
mod rules;

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::app::{App, Settings};
use crate::plan::Pacing;
use crate::record::Record;

/// No wait in these tests is longer.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const PACING: Pacing = Pacing {
    queue: 1,
    provision: 1,
    run: 1,
    cancel: 1,
};

/// A service on a free port, which ends with the test's runtime.
pub(crate) struct Service {
    address: std::net::SocketAddr,
    /// With the record of its requests.
    folder: TempDir,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let folder = TempDir::new().expect("a folder");
        let record = Record::open(&folder.path().join("requests")).expect("a file");
        let settings = Settings {
            api_version: "1.0.0".to_owned(),
            tokens: vec!["dev".to_owned()],
            pacing: PACING,
            http2_streams: 100,
            heartbeat: Duration::from_millis(20),
            record: Some(record),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let app = App::new(settings);
        tokio::spawn(crate::http_server::serve(app, listener, None));
        Self { address, folder }
    }

    /// The text of its record.
    pub(crate) fn record(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("requests")).expect("a record")
    }

    pub(crate) async fn open(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a request sent");
        stream
    }

    /// Everything that comes until the service closes the connection.
    pub(crate) async fn exchange(&self, request: &str) -> Vec<u8> {
        let mut stream = self.open(request).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer)).await;
        read.expect("the connection closed in time")
            .expect("the connection closed cleanly");
        answer
    }

    /// One request with the given header lines; status, head and body of its answer.
    pub(crate) async fn call(
        &self,
        line: &str,
        headers: &str,
        body: &str,
    ) -> (u16, String, String) {
        let answer = self.exchange(&request(line, headers, body)).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        // By the document, in every answer.
        let api = line.contains(" /api/");
        assert!(
            !api || head.contains("\r\nx-request-id: "),
            "{line}: {head}"
        );
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.expect("a status"), head.to_owned(), body.to_owned())
    }

    pub(crate) async fn json(&self, line: &str, headers: &str, body: &str) -> (u16, Value) {
        let (status, _, body) = self.call(line, headers, body).await;
        (status, serde_json::from_str(&body).expect("a JSON body"))
    }

    pub(crate) async fn control(&self, line: &str, body: &Value) -> Value {
        let (status, answer) = self.json(line, "", &body.to_string()).await;
        assert!(status < 300, "{line}: {status} {answer}");
        answer
    }

    pub(crate) async fn create(&self, key: &str, simulate: Value) -> (u16, Value) {
        self.json("POST /api/v1/runs", &create_headers(key), &body(simulate))
            .await
    }

    /// Looks again until the statistics are as wanted.
    pub(crate) async fn stats_until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let stats = self.control("GET /_control/stats", &json!({})).await;
                if wanted(&stats) {
                    return stats;
                }
            }
        };
        tokio::time::timeout(LIMIT, looking)
            .await
            .expect("the statistics as wanted")
    }
}

pub(crate) fn request(line: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

pub(crate) const AUTH: &str = "Authorization: Bearer dev\r\n";

pub(crate) fn create_headers(key: &str) -> String {
    format!("{AUTH}Idempotency-Key: {key}\r\nContent-Type: application/json\r\n")
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "called with json!(…), as a literal"
)]
pub(crate) fn body(simulate: Value) -> String {
    json!({"workload": {"image": "x:1", "simulate": simulate}, "provider": "auto", "region": "auto"}).to_string()
}

/// A workload that stays as it is until it is cancelled.
pub(crate) fn endless() -> Value {
    json!({"outcome": "never"})
}
