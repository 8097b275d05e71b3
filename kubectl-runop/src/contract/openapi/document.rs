//! An OpenAPI 3.0 document as a tree: its operations, what they send and answer, and what a reference leads to.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// Bytes of a document; GitHub's has 12 million.
pub(crate) const LARGEST: usize = 32 << 20;
/// Nodes of a document in YAML, and its levels.
const NODES: usize = 4_000_000;
const LEVELS: usize = 128;
/// References that lead to references.
const HOPS: usize = 32;

/// The operations that the operator calls: the method, and the path below the base URL.
pub(super) const OPERATIONS: [(&str, &str); 6] = [
    ("get", "/version"),
    ("get", "/workspaces/current"),
    ("post", "/runs"),
    ("get", "/runs/{}"),
    ("get", "/runs/{}/events"),
    ("post", "/runs/{}:cancel"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("failed to read it as {0}: {1}")]
    Syntax(&'static str, String),
    #[error("it has no line `openapi: 3.0.3` or the like, so it is no OpenAPI document")]
    NoDocument,
    #[error(
        "it is written in {0:?}, and OpenAPI 3.0 is understood here: take the service's 3.0 document, or convert it"
    )]
    Version(String),
}

pub(crate) struct Document {
    root: Value,
    /// The schema of a body that has none: anything.
    anything: Value,
    /// What stands before `/runs` in its paths.
    pub(super) base: String,
}

/// One of [`OPERATIONS`], as the document has it.
pub(super) struct Operation<'a> {
    pub(super) path: &'a str,
    item: &'a Value,
    pub(super) node: &'a Value,
}

/// The bodies of a request or of answers: the schemas of those of a wanted media type, and the other media types.
#[derive(Default)]
pub(super) struct Bodies<'a> {
    pub(super) schemas: Vec<&'a Value>,
    pub(super) others: Vec<&'a str>,
    pub(super) unclear: Vec<String>,
    pub(super) is_required: bool,
}

impl Document {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let root: Value = if text.starts_with('{') {
            serde_json::from_str(text)
                .map_err(|error| DocumentError::Syntax("JSON", error.to_string()))?
        } else {
            yaml(text)?
        };
        let version = ["openapi", "swagger"].map(|word| root.get(word).map(plain));
        match version {
            [Some(version), _] if version == "3.0" || version.starts_with("3.0.") => {}
            [Some(version), _] => {
                return Err(DocumentError::Version(format!("OpenAPI {version}")));
            }
            [None, Some(version)] => {
                return Err(DocumentError::Version(format!("Swagger {version}")));
            }
            [None, None] => return Err(DocumentError::NoDocument),
        }
        let base = base(&root);
        Ok(Self {
            root,
            anything: Value::Object(Map::new()),
            base,
        })
    }

    /// The text at a pointer of the document, such as its title.
    pub(super) fn text(&self, pointer: &str) -> String {
        self.root.pointer(pointer).map(plain).unwrap_or_default()
    }

    /// What a node stands for: itself, or what its `$ref` leads to.
    pub(super) fn follow<'a>(&'a self, mut node: &'a Value) -> Result<&'a Value, String> {
        for _ in 0..HOPS {
            let Some(target) = node.get("$ref").and_then(Value::as_str) else {
                return Ok(node);
            };
            let Some(pointer) = target.strip_prefix('#') else {
                return Err(format!("$ref {target:?} leads out of the document"));
            };
            let pointer = percent_decode_str(pointer).decode_utf8_lossy();
            let found = self.root.pointer(&pointer);
            node = found.ok_or_else(|| format!("$ref {target:?} leads nowhere"))?;
        }
        Err("a $ref leads in a circle".to_owned())
    }

    /// The operation that has this method and path, or what the document has in its place.
    pub(super) fn operation(&self, (method, path): (&str, &str)) -> Result<Operation<'_>, String> {
        let path = format!("{}{path}", self.base);
        let mut paths = members(self.root.get("paths")).filter(|(name, _)| normal(name) == path);
        let Some((name, item)) = paths.next() else {
            return Err(format!("There is no path {path}."));
        };
        let item = self
            .follow(item)
            .map_err(|why| format!("Not understood: {why}."))?;
        let Some(node) = item.get(method) else {
            let has: Vec<&str> = members(Some(item)).map(|(method, _)| method).collect();
            return Err(format!("{path} has no {method}, but {}.", has.join(", ")));
        };
        Ok(Operation {
            path: name,
            item,
            node,
        })
    }

    /// The parameters of an operation: where each is (`header`, `query`), its name, and whether it is required.
    pub(super) fn parameters<'a>(&'a self, of: &Operation<'a>) -> Vec<(&'a str, &'a str, bool)> {
        let lists = [of.item, of.node].map(|node| list(node.get("parameters")));
        let read = |node: &'a Value| {
            let node = self.follow(node).ok()?;
            let text = |name: &str| node.get(name).and_then(Value::as_str);
            Some((text("in")?, text("name")?, is_true(node.get("required"))))
        };
        lists.into_iter().flatten().filter_map(read).collect()
    }

    /// The schemas of an operation's answers whose status and media type are as wanted.
    pub(super) fn answers<'a>(
        &'a self,
        of: &Operation<'a>,
        status: impl Fn(&str) -> bool,
        media: impl Fn(&str) -> bool,
    ) -> Bodies<'a> {
        let mut bodies = Bodies::default();
        for (_, answer) in members(of.node.get("responses")).filter(|(code, _)| status(code)) {
            match self.follow(answer) {
                Ok(answer) => bodies.add(answer, &media, &self.anything),
                Err(why) => bodies.unclear.push(why),
            }
        }
        bodies
    }

    /// The schemas of the JSON that an operation takes.
    pub(super) fn request<'a>(&'a self, of: &Operation<'a>) -> Bodies<'a> {
        let mut bodies = Bodies::default();
        match of.node.get("requestBody").map(|body| self.follow(body)) {
            Some(Ok(body)) => {
                bodies.add(body, &is_json, &self.anything);
                bodies.is_required = is_true(body.get("required"));
            }
            Some(Err(why)) => bodies.unclear.push(why),
            None => {}
        }
        bodies
    }

    /// The names of the headers of an operation's successes.
    pub(super) fn answer_headers<'a>(&'a self, of: &Operation<'a>) -> Vec<&'a str> {
        let answers = members(of.node.get("responses")).filter(|(code, _)| is_success(code));
        let answers = answers.filter_map(|(_, answer)| self.follow(answer).ok());
        let headers = answers.flat_map(|answer| members(answer.get("headers")));
        headers.map(|(name, _)| name).collect()
    }
}

