//! What a schema says of a field: where `$ref`, `allOf`, `oneOf` and `anyOf` lead, within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use serde_json::{Map, Value};

use super::document::{Document, list, members, plain};

/// Alternatives of a schema, and schemas that are looked at for one question.
const ALTERNATIVES: usize = 256;
const STEPS: usize = 5_000;
/// Fields of a level that are looked at for a first contract file.
const FIELDS: usize = 1_000;
/// Schemas within each other by `allOf` and the like, and names of a pointer.
const DEEPEST: usize = 32;

/// One form that a value may have: schemas without references and combinations, of which all hold.
pub(super) type Form<'a> = Vec<&'a Map<String, Value>>;

/// What schemas say of a field.
#[derive(Default)]
pub(super) struct Look<'a> {
    pub(super) forms: Vec<Form<'a>>,
    /// The fields of the forms that lack it; `None` if none does.
    pub(super) instead: Option<BTreeSet<&'a str>>,
    /// Whether there is a form of which the document doesn't say what fields it has.
    pub(super) is_open: bool,
    /// What is not understood on the way.
    pub(super) unclear: BTreeSet<String>,
    steps: usize,
}

impl Document {
    /// What these schemas, alternatives of each other, say of the field that a JSON pointer names.
    pub(super) fn look<'a>(&'a self, schemas: &[&'a Value], pointer: &str) -> Look<'a> {
        let names = pointer.split('/').skip(1);
        let names: Vec<String> = names
            .map(|name| name.replace("~1", "/").replace("~0", "~"))
            .collect();
        let mut look = Look::default();
        if names.len() > DEEPEST {
            look.unclear
                .insert(format!("a pointer of {} names", names.len()));
            return look;
        }
        for schema in schemas {
            self.step(&[*schema], &names, &mut look);
        }
        look
    }

    /// `schemas` hold together.
    fn step<'a>(&'a self, schemas: &[&'a Value], names: &[String], look: &mut Look<'a>) {
        let mut forms = vec![Form::new()];
        for schema in schemas {
            let more = self.forms(schema, &mut Vec::new(), look);
            forms = both(&forms, &more, look);
        }
        for form in forms.into_iter().filter(|form| !is_null(form)) {
            let Some((name, rest)) = names.split_first() else {
                look.forms.push(form);
                continue;
            };
            let fields: Vec<&Value> = form.iter().filter_map(|part| field(part, name)).collect();
            if !fields.is_empty() {
                self.step(&fields, rest, look);
            } else if says_nothing(&form) {
                look.is_open = true;
            } else {
                let names = form.iter().flat_map(|part| members(part.get("properties")));
                let instead = look.instead.get_or_insert_default();
                instead.extend(names.map(|(name, _)| name));
            }
        }
    }

    /// The forms of one schema. `within` are those that it is part of.
    fn forms<'a>(
        &'a self,
        schema: &'a Value,
        within: &mut Vec<&'a Value>,
        look: &mut Look<'a>,
    ) -> Vec<Form<'a>> {
        look.steps += 1;
        let followed = self.follow(schema).and_then(|schema| {
            let map = schema.as_object().ok_or("a schema that is no object")?;
            let is_within = within.iter().any(|outer| ptr::eq(*outer, schema));
            if is_within || within.len() > DEEPEST || look.steps > STEPS {
                return Err("a schema that contains itself, or is too large to follow".to_owned());
            }
            Ok((schema, map))
        });
        let (schema, map) = match followed {
            Ok(found) => found,
            Err(why) => {
                look.unclear.insert(why);
                return Vec::new();
            }
        };
        for word in ["if", "const", "patternProperties"] {
            if map.contains_key(word) {
                look.unclear.insert(format!("the keyword {word}"));
            }
        }
        if map.get("type").is_some_and(Value::is_array) {
            look.unclear.insert("a type that is a list".to_owned());
        }
        within.push(schema);
        let mut forms = vec![vec![map]];
        for part in list(map.get("allOf")) {
            let more = self.forms(part, within, look);
            forms = both(&forms, &more, look);
        }
        for word in ["oneOf", "anyOf"] {
            let choices = list(map.get(word));
            let choices: Vec<Form> = choices
                .flat_map(|choice| self.forms(choice, within, look))
                .collect();
            forms = both(&forms, &choices, look);
        }
        within.pop();
        forms
    }

    /// The texts and numbers below a pointer: their own pointers from there, to three names, and the values that are
    /// enumerated there.
    pub(super) fn scalars(
        &self,
        schemas: &[&Value],
        top: &str,
    ) -> BTreeMap<String, BTreeSet<String>> {
        let at = |pointer: &str| self.look(schemas, &format!("{top}{pointer}"));
        let mut found = BTreeMap::new();
        let mut above = vec![String::new()];
        for _ in 0..3 {
            let below = above
                .iter()
                .flat_map(|pointer| names(&at(pointer), pointer));
            let below: Vec<String> = below.take(FIELDS).collect();
            for pointer in &below {
                let mut look = at(pointer);
                if look.forms.iter().any(is_scalar) {
                    found.insert(pointer.clone(), look.values());
                }
            }
            above = below;
        }
        found
    }
}

