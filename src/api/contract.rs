//! The contract file: the names and numbers that docs/service.md leaves open, so that a deployment can
//! correct them without a new build. It is laid over `contract/profile.yaml`, which is compiled in.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Number, Value};

mod details;
mod overlay;
mod profile;

pub use details::RunDetails;
pub use overlay::{List, ResultPointers};
pub use profile::{
    API_VERSION, BUILTIN, CodeClass, ContractError, KIND, Limits, Profile, StateClass, Timeouts,
};

use overlay::Overlay;
use profile::{ProfileFile, invalid};

/// What is in force by a contract file, checked. Durations are whole seconds, sizes are bytes.
#[derive(Clone, Debug)]
pub struct Contract {
    profile: Profile,
    /// What the file gives, by its own names.
    given: Value,
    states: HashMap<String, StateClass>,
    codes: HashMap<String, CodeClass>,
}

impl Contract {
    pub fn builtin() -> Result<Self, ContractError> {
        Self::parse(BUILTIN)
    }

    pub fn parse(yaml: &str) -> Result<Self, ContractError> {
        let file = ProfileFile::parse(yaml)?;
        let given =
            serde_json::to_value(&file).map_err(|error| ContractError::Parse(error.to_string()))?;
        let mut profile = Profile::builtin()?;
        profile.lay(file);
        profile.check()?;
        let states = index("states", profile.states.lists(), str::to_lowercase)?;
        let codes = index("codes", profile.codes.lists(), str::to_owned)?;
        Ok(Self {
            profile,
            given,
            states,
            codes,
        })
    }

    /// Each value that is in force.
    pub fn in_force(&self) -> &Profile {
        &self.profile
    }

    /// The values that come from the file, by its own names.
    pub fn given(&self) -> &Value {
        &self.given
    }

    /// Meaning of a state; compared without case.
    pub fn state(&self, state: &str) -> StateClass {
        let class = self.states.get(&state.to_lowercase());
        class.copied().unwrap_or(StateClass::Unmapped)
    }

    /// Meaning of a problem's code (rule 8: codes are compared exactly).
    pub fn code(&self, code: &str) -> CodeClass {
        self.codes.get(code).copied().unwrap_or(CodeClass::Unknown)
    }

    /// Whether this status refuses exactly these bytes for good.
    pub fn refuses_create(&self, status: u16) -> bool {
        self.profile.create.refused_for.contains(&status)
    }

    /// Whether the operator was reviewed against this version of the service (rule 13).
    pub fn accepts_version(&self, version: &str) -> bool {
        let mut accepted = self.accepted_versions().iter();
        accepted.any(|accepted| match accepted.strip_suffix('*') {
            Some(prefix) => version.starts_with(prefix),
            None => version == accepted,
        })
    }

    pub fn accepted_versions(&self) -> &[String] {
        &self.profile.version.accepted
    }

    pub fn version_pointers(&self) -> &[String] {
        &self.profile.version.pointers
    }

    pub fn version_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.version.pointers)
    }

    /// The pointers without which an answer about a run can't be read.
    pub fn run_pointers(&self) -> impl Iterator<Item = &str> {
        let run = &self.profile.run;
        let all = run.id_pointers.iter().chain(run.state_pointers.iter());
        all.map(String::as_str)
    }

    /// Those to what an answer about a run says beside: without these it is read all the same.
    pub fn detail_pointers(&self) -> impl Iterator<Item = &str> {
        let lists = self.profile.run.details();
        lists.flat_map(|(_, pointers)| pointers.iter().map(String::as_str))
    }

    /// What an answer about a run says beside its id and state; `None` if nothing. `shown` makes a text fit to be shown, in
    /// so many bytes.
    pub fn run_details_of(
        &self,
        answer: &RawValue,
        shown: impl Fn(&str, usize) -> String,
    ) -> Option<Box<RunDetails>> {
        let details = self.profile.run.read_details(answer, shown);
        (details != RunDetails::default()).then(|| Box::new(details))
    }

    pub fn run_id_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.run.id_pointers)
    }

    pub fn run_state_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.run.state_pointers)
    }

    /// The run's state in an event's data, if the data is JSON and names one.
    pub fn event_state_of(&self, data: &str) -> Option<String> {
        let value: &RawValue = serde_json::from_str(data).ok()?;
        text_at(value, &self.profile.event.state_pointers)
    }

    /// The workspace that the token acts for, in an answer to `GET /workspaces/current`.
    pub fn identity_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.workspace.identity_pointers)
    }

    pub fn knows_identity(&self) -> bool {
        !self.profile.workspace.identity_pointers.is_empty()
    }

    /// Time for which the service remembers a key, in seconds.
    pub fn key_retention_seconds(&self) -> u64 {
        self.profile.key_retention_seconds
    }

    pub fn limits(&self) -> Limits {
        self.profile.limits
    }

    pub fn timeouts(&self) -> Timeouts {
        self.profile.timeouts
    }

    /// Prefixes of the keys of model providers (rule 6).
    pub fn provider_key_prefixes(&self) -> &[String] {
        &self.profile.provider_key_prefixes
    }
}

