//! `cargo xtask sbom`: lists the crates that are linked into the program, as a CycloneDX document.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::files;
use crate::project::{Project, output};
use crate::stop::{Stop, no_arguments};

const PACKAGE: &str = "ttmon";
/// File name of the list, beside the packages.
pub(crate) const FILE: &str = "ttmon.cdx.json";

/// The crates that the released program is linked with.
const LINKED: &str = "tree --locked --package ttmon --edges normal --features tls --target x86_64-unknown-linux-musl --prefix=none";

type Crates = BTreeSet<(String, String)>;

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    let path = project.target()?.join("package").join(FILE);
    Ok(write(project, &path)?)
}

pub(crate) fn write(project: &Project, path: &Path) -> Result<(), String> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(files::at(path))?;
    let document = document(project)?;
    files::write(path, format!("{document:#}\n"))?;
    println!("sbom: {} crates in {}", document["components"].as_array().map_or(0, Vec::len), path.display());
    Ok(())
}

fn document(project: &Project) -> Result<Value, String> {
    let metadata = output(&mut project.cargo(&["metadata", "--format-version", "1", "--locked", "--all-features"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = files::read(&project.root.join("Cargo.lock"))?;
    let tree = output(&mut project.cargo(&LINKED.split(' ').collect::<Vec<_>>()))?;
    of_metadata(&metadata, &linked(&tree), &checksums(&lock)).ok_or_else(|| "cargo metadata is not of the form 1 that we know".to_owned())
}

fn of_metadata(metadata: &Value, linked: &Crates, checksums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let component = |package: &Value| {
        let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
        let key = (name.to_owned(), version.to_owned());
        linked.contains(&key).then_some(())?;
        let purl = format!("pkg:cargo/{name}@{version}");
        let mut component = json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl});
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if let Some(checksum) = checksums.get(&key) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        Some(component)
    };
    let packages = metadata["packages"].as_array()?;
    let own = packages.iter().find(|package| package["name"] == PACKAGE)?;
    let components: Vec<Value> = packages.iter().filter_map(component).collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": PACKAGE, "version": own["version"]}},
        "components": components,
    }))
}

/// Parses the crates of a tree, one `NAME vVERSION` per line, without the program itself.
fn linked(tree: &str) -> Crates {
    let key = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(key).filter(|(name, _)| name != PACKAGE).collect()
}

/// Returns the checksums of Cargo.lock, by name and version. The workspace's own crates have none.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages.filter_map(|block| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linked_crate_is_named() {
        let project = Project::find().expect("this workspace");
        let document = document(&project).expect("a document");
        let components = document["components"].as_array().expect("a list");
        let names: Vec<&str> = components.iter().filter_map(|one| one["name"].as_str()).collect();
        let linked = linked(&output(&mut project.cargo(&LINKED.split(' ').collect::<Vec<_>>())).expect("a tree"));
        assert_eq!(names.len(), linked.len());
        for needed in ["rustls", "hyper", "clap", "zstd-sys", "ttmon-ledger"] {
            assert!(names.contains(&needed), "{needed} is missing");
        }
        for foreign in ["windows-sys", "wasm-bindgen", "proptest", "libtest-mimic"] {
            assert!(!names.contains(&foreign), "{foreign} is not linked");
        }
        let is_foreign = |one: &&Value| !one["name"].as_str().is_some_and(|name| name.starts_with("ttmon"));
        for component in components.iter().filter(is_foreign) {
            assert!(component["hashes"][0]["content"].as_str().is_some_and(|hash| hash.len() == 64), "{component}");
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        }
    }
}
