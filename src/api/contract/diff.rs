//! Differences between two contract files, compared as the operator reads them: lists of words have no
//! order and no duplicates, pointers do have an order, and states have no case.

use std::collections::{BTreeMap, BTreeSet};

use super::field::Field;
use super::profile::{
    Codes, Create, EventFields, Limits, Profile, RunFields, States, Timeouts, Version,
    WorkspaceFields,
};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The field. Of a word that moved: the list that it left.
    pub field: Field,
    /// The difference.
    pub what: Difference,
}

/// Difference of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A word that was in no list of its kind.
    Added(String),
    /// A word that is no longer in any list of its kind.
    Removed(String),
    /// A state or a code with a new meaning.
    Moved {
        /// The word as written in the new file.
        word: String,
        /// The list that it is in now.
        to: Field,
    },
    /// Pointers; the first one that finds a value counts.
    Pointers {
        /// Before.
        old: Vec<String>,
        /// Now.
        new: Vec<String>,
    },
    /// Bytes or seconds.
    Number {
        /// Before.
        old: u64,
        /// Now.
        new: u64,
    },
}

/// Content of a field.
enum Leaf<'a> {
    Pointers(&'a [String]),
    /// Words that are independent of each other.
    Set(BTreeSet<String>),
    /// Words that are each in one list of their kind.
    Words(Kind, &'a [String]),
    Number(u64),
}

/// Kinds of words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    State,
    Code,
}

impl Kind {
    /// The form in which words are compared.
    fn normal(self, word: &str) -> String {
        match self {
            Self::State => word.to_lowercase(),
            Self::Code => word.to_owned(),
        }
    }
}

type Leaves<'a> = Vec<(Field, Leaf<'a>)>;

/// The words of a kind, in the form in which they are compared, each with its list and its spelling.
type Places<'a> = BTreeMap<(Kind, String), (Field, &'a str)>;

pub(super) fn changes(old: &Profile, new: &Profile) -> Vec<Change> {
    let (old, new) = (leaves(old), leaves(new));
    let (was, is) = (places(&old), places(&new));
    let mut changes = Vec::new();
    for ((field, old), (_, new)) in old.iter().zip(&new) {
        let differences = match (old, new) {
            (Leaf::Pointers(old), Leaf::Pointers(new)) => pointers(old, new),
            (Leaf::Set(old), Leaf::Set(new)) => set(old, new),
            (Leaf::Number(old), Leaf::Number(new)) if old != new => vec![Difference::Number {
                old: *old,
                new: *new,
            }],
            (Leaf::Words(..), Leaf::Words(..)) => words(*field, &was, &is),
            // The same field has the same form in both files.
            _ => Vec::new(),
        };
        changes.extend(differences.into_iter().map(|what| Change {
            field: *field,
            what,
        }));
    }
    changes
}

/// Every field, once. A field that is new in the profile doesn't compile until it is listed here.
fn leaves(profile: &Profile) -> Leaves<'_> {
    let Profile {
        version: Version { pointers, accepted },
        run: RunFields {
            id_pointers,
            state_pointers,
        },
        event: EventFields {
            state_pointers: event_pointers,
        },
        workspace: WorkspaceFields { identity_pointers },
        states,
        codes,
        create: Create { refused_for },
        key_retention_seconds,
        limits:
            Limits {
                body_bytes,
                event_line_bytes,
                event_bytes,
            },
        timeouts:
            Timeouts {
                connect_seconds,
                request_seconds,
                stream_idle_seconds,
            },
        provider_key_prefixes,
    } = profile;
    let statuses = refused_for.iter().map(u16::to_string).collect();
    let mut leaves = vec![
        (Field::VersionPointers, Leaf::Pointers(pointers)),
        (Field::VersionAccepted, Leaf::Set(unique(accepted))),
        (Field::RunIdPointers, Leaf::Pointers(id_pointers)),
        (Field::RunStatePointers, Leaf::Pointers(state_pointers)),
        (Field::EventStatePointers, Leaf::Pointers(event_pointers)),
        (
            Field::WorkspaceIdentityPointers,
            Leaf::Pointers(identity_pointers),
        ),
    ];
    leaves.extend(state_lists(states));
    leaves.extend(code_lists(codes));
    leaves.extend([
        (Field::RefusedFor, Leaf::Set(statuses)),
        (
            Field::KeyRetentionSeconds,
            Leaf::Number(*key_retention_seconds),
        ),
        (Field::BodyBytes, Leaf::Number(*body_bytes as u64)),
        (
            Field::EventLineBytes,
            Leaf::Number(*event_line_bytes as u64),
        ),
        (Field::EventBytes, Leaf::Number(*event_bytes as u64)),
        (Field::ConnectSeconds, Leaf::Number(*connect_seconds)),
        (Field::RequestSeconds, Leaf::Number(*request_seconds)),
        (Field::StreamIdleSeconds, Leaf::Number(*stream_idle_seconds)),
        (
            Field::ProviderKeyPrefixes,
            Leaf::Set(unique(provider_key_prefixes)),
        ),
    ]);
    leaves
}