fn index<C: Copy + PartialEq, const N: usize>(
    field: &str,
    lists: [(&str, &[String], C); N],
    normal: impl Fn(&str) -> String,
) -> Result<HashMap<String, C>, ContractError> {
    let mut index = HashMap::new();
    for (_, words, class) in lists {
        for word in words {
            let earlier = index.insert(normal(word), class);
            if earlier.is_some_and(|earlier| earlier != class) {
                let problem = format!(
                    "{word:?} is in two lists; keep it in one (a list that the file leaves out has its built-in words)"
                );
                return invalid(field, problem);
            }
        }
    }
    Ok(index)
}

/// The first value, by these JSON pointers (RFC 6901), that is a non-empty string or a number. No tree is built: an answer
/// may echo a workload of any depth and size.
fn text_at(document: &RawValue, pointers: &[String]) -> Option<String> {
    first_at(document, pointers).map(|(_, text)| text)
}

/// The same, with the pointer that led to it.
pub fn first_at<'a>(document: &RawValue, pointers: &'a [String]) -> Option<(&'a str, String)> {
    first(document, pointers, text)
}

/// The first value, by these pointers, of which `read` makes something, and the pointer that led to it.
fn first<'a, T>(
    document: &RawValue,
    pointers: &'a [String],
    read: impl Fn(&RawValue) -> Option<T>,
) -> Option<(&'a str, T)> {
    let mut pointers = pointers.iter();
    pointers.find_map(|pointer| Some((pointer.as_str(), read(at(document, pointer)?)?)))
}

/// The text of a non-empty string or of a number.
fn text(value: &RawValue) -> Option<String> {
    match value.get().as_bytes().first()? {
        b'"' => serde_json::from_str::<String>(value.get())
            .ok()
            .filter(|text| !text.is_empty()),
        b'-' | b'0'..=b'9' => serde_json::from_str::<Number>(value.get())
            .ok()
            .map(|number| Value::Number(number).to_string()),
        _ => None,
    }
}

/// The value that a pointer names; of members with the same key the last one.
fn at<'a>(document: &'a RawValue, pointer: &str) -> Option<&'a RawValue> {
    names(pointer).try_fold(document, |value, name| {
        match value.get().as_bytes().first()? {
            b'{' => {
                let members: HashMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
                members.get(&name).copied()
            }
            b'[' => {
                let index: usize = name.parse().ok().filter(|_| is_index(&name))?;
                let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                items.get(index).copied()
            }
            _ => None,
        }
    })
}

fn is_index(name: &str) -> bool {
    name == "0" || name.starts_with(|first: char| matches!(first, '1'..='9'))
}

/// The names of a JSON pointer, the outermost first.
pub fn names(pointer: &str) -> impl Iterator<Item = String> {
    let unescaped = |name: &str| name.replace("~1", "/").replace("~0", "~");
    pointer.split('/').skip(1).map(unescaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(document: &Value, pointer: &str) -> Option<Value> {
        let text = document.to_string();
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        at(raw, pointer).map(|value| serde_json::from_str(value.get()).unwrap())
    }

    #[test]
    fn a_pointer_finds_what_it_finds_in_a_tree() {
        let document = json!({
            "a/b": {"m~n": [0, {"x": "y"}]}, "": 1, "list": ["z"], "01": true, "text": "t",
        });
        for pointer in [
            "",
            "/",
            "/a~1b/m~0n/1/x",
            "/a~1b/m~0n/01",
            "/list/0",
            "/list/00",
            "/list/-",
            "/list/+0",
            "/list/1",
            "/01",
            "/text/0",
            "/none",
            "/a~1b",
        ] {
            assert_eq!(
                found(&document, pointer).as_ref(),
                document.pointer(pointer),
                "{pointer}"
            );
        }
    }

    /// Proves: F-heavy
    #[test]
    fn what_is_deep_beside_it_is_no_obstacle() {
        let text = format!(
            r#"{{"workload":{}{},"runId":"r"}}"#,
            "[".repeat(5000),
            "]".repeat(5000)
        );
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        assert_eq!(text_at(raw, &["/runId".to_owned()]).as_deref(), Some("r"));
    }
}
