//! Ports, files and flags of a control plane of our own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use super::binaries::{Binaries, Tool};
use super::error::Error;

/// What only a few control planes need of their API server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serving {
    /// The audit log holds the bodies of requests.
    pub audited_bodies: bool,
    /// The older version, such as `1.34`, that it behaves as.
    pub emulated: Option<&'static str>,
    /// A further admission plugin.
    pub admission: Option<&'static str>,
}

/// The files and ports of one control plane. They outlive a restart of the API server.
#[derive(Debug, Clone)]
pub struct Layout {
    directory: PathBuf,
    etcd_port: u16,
    api_port: u16,
    serving: Serving,
}

impl Layout {
    /// Chooses two free ports and writes what the programs read.
    pub fn create(directory: &Path, serving: Serving) -> Result<Self, Error> {
        let layout = Self {
            directory: directory.to_owned(),
            etcd_port: free_port()?,
            api_port: free_port()?,
            serving,
        };
        let token = uuid::Uuid::new_v4().simple().to_string();
        let users = format!("{token},admin,admin,\"system:masters\"\n");
        layout.write("tokens.csv", &users)?;
        layout.write("service-account.key", &new_signing_key()?)?;
        layout.write(
            "audit-policy.json",
            &audit_policy(serving.audited_bodies).to_string(),
        )?;
        layout.write("kubeconfig", &layout.kubeconfig_text(&token))?;
        Ok(layout)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    /// The port of the API server, on 127.0.0.1.
    pub fn api_port(&self) -> u16 {
        self.api_port
    }

    /// The API server's audit log, one JSON object a line.
    pub fn audit_log(&self) -> PathBuf {
        self.file("audit.log")
    }

    /// The log file of `program`.
    pub fn log(&self, program: Tool) -> PathBuf {
        self.file(&format!("{}.log", program.name()))
    }

    pub fn etcd(&self, binaries: &Binaries) -> Command {
        let url = self.etcd_url();
        let mut command = Command::new(binaries.path(Tool::Etcd));
        command
            .arg("--data-dir")
            .arg(self.file("etcd"))
            .args(["--listen-client-urls", &url])
            .args(["--advertise-client-urls", &url])
            .args(["--listen-peer-urls", "http://127.0.0.1:0"])
            // Nothing here is meant to survive a power cut.
            .arg("--unsafe-no-fsync")
            .args(["--log-level", "warn"]);
        command
    }

    pub fn apiserver(&self, binaries: &Binaries) -> Command {
        let mut command = Command::new(binaries.path(Tool::ApiServer));
        command
            .arg(format!("--etcd-servers={}", self.etcd_url()))
            .arg(format!("--secure-port={}", self.api_port))
            .arg("--bind-address=127.0.0.1")
            // Else it looks for the host's default route, which a sandbox may not have.
            .arg("--advertise-address=127.0.0.1")
            // Nothing reaches it through the `kubernetes` Service, whose endpoints can't be loopback.
            .arg("--endpoint-reconciler-type=none")
            .arg(self.flag("--cert-dir", "certs"))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(self.flag("--service-account-key-file", "service-account.key"))
            .arg(self.flag("--service-account-signing-key-file", "service-account.key"))
            .arg(self.flag("--token-auth-file", "tokens.csv"))
            .arg("--authorization-mode=RBAC")
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .arg("--allow-privileged=true")
            .arg(self.flag("--audit-policy-file", "audit-policy.json"))
            .arg(self.flag("--audit-log-path", "audit.log"))
            // A request is in the log before its answer is complete: a test can count at once.
            .arg("--audit-log-mode=blocking")
            // MB; one file, or counts would lose what is in the older ones.
            .arg("--audit-log-maxsize=100000")
            .arg("--profiling=false");
        if let Some(version) = self.serving.emulated {
            command.arg(format!("--emulated-version={version}"));
        }
        if let Some(plugin) = self.serving.admission {
            command.arg(format!("--enable-admission-plugins={plugin}"));
        }
        command
    }

    pub fn controller_manager(&self, binaries: &Binaries) -> Command {
        let mut command = Command::new(binaries.path(Tool::ControllerManager));
        command
            .arg(self.flag("--kubeconfig", "kubeconfig"))
            .arg(self.flag("--service-account-private-key-file", "service-account.key"))
            .arg(self.flag("--root-ca-file", "certs/apiserver.crt"))
            .arg("--use-service-account-credentials")
            .arg("--leader-elect=false")
            // No test needs its HTTP server, which would listen on every address.
            .arg("--secure-port=0")
            // The defaults (20 and 30) make dozens of namespaces wait for each other.
            .args(["--kube-api-qps=200", "--kube-api-burst=400"]);
        command
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn flag(&self, flag: &str, file: &str) -> String {
        format!("{flag}={}", self.file(file).display())
    }

    /// The URL at which etcd serves its clients.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// The certificate is named, not embedded: the API server makes it when it starts.
    fn kubeconfig_text(&self, token: &str) -> String {
        let server = format!("https://127.0.0.1:{}", self.api_port);
        let authority = self.file("certs/apiserver.crt");
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "admin",
            "clusters": [{"name": "local", "cluster": {
                "server": server,
                "certificate-authority": authority,
            }}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "admin", "context": {"cluster": "local", "user": "admin"}}],
        });
        format!("{config:#}\n")
    }

    /// Writes a file that only we can read.
    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.file(name);
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let mut file = file.map_err(Error::file("create", &path))?;
        file.write_all(text.as_bytes())
            .map_err(Error::file("write", &path))
    }
}

