//! What the operator relies on, looked for in a service's document: one finding for each statement, always the same
//! ones in the same order, and one for what only this contract file names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde_json::Value;

use run_operator::api::Contract;
use run_operator::api::contract::{CodeClass, StateClass};
use run_operator::checks::{Check, Finding, Verdict, first};
use run_operator::decide::truncate::escaped;

use super::document::{Bodies, Document, OPERATIONS, Operation, is_error, is_success, list};
use super::schema::types;

/// Names that one line has, and bytes of each.
const NAMED: usize = 12;
const SHOWN: usize = 256;

/// Numbers of [`OPERATIONS`].
pub(super) const VERSION: usize = 0;
pub(super) const WORKSPACE: usize = 1;
pub(super) const CREATE: usize = 2;
pub(super) const GET: usize = 3;
pub(super) const EVENTS: usize = 4;
const CANCEL: usize = 5;

const FOUND: [Check; 6] = [
    Check::new("operation.version", "GET /version"),
    Check::new("operation.workspace", "GET /workspaces/current"),
    Check::new("operation.create", "POST /runs"),
    Check::new("operation.get", "GET /runs/{id}"),
    Check::new("operation.events", "GET /runs/{id}/events"),
    Check::new("operation.cancel", "POST /runs/{id}:cancel"),
];
/// The operation, its header, and what it means that it isn't named.
const HEADERS: [(Check, usize, &str, Verdict); 3] = [
    (
        Check::new("header.idempotencyKey", "header Idempotency-Key"),
        CREATE,
        "Idempotency-Key",
        Verdict::Fail,
    ),
    (
        Check::new("header.lastEventID", "header Last-Event-ID"),
        EVENTS,
        "Last-Event-ID",
        Verdict::Fail,
    ),
    (
        Check::new("header.workspaceID", "header X-Service-Workspace-ID"),
        GET,
        "X-Service-Workspace-ID",
        Verdict::Warn,
    ),
];
/// OpenAPI 3.0 has these ignored as parameters.
const NO_PARAMETERS: [&str; 3] = ["Accept", "Authorization", "Content-Type"];
const REQUEST_ID: Check = Check::new("header.requestID", "header X-Request-ID");
const BODY: Check = Check::new("create.body", "POST /runs takes a Run");
const PROBLEMS: Check = Check::new("problem.answers", "errors are problems");
const PROBLEM: Check = Check::new("problem.fields", "a problem has its fields");
const ACCEPTED: Check = Check::new("version.accepted", "version.accepted");
const VERSION_AT: Check = Check::new("version.pointers", "version.pointers");
const ID_AT: Check = Check::new("run.idPointers", "run.idPointers");
const STATE_AT: Check = Check::new("run.statePointers", "run.statePointers");
const EVENT_AT: Check = Check::new("event.statePointers", "event.statePointers");
const IDENTITY_AT: Check = Check::new("workspace.identityPointers", "workspace.identityPointers");
const DETAILS: Check = Check::new("run.details", "what else the contract file names");
const STATES: Check = Check::new("states", "every state is mapped");
const CODES: Check = Check::new("codes", "codes are mapped");

const NO_OPERATION: &str = "the document has no such operation";
const ASK: &str = "The operator relies on it: ask the service's operators.";
const POINTERS: &str = "Correct the pointers in the contract file.";

