//! Stored objects and a process's memory, with a mark by which two of them are equal.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use run_operator::{
    api::{Contract, Run, RunSpec, RunStatus, WorkspaceKind, finalizer, status::ResolvedWorkspace},
    decide::{
        Memory, Report, ReportContext,
        turn::{Remembers, Version},
    },
};
use serde_json::json;

pub(crate) const INTENT: &str = "run-operator.dev/intent";
pub(crate) const RETRY: &str = "run-operator.dev/retry";

pub(crate) static CONTRACT: LazyLock<Contract> = LazyLock::new(|| Contract::builtin().unwrap());

/// Second `seconds` of the model's clock.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// The first second of the model's clock that is not before `time`.
pub(crate) fn second(time: Timestamp) -> i64 {
    let whole = time.as_second() - 1_800_000_000;
    whole + i64::from(time.subsec_nanosecond() > 0)
}

pub(crate) fn uid(number: u8) -> String {
    format!("uid-{number}")
}

/// A mark of anything by how it is written down.
pub(crate) fn mark(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// One version of an object at the API server.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) run: Run,
    pub(crate) uid: u8,
    /// The resourceVersion; only its order counts.
    pub(crate) version: u32,
    pub(crate) mark: u64,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        (self.mark, self.uid, self.version) == (other.mark, other.uid, other.version)
    }
}

impl Object {
    pub(crate) fn new(run: Run, uid: u8, version: u32) -> Self {
        let mark = mark(&serde_json::to_string(&run).unwrap());
        Self {
            run,
            uid,
            version,
            mark,
        }
    }

    /// A Run as a person creates it.
    pub(crate) fn fresh(spec: &serde_json::Value, number: u8, name: usize) -> Run {
        let mut full = json!({"workload": {"image": "ghcr.io/acme/train:1.4"}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            full[key] = value.clone();
        }
        let spec: RunSpec = serde_json::from_value(full).unwrap();
        let mut run = Run::new(&format!("run-{name}"), spec);
        run.metadata.namespace = Some("team".into());
        run.metadata.uid = Some(uid(number));
        run.metadata.generation = Some(1);
        run.status = Some(RunStatus::initial());
        run
    }

    /// The number of its name.
    pub(crate) fn name(&self) -> usize {
        usize::from(self.run.metadata.name.as_deref() == Some("run-1"))
    }

    /// The retry that a person asks for.
    pub(crate) fn wish(&self) -> Option<&String> {
        self.run.metadata.annotations.as_ref()?.get(RETRY)
    }

    pub(crate) fn held(&self) -> bool {
        finalizer::present(&self.run.metadata)
    }

    pub(crate) fn deleting(&self) -> bool {
        self.run.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn run_id(&self) -> Option<&str> {
        self.run.status.as_ref().and_then(|s| s.run_id.as_deref())
    }
}

/// One process's memory of one object.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    memory: Arc<Memory>,
    mark: u64,
}

impl PartialEq for Remembered {
    fn eq(&self, other: &Self) -> bool {
        self.mark == other.mark
    }
}

impl Hash for Remembered {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mark.hash(state);
    }
}

impl std::ops::Deref for Remembered {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl Version for Object {
    fn run(&self) -> &Run {
        &self.run
    }

    fn newer_than(&self, other: &Self) -> bool {
        self.version > other.version
    }
}

impl Remembers for Remembered {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = Memory::clone(&self.memory);
        let result = change(&mut memory);
        *self = Self::new(memory);
        result
    }
}

/// The context that a process needs for an observation of an object.
pub(crate) fn report_context<T>(
    number: u8,
    session: u64,
    now: i64,
    learn: impl FnOnce(ReportContext<'_>) -> T,
) -> T {
    learn(ReportContext {
        contract: &CONTRACT,
        uid: &uid(number),
        session,
        now: at(now),
        wall: at(now),
    })
}

impl Remembered {
    pub(crate) fn new(mut memory: Memory) -> Self {
        // No decision goes by it, and it would tell states apart that are alike.
        memory.end_heard = None;
        let mark = mark(&format!("{memory:?}"));
        Self {
            memory: Arc::new(memory),
            mark,
        }
    }

    pub(crate) fn record(&mut self, news: Report, number: u8, session: u64, now: i64) {
        report_context(number, session, now, |with| {
            self.change(|memory| memory.record(news, with));
        });
    }
}

/// The Workspace that was created again at another base URL.
pub(crate) const MOVED: u8 = 3;

/// The ClusterWorkspace, and whom its token acts for, which is the first of all.
pub(crate) const SHARED: u8 = 4;
pub(crate) const SHARED_IDENTITY: u8 = 2;
pub(crate) const SHARED_TOKEN: u8 = 0;

pub(crate) const OTHER_URL: &str = "https://elsewhere.example.com/api/v1";

/// The place of a verified token.
pub(crate) fn place(identity: u8, workspace: u8) -> ResolvedWorkspace {
    let (kind, name) = match workspace {
        SHARED => (WorkspaceKind::ClusterWorkspace, "shared"),
        _ => (WorkspaceKind::Workspace, "default"),
    };
    ResolvedWorkspace {
        kind,
        name: name.into(),
        uid: format!("w{workspace}"),
        base_url: if workspace == MOVED {
            OTHER_URL.into()
        } else {
            "https://runs.example.com/api/v1".into()
        },
        identity: Some(format!("ws-{identity}")),
    }
}
