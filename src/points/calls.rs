//! Crash points of the service client's requests.

use bytes::Bytes;
use futures::stream;
use http::Method;
use reqwest::{Body, Client, Request, RequestBuilder, Response};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::Effect;

/// Sends a request of the service's client.
pub async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    let (http, request) = request.build_split();
    let request = request?;
    let name = name(request.method(), request.url().path());
    super::pass(name, Call { http, request }).await
}

/// Name by method and path: the path of each of the six operations ends differently.
fn name(method: &Method, path: &str) -> &'static str {
    if path.ends_with("/workspaces/current") {
        "service.workspace"
    } else if path.ends_with("/runs") {
        "service.create"
    } else if !path.contains("/runs/") {
        "service.version"
    } else if method == Method::POST {
        "service.cancel"
    } else if path.ends_with("/events") {
        "service.stream"
    } else {
        "service.get"
    }
}

struct Call {
    http: Client,
    request: Request,
}

/// Every body is in memory, so that a request can be sent again.
impl Clone for Call {
    fn clone(&self) -> Self {
        let request = self.request.try_clone().unwrap_or_else(|| {
            Request::new(self.request.method().clone(), self.request.url().clone())
        });
        Self {
            http: self.http.clone(),
            request,
        }
    }
}

impl Effect for Call {
    type Answer = Response;
    type Error = reqwest::Error;

    async fn send(self) -> reqwest::Result<Response> {
        self.http.execute(self.request).await
    }

    /// A local socket takes the request and closes without an answer.
    async fn lost(self) -> reqwest::Result<Response> {
        let mut request = self.request;
        if let Some(address) = dead_end().await {
            let _ = request.url_mut().set_ip_host(address.ip());
            let _ = request.url_mut().set_port(Some(address.port()));
        }
        self.http.execute(request).await
    }

    async fn cut(answer: Response) -> reqwest::Result<Response> {
        let events = answer.headers().get(http::header::CONTENT_TYPE);
        let endless = events.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let mut head = http::Response::new(());
        *head.status_mut() = answer.status();
        *head.headers_mut() = answer.headers().clone();
        let body = if endless {
            Bytes::new()
        } else {
            answer.bytes().await?
        };
        let half = body.slice(..body.len() / 2);
        Ok(head.map(|()| broken(half)).into())
    }
}

/// A body that breaks after these bytes.
fn broken(bytes: Bytes) -> Body {
    let cut = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    Body::wrap_stream(stream::iter([Ok(bytes), Err(cut)]))
}

/// The rest of an answer that breaks at once.
pub(super) fn broken_off() -> Response {
    http::Response::new(broken(Bytes::new())).into()
}

/// Takes one request and answers nothing.
async fn dead_end() -> Option<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await.ok()?;
    let address = listener.local_addr().ok()?;
    tokio::spawn(async move {
        if let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.read(&mut [0; 1024]).await;
        }
    });
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_a_point_of_its_own() {
        let base = "/api/v1";
        for (method, path, expected) in [
            (Method::GET, "/version", "service.version"),
            (Method::GET, "/workspaces/current", "service.workspace"),
            (Method::POST, "/runs", "service.create"),
            (Method::GET, "/runs/version", "service.get"),
            (Method::POST, "/runs/r1:cancel", "service.cancel"),
            (Method::GET, "/runs/r1/events", "service.stream"),
        ] {
            assert_eq!(name(&method, &format!("{base}{path}")), expected);
        }
    }
}