/// The pointers of the fields of a look at `pointer`.
fn names(look: &Look<'_>, pointer: &str) -> Vec<String> {
    let parts = look.forms.iter().flatten();
    let names: BTreeSet<&str> = parts
        .flat_map(|part| members(part.get("properties")))
        .map(|(name, _)| name)
        .collect();
    let names = names.into_iter();
    let names = names.map(|name| name.replace('~', "~0").replace('/', "~1"));
    names.map(|name| format!("{pointer}/{name}")).collect()
}

impl Look<'_> {
    /// The values that are enumerated there, as the operator reads them.
    pub(super) fn values(&mut self) -> BTreeSet<String> {
        let mut values = BTreeSet::new();
        let parts = self.forms.iter().flatten();
        let words = ["enum", "x-extensible-enum"];
        for value in
            parts.flat_map(|part| words.map(|word| list(part.get(word))).into_iter().flatten())
        {
            match value {
                // May be null.
                Value::Null => {}
                Value::String(_) | Value::Number(_) => {
                    values.insert(plain(value));
                }
                other => {
                    self.unclear.insert(format!("{other} among the values"));
                }
            }
        }
        values
    }

    pub(super) fn may_be_null(&self) -> bool {
        let mut parts = self.forms.iter().flatten();
        parts.any(|part| super::document::is_true(part.get("nullable")))
    }
}

/// The forms of a value that has one of each.
fn both<'a>(some: &[Form<'a>], more: &[Form<'a>], look: &mut Look<'a>) -> Vec<Form<'a>> {
    if more.is_empty() {
        return some.to_vec();
    }
    if some.len() * more.len() > ALTERNATIVES {
        look.unclear.insert(format!(
            "a schema with more than {ALTERNATIVES} alternatives"
        ));
        return some.to_vec();
    }
    let mut joined = Vec::with_capacity(some.len() * more.len());
    for one in some {
        joined.extend(more.iter().map(|other| [&one[..], other].concat()));
    }
    joined
}

fn field<'a>(part: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let named = part.get("properties").and_then(|all| all.get(name));
    let is_index = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    named.or_else(|| part.get("items").filter(|_| is_index))
}

/// Whether the form leaves open which fields it has: by its own word, or because it names none.
fn says_nothing(form: &Form<'_>) -> bool {
    let others = form
        .iter()
        .filter_map(|part| part.get("additionalProperties"));
    let others: Vec<&Value> = others.collect();
    let words = ["properties", "items", "enum"];
    let names_some = form
        .iter()
        .any(|part| words.iter().any(|word| part.contains_key(*word)));
    let may_be_object = types(form).iter().all(|kind| kind == "object");
    let is_closed = others.contains(&&Value::Bool(false));
    !is_closed && (!others.is_empty() || !names_some && may_be_object)
}

/// Whether it is the form that stands for no value.
fn is_null(form: &Form<'_>) -> bool {
    let only_null = |part: &&Map<String, Value>| {
        list(part.get("enum")).all(Value::is_null) && part.contains_key("enum")
    };
    types(form).contains("null") || form.iter().any(only_null)
}

pub(super) fn types(form: &Form<'_>) -> BTreeSet<String> {
    form.iter()
        .filter_map(|part| part.get("type").map(plain))
        .collect()
}

/// Whether it is a text or a number.
fn is_scalar(form: &Form<'_>) -> bool {
    let scalars = ["string", "number", "integer"];
    types(form)
        .iter()
        .any(|kind| scalars.contains(&kind.as_str()))
}
