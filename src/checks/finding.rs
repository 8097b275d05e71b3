//! Statements that can be tried, and what was found.

use std::fmt::{self, Write};

use serde::Serialize;

use super::Refused;

/// Reason why the other requests are not made.
pub const NO_ANSWER: &str = "there was no answer";
/// Remedy where the API server gave no usable answer.
pub(super) const CHECK_ACCESS: &str = "Check the kubeconfig, or the Pod's network.";

/// Verdict on a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is true.
    Ok,
    /// It is false, and a person should know; it prevents nothing.
    Warn,
    /// It is false.
    Fail,
    /// It could not be tried.
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

/// A statement that can be tried.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    title: &'static str,
}

/// A statement with its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The statement.
    #[serde(flatten)]
    pub check: Check,
    /// The verdict.
    pub verdict: Verdict,
    /// The observation.
    pub saw: String,
    /// The remedy.
    pub todo: Option<&'static str>,
}

impl Check {
    /// By its stable name, such as `cluster.crds`, and what it says.
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title }
    }

    /// It is true.
    pub fn ok(self, saw: impl Into<String>) -> Finding {
        self.finding(Verdict::Ok, saw, None)
    }

    /// It is false.
    pub fn fail(self, saw: impl Into<String>, todo: &'static str) -> Finding {
        self.finding(Verdict::Fail, saw, Some(todo))
    }

    /// It could not be tried.
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

    /// Any verdict.
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

/// One line for people.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, title) = (self.verdict, self.check.title);
        write!(f, "{verdict:<4}  {title:<30}  {}", self.saw)?;
        self.todo.map_or(Ok(()), |todo| write!(f, " {todo}"))
    }
}

/// Whether no check failed.
pub fn is_good(findings: &[Finding]) -> bool {
    findings.iter().all(|f| f.verdict != Verdict::Fail)
}

/// For people: a line for each finding, how many are not ok, and the Workspaces that take Runs.
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
    let _ = match taking {
        [] => writeln!(text, "No Workspace is known to take Runs from here."),
        taking => writeln!(text, "These take Runs from here: {}.", taking.join(", ")),
    };
    text
}

/// The first five of them, and how many more there are.
pub(super) fn first_five(all: &[String]) -> String {
    let text = all[..all.len().min(5)].join(", ");
    match all.len().saturating_sub(5) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}
