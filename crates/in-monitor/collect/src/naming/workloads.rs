//! Names of pods and containers, found by the pod uid and the container id in a process's cgroup. The sources are the names of the node's
//! log directories and the files of Docker and Podman. This needs no socket and no token.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::reads::{Request, Sampling, Want, entries};
use ttmon_model::Missing;
use ttmon_model::limits::{LOG_NAMES_MAX, WORKLOAD_FILE_BYTES_MAX, WORKLOAD_NAMES_MAX};
use ttmon_model::sample::{Problem, Workload};

use super::text;
use crate::machine::{Error, LANE_OF_NAMES, Readers, unread};
use crate::root::Root;

/// Maximum length of the list of names in a directory. A name has at most 255 bytes.
const LIST_BYTES_MAX: usize = 256 * LOG_NAMES_MAX;

/// A name that was not found is searched again after this time, because logs are created after the container.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Workloads {
    /// By pod uid and container id.
    known: BTreeMap<(Option<String>, Option<String>), (Duration, WorkloadNames)>,
    /// The directory listings, and the time of the sample that they were made for.
    listed: Option<(Duration, Listing)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WorkloadNames {
    pod: Option<String>,
    namespace: Option<String>,
    container: Option<String>,
}

/// The names in the log directories and in Docker's directory.
#[derive(Debug, Default)]
struct Listing {
    pods: Vec<String>,
    logs: Vec<String>,
    docker: Vec<String>,
}

impl Workloads {
    pub(super) fn complete(
        &mut self,
        root: &Root,
        readers: &mut Readers,
        workload: &mut Workload,
        now: Duration,
        problems: &mut Vec<Problem>,
    ) -> Result<(), Error> {
        if workload.pod.is_none() && workload.container.is_none() {
            return Ok(());
        }
        let key = (workload.pod.clone(), workload.container.clone());
        let is_due = |(at, found): &(Duration, WorkloadNames)| !found.is_whole(&key) && now.saturating_sub(*at) >= AGAIN_AFTER;
        if self.known.get(&key).is_none_or(is_due) {
            if self.known.len() >= WORKLOAD_NAMES_MAX {
                self.known.clear();
            }
            let found = self.find(&mut Place { root, readers, problems }, &key, now)?;
            self.known.insert(key.clone(), (now, found));
        }
        if let Some((_, found)) = self.known.get(&key) {
            workload.pod_name.clone_from(&found.pod);
            workload.namespace.clone_from(&found.namespace);
            workload.container_name.clone_from(&found.container);
        }
        Ok(())
    }

    fn find(
        &mut self,
        place: &mut Place<'_>,
        (pod, container): &(Option<String>, Option<String>),
        now: Duration,
    ) -> Result<WorkloadNames, Error> {
        let listing = match &self.listed {
            Some((at, listing)) if *at == now => listing,
            _ => &self.listed.insert((now, place.list()?)).1,
        };
        let by_log = container.as_deref().and_then(|id| listing.logs.iter().find_map(|name| parse_log(name, id)));
        if let Some(found) = by_log {
            return Ok(found);
        }
        let by_uid = pod.as_deref().and_then(|uid| listing.pods.iter().find_map(|name| parse_pod(name, uid)));
        let container = match container.as_deref() {
            Some(id) => place.container(listing, id)?,
            None => None,
        };
        Ok(WorkloadNames { container, ..by_uid.unwrap_or_default() })
    }
}

/// Where names are searched.
struct Place<'a> {
    root: &'a Root,
    readers: &'a mut Readers,
    problems: &'a mut Vec<Problem>,
}

