//! Checks the container files of deploy/: the schemas of Kubernetes and of the Prometheus operator accept the manifests, the image can be
//! built, and its program runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::{Gate, Outcome};
use crate::files;
use crate::project::{self, Project, output};
use crate::stop::untested;
use crate::tools;

const VALIDATE: &str = "kubernetes-validate==1.37.0";
const OPERATOR: &str = "@kubernetes-models/prometheus-operator@6.0.0";
const MANIFEST: &str = "deploy/kubernetes/ttmon.yaml";
/// Prints the documents of a file as one list.
const TO_JSON: &str = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
/// Reads this list and checks the documents of the operator. Exits 1 with the reason.
const CHECK_MONITORS: &str = r#"
import { readFileSync } from "node:fs";
import { PodMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor";
const found = JSON.parse(readFileSync(process.argv[1], "utf8")).filter(({ kind }) => kind === "PodMonitor");
try {
  found.forEach((document) => new PodMonitor(document).validate());
  console.log(found.length);
} catch (error) {
  console.log(error.message);
  process.exit(1);
}
"#;

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let project = gate.project;
    let validators = Validators::find_or_install(project).map_err(untested("NO MANIFEST WAS CHECKED, NO IMAGE BUILT"))?;
    manifests(project, &validators)?;
    Ok(image(project)?)
}

/// Folders of the programs that check the schemas, below the target directory.
struct Validators {
    environment: PathBuf,
    packages: PathBuf,
}

impl Validators {
    /// Also installs the other programs of this stage.
    fn find_or_install(project: &Project) -> Result<Self, String> {
        let folder = project.target()?.join("tools");
        let (environment, packages) = (folder.join("kubernetes-validate"), folder.join("prometheus-operator"));
        tools::python(project, &environment, &[VALIDATE])?;
        tools::once(&packages.join("complete"), OPERATOR, || {
            eprintln!("xtask: installing {OPERATOR} into {}", packages.display());
            tools::installed(project, "npm", "npm")?;
            let install = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", OPERATOR, "--prefix"];
            project::run(project.command("npm", &install).arg(&packages).stdout(Stdio::null()))
        })?;
        tools::installed(project, "umoci", "umoci")?;
        tools::installed(project, "skopeo", "skopeo")?;
        Ok(Self { environment, packages })
    }

    fn accept(&self, project: &Project, manifest: &Path) -> Result<(bool, String), String> {
        let run = |command: &mut std::process::Command| {
            let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            Ok::<_, String>((output.status.success(), text))
        };
        let (is_kubernetes, first) =
            run(project.command(self.environment.join("bin/kubernetes-validate"), &["--strict", "--no-warn"]).arg(manifest))?;
        let list = manifest.with_extension("json");
        let text = output(project.command(self.environment.join("bin/python"), &["-c", TO_JSON]).arg(manifest))?;
        files::write(&list, text)?;
        let mut node = project.command("node", &["--input-type=module", "--eval", CHECK_MONITORS]);
        let (is_operator, second) = run(node.arg(&list).current_dir(&self.packages))?;
        Ok((is_kubernetes && is_operator, format!("{first}PodMonitor: {second}")))
    }
}

/// Checks that the manifest is accepted, and that planted faults are found.
fn manifests(project: &Project, validators: &Validators) -> Result<(), String> {
    let directory = files::temporary()?;
    let text = files::read(&project.root.join(MANIFEST))?;
    let file = directory.path().join("ttmon.yaml");
    for (what, from, to) in [
        ("default", "", ""),
        ("with a wrong type", "hostPID: true", "hostPID: 5"),
        ("with an unknown key", "hostPID: true", "hostPIDs: true"),
        ("with a wrong port of the PodMonitor", "- port: metrics", "- port: 5"),
    ] {
        files::write(&file, text.replace(from, to))?;
        let (is_accepted, findings) = validators.accept(project, &file)?;
        if is_accepted != from.is_empty() || (!from.is_empty() && !text.contains(from)) {
            return Err(format!("{MANIFEST} {what}: accepted: {is_accepted}: {findings}"));
        }
        println!("{MANIFEST} {what}: {}", if is_accepted { "accepted" } else { "refused" });
    }
    Ok(())
}

/// Builds the image, unpacks it and runs its program, as root without other files of this machine.
fn image(project: &Project) -> Result<(), String> {
    let program = crate::package::program::build(project)?;
    let directory = files::temporary()?;
    let at = |name: &str| directory.path().join(name);
    let archive = at("ttmon.tar");
    project::run(
        project.command("sh", &[]).arg(project.root.join("deploy/oci/build.sh")).arg(&program).arg(&archive).stdout(Stdio::null()),
    )?;
    let (source, layout) = (format!("docker-archive:{}", archive.display()), format!("{}:0.1.0", at("image").display()));
    project::run(project.command("skopeo", &["--insecure-policy", "copy", &source, &format!("oci:{layout}")]).stdout(Stdio::null()))?;
    let bundle = at("bundle");
    project::run(project.command("umoci", &["unpack", "--rootless", "--image", &layout]).arg(&bundle))?;
    let read = |path: &Path| fs::read(path).map_err(files::at(path));
    let root = bundle.join("rootfs");
    if read(&root.join("usr/bin/ttmon"))? != read(&program)? {
        return Err("the program of the image is another one".to_owned());
    }
    let config: Value = serde_json::from_slice(&read(&bundle.join("config.json"))?).map_err(|error| format!("config.json: {error}"))?;
    if config["process"]["args"] != serde_json::json!(["/usr/bin/ttmon", "serve"]) {
        return Err(format!("the image starts {}", config["process"]["args"]));
    }
    let mut version = if rustix::process::geteuid().is_root() {
        let mut chroot = project.command("chroot", &[]);
        chroot.arg(&root).arg("/usr/bin/ttmon");
        chroot
    } else {
        project.command(root.join("usr/bin/ttmon"), &[])
    };
    let bytes = fs::metadata(&archive).map_err(|error| error.to_string())?.len();
    println!("the image of {:.1} MB: {}", bytes as f64 / 1e6, output(version.arg("--version"))?.trim_end());
    Ok(())
}
