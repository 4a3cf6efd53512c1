//! Every statement of the MCP document that this project promises so far has a test named by its row in the
//! contract (`m20_…`), every line of what is asked of a server of A2A one named by it (`s8_…`), and every field
//! case of its client, of models and of turns one named by it (`field_l01_…`). Which stands in `rows.txt`. Here by
//! the sources, at once; `make test` asks the same of what cargo ran (`tests/scripts/rows.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PROMISED: &str = include_str!("../rows.txt");
/// Where tests stand.
const FOLDERS: [&str; 4] = ["crds", "operator", "runtime", "tests"];

#[test]
fn every_row_and_every_field_case_has_a_test_named_by_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in FOLDERS {
        for file in sources(&root.join(folder)) {
            for name in tests(&std::fs::read_to_string(&file).unwrap()) {
                if let Some(row) = row(&name) {
                    named.entry(row).or_default().push(name);
                }
            }
        }
    }
    let promised = PROMISED
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let without: Vec<&str> = promised.filter(|row| !named.contains_key(*row)).collect();
    assert!(without.is_empty(), "no test is named by {}", without.join(", "));
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The names of the functions that run as tests.
fn tests(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in text.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        is_ignored |= line.starts_with("#[ignore");
        let signature = line.trim_start_matches("async ");
        if let Some(rest) = signature.strip_prefix("fn ") {
            if is_test && !is_ignored {
                names.extend(rest.split(['(', '<']).next().map(str::to_owned));
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    names
}

/// `m20_…` stands for `m20`, `s8_…` for `s8`, `field_l01_…` for `field_l01`. With a leading zero it is a field case of another time.
fn row(name: &str) -> Option<String> {
    let digits = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(case) = name.strip_prefix("field_") {
        let case = case.split_once('_')?.0;
        let number = case.strip_prefix(|family: char| family.is_ascii_lowercase())?;
        return (digits(number) && number.len() == 2).then(|| format!("field_{case}"));
    }
    let kind = name.chars().next().filter(|kind| ['m', 's'].contains(kind))?;
    let number = name.strip_prefix(kind)?.split_once('_')?.0;
    (digits(number) && !number.starts_with('0')).then(|| format!("{kind}{number}"))
}

#[test]
fn what_is_a_name_and_what_is_a_test() {
    let named = |name: &str, row_of: Option<&str>| assert_eq!(row(name).as_deref(), row_of, "{name}");
    named("m20_every_call", Some("m20"));
    named("m04_discovery", None);
    named("s8_streams", Some("s8"));
    named("s06_status", None);
    named("field_m01_a_session", Some("field_m01"));
    named("field_l07_no_model", Some("field_l07"));
    named("field_l7_no_model", None);
    named("field_of_a_record", None);
    named("many_things", None);
    named("m20", None);
    let text = "#[test]\nfn m1_a() {}\nfn m2_helper() {}\n/// A doc.\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn m3_b() {}\n#[test]\n#[ignore]\nfn m4_c() {}\n";
    assert_eq!(tests(text), ["m1_a", "m3_b"]);
}