impl Place<'_> {
    fn list(&mut self) -> Result<Listing, Error> {
        let root = self.root;
        let directories = [&root.pod_logs, &root.container_logs, &root.docker];
        let request = |path: &PathBuf| (path.clone(), Want::Entries, LIST_BYTES_MAX);
        let mut lists = self.read(LANE_OF_NAMES, directories.map(request).into())?.into_iter().map(|list| {
            // Why a list is missing is among the problems.
            let names = entries(list.as_deref().unwrap_or_default()).take(LOG_NAMES_MAX);
            names.filter_map(|name| name.to_str().map(str::to_owned)).collect::<Vec<_>>()
        });
        // There are three lists.
        let mut next = || lists.next().unwrap_or_default();
        Ok(Listing { pods: next(), logs: next(), docker: next() })
    }

    /// Returns the name of a container of Docker or Podman.
    fn container(&mut self, listing: &Listing, id: &str) -> Result<Option<String>, Error> {
        let directory = listing.docker.iter().find(|name| is_id(name, id));
        let docker = directory.map(|directory| self.root.docker.join(directory).join("config.v2.json"));
        let is_docker = docker.is_some();
        let paths = docker.into_iter().chain(self.root.podman.iter().cloned());
        let requests = paths.map(|path| (path, Want::Whole, WORKLOAD_FILE_BYTES_MAX)).collect();
        let texts = self.read(LANE_OF_NAMES + 1, requests)?;
        let mut texts = texts.iter().map(|text| text.as_deref().and_then(|text| std::str::from_utf8(text).ok()));
        let by_docker = if is_docker { texts.next().flatten().and_then(docker_name) } else { None };
        Ok(by_docker.or_else(|| texts.flatten().find_map(|text| podman_name(text, id))))
    }

    /// Reads files. A file that does not exist has no name. Other failures are problems.
    fn read(&mut self, key: u64, files: Vec<(PathBuf, Want, usize)>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let request = |(path, want, bytes_max)| Request { path, want, bytes_max, sampling: Sampling::Once };
        let requests: Vec<Request> = files.into_iter().map(request).collect();
        let replies = self.readers.read_lane(key, requests.clone())?;
        for (request, reply) in requests.iter().zip(&replies) {
            if let Err(failure) = reply
                && Missing::from(*failure) != Missing::NotExposed
            {
                self.problems.push(unread(&request.path, *failure));
            }
        }
        Ok(replies.into_iter().map(Result::ok).collect())
    }
}

impl WorkloadNames {
    fn is_whole(&self, (pod, container): &(Option<String>, Option<String>)) -> bool {
        (pod.is_none() || self.pod.is_some()) && (container.is_none() || self.container.is_some())
    }
}

/// Parses `NAMESPACE_POD_UID`. None of the three parts contains a `_`.
fn parse_pod(name: &str, uid: &str) -> Option<WorkloadNames> {
    let [namespace, pod, its] = parts(name)?;
    (its == uid).then(|| WorkloadNames { pod: Some(pod.to_owned()), namespace: Some(namespace.to_owned()), container: None })
}

/// Parses `POD_NAMESPACE_CONTAINER-ID.log`.
fn parse_log(name: &str, id: &str) -> Option<WorkloadNames> {
    let (front, its) = name.strip_suffix(".log")?.rsplit_once('-')?;
    let [pod, namespace, container] = parts(front)?;
    let owned = |text: &str| Some(text.to_owned());
    is_id(its, id).then(|| WorkloadNames { pod: owned(pod), namespace: owned(namespace), container: owned(container) })
}

fn parts(name: &str) -> Option<[&str; 3]> {
    let mut parts = name.split('_');
    let three = [parts.next()?, parts.next()?, parts.next()?];
    (parts.next().is_none() && three.iter().all(|part| !part.is_empty())).then_some(three)
}

/// Returns whether an id of 64 digits begins with the known 12 digits.
fn is_id(whole: &str, id: &str) -> bool {
    whole.len() == 64 && whole.starts_with(id)
}

