//! How each statement is broken on purpose: tests/breakages has a list for each section of the documents. A test that is
//! marked with the statement's id must then fail; `cargo xtask breakages` tries it, and docs/reliability/breakages.md
//! shows what failed.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files;

/// The folder of the lists.
pub const FOLDER: &str = "tests/breakages";

/// One way to make a statement untrue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Breakage {
    /// Of the statement in docs/service.md or docs/design.md.
    pub id: String,
    /// What the program does now, in a sentence.
    pub broken: String,
    pub edits: Vec<Edit>,
}

/// A text that takes another's place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// From the root of the repository.
    pub file: String,
    /// Occurs in the file exactly once.
    pub from: String,
    pub to: String,
}

impl Breakage {
    /// Writes the edited files.
    pub fn apply(&self, root: &Path) -> Result<(), String> {
        for (file, text) in self.texts(root)? {
            std::fs::write(root.join(file), text).map_err(|error| format!("{file}: {error}"))?;
        }
        Ok(())
    }

    /// The edited files of a checkout, with their texts, or what no longer fits.
    pub fn texts(&self, root: &Path) -> Result<Vec<(&str, String)>, String> {
        let mut texts: Vec<(&str, String)> = Vec::new();
        for Edit { file, from, to } in &self.edits {
            let known = texts.iter().position(|(name, _)| name == file);
            let old = match known {
                Some(at) => texts.swap_remove(at).1,
                None => std::fs::read_to_string(root.join(file))
                    .map_err(|error| format!("{}: {file}: {error}", self.id))?,
            };
            let times = old.matches(from).count();
            if times != 1 {
                return Err(format!(
                    "{}: {file} has this {times} times, and must have it once: {from}",
                    self.id
                ));
            }
            texts.push((file, old.replace(from, to)));
        }
        Ok(texts)
    }
}

/// All of them, in the order of their files and lists.
///
/// # Panics
/// If a list can't be read.
pub fn all() -> Vec<Breakage> {
    let lists = files::below(FOLDER, "yaml");
    let read = |file: String| {
        let list: Vec<Breakage> = serde_saphyr::from_str(&files::text(&file))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        list
    };
    lists.into_iter().flat_map(read).collect()
}

/// What doesn't fit this checkout any more, and what can't be an edit.
pub fn problems(breakages: &[Breakage]) -> Vec<String> {
    let mut problems = Vec::new();
    for breakage in breakages {
        let Breakage { id, broken, edits } = breakage;
        problems.extend(breakage.texts(crate::root()).err());
        if !broken.ends_with('.') {
            problems.push(format!("{id}: a sentence, please: {broken}"));
        }
        let same = edits.iter().any(|edit| edit.from == edit.to);
        if edits.is_empty() || same {
            problems.push(format!("{id}: changes nothing: {broken}"));
        }
    }
    problems
}

#[test]
fn an_edit_that_does_not_fit_is_refused() {
    let edit = |from: &str, to: &str| Edit {
        file: "LICENSE".to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let breakage = |edits: Vec<Edit>| Breakage {
        id: "I-x".to_owned(),
        broken: "It is broken.".to_owned(),
        edits,
    };
    let good = breakage(vec![
        edit("Version 2.0, January 2004", "Version 3"),
        edit("Version 3", "Version 4"),
    ]);
    assert_eq!(problems(std::slice::from_ref(&good)), [""; 0]);
    assert!(
        good.texts(crate::root()).unwrap()[0]
            .1
            .contains("Version 4")
    );
    let wrong = [
        (vec![edit("no such text", "")], "0 times"),
        (vec![edit("License", "")], "times, and must have it once"),
        (vec![], "changes nothing"),
        (
            vec![edit(
                "Version 2.0, January 2004",
                "Version 2.0, January 2004",
            )],
            "changes nothing",
        ),
    ];
    for (edits, message) in wrong {
        let found = problems(&[breakage(edits)]);
        assert!(found.len() == 1 && found[0].contains(message), "{found:?}");
    }
}
