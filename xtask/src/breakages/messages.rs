//! What Cargo says of the build of a batch, in its JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use test_support::source::suites::{SUITES, Suite};

/// The lines of each file that are each breakage's.
pub(super) type Lines = BTreeMap<String, Vec<(Range<usize>, usize)>>;

/// A line of Cargo's, in JSON.
#[derive(Deserialize)]
#[serde(tag = "reason")]
enum Message {
    #[serde(rename = "compiler-message")]
    Diagnostic { message: Diagnostic },
    #[serde(rename = "compiler-artifact")]
    Artifact {
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn messages(text: &str) -> impl Iterator<Item = Message> + '_ {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

fn errors(text: &str) -> impl Iterator<Item = Diagnostic> + '_ {
    messages(text).filter_map(|message| match message {
        Message::Diagnostic { message } if message.level == "error" => Some(message),
        _ => None,
    })
}

/// The breakages that the compiler complains of.
pub(super) fn wrong(text: &str, lines: &Lines) -> BTreeSet<usize> {
    let of = |span: &Span| {
        let own = lines.get(&span.file_name)?.iter();
        let mut own = own.filter(|(lines, _)| lines.contains(&span.line_start));
        own.next().map(|(_, number)| *number)
    };
    let places = errors(text).flat_map(|error| error.spans);
    places
        .filter(|span| span.is_primary)
        .filter_map(|span| of(&span))
        .collect()
}

/// What the compiler says.
pub(super) fn rendered(text: &str) -> String {
    let all: Vec<String> = errors(text).filter_map(|error| error.rendered).collect();
    all.join("\n")
}

/// The programs of the suites, by their root files.
pub(super) fn programs(text: &str, tree: &Path) -> Vec<(&'static Suite, PathBuf)> {
    let built = messages(text).filter_map(|message| match message {
        Message::Artifact {
            target,
            profile,
            executable,
        } if profile.test => Some((target.src_path, executable?)),
        _ => None,
    });
    let known = built.filter_map(|(source, program)| {
        let file = source.strip_prefix(tree).ok()?;
        let suite = SUITES.iter().find(|suite| suite.file == file)?;
        Some((suite, program))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_breakage_s_in_whose_lines_it_is() {
        let lines = Lines::from([("src/a.rs".to_owned(), vec![(10..14, 3), (14..20, 5)])]);
        let message = |level: &str, file: &str, line: usize| {
            let span = |line, primary| serde_json::json!({"file_name": file, "line_start": line, "is_primary": primary});
            let spans = [span(line, true), span(12, false)];
            let message = serde_json::json!({"level": level, "spans": spans, "rendered": "no"});
            serde_json::json!({"reason": "compiler-message", "message": message}).to_string()
        };
        let text = [
            message("error", "src/a.rs", 14),
            message("warning", "src/a.rs", 11),
            message("error", "src/b.rs", 11),
            message("error", "src/a.rs", 20),
            r#"{"reason": "build-finished", "success": false}"#.to_owned(),
            "   Compiling a v0.1.0".to_owned(),
        ]
        .join("\n");
        assert_eq!(wrong(&text, &lines), BTreeSet::from([5]));
        assert_eq!(rendered(&text), "no\nno\nno");
    }

    #[test]
    fn a_suite_s_program_is_that_of_its_root_file() {
        let artifact = |source: &str, test: bool, program: Option<&str>| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "target": {"src_path": source},
                "profile": {"test": test},
                "executable": program,
            })
            .to_string()
        };
        let text = [
            artifact("/t/src/lib.rs", false, None),
            artifact("/t/src/lib.rs", true, Some("/t/unit")),
            artifact("/t/src/main.rs", false, Some("/t/operator")),
            artifact("/t/tests/e2e/main.rs", true, Some("/t/e2e")),
            artifact("/other/src/lib.rs", true, Some("/other/lib")),
        ]
        .join("\n");
        let found: Vec<_> = programs(&text, Path::new("/t"))
            .into_iter()
            .map(|(suite, program)| (suite.name.as_str(), program))
            .collect();
        let program = |path: &str| PathBuf::from(path);
        assert_eq!(
            found,
            [("unit", program("/t/unit")), ("e2e", program("/t/e2e"))]
        );
    }
}
