//! `tests/FUZZ.md` against the sources.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How bytes of others become values. Whoever calls one of these stands in the page.
const READERS: &[&str] = &[
    "serde_json::from_slice",
    "serde_json::from_str",
    "from_reader(",
    "serde_saphyr::from",
    "pem_slice_iter",
    "from_pem::certificates(",
    "from_pem::private_key(",
    "from_pem_slice",
    "X509Certificate::from_der",
    "pem::parse(",
    "rfc2822::parse",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The texts between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The cells of the table under a heading, without its first two lines.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = read("tests/FUZZ.md");
    let (_, section) = page.split_once(&format!("## {heading}\n")).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let table = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(str::to_owned).collect();
    table.map(cells).collect()
}

/// The sources under these folders, by path.
fn sources(folders: &[&str]) -> BTreeMap<String, String> {
    let root = root();
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// The tests in `proptest!` blocks: they have parameters.
fn properties(source: &str) -> BTreeSet<String> {
    let (_, block) = source.split_once("proptest! {").unwrap_or_default();
    let tests = block.split("#[test]").skip(1);
    let named = tests.filter_map(|test| {
        let (_, named) = test.split_once("fn ")?;
        let (name, parameters) = named.split_once('(')?;
        (!parameters.trim_start().starts_with(')')).then(|| name.to_owned())
    });
    named.collect()
}

#[test]
fn each_harness_that_is_named_exists_and_each_that_exists_is_named() {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let rows = rows("Parsers with a harness");
    assert!(rows.len() > 20, "{} rows", rows.len());
    for row in rows {
        let [what, parsers, harness, tests] = row.as_slice() else {
            panic!("not four cells: {row:?}")
        };
        assert!(!quoted(parsers).is_empty(), "{what}: nobody reads it");
        for parser in quoted(parsers) {
            assert!(root().join(&parser).is_file(), "{what}: there is no {parser}");
        }
        let harness = quoted(harness).remove(0);
        let source = read(&harness);
        assert!(
            source.contains("agentd_noise") || source.contains("proptest!"),
            "{harness} is no harness"
        );
        for test in quoted(tests) {
            assert!(
                source.contains(&format!("fn {test}(")),
                "{harness} has no test {test}"
            );
            named.entry(harness.clone()).or_default().insert(test);
        }
    }
    for (path, source) in sources(&["runtime", "operator"]) {
        let is_harness = ["fuzz.rs", "noise.rs"].iter().any(|end| path.ends_with(end));
        if is_harness || source.contains("agentd_noise") {
            let missing: Vec<_> = properties(&source)
                .into_iter()
                .filter(|test| !named.get(&path).is_some_and(|tests| tests.contains(test)))
                .collect();
            assert!(
                missing.is_empty(),
                "tests/FUZZ.md does not name {missing:?} of {path}"
            );
        }
    }
}

#[test]
fn whoever_reads_bytes_of_others_stands_in_the_page() {
    let with = rows("Parsers with a harness")
        .into_iter()
        .map(|row| row[1].clone());
    let without = rows("Parsers without one").into_iter().map(|row| row[0].clone());
    let named: BTreeSet<String> = with.chain(without).flat_map(|cell| quoted(&cell)).collect();
    let sources = sources(&["runtime", "operator/src", "crds/src"]);
    for path in &named {
        assert!(sources.contains_key(path), "there is no {path}");
    }
    let mut missing = Vec::new();
    for (path, source) in sources {
        let is_test =
            path.contains("/tests/") || ["tests.rs", "fuzz.rs"].iter().any(|end| path.ends_with(end));
        let code = source
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let reader = READERS.iter().find(|reader| code.contains(**reader));
        if let (false, Some(reader), false) = (is_test, reader, named.contains(&path)) {
            missing.push(format!("{path} calls {reader}"));
        }
    }
    assert!(
        missing.is_empty(),
        "tests/FUZZ.md says neither which harness is at it nor why none is: {missing:#?}"
    );
}
