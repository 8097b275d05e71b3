//! The documents as a book: `cargo xtask book`. A copy of the documents, and of the files that they link to, keeps the
//! repository's layout, so that every link of theirs works in the book too. Each link of the result is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use test_support::files::tidy;
use test_support::root;

use crate::common::{Outcome, below, read, read_bytes, write};

/// Has the links of every chapter as from the first.
const PRINTED: &str = "print.html";

#[derive(Args)]
pub(crate) struct Options {
    /// The program mdbook.
    #[arg(long, default_value = "mdbook")]
    mdbook: PathBuf,
}

/// Writes the book, and follows its links.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    // Its source is beside the html.
    let out = root().join("target/book");
    let html = out.join("html");
    if out.exists() {
        let removed = std::fs::remove_dir_all(&out);
        removed.map_err(test_cluster::Error::file("remove", &out))?;
    }
    stage(&out)?;
    let mut mdbook = Command::new(&options.mdbook);
    mdbook.args(["build", "--dest-dir"]).args([&html, &out]);
    test_cluster::run(mdbook, "")?;
    let pages = pages(&html)?;
    let (followed, broken) = follow(&pages);
    if !broken.is_empty() {
        let (count, broken) = (broken.len(), broken.join("\n"));
        return Err(format!("{count} links lead nowhere:\n{broken}").into());
    }
    let (count, index) = (pages.len(), html.join("index.html"));
    println!(
        "book: {count} pages, {followed} links followed: {}",
        index.display()
    );
    Ok(())
}

/// Copies the chapters and what they link to.
fn stage(out: &Path) -> Outcome<()> {
    let source = out.join("src");
    for file in ["book.toml", "book.css"] {
        write(&out.join(file), read(&root().join("docs").join(file))?)?;
    }
    // Its links are from its own folder.
    let mut summary = read(&root().join("docs/SUMMARY.md"))?;
    let mut files = BTreeSet::new();
    for link in links(&summary) {
        let chapter = tidy(&Path::new("docs").join(&link));
        let from_the_top = format!("]({})", chapter.display());
        summary = summary.replace(&format!("]({link})"), &from_the_top);
        let text = read(&root().join(&chapter))?;
        let folder = chapter.parent().unwrap_or(&chapter);
        files.extend(links(&text).iter().map(|link| tidy(&folder.join(link))));
        files.insert(chapter);
    }
    write(&source.join("SUMMARY.md"), summary)?;
    for file in files {
        let from = root().join(&file);
        // A document that is no chapter is not rendered, so that a link to it is found to be broken.
        if from.is_file() {
            write(&source.join(&file), read_bytes(&from)?)?;
        }
    }
    Ok(())
}

/// The files that a document links to, without the places in them.
fn links(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| Some(rest.split_once(')')?.0));
    let files = targets.filter(|target| !target.contains(':'));
    let files = files.filter_map(|target| target.split('#').next());
    let files = files.filter(|file| !file.is_empty());
    files.map(str::to_owned).collect()
}

/// The text of every page below a folder, by its path.
fn pages(folder: &Path) -> Outcome<BTreeMap<PathBuf, String>> {
    let files = below(folder)?.into_iter();
    let html = files.filter(|path| path.extension().is_some_and(|ending| ending == "html"));
    html.map(|path| Ok((path.clone(), read(&path)?))).collect()
}

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    let parts = html.split(start.as_str()).skip(1);
    parts
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect()
}

/// The number of links within the book, and those of them that lead nowhere.
fn follow(pages: &BTreeMap<PathBuf, String>) -> (usize, Vec<String>) {
    let mut followed = 0;
    let mut broken = Vec::new();
    for (path, page) in pages {
        if path.ends_with(PRINTED) {
            continue;
        }
        for link in [values(page, "href"), values(page, "src")].concat() {
            if link.contains(':') || link.starts_with("//") {
                continue;
            }
            followed += 1;
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(path);
            let target = match file {
                "" => path.clone(),
                file => tidy(&folder.join(file)),
            };
            let found = match pages.get(&target) {
                Some(target) => place.is_empty() || values(target, "id").contains(&place),
                None => target.is_file(),
            };
            if !found {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    (followed, broken)
}
