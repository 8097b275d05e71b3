//! The corpora, on every compiler: what was once found, and what was written down by hand.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use rstest::rstest;

use super::ALL;

fn corpora() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

#[rstest]
#[case::answer("answer")]
#[case::contract("contract")]
#[case::identifiers("identifiers")]
#[case::intent("intent")]
#[case::problem("problem")]
#[case::sse("sse")]
fn every_input_of_the_corpus_keeps_its_property(#[case] target: &str) {
    let (_, property) = ALL.iter().find(|(name, _)| *name == target).unwrap();
    let mut inputs = 0;
    for entry in fs::read_dir(corpora().join(target)).unwrap() {
        let path = entry.unwrap().path();
        // A failure names the last one.
        println!("{}", path.display());
        property(&fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{target} has no corpus");
}

#[test]
fn every_fuzz_target_has_a_property_and_a_corpus() {
    let names = |folder: &str, end: &str| -> BTreeSet<String> {
        let folder = corpora().join(folder);
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        entries
            .map(|entry| name(entry.unwrap()).trim_end_matches(end).to_owned())
            .collect()
    };
    let properties: BTreeSet<String> = ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("", ""), properties);
    assert_eq!(names("../fuzz_targets", ".rs"), properties);
}
