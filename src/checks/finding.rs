//! Statements that `contract check` and `doctor` try, and their verdicts.

/// Verdict on a statement of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is true.
    Ok,
    /// It is false, and a person should know; it prevents nothing.
    Warn,
    /// It is false.
    Fail,
    /// It could not be tried.
    NotTried,
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
            Self::NotTried => "note",
        }
    }
}

/// One statement of the contract with its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its stable name.
    pub(crate) check: &'static str,
    /// The statement.
    pub(crate) title: &'static str,
    pub(crate) verdict: Verdict,
    /// The observation.
    pub(crate) saw: String,
    /// The remedy.
    pub(crate) todo: Option<&'static str>,
}

impl Finding {
    /// One object for pipelines.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "check": self.check,
            "title": self.title,
            "verdict": self.verdict.as_str().to_lowercase(),
            "saw": self.saw,
            "todo": self.todo,
        })
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let todo = self.todo.unwrap_or_default();
        let verdict = self.verdict.as_str();
        let line = format!("{verdict:<4}  {:<30}  {} {todo}", self.title, self.saw);
        line.trim_end().to_owned()
    }
}

/// A statement that can be tried.
pub(crate) struct Statement {
    pub(crate) check: &'static str,
    pub(crate) title: &'static str,
}

impl Statement {
    pub(crate) fn finding(
        &self,
        verdict: Verdict,
        saw: String,
        todo: Option<&'static str>,
    ) -> Finding {
        Finding {
            check: self.check,
            title: self.title,
            verdict,
            saw,
            todo,
        }
    }

    pub(crate) fn ok(&self, saw: impl Into<String>) -> Finding {
        self.finding(Verdict::Ok, saw.into(), None)
    }

    pub(crate) fn fail(&self, saw: impl Into<String>, todo: &'static str) -> Finding {
        self.finding(Verdict::Fail, saw.into(), Some(todo))
    }

    pub(crate) fn warn(&self, saw: impl Into<String>, todo: &'static str) -> Finding {
        self.finding(Verdict::Warn, saw.into(), Some(todo))
    }

    pub(crate) fn not_tried(&self, why: &str) -> Finding {
        self.finding(Verdict::NotTried, format!("Not tried: {why}."), None)
    }
}

pub(super) const REACHED: Statement = Statement {
    check: "version.answered",
    title: "GET /version is public",
};
pub(super) const JSON: Statement = Statement {
    check: "version.json",
    title: "it answers JSON",
};
pub(super) const NAMED: Statement = Statement {
    check: "version.named",
    title: "it names a version",
};
pub(super) const ACCEPTED: Statement = Statement {
    check: "version.accepted",
    title: "the version is accepted",
};
pub(super) const VERSION_ID: Statement = Statement {
    check: "version.requestId",
    title: "it has an X-Request-ID",
};
pub(super) const REFUSED: Statement = Statement {
    check: "workspace.refused",
    title: "without a token comes a 401",
};
pub(super) const PROBLEM_BODY: Statement = Statement {
    check: "workspace.problem",
    title: "the refusal is a problem",
};
pub(super) const PROBLEM_FIELDS: Statement = Statement {
    check: "workspace.problemFields",
    title: "the problem has its fields",
};
pub(super) const WORKSPACE_ID: Statement = Statement {
    check: "workspace.requestId",
    title: "it has an X-Request-ID",
};