impl<'a> Bodies<'a> {
    fn add(&mut self, holder: &'a Value, media: &impl Fn(&str) -> bool, anything: &'a Value) {
        for (name, content) in members(holder.get("content")) {
            let essence = name.split(';').next().unwrap_or_default().trim();
            if media(&essence.to_lowercase()) {
                self.schemas.push(content.get("schema").unwrap_or(anything));
            } else {
                self.others.push(name);
            }
        }
    }
}

fn yaml(text: &str) -> Result<Value, DocumentError> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        // By YAML 1.2, as OpenAPI wants it: `on` and `no` are words.
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_nodes: NODES, max_events: 2 * NODES, max_depth: LEVELS },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let why = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        DocumentError::Syntax("YAML", why)
    })
}

/// What most of the operations have before their paths, the shortest of several. A base URL has no parameters.
fn base(root: &Value) -> String {
    let mut found: Vec<(String, usize)> = Vec::new();
    for (path, item) in members(root.get("paths")) {
        let path = normal(path);
        for (method, end) in OPERATIONS {
            let Some(base) = path
                .strip_suffix(end)
                .filter(|base| !base.contains('{') && item.get(method).is_some())
            else {
                continue;
            };
            match found.iter_mut().find(|(known, _)| known == base) {
                Some((_, count)) => *count += 1,
                None => found.push((base.to_owned(), 1)),
            }
        }
    }
    let best = found
        .into_iter()
        .max_by_key(|(base, count)| (*count, std::cmp::Reverse(base.len())));
    best.map(|(base, _)| base).unwrap_or_default()
}

/// A path whose parameters have no names.
fn normal(path: &str) -> String {
    let mut parts = path.split('{');
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        normal.push_str("{}");
        normal.push_str(part.split_once('}').map_or(part, |(_, rest)| rest));
    }
    normal
}

/// The name of a path's last parameter, such as `runId`.
pub(super) fn parameter(path: &str) -> Option<&str> {
    Some(path.rsplit_once('{')?.1.split_once('}')?.0)
}

pub(super) fn members<'a>(node: Option<&'a Value>) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map: Option<&'a Map<String, Value>> = node.and_then(Value::as_object);
    let members = map.into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}

pub(super) fn list(node: Option<&Value>) -> impl Iterator<Item = &Value> {
    node.and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn is_true(node: Option<&Value>) -> bool {
    node.and_then(Value::as_bool).unwrap_or_default()
}

/// A scalar as it is written, without quotes.
pub(super) fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn is_success(status: &str) -> bool {
    status.len() == 3 && status.starts_with('2')
}

pub(super) fn is_error(status: &str) -> bool {
    status.starts_with(['4', '5']) || status == "default"
}

pub(super) fn is_json(media: &str) -> bool {
    media == "application/json" || media.ends_with("+json") || media == "*/*"
}