/// The audit policy: who made which request, without bodies unless `bodies`. It covers our own resources,
/// Secrets, Events and Leases (except the cluster's own), whoever makes the request, and namespaces, except for
/// kube-system's service accounts. It also covers every other request of a service account outside kube-system,
/// since that is what RBAC must allow and no more.
fn audit_policy(bodies: bool) -> Value {
    let level = if bodies { "Request" } else { "Metadata" };
    // Only the answer shows whether a deletion removed an object at once or waits for finalizers.
    let answers = if bodies {
        "RequestResponse"
    } else {
        "Metadata"
    };
    let leases = json!([{"group": "coordination.k8s.io", "resources": ["leases"]}]);
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]},
            {"level": answers, "verbs": ["delete"], "resources": [{"group": "run-operator.dev"}]},
            {"level": level, "resources": [
                {"group": "run-operator.dev"},
                {"group": "", "resources": ["events"]},
                {"group": "events.k8s.io"},
            ]},
            {"level": "None", "resources": leases, "namespaces": ["kube-system", "kube-node-lease"]},
            {"level": "Metadata", "resources": leases},
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata", "resources": [{"group": "", "resources": ["namespaces"]}]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    })
}

/// A port of 127.0.0.1 without a listener, which no other caller in this process gets.
///
/// It lies below the ports that systems give to outgoing connections (from 32768 on Linux): else any of those
/// could take it before the program binds it, or while the API server is down for an outage test.
pub fn free_port() -> Result<u16, Error> {
    const FIRST: u16 = 10_240;
    const COUNT: u16 = 19_760;
    // Processes that run side by side begin at different places.
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        let [high, low, ..] = *uuid::Uuid::new_v4().as_bytes();
        AtomicU16::new(u16::from_be_bytes([high, low]) % COUNT)
    });
    for _ in 0..COUNT {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::FindPort)
}

/// A fresh P-256 key in PEM, with which the API server signs and checks service account tokens.
fn new_signing_key() -> Result<String, Error> {
    // RFC 5915: version 1, the private number, the curve; the public point may be left out.
    const HEAD: [u8; 7] = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    const TAIL: [u8; 12] = [
        0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    let mut number = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut number))
        .map_err(Error::file("read", "/dev/urandom"))?;
    // The curve's order begins with 32 ones: without the first of them the number is below it.
    number[0] &= 0x7f;
    let der = k8s_openapi::ByteString([&HEAD[..], &number, &TAIL].concat());
    let Value::String(base64) = json!(der) else {
        unreachable!("a ByteString is serialized as base64 text");
    };
    let (first, second) = base64.split_at(64);
    Ok(format!(
        "-----BEGIN EC PRIVATE KEY-----\n{first}\n{second}\n-----END EC PRIVATE KEY-----\n"
    ))
}
