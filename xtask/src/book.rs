//! The documents as a book: `cargo xtask book`. A copy of the documents, and of the files that they link to, keeps the
//! repository's layout, so that every link of theirs works in the book too. Each link of the result is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use test_support::files::tidy;

/// The table of contents, with links from its own folder.
const SUMMARY: &str = "docs/SUMMARY.md";
const SETTINGS: &str = "docs/book.toml";

#[derive(Args)]
pub(crate) struct Options {
    /// The program mdbook.
    #[arg(long, default_value = "mdbook")]
    mdbook: PathBuf,
    /// Where the book is written, as html; its source is beside it.
    #[arg(long, default_value = "target/book")]
    out: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BookError {
    #[error("failed to read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("failed to write {path}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("failed to run {program}")]
    Run {
        program: PathBuf,
        source: std::io::Error,
    },
    #[error("mdbook failed")]
    Mdbook,
    #[error("{0} links lead nowhere:\n{1}")]
    Broken(usize, String),
}

/// Writes the book, and follows its links.
pub(crate) fn run(options: &Options) -> Result<(), BookError> {
    let root = test_support::root();
    let out = root.join(&options.out);
    if out.exists() {
        let remove = std::fs::remove_dir_all(&out);
        remove.map_err(|source| BookError::Write {
            path: out.clone(),
            source,
        })?;
    }
    stage(root, &out)?;
    let built = Command::new(&options.mdbook)
        .args(["build", "--dest-dir"])
        .args([&out.join("html"), &out])
        .status();
    let built = built.map_err(|source| BookError::Run {
        program: options.mdbook.clone(),
        source,
    })?;
    if !built.success() {
        return Err(BookError::Mdbook);
    }
    let pages = pages(&out.join("html"))?;
    let (followed, broken) = follow(&pages);
    if !broken.is_empty() {
        return Err(BookError::Broken(broken.len(), broken.join("\n")));
    }
    println!(
        "book: {} pages, {followed} links followed: {}",
        pages.len(),
        out.join("html/index.html").display()
    );
    Ok(())
}

fn read(path: &Path) -> Result<String, BookError> {
    std::fs::read_to_string(path).map_err(|source| BookError::Read {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, text: &[u8]) -> Result<(), BookError> {
    let folder = path.parent().unwrap_or(path);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text));
    written.map_err(|source| BookError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Copies the chapters and what they link to.
fn stage(root: &Path, out: &Path) -> Result<(), BookError> {
    let source = out.join("src");
    write(
        &out.join("book.toml"),
        read(&root.join(SETTINGS))?.as_bytes(),
    )?;
    let mut summary = read(&root.join(SUMMARY))?;
    let mut files = BTreeSet::new();
    for link in links(&summary) {
        let chapter = tidy(&Path::new("docs").join(&link));
        let from_the_top = format!("]({})", chapter.display());
        summary = summary.replace(&format!("]({link})"), &from_the_top);
        let text = read(&root.join(&chapter))?;
        let folder = chapter.parent().unwrap_or(&chapter);
        files.extend(
            links(&text)
                .into_iter()
                .map(|link| tidy(&folder.join(link))),
        );
        files.insert(chapter);
    }
    write(&source.join("SUMMARY.md"), summary.as_bytes())?;
    for file in files {
        let from = root.join(&file);
        // A document that is no chapter is not rendered, so that a link to it is found to be broken.
        if from.is_file() {
            let content = std::fs::read(&from).map_err(|source| BookError::Read {
                path: from.clone(),
                source,
            })?;
            write(&source.join(&file), &content)?;
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
    files
        .filter(|file| !file.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A page of the book.
struct Page {
    text: String,
    ids: BTreeSet<String>,
}

/// Every page, by its path.
fn pages(folder: &Path) -> Result<BTreeMap<PathBuf, Page>, BookError> {
    let mut pages = BTreeMap::new();
    let unread = |source| BookError::Read {
        path: folder.to_owned(),
        source,
    };
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        if path.is_dir() {
            pages.extend(self::pages(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "html") {
            let text = read(&path)?;
            let ids = values(&text, "id").map(str::to_owned).collect();
            pages.insert(path, Page { text, ids });
        }
    }
    Ok(pages)
}

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {attribute}=\"");
    let parts: Vec<&str> = html.split(start.as_str()).skip(1).collect();
    parts
        .into_iter()
        .filter_map(|rest| Some(rest.split_once('"')?.0))
}

/// The number of links within the book, and those of them that lead nowhere.
fn follow(pages: &BTreeMap<PathBuf, Page>) -> (usize, Vec<String>) {
    let mut followed = 0;
    let mut broken = Vec::new();
    for (path, page) in pages {
        // The one has the links of every chapter as from the first, the other those of a site's top.
        if ["print.html", "404.html"]
            .map(Path::new)
            .iter()
            .any(|page| path.ends_with(page))
        {
            continue;
        }
        let links = values(&page.text, "href").chain(values(&page.text, "src"));
        for link in links.filter(|link| !link.contains(':') && !link.starts_with("//")) {
            followed += 1;
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(path);
            let target = match file {
                "" => path.clone(),
                file => tidy(&folder.join(file)),
            };
            let found = match pages.get(&target) {
                Some(target) => place.is_empty() || target.ids.contains(place),
                None => target.is_file(),
            };
            if !found {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    (followed, broken)
}