/// Returns the name in a file of Docker: `{"ID":"...","Name":"/vllm",...}` in `containers/ID/config.v2.json`.
fn docker_name(json: &str) -> Option<String> {
    text::of_key(json, "Name")?.strip_prefix('/').filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Returns the name in a list of Podman: `[{"id":"...","names":["vllm"],...},...]`, in one of several files.
fn podman_name(json: &str, id: &str) -> Option<String> {
    let mut containers = json.split("\"id\":\"").skip(1);
    text::of_key(containers.find(|container| container.starts_with(id))?, "names")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::machine::{Isolation, Options};
    use proptest::prelude::*;

    const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";

    fn id() -> String {
        "4f5e".repeat(16)
    }

    fn workload(pod: Option<&str>, container: Option<&str>) -> Workload {
        Workload { pod: pod.map(str::to_owned), container: container.map(str::to_owned), ..Workload::default() }
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn complete(workloads: &mut Workloads, root: &Root, process: &mut Workload, now: Duration) -> Vec<Problem> {
        let mut readers = Readers::new(root, &Options { isolation: Isolation::Threads, ..Options::default() }).unwrap();
        let mut problems = Vec::new();
        workloads.complete(root, &mut readers, process, now, &mut problems).unwrap();
        problems
    }

    fn named(workload: &Workload) -> [Option<&str>; 3] {
        [workload.namespace.as_deref(), workload.pod_name.as_deref(), workload.container_name.as_deref()]
    }

    #[test]
    fn logs_name_pods_and_containers() {
        let machine = tempfile::tempdir().unwrap();
        let root = Root::at(machine.path());
        let mut workloads = Workloads::default();
        let mut process = workload(Some(UID), Some("4f5e4f5e4f5e"));
        complete(&mut workloads, &root, &mut process, Duration::from_secs(1));
        assert_eq!(named(&process), [None; 3], "there are no logs yet");
        write(machine.path(), &format!("var/log/pods/ml_vllm-0_{UID}/server/0.log"), "");
        complete(&mut workloads, &root, &mut process, Duration::from_secs(2));
        assert_eq!(named(&process), [None; 3], "it was looked for a second ago");
        complete(&mut workloads, &root, &mut process, Duration::from_secs(11));
        assert_eq!(named(&process), [Some("ml"), Some("vllm-0"), None]);
        write(machine.path(), &format!("var/log/containers/vllm-0_ml_server-{}.log", id()), "");
        complete(&mut workloads, &root, &mut process, Duration::from_secs(21));
        assert_eq!(named(&process), [Some("ml"), Some("vllm-0"), Some("server")]);
        fs::remove_dir_all(machine.path().join("var")).unwrap();
        complete(&mut workloads, &root, &mut process, Duration::from_secs(99));
        assert_eq!(named(&process), [Some("ml"), Some("vllm-0"), Some("server")], "what is whole is not looked for again");
    }

    #[test]
    fn docker_and_podman_name_containers() {
        let machine = tempfile::tempdir().unwrap();
        let root = Root::at(machine.path());
        write(machine.path(), &format!("var/lib/docker/containers/{}/config.v2.json", id()), r#"{"Name":"/vllm","Args":[]}"#);
        let list =
            format!(r#"[{{"id":"{}","names":["other"]}},{{"id":"{}","names":["train"],"layer":"x"}}]"#, "a".repeat(64), "b".repeat(64));
        write(machine.path(), "var/lib/containers/storage/overlay-containers/containers.json", &list);
        let mut workloads = Workloads::default();
        for (container, name) in [("4f5e4f5e4f5e", Some("vllm")), ("bbbbbbbbbbbb", Some("train")), ("cccccccccccc", None)] {
            let mut process = workload(None, Some(container));
            complete(&mut workloads, &root, &mut process, Duration::from_secs(1));
            assert_eq!(named(&process), [None, None, name], "{container}");
        }
    }

    #[test]
    fn names_that_are_not_of_that_form_are_passed_over() {
        for name in ["", "a", "ml_vllm", &format!("__{UID}"), &format!("a_b_c_{UID}"), &format!("ml_vllm-0_{UID}x")] {
            assert_eq!(parse_pod(name, UID), None, "{name}");
        }
        let id = id();
        for name in ["x.log", &format!("a_b_c-{id}"), &format!("a_b-{id}.log"), &format!("a_b_c-{}.log", &id[1..])] {
            assert_eq!(parse_log(name, "4f5e4f5e4f5e"), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_read_or_refused(name in "[a-z0-9_.-]{0,40}") {
            let _ = (parse_pod(&name, UID), parse_log(&name, "4f5e"));
        }
    }
}
