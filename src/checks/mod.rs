//! What `helm test` and the tool on the desk ask of a cluster, of an operator and of a service. Only reads.

mod cluster;
mod operator;
mod service;
mod workspaces;

use std::fmt::{self, Write};
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::core::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::Contract;
use crate::decide::workspace::version_verdict;
use crate::util::error_chain;

pub use cluster::{KubernetesVersion, MINIMUM, api_server};
pub use operator::{Deployed, at_work};
pub use service::{Target, Trial};
pub use workspaces::{Workspaces, chosen, workspaces};

/// Longest wait for one answer of the API server's: a person waits for the command.
const LONGEST_CALL: Duration = Duration::from_secs(30);
const PAGE: u32 = 500;
/// Names that one line has.
pub const NAMED: usize = 5;

/// Why the API server gave no answer that is of use, in kubectl's words.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("Error from server ({}): {}", .0.reason, .0.message)]
    Status(Box<Status>),
    #[error("error: the API server gave no answer: {}", error_chain(.0))]
    Failed(#[source] kube::Error),
    #[error("error: the API server gave no answer within {} s", LONGEST_CALL.as_secs())]
    Slow,
}

impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Status(status),
            error => Self::Failed(error),
        }
    }
}

impl Refused {
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// A sentence without its period.
    pub fn why(&self) -> String {
        let text = match self {
            Self::Status(status) => status.message.clone(),
            Self::Failed(error) => error_chain(error),
            Self::Slow => format!("no answer within {} s", LONGEST_CALL.as_secs()),
        };
        text.trim().trim_end_matches('.').to_owned()
    }
}

pub async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Refused> {
    match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Refused::Slow),
    }
}

pub async fn pages<K>(api: &Api<K>, params: ListParams) -> Result<Vec<K>, Refused>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let mut params = params.limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = bounded(api.list(&params)).await?;
        objects.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(objects);
        }
    }
}

pub const NO_ANSWER: &str = "there was no answer";
const CHECK_ACCESS: &str = "Check the kubeconfig, or the Pod's network.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// It is false, and a person should know; it prevents nothing.
    Warn,
    Fail,
    #[serde(rename = "note")]
    NotTried,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
            Self::NotTried => "note",
        })
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    title: &'static str,
}

/// The last line of a report depends on these two.
const AT_WORK: Check = Check::new("operator.atWork", "an operator is active");
const SHARED: Check = Check::new("workspaces.shared", "the ClusterWorkspaces are known");

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    #[serde(flatten)]
    pub check: Check,
    pub verdict: Verdict,
    pub saw: String,
    pub todo: Option<&'static str>,
}

impl Check {
    /// By its stable name, such as `cluster.crds`, and what it says.
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title }
    }

    pub fn ok(self, saw: impl Into<String>) -> Finding {
        self.finding(Verdict::Ok, saw, None)
    }

    pub fn fail(self, saw: impl Into<String>, todo: &'static str) -> Finding {
        self.finding(Verdict::Fail, saw, Some(todo))
    }

    pub fn not_tried(self, why: &str) -> Finding {
        self.finding(Verdict::NotTried, format!("Not tried: {why}."), None)
    }

    /// What it is about can't be read. `what` is what the credentials lack with a 403, such as "list the Runs of team".
    pub fn unread(self, refused: &Refused, what: &str) -> Finding {
        match refused.code() {
            Some(403) => self.not_tried(&format!("these credentials may not {what}")),
            Some(404) => self.not_tried(&refused.why()),
            _ => self.fail(format!("{}.", refused.why()), CHECK_ACCESS),
        }
    }

    pub fn version(self, version: Option<&str>, contract: &Contract) -> Finding {
        match version_verdict(version, contract) {
            Ok(why) => self.ok(why.message),
            Err(why) => self.finding(Verdict::Fail, why.message, None),
        }
    }

    pub fn finding(
        self,
        verdict: Verdict,
        saw: impl Into<String>,
        todo: Option<&'static str>,
    ) -> Finding {
        Finding {
            check: self,
            verdict,
            saw: saw.into(),
            todo,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, title) = (self.verdict, self.check.title);
        write!(f, "{verdict:<4}  {title:<30}  {}", self.saw)?;
        self.todo.map_or(Ok(()), |todo| write!(f, " {todo}"))
    }
}

pub fn is_good(findings: &[Finding]) -> bool {
    findings.iter().all(|f| f.verdict != Verdict::Fail)
}

pub fn report(findings: &[Finding], taking: &[String]) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "{finding}");
    }
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let counts = [Verdict::Fail, Verdict::Warn, Verdict::NotTried].map(count);
    let _ = match counts {
        [0, 0, 0] => writeln!(text, "All checks passed."),
        [failed, warnings, untried] => writeln!(
            text,
            "Failed: {failed}. Warnings: {warnings}. Not tried: {untried}."
        ),
    };
    let has = |name: &str, verdict| {
        let mut found = findings.iter().filter(|f| f.check.name == name);
        found.any(|f| f.verdict == verdict)
    };
    let _ = match taking {
        [] if has(SHARED.name, Verdict::NotTried) => writeln!(
            text,
            "No Workspace of this namespace takes Runs; whether a ClusterWorkspace does is not known."
        ),
        [] => writeln!(text, "No Workspace is known to take Runs from here."),
        taking if has(AT_WORK.name, Verdict::Fail) => writeln!(
            text,
            "These take Runs from here once an operator is active: {}.",
            taking.join(", ")
        ),
        taking => writeln!(text, "These take Runs from here: {}.", taking.join(", ")),
    };
    text
}

/// The first names, and how many more there are.
pub fn first<T: fmt::Display>(most: usize, names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let first = names.by_ref().take(most).map(|name| name.to_string());
    let first = first.collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