fn state_lists(states: &States) -> [(Field, Leaf<'_>); 6] {
    let States {
        pending,
        active,
        cancelling,
        succeeded,
        failed,
        cancelled,
    } = states;
    [
        (Field::Pending, Leaf::Words(Kind::State, pending)),
        (Field::Active, Leaf::Words(Kind::State, active)),
        (Field::Cancelling, Leaf::Words(Kind::State, cancelling)),
        (Field::Succeeded, Leaf::Words(Kind::State, succeeded)),
        (Field::Failed, Leaf::Words(Kind::State, failed)),
        (Field::Cancelled, Leaf::Words(Kind::State, cancelled)),
    ]
}

fn code_lists(codes: &Codes) -> [(Field, Leaf<'_>); 5] {
    let Codes {
        approval_conflict,
        version_conflict,
        idempotency_conflict,
        idempotency_in_progress,
        run_not_found,
    } = codes;
    [
        (
            Field::ApprovalConflict,
            Leaf::Words(Kind::Code, approval_conflict),
        ),
        (
            Field::VersionConflict,
            Leaf::Words(Kind::Code, version_conflict),
        ),
        (
            Field::IdempotencyConflict,
            Leaf::Words(Kind::Code, idempotency_conflict),
        ),
        (
            Field::IdempotencyInProgress,
            Leaf::Words(Kind::Code, idempotency_in_progress),
        ),
        (Field::RunNotFound, Leaf::Words(Kind::Code, run_not_found)),
    ]
}

fn unique(words: &[String]) -> BTreeSet<String> {
    words.iter().cloned().collect()
}

fn places<'a>(leaves: &Leaves<'a>) -> Places<'a> {
    let mut places = Places::new();
    for (field, leaf) in leaves {
        if let Leaf::Words(kind, words) = leaf {
            let here = words
                .iter()
                .map(|word| ((*kind, kind.normal(word)), (*field, word.as_str())));
            places.extend(here);
        }
    }
    places
}

/// A duplicate pointer counts at its first position.
fn pointers(old: &[String], new: &[String]) -> Vec<Difference> {
    let effective = |pointers: &[String]| {
        let mut seen = BTreeSet::new();
        let first = pointers.iter().filter(|p| seen.insert(p.as_str()));
        first.cloned().collect::<Vec<_>>()
    };
    let (old, new) = (effective(old), effective(new));
    if old == new {
        return Vec::new();
    }
    vec![Difference::Pointers { old, new }]
}

fn set(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Vec<Difference> {
    let removed = old.difference(new).cloned().map(Difference::Removed);
    let added = new.difference(old).cloned().map(Difference::Added);
    removed.chain(added).collect()
}

/// The words that left this list, then those that are new in it; a word that moved is reported once.
fn words(field: Field, was: &Places<'_>, is: &Places<'_>) -> Vec<Difference> {
    let in_list = |(_, (at, _)): &(_, &(Field, &str))| *at == field;
    let left = was
        .iter()
        .filter(in_list)
        .filter_map(|(key, (_, word))| match is.get(key) {
            None => Some(Difference::Removed((*word).to_owned())),
            Some((to, word)) if *to != field => Some(Difference::Moved {
                word: (*word).to_owned(),
                to: *to,
            }),
            Some(_) => None,
        });
    let new = is
        .iter()
        .filter(in_list)
        .filter(|(key, _)| !was.contains_key(*key))
        .map(|(_, (_, word))| Difference::Added((*word).to_owned()));
    left.chain(new).collect()
}