const TEXT: &[&str] = &["string", "number", "integer"];
/// The fields of a body and their types; without types any.
type Fields = [(&'static str, &'static [&'static str])];
const RUN: &Fields = &[("workload", &[]), ("provider", TEXT), ("region", TEXT)];
const PROBLEM_FIELDS: &Fields = &[
    ("code", &["string"]),
    ("requestId", &["string"]),
    ("retryable", &["boolean"]),
    ("title", &["string"]),
];

/// A document beside a contract file.
pub(super) struct Review<'a> {
    document: &'a Document,
    contract: &'a Contract,
    operations: [Result<Operation<'a>, String>; 6],
}

impl<'a> Review<'a> {
    pub(super) fn new(document: &'a Document, contract: &'a Contract) -> Self {
        Self {
            document,
            contract,
            operations: OPERATIONS.map(|operation| document.operation(operation)),
        }
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        use Verdict::{Fail, Warn};
        let of = self.contract.in_force();
        let (run, workspace) = (&of.run, &of.workspace);
        let mut findings: Vec<Finding> = (0..FOUND.len()).map(|n| self.found(n)).collect();
        findings.extend(HEADERS.map(|header| self.header(header)));
        findings.extend([self.request_id(), self.body()]);
        findings.extend(self.problems());
        findings.extend([
            self.accepted(),
            self.pointers(VERSION_AT, VERSION, &of.version.pointers, Fail),
            self.pointers(ID_AT, CREATE, &run.id_pointers, Fail),
            self.pointers(STATE_AT, GET, &run.state_pointers, Fail),
            self.pointers(EVENT_AT, EVENTS, &of.event.state_pointers, Warn),
            self.pointers(IDENTITY_AT, WORKSPACE, &workspace.identity_pointers, Fail),
            self.states_mapped(),
            self.codes_mapped(),
        ]);
        findings.extend(self.details());
        findings
    }

    /// The operations that are there, each with its name.
    fn known(&self) -> impl Iterator<Item = (&Operation<'a>, String)> {
        let named = self.operations.iter().zip(OPERATIONS);
        named.filter_map(|(operation, (method, path))| {
            Some((
                operation.as_ref().ok()?,
                format!("{} {path}", method.to_uppercase()),
            ))
        })
    }

    /// Whether the operation is there, and requires nothing that the operator doesn't send.
    fn found(&self, n: usize) -> Finding {
        let operation = match &self.operations[n] {
            Ok(operation) => operation,
            Err(why) => return FOUND[n].fail(escaped(why, SHOWN), ASK),
        };
        let is_sent = |place: &str, name: &str| {
            let sent = HEADERS.iter().map(|(_, _, header, _)| header);
            let mut sent = sent.chain(&NO_PARAMETERS);
            place == "path" || place == "header" && sent.any(|own| own.eq_ignore_ascii_case(name))
        };
        let parameters = self.document.parameters(operation).into_iter();
        let unsent =
            parameters.filter(|(place, name, required)| *required && !is_sent(place, name));
        let mut unsent: Vec<String> = unsent
            .map(|(place, name, _)| format!("{place} {name}"))
            .collect();
        if n == CANCEL && self.document.request(operation).is_required {
            unsent.push("a body".to_owned());
        }
        if unsent.is_empty() {
            return FOUND[n].ok(format!("At {}.", escaped(operation.path, SHOWN)));
        }
        let saw = format!(
            "It requires what the operator doesn't send: {}.",
            named(unsent)
        );
        FOUND[n].fail(saw, ASK)
    }

    fn header(&self, (check, n, name, without): (Check, usize, &str, Verdict)) -> Finding {
        let Ok(operation) = &self.operations[n] else {
            return check.not_tried(NO_OPERATION);
        };
        let mut parameters = self.document.parameters(operation).into_iter();
        let is_it = |(place, own, _): &(&str, &str, bool)| {
            *place == "header" && own.eq_ignore_ascii_case(name)
        };
        match parameters.find(is_it) {
            Some((.., true)) if n == GET => {
                let todo = "Name it in each Workspace: spec.workspaceID.";
                check.finding(Verdict::Warn, "It is required.", Some(todo))
            }
            Some(_) => check.ok("The operation takes it."),
            None => check.finding(without, "The operation doesn't name it.", Some(ASK)),
        }
    }

    fn request_id(&self) -> Finding {
        let has_it = |operation: &Operation<'a>| {
            let headers = self.document.answer_headers(operation);
            headers
                .iter()
                .any(|name| name.eq_ignore_ascii_case("X-Request-ID"))
        };
        let mut known = self.known().peekable();
        if known.peek().is_none() {
            return REQUEST_ID.not_tried(NO_OPERATION);
        }
        let without = known.filter(|(operation, _)| !has_it(operation));
        let without: Vec<String> = without.map(|(_, name)| name).collect();
        if without.is_empty() {
            return REQUEST_ID.ok("Each answer has it.");
        }
        let saw = format!("Not in the answers of {}.", named(without));
        let todo = "Without it support can't find a request (rule 11).";
        REQUEST_ID.finding(Verdict::Warn, saw, Some(todo))
    }

    /// Whether `POST /runs` takes what is sent, and requires no more.
    fn body(&self) -> Finding {
        let Ok(operation) = &self.operations[CREATE] else {
            return BODY.not_tried(NO_OPERATION);
        };
        let bodies = self.document.request(operation);
        let whole = self.document.look(&bodies.schemas, "");
        let parts = whole.forms.iter().flatten();
        let required = parts.flat_map(|part| list(part.get("required")));
        let required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
        let unsent = required
            .into_iter()
            .filter(|name| RUN.iter().all(|(own, _)| own != name));
        let unsent: Vec<&str> = unsent.collect();
        if !unsent.is_empty() {
            let saw = format!(
                "It requires what the operator doesn't send: {}.",
                named(unsent)
            );
            return BODY.fail(saw, ASK);
        }
        self.fields(BODY, &bodies, RUN)
    }

    fn problems(&self) -> [Finding; 2] {
        if self.known().next().is_none() {
            return [PROBLEMS, PROBLEM].map(|check| check.not_tried(NO_OPERATION));
        }
        let (bodies, without) = self.problem_bodies();
        let todo = "Errors must be application/problem+json (rule 8): without a code a 409 or 404 proves nothing.";
        let answers = if without.is_empty() && !bodies.schemas.is_empty() {
            PROBLEMS.ok("Each operation has an application/problem+json.")
        } else {
            PROBLEMS.fail(format!("Not of {}.", named(without)), todo)
        };
        [answers, self.fields(PROBLEM, &bodies, PROBLEM_FIELDS)]
    }

    /// The problems of all operations, and the operations that have none.
    fn problem_bodies(&self) -> (Bodies<'a>, Vec<String>) {
        let mut all = Bodies::default();
        let mut without = Vec::new();
        for (operation, name) in self.known() {
            let is_problem = |media: &str| media == "application/problem+json";
            let bodies = self.document.answers(operation, is_error, is_problem);
            if bodies.schemas.is_empty() {
                let others: BTreeSet<&str> = bodies.others.into_iter().collect();
                without.push(format!("{name} ({})", named(others)));
            }
            all.schemas.extend(bodies.schemas);
            all.unclear.extend(bodies.unclear);
        }
        (all, without)
    }

    /// A finding of several fields: the worst of theirs.
    fn fields(&self, check: Check, bodies: &Bodies<'a>, fields: &Fields) -> Finding {
        let seen = fields
            .iter()
            .map(|(name, kinds)| self.seen(bodies, &[format!("/{name}")], kinds));
        let seen: Vec<(Verdict, String)> = seen.collect();
        for verdict in [Verdict::Fail, Verdict::Warn, Verdict::NotTried] {
            let mut of_it = seen
                .iter()
                .filter(|(own, _)| *own == verdict)
                .map(|(_, saw)| saw);
            if let Some(saw) = of_it.next() {
                let saws: BTreeSet<&String> = [saw].into_iter().chain(of_it).collect();
                let saws: Vec<&str> = saws.into_iter().map(String::as_str).collect();
                return check.finding(
                    verdict,
                    saws.join(" "),
                    (verdict != Verdict::NotTried).then_some(ASK),
                );
            }
        }
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        check.ok(format!("{} are there.", names.join(", ")))
    }

    fn accepted(&self) -> Finding {
        let version = self.document.text("/info/version");
        if self.contract.accepts_version(&version) {
            return ACCEPTED.ok(format!("The document has {}.", escaped(&version, SHOWN)));
        }
        let accepted = named(self.contract.accepted_versions());
        let saw = format!(
            "The document has {}, accepted are {accepted}.",
            escaped(&version, SHOWN)
        );
        let todo = "If GET /version reports it, new Runs are held: add it when you have reviewed the document.";
        ACCEPTED.finding(Verdict::Warn, saw, Some(todo))
    }

    /// Whether one of these pointers leads to a text or a number.
    fn pointers(&self, check: Check, n: usize, pointers: &[String], without: Verdict) -> Finding {
        if pointers.is_empty() {
            return check.ok("The contract file names none.");
        }
        let Some((bodies, top)) = self.bodies(n) else {
            return check.not_tried(NO_OPERATION);
        };
        let data = self.document.look(&bodies.schemas, top);
        if n == EVENTS && data.forms.iter().any(|form| types(form).contains("string")) {
            let saw = "The document doesn't say what an event's data is: look at a real one.";
            return check.finding(Verdict::NotTried, saw, None);
        }
        let pointers: Vec<String> = pointers
            .iter()
            .map(|pointer| format!("{top}{pointer}"))
            .collect();
        match self.seen(&bodies, &pointers, TEXT) {
            (Verdict::Ok, saw) => check.ok(saw),
            (Verdict::NotTried, saw) => check.finding(Verdict::NotTried, saw, None),
            (Verdict::Fail, saw) => check.finding(without, saw, Some(POINTERS)),
            (verdict, saw) => check.finding(verdict, saw, Some(POINTERS)),
        }
    }

    /// Whether a run's results, console, progress and failure are where the contract file says, if it says so.
    fn details(&self) -> Option<Finding> {
        const KINDS: &[&str] = &["string", "number", "integer", "boolean"];
        let run = &self.contract.in_force().run;
        let named: Vec<_> = run.details().filter(|(_, at)| !at.is_empty()).collect();
        if named.is_empty() {
            return None;
        }
        let Some((bodies, top)) = self.bodies(GET) else {
            return Some(DETAILS.not_tried(NO_OPERATION));
        };
        let missing = named.iter().filter_map(|(field, at)| {
            let at: Vec<String> = at.iter().map(|at| format!("{top}{at}")).collect();
            let (verdict, saw) = self.seen(&bodies, &at, KINDS);
            (verdict != Verdict::Ok).then(|| format!("{field}: {saw}"))
        });
        let missing: Vec<String> = missing.collect();
        Some(if missing.is_empty() {
            DETAILS.ok("The document has all of it.")
        } else {
            DETAILS.finding(Verdict::Warn, missing.join(" "), Some(POINTERS))
        })
    }

    /// What the bodies say of the first of these pointers that leads to a value of one of these types in every form.
    fn seen(&self, bodies: &Bodies<'a>, pointers: &[String], kinds: &[&str]) -> (Verdict, String) {
        if !bodies.unclear.is_empty() {
            return (
                Verdict::Fail,
                format!("Not understood: {}.", named(&bodies.unclear)),
            );
        }
        if bodies.schemas.is_empty() {
            return (
                Verdict::Fail,
                format!(
                    "There is no body of the right type ({}).",
                    named(&bodies.others)
                ),
            );
        }
        let mut partly = None;
        let mut open = None;
        let mut whys = Vec::new();
        for pointer in pointers {
            let look = self.document.look(&bodies.schemas, pointer);
            let is_right = |kind: &String| kinds.is_empty() || kinds.contains(&kind.as_str());
            let fits = look
                .forms
                .iter()
                .all(|form| types(form).iter().all(is_right));
            let shown = escaped(pointer, SHOWN).into_owned();
            if !look.unclear.is_empty() {
                whys.push(format!(
                    "{shown} is not understood: {}.",
                    named(&look.unclear)
                ));
            } else if !look.forms.is_empty() && !fits {
                let kinds: BTreeSet<String> = look.forms.iter().flat_map(types).collect();
                whys.push(format!("{shown} is {}.", named(kinds)));
            } else if !look.forms.is_empty() && look.instead.is_none() && !look.is_open {
                let null = if look.may_be_null() {
                    "; it may be null"
                } else {
                    ""
                };
                return (Verdict::Ok, format!("{shown} is there{null}."));
            } else if !look.forms.is_empty() {
                partly.get_or_insert(format!("{shown} is only in some forms of the body."));
            } else if let Some(fields) = look.instead {
                whys.push(format!("{shown} is not there, but {}.", named(fields)));
            } else {
                open.get_or_insert(format!(
                    "The document doesn't say whether {shown} is there: look at a real one."
                ));
            }
        }
        let partly = partly.map(|saw| (Verdict::Warn, saw));
        let open = open.map(|saw| (Verdict::NotTried, saw));
        partly
            .or(open)
            .unwrap_or_else(|| (Verdict::Fail, whys.join(" ")))
    }

    /// The bodies that the operator reads of an operation, and the pointer to where they begin: with an event, its data,
    /// if the schema names the lines of one.
    fn bodies(&self, n: usize) -> Option<(Bodies<'a>, &'static str)> {
        let operation = self.operations[n].as_ref().ok()?;
        let is_wanted = |media: &str| match n {
            EVENTS => media == "text/event-stream",
            _ => super::document::is_json(media),
        };
        let bodies = self.document.answers(operation, is_success, is_wanted);
        let has_lines = n == EVENTS
            && !self
                .document
                .look(&bodies.schemas, "/data")
                .forms
                .is_empty();
        Some((bodies, if has_lines { "/data" } else { "" }))
    }

    /// The document's path of an operation.
    pub(super) fn path(&self, n: usize) -> Option<&'a str> {
        self.operations[n].as_ref().ok().map(|found| found.path)
    }

    /// The pointers of an operation's answer that lead to a text or a number, and the values that are enumerated there.
    pub(super) fn scalars(&self, n: usize) -> BTreeMap<String, BTreeSet<String>> {
        let Some((bodies, top)) = self.bodies(n) else {
            return BTreeMap::new();
        };
        self.document.scalars(&bodies.schemas, top)
    }

    /// The states that the document enumerates wherever the operator reads one, and what is not understood there.
    pub(super) fn states(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let of = self.contract.in_force();
        let (mut values, mut unclear) = (BTreeSet::new(), BTreeSet::new());
        for n in [CREATE, GET, EVENTS, CANCEL] {
            let Some((bodies, top)) = self.bodies(n) else {
                continue;
            };
            let pointers: &[String] = if n == EVENTS {
                &of.event.state_pointers
            } else {
                &of.run.state_pointers
            };
            for pointer in pointers {
                let mut look = self
                    .document
                    .look(&bodies.schemas, &format!("{top}{pointer}"));
                values.extend(look.values());
                unclear.extend(look.unclear);
            }
        }
        (values, unclear)
    }

    /// The codes that the document enumerates in its problems.
    pub(super) fn codes(&self) -> BTreeSet<String> {
        let (bodies, _) = self.problem_bodies();
        self.document.look(&bodies.schemas, "/code").values()
    }

    fn states_mapped(&self) -> Finding {
        let (states, unclear) = self.states();
        if !unclear.is_empty() {
            let todo =
                "Bundle the document into one file, or ask the service's operators for the states.";
            return STATES.fail(format!("Not understood: {}.", named(unclear)), todo);
        }
        let lists = self.contract.in_force().states.lists();
        let class = |state: &String| self.contract.state(state);
        let (mapped, others) = by_list(&lists, &states, class, StateClass::Unmapped);
        let todo =
            "Add each to the list that it belongs to: it counts as active, also if it is an end.";
        match (states.is_empty(), others.is_empty()) {
            (true, _) => STATES.finding(
                Verdict::NotTried,
                "The document enumerates none: look at real runs.",
                None,
            ),
            (_, true) => STATES.ok(mapped),
            _ => STATES.fail(format!("In no list: {}. {mapped}", named(others)), todo),
        }
    }

    fn codes_mapped(&self) -> Finding {
        let codes = self.codes();
        let lists = self.contract.in_force().codes.lists();
        let class = |code: &String| self.contract.code(code);
        let (mapped, others) = by_list(&lists, &codes, class, CodeClass::Unknown);
        let is_needed =
            |of: CodeClass| matches!(of, CodeClass::IdempotencyConflict | CodeClass::RunNotFound);
        let without = lists
            .iter()
            .filter(|(_, _, of)| is_needed(*of) && !codes.iter().any(|code| class(code) == *of));
        let without: Vec<&str> = without.map(|(name, ..)| *name).collect();
        let others = others
            .iter()
            .map(|code| format!("{code} (final and shown)"));
        let saw = format!("{mapped} In no list: {}.", named(others));
        if codes.is_empty() {
            let saw = "The document enumerates none: ask the service's operators.";
            return CODES.finding(Verdict::NotTried, saw, None);
        }
        if without.is_empty() {
            return CODES.ok(saw.trim_start());
        }
        let saw = format!("None is in the list {}. {saw}", without.join(", "));
        let todo = "A conflict may pass for proof that no run was made, and a run that is gone is read for ever: compare the lists with the document.";
        CODES.finding(Verdict::Warn, saw, Some(todo))
    }
}

/// The values by the list that has them, as sentences; and those that are in none.
fn by_list<C: Copy + PartialEq, const N: usize>(
    lists: &[(&str, &[String], C); N],
    values: &BTreeSet<String>,
    class: impl Fn(&String) -> C,
    none: C,
) -> (String, Vec<String>) {
    let of_class = |of: C| {
        values
            .iter()
            .filter(|value| class(value) == of)
            .cloned()
            .collect::<Vec<_>>()
    };
    let lists = lists.iter().map(|(name, _, of)| (name, of_class(*of)));
    let lists = lists.filter(|(_, values)| !values.is_empty());
    let sentences: Vec<String> = lists
        .map(|(name, values)| format!("{name}: {}.", named(values)))
        .collect();
    (sentences.join(" "), of_class(none))
}

/// The first of many names, fit for a terminal.
pub(super) fn named<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter().peekable();
    if names.peek().is_none() {
        return "nothing".to_owned();
    }
    let names = names.map(|name| escaped(&name.to_string(), SHOWN).into_owned());
    first(NAMED, names)
}
