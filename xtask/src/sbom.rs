//! `cargo xtask sbom`: the crates that are linked into the program, as a CycloneDX document.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::project::{Project, output};
use crate::stop::{Stop, no_arguments};

/// The program whose crates are listed, and where the list goes below the target directory.
const PACKAGE: &str = "ttmon";
const FILE: &str = "package/ttmon.cdx.json";

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    let path = project.metadata()?.target.join(FILE);
    Ok(write(project, &path)?)
}

/// Writes the document, and makes the directory that it is in.
pub(crate) fn write(project: &Project, path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    let document = document(project)?;
    fs::write(path, format!("{document:#}\n")).map_err(failed)?;
    println!("sbom: {} crates in {}", document["components"].as_array().map_or(0, Vec::len), path.display());
    Ok(())
}

fn document(project: &Project) -> Result<Value, String> {
    let metadata = output(&mut project.cargo(&["metadata", "--format-version", "1", "--locked", "--all-features"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = project.root.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    of_metadata(&metadata, &checksums(&lock)).ok_or_else(|| "cargo metadata is not of the form 1 that we know".to_owned())
}

fn of_metadata(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> =
        metadata["packages"].as_array()?.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let (root, own) = packages.iter().find(|(_, package)| package["name"] == PACKAGE)?;
    let linked = linked(metadata, root)?;
    let component = |id: &&str| {
        let package = packages.get(id)?;
        let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
        let purl = format!("pkg:cargo/{name}@{version}");
        let mut component = json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl});
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        Some(component)
    };
    let components: Vec<Value> = linked.iter().filter(|id| *id != root).filter_map(component).collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": PACKAGE, "version": own["version"]}},
        "components": components,
    }))
}

/// Packages that a package is linked with. What only its build and its tests need is not among them.
fn linked<'a>(metadata: &'a Value, root: &'a str) -> Option<BTreeSet<&'a str>> {
    let nodes: BTreeMap<&str, &Value> =
        metadata["resolve"]["nodes"].as_array()?.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let (mut linked, mut next) = (BTreeSet::new(), vec![root]);
    while let Some(id) = next.pop() {
        if !linked.insert(id) {
            continue;
        }
        for dependency in nodes.get(id)?["deps"].as_array()? {
            let is_normal = dependency["dep_kinds"].as_array()?.iter().any(|kind| kind["kind"].is_null());
            next.extend(dependency["pkg"].as_str().filter(|_| is_normal));
        }
    }
    Some(linked)
}

/// The checksums of Cargo.lock, by name and version. Our own crates have none.
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

    /// The list is that of `cargo tree`, which follows the same edges in its own way.
    #[test]
    fn every_linked_crate_is_named() {
        let project = Project::find().expect("this workspace");
        let document = document(&project).expect("a document");
        let components = document["components"].as_array().expect("a list");
        let named: BTreeSet<String> =
            components.iter().map(|one| format!("{} v{}", one["name"].as_str().unwrap(), one["version"].as_str().unwrap())).collect();
        let arguments =
            ["tree", "--locked", "--package", PACKAGE, "--edges", "normal", "--all-features", "--target", "all", "--prefix", "none"];
        let tree = output(&mut project.cargo(&arguments)).expect("a tree");
        let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let linked: BTreeSet<String> =
            tree.lines().filter(|line| !line.is_empty()).map(words).filter(|name| !name.starts_with("ttmon v")).collect();
        assert_eq!(named, linked);
        let is_foreign = |one: &&Value| !one["name"].as_str().is_some_and(|name| name.starts_with("ttmon"));
        for component in components.iter().filter(is_foreign) {
            assert!(component["hashes"][0]["content"].as_str().is_some_and(|hash| hash.len() == 64), "{component}");
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        }
    }
}
