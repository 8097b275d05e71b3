//! The statements of the documents: what stands behind `<a id="R1"></a>`, in a bullet, a paragraph or the row
//! of a table.

use std::collections::BTreeSet;

use super::files;

/// The documents that have statements, in the order of docs/conformance.md.
const DOCUMENTS: [&str; 2] = ["docs/service.md", "docs/design.md"];
const ANCHOR: &str = "<a id=\"";

/// A statement.
#[derive(Debug)]
pub struct Statement {
    pub id: String,
    /// The document that it stands in, from the root of the repository.
    pub document: String,
    /// The line that it begins in.
    pub line: usize,
    /// The headings above it, with their marks: `# Title`, `## Section`.
    pub headings: Vec<String>,
    /// Its text, in one line. Of a row of a table, the cell behind the id.
    pub text: String,
}

impl Statement {
    /// Its first sentence, and whether more follow.
    pub fn first_sentence(&self) -> (&str, bool) {
        match self.text.find(". ") {
            Some(end) => (&self.text[..=end], true),
            None => (&self.text, false),
        }
    }
}

/// The statements of all documents, and what is wrong with them.
pub fn all() -> (Vec<Statement>, Vec<String>) {
    let mut all: Vec<Statement> = Vec::new();
    let mut problems = Vec::new();
    for document in DOCUMENTS {
        let (statements, wrong) = of(document, &files::text(document));
        all.extend(statements);
        problems.extend(wrong);
    }
    let mut ids = BTreeSet::new();
    for Statement {
        id, document, line, ..
    } in &all
    {
        if !ids.insert(id) {
            problems.push(format!(
                "{document}:{line}: {id} is defined a second time; give it another id"
            ));
        }
    }
    (all, problems)
}

/// The statements of a document, and what is wrong with their form.
fn of(document: &str, text: &str) -> (Vec<Statement>, Vec<String>) {
    let mut statements: Vec<Statement> = Vec::new();
    let mut problems = Vec::new();
    let mut headings: Vec<String> = Vec::new();
    let mut open = false;
    for (line, text) in text.lines().enumerate().map(|(i, text)| (i + 1, text)) {
        if text.starts_with('#') {
            open = false;
            let level = |heading: &str| heading.chars().take_while(|c| *c == '#').count();
            headings.retain(|above| level(above) < level(text));
            headings.push(text.to_owned());
        } else if let Some((_, anchored)) = text.split_once(ANCHOR) {
            open = !text.starts_with('|');
            let Some((id, text)) = begin(anchored) else {
                problems.push(format!(
                    "{document}:{line}: write `{ANCHOR}R1\"></a>**R1** Sentence.`, one in a line"
                ));
                continue;
            };
            statements.push(Statement {
                id: id.to_owned(),
                document: document.to_owned(),
                line,
                headings: headings.clone(),
                text: text.to_owned(),
            });
        } else if text.trim().is_empty() || text.starts_with(['|', '-']) {
            open = false;
        } else if let Some(statement) = statements.last_mut().filter(|_| open) {
            statement.text.push(' ');
            statement.text.push_str(text.trim());
        }
    }
    (statements, problems)
}

/// Id and text of a line, from behind the beginning of its anchor.
fn begin(anchored: &str) -> Option<(&str, &str)> {
    let (id, text) = anchored.split_once("\"></a>")?;
    let text = match text.strip_prefix(&format!("**{id}** ")) {
        Some(text) => text,
        None => text
            .strip_prefix(&format!("{id} | "))?
            .split(" | ")
            .next()?,
    };
    (!text.contains(ANCHOR)).then_some((id, text))
}

#[test]
fn statements_are_read_from_bullets_paragraphs_and_tables() {
    let text = "# Title\nText.\n- <a id=\"A\"></a>**A** One [b](c.md) and\n  two. More.\n- no statement\n\n## Part\n\
                | <a id=\"B\"></a>B | GET /b | none |\n\n## Last\n1. <a id=\"C\"></a>**C** One\n   sentence.\n";
    let (statements, problems) = of("d.md", text);
    assert!(problems.is_empty(), "{problems:?}");
    let read: Vec<_> = statements
        .iter()
        .map(|s| {
            (
                s.id.as_str(),
                s.line,
                s.headings.join(" "),
                s.first_sentence(),
            )
        })
        .collect();
    let wanted = [
        ("A", 3, "# Title", ("One [b](c.md) and two.", true)),
        ("B", 8, "# Title ## Part", ("GET /b", false)),
        ("C", 11, "# Title ## Last", ("One sentence.", false)),
    ];
    let wanted = wanted.map(|(id, line, above, first)| (id, line, above.to_owned(), first));
    assert_eq!(read, wanted);
}

#[test]
fn a_statement_without_its_id_and_two_in_a_line_are_found() {
    let text = "- <a id=\"A\"></a>One.\n- <a id=\"B\"></a>**C** One.\n\
                - <a id=\"D\"></a>**D** One. <a id=\"E\"></a>**E** Two.\n";
    let (statements, problems) = of("d.md", text);
    assert!(statements.is_empty(), "{statements:?}");
    let lines: Vec<_> = problems.iter().map(|p| p.split(": ").next()).collect();
    assert_eq!(lines, [Some("d.md:1"), Some("d.md:2"), Some("d.md:3")]);
}
