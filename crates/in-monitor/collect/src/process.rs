//! Reads one process from the files of `/proc/PID`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ttmon_model::identity::{DeviceId, ProcessKey};
use ttmon_model::limits::{ATTRIBUTE_BYTES_MAX, COMMAND_BYTES_MAX, ENVIRONMENT_BYTES_MAX, STATUS_BYTES_MAX};
use ttmon_model::memory::{Kind, PerKind};
use ttmon_model::sample::{FdMemory, ProcessFacts, ProcessSample, Workload};
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Reading};

use crate::reads::{Reply, Request, Sampling, Want, read_small};
use crate::users::OpenFile;

/// The units and the clock of a process's figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) boot: UnixTime,
    pub(crate) ticks_per_second: u64,
    pub(crate) page_bytes: u64,
}

/// Returns the requests for the files of a process, in the order that [`take`] expects. The `fdinfo` files come last.
pub(crate) fn requests(proc: &Path, pid: u32, open_files: &[OpenFile]) -> Vec<Request> {
    let directory = proc.join(pid.to_string());
    let request =
        |name: &str, bytes_max| Request { path: directory.join(name), want: Want::Beginning, bytes_max, sampling: Sampling::Once };
    let mut requests = vec![
        request("stat", ATTRIBUTE_BYTES_MAX),
        // The file is long for a user with many groups, and the `NSpid` line comes after the groups.
        request("status", STATUS_BYTES_MAX),
        request("cgroup", STATUS_BYTES_MAX),
        request("cmdline", COMMAND_BYTES_MAX),
        request("environ", ENVIRONMENT_BYTES_MAX),
    ];
    requests.extend(open_files.iter().map(|file| request(&format!("fdinfo/{}", file.fd), ATTRIBUTE_BYTES_MAX)));
    requests
}

/// The part of `stat` that shows whether a process still runs the same program with the same mappings: the size of its memory, and the
/// start addresses of its code and stack, which `exec` changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape([u64; 3]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    start_ticks: u64,
    shape: Shape,
}

impl Program {
    pub(crate) fn of(stat: &[u8]) -> Option<Self> {
        let ProcessStat { start_ticks, shape, .. } = ProcessStat::parse(&String::from_utf8_lossy(stat))?;
        Some(Self { start_ticks, shape })
    }
}

/// Returns the request for the `stat` of a process, which shows whether the process is unchanged.
pub(crate) fn stat_request(proc: &Path, pid: u32, sampling: Sampling) -> Request {
    let path = proc.join(pid.to_string()).join("stat");
    Request { path, want: Want::Beginning, bytes_max: ATTRIBUTE_BYTES_MAX, sampling }
}

/// Parses the replies. `users` returns the name of a user.
pub(crate) fn take(
    pid: u32,
    open_files: &[OpenFile],
    replies: &[Reply],
    scale: Scale,
    users: impl Fn(u32) -> Option<String>,
) -> (ProcessSample, Shape) {
    let text = |index: usize| match &replies[index] {
        Ok(bytes) => Ok(String::from_utf8_lossy(bytes)),
        Err(failure) => Err(match Missing::from(*failure) {
            // A process that ends while it is read answers ESRCH or ENOENT.
            Missing::NotExposed | Missing::IoError => Missing::Gone,
            reason => reason,
        }),
    };
    let stat = text(0).and_then(|text| ProcessStat::parse(&text).ok_or(Missing::Unparsable));
    // A zombie has only its pid left.
    let stat = stat.and_then(|stat| if stat.has_ended { Err(Missing::Gone) } else { Ok(stat) });
    let status = text(1).and_then(|text| ProcessStatus::parse(&text).ok_or(Missing::Unparsable));
    let (start_ticks, shape) = stat.as_ref().map_or_else(|_| Default::default(), |stat| (stat.start_ticks, stat.shape));
    let facts = stat.and_then(|stat| {
        let uid = status.as_ref().map_err(|reason| *reason)?.uid();
        Ok(stat.facts(uid, users(uid), scale))
    });
    // A file that was closed meanwhile has no memory.
    let fdinfo = open_files.iter().zip(&replies[5..]).filter_map(|(file, reply)| {
        let text = String::from_utf8_lossy(reply.as_ref().ok()?).into_owned();
        parse_fdinfo(&text, file.device)
    });
    // A process whose files cannot be read has its reason in `facts`.
    let mut workload = text(2).map(|text| parse_cgroup(&text)).unwrap_or_default();
    if let Ok(environment) = text(4) {
        add_job(&mut workload, &environment);
    }
    let process = ProcessSample {
        key: ProcessKey { pid, start_ticks },
        namespace_pid: status.map_or(pid, |status| status.namespace_pid.unwrap_or(pid)),
        facts,
        command: text(3).and_then(|text| parse_command(&text)),
        workload,
        fdinfo: fdinfo.collect(),
    };
    (process, shape)
}

/// Returns a known process with new values, or `None` if the `stat` is of another process or program, or the process has ended.
pub(crate) fn refresh(known: &ProcessSample, stat: &[u8], scale: Scale) -> Option<(ProcessSample, Shape)> {
    let stat = ProcessStat::parse(&String::from_utf8_lossy(stat)).filter(|stat| !stat.has_ended)?;
    let facts = known.facts.as_ref().ok().filter(|facts| facts.name == stat.name && known.key.start_ticks == stat.start_ticks)?;
    let shape = stat.shape;
    let sample = ProcessSample {
        key: known.key,
        namespace_pid: known.namespace_pid,
        facts: Ok(stat.facts(facts.uid, facts.user.clone(), scale)),
        command: known.command.clone(),
        workload: known.workload.clone(),
        fdinfo: known.fdinfo.clone(),
    };
    Some((sample, shape))
}

/// The `stat` of a process.
#[derive(Debug, PartialEq)]
pub struct ProcessStat {
    /// The kernel's short name of the process.
    pub name: String,
    /// Whether the process is a zombie without other threads, which has no memory any more.
    pub has_ended: bool,
    /// The pid of the parent.
    pub parent: u32,
    cpu_ticks: u64,
    /// The start time, which distinguishes processes with the same pid.
    pub start_ticks: u64,
    rss_pages: u64,
    shape: Shape,
}

impl ProcessStat {
    /// Reads the `stat` of a process. Returns `None` if the process does not exist.
    pub fn of(proc: &Path, pid: u32) -> Option<Self> {
        // A name may contain any bytes.
        Self::parse(&String::from_utf8_lossy(&fs::read(proc.join(pid.to_string()).join("stat")).ok()?))
    }

    /// Parses `4242 (python3 serve) S 1 4242 ...`. The name may contain any character, so it ends at the last `)`.
    pub fn parse(text: &str) -> Option<Self> {
        let (front, rest) = text.rsplit_once(')')?;
        let name = front.split_once('(')?.1.to_owned();
        let mut fields = [""; FIELDS];
        rest.split_ascii_whitespace().zip(&mut fields).for_each(|(text, field)| *field = text);
        // Field numbers are those of proc(5). Field 3 is the first one after the name.
        let field = |number: usize| -> Option<u64> {
            let text = fields[number - 3];
            text.parse::<i64>().map(|value| value.max(0).unsigned_abs()).or_else(|_| text.parse()).ok()
        };
        let parent = u32::try_from(field(4)?).unwrap_or(0);
        let cpu_ticks = field(14)?.saturating_add(field(15)?);
        // For a user who may not read the process, the last two are constant.
        let shape = Shape([field(23)?, field(26).unwrap_or(0), field(28).unwrap_or(0)]);
        let has_ended = matches!(fields[0], "Z" | "X" | "x") && field(20)? <= 1;
        Some(Self { name, has_ended, parent, cpu_ticks, start_ticks: field(22)?, rss_pages: field(24)?, shape })
    }

    /// Returns whether this is the running process with this start time.
    pub(crate) fn is_running(&self, start_ticks: u64) -> bool {
        !self.has_ended && self.start_ticks == start_ticks
    }

    fn facts(self, uid: u32, user: Option<String>, scale: Scale) -> ProcessFacts {
        let nanos = |ticks: u64| ticks.saturating_mul(1_000_000_000 / scale.ticks_per_second.max(1));
        ProcessFacts {
            name: self.name,
            uid,
            user,
            parent: self.parent,
            start_time: UnixTime(scale.boot.0.saturating_add(nanos(self.start_ticks))),
            cpu_time: Duration::from_nanos(nanos(self.cpu_ticks)),
            rss: self.rss_pages.saturating_mul(scale.page_bytes),
        }
    }
}

/// The number of fields that are parsed, from field 3 on.
const FIELDS: usize = 26;

/// The uid for a process that is gone. The kernel never assigns this number.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Returns the real user of a process from its `status`. The owner of the files is not used, because files of a process that cannot be
/// traced belong to root. Returns [`NOBODY`] if the process is gone. If its user cannot be read, it has the share of an unknown user.
pub(crate) fn uid_of(proc: &Path, pid: u32) -> u32 {
    let text = read_small(&proc.join(pid.to_string()).join("status"), STATUS_BYTES_MAX);
    text.ok().and_then(|text| ProcessStatus::parse(&String::from_utf8_lossy(&text))).map_or(NOBODY, |status| status.uid())
}

/// Values of the `status` of a process.
#[derive(Debug, PartialEq)]
pub struct ProcessStatus {
    /// Real, effective, saved and file system user ids.
    pub uids: [u32; 4],
    /// The pid in the process's own namespace, unless the kernel has no pid namespaces.
    pub namespace_pid: Option<u32>,
}

impl ProcessStatus {
    /// Parses the lines `Uid: 1000 1000 1000 1000` and `NSpid: 4242 1`. The last number of `NSpid` is that of the innermost namespace.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = |key: &str| -> Option<Vec<u32>> {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
        };
        Some(Self { uids: numbers("Uid:")?.try_into().ok()?, namespace_pid: numbers("NSpid:").and_then(|pids| pids.last().copied()) })
    }

    /// Returns the real user.
    pub fn uid(&self) -> u32 {
        self.uids[0]
    }
}

/// Joins the arguments, each of which ends with a NUL. A kernel thread and a zombie have no arguments.
fn parse_command(text: &str) -> Reading<String> {
    let words: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    let mut command = words.join(" ");
    if command.len() > COMMAND_BYTES_MAX {
        let end = (0..=COMMAND_BYTES_MAX).rev().find(|end| command.is_char_boundary(*end)).unwrap_or(0);
        command.truncate(end);
    }
    if command.is_empty() { Err(Missing::NoSource) } else { Ok(command) }
}

/// Extracts container, pod and job from cgroup paths, for example `0::/kubepods.slice/kubepods-pod1234_5678.slice/cri-containerd-<64 hex
/// digits>.scope` and `/system.slice/slurmstepd.scope/job_4711/step_0`.
fn parse_cgroup(text: &str) -> Workload {
    let mut workload = Workload::default();
    for line in text.lines() {
        let Some(path) = line.splitn(3, ':').nth(2) else { continue };
        for part in path.split('/') {
            let bare = part.trim_end_matches(".scope").trim_end_matches(".slice").trim_end_matches(".service");
            workload.container = workload.container.or_else(|| container_of(bare));
            workload.pod = workload.pod.or_else(|| pod_of(bare));
            workload.job = workload.job.or_else(|| job_of(bare));
            if workload.job.is_some() {
                workload.job_step =
                    workload.job_step.or_else(|| bare.strip_prefix("step_").filter(|step| !step.is_empty()).map(str::to_owned));
            }
        }
    }
    workload
}

/// Adds name and step of a Slurm job from its variables. A process may set any, so they must name the job of its cgroup.
fn add_job(workload: &mut Workload, environment: &str) {
    let value = |name: &str| environment.split('\0').find_map(|variable| variable.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned);
    if workload.job.is_some() && workload.job == value("SLURM_JOB_ID") {
        workload.job_name = value("SLURM_JOB_NAME").filter(|name| !name.is_empty());
        workload.job_step = workload.job_step.take().or_else(|| value("SLURM_STEP_ID"));
    }
}

/// Parses a container id: 64 hexadecimal digits, alone (`docker/<id>`) or after the name of a runtime (`libpod-<id>`).
fn container_of(part: &str) -> Option<String> {
    let id = part.rsplit(['-', ':']).next()?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id[..12].to_owned())
}

/// Parses `kubepods-burstable-pod1234_...` or `pod1234-...`. systemd writes `_` for `-`.
fn pod_of(part: &str) -> Option<String> {
    let uid = match part.strip_prefix("pod") {
        Some(uid) => uid,
        None => part.strip_prefix("kubepods")?.split_once("-pod")?.1,
    };
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

fn job_of(part: &str) -> Option<String> {
    let id = part.strip_prefix("job_")?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then(|| id.to_owned())
}

/// Parses `drm-memory-dram: 512 KiB` and `drm-memory-l1: 96 KiB`. No driver prints these lines yet.
fn parse_fdinfo(text: &str, device: DeviceId) -> Option<FdMemory> {
    let mut used = PerKind::default();
    let mut has_any = false;
    for line in text.lines() {
        let Some((key, value)) = line.strip_prefix("drm-memory-").and_then(|line| line.split_once(':')) else { continue };
        if let (Some(kind), Some(bytes)) = (Kind::from_name(key), parse_size(value)) {
            used[kind] = Some(bytes);
            has_any = true;
        }
    }
    has_any.then_some(FdMemory { device, used })
}

/// Parses `512 KiB`, `1 MiB`, or bytes without a unit, as described in the kernel's drm-usage-stats page.
fn parse_size(text: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        None => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

/// Returns a user's name from the text of `/etc/passwd`.
pub(crate) fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str =
        "4242 (py) (x\n) S 1 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 9999 1000000 512 18446744073709551615 1 1 0 0 0";

    #[test]
    fn a_zombie_or_another_of_that_pid_does_not_run() {
        let stat = |state: &str| ProcessStat::parse(&format!("7 (a) Z) {state} 1 7 7 0 -1 4194304 1 0 0 0 3 4 0 0 20 0 1 0 8412 1 2 3"));
        assert!(stat("S").unwrap().is_running(8412));
        assert!(!stat("Z").unwrap().is_running(8412) && !stat("S").unwrap().is_running(8413));
    }

    #[test]
    fn stat_survives_any_name() {
        let stat = ProcessStat::parse(STAT).unwrap();
        let shape = Shape([1_000_000, 1, 0]);
        assert_eq!(
            stat,
            ProcessStat { name: "py) (x\n".into(), has_ended: false, parent: 1, cpu_ticks: 300, start_ticks: 9999, rss_pages: 512, shape }
        );
        for bad in ["", "4242", "4242 (x", "4242 (x) S 1"] {
            assert_eq!(ProcessStat::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn status_gives_owner_and_inner_pid() {
        let text = "Name:\tx\nUid:\t1000\t0\t0\t0\nNSpid:\t4242\t77\t1\n";
        assert_eq!(ProcessStatus::parse(text), Some(ProcessStatus { uids: [1000, 0, 0, 0], namespace_pid: Some(1) }));
        assert_eq!(ProcessStatus::parse("Name:\tx\n"), None);
    }

    #[test]
    fn commands() {
        assert_eq!(parse_command("python3\0serve.py\0--x\0"), Ok("python3 serve.py --x".into()));
        assert_eq!(parse_command(""), Err(Missing::NoSource));
        assert_eq!(parse_command(&"ä".repeat(COMMAND_BYTES_MAX)).unwrap().len(), COMMAND_BYTES_MAX);
    }

    #[test]
    fn cgroups_name_containers_pods_and_jobs() {
        let id = "4f5e".repeat(16);
        let check = |line: String, container: Option<&str>, pod: Option<&str>, job: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let found = parse_cgroup(&line);
            assert_eq!((found.container, found.pod, found.job), (owned(container), owned(pod), owned(job)), "{line}");
        };
        let uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        check(format!("0::/system.slice/docker-{id}.scope"), Some("4f5e4f5e4f5e"), None, None);
        check(format!("12:memory:/docker/{id}"), Some("4f5e4f5e4f5e"), None, None);
        check(format!("0::/machine.slice/libpod-{id}.scope/container"), Some("4f5e4f5e4f5e"), None, None);
        check(
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
                uid.replace('-', "_")
            ),
            Some("4f5e4f5e4f5e"),
            Some(uid),
            None,
        );
        check(format!("0::/kubepods/besteffort/pod{uid}/{id}"), Some("4f5e4f5e4f5e"), Some(uid), None);
        check("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0".into(), None, None, Some("4711"));
        check("4:memory:/slurm/uid_1000/job_4711/step_batch".into(), None, None, Some("4711"));
        check("0::/user.slice/user-1000.slice/session-3.scope".into(), None, None, None);
        check("0::/job_x/pod/podium".into(), None, None, None);
    }

    #[test]
    fn variables_of_slurm_count_for_their_own_job() {
        let environment = "A=1\0SLURM_JOB_ID=4711\0SLURM_JOB_NAME=train llama\0SLURM_STEP_ID=3\0";
        let of = |cgroup: &str, environment: &str| {
            let mut workload = parse_cgroup(cgroup);
            add_job(&mut workload, environment);
            (workload.job_name, workload.job_step)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(of("0::/slurm/job_4711/step_0/user", environment), (text("train llama"), text("0")));
        assert_eq!(of("0::/slurm/job_4711", environment), (text("train llama"), text("3")));
        assert_eq!(of("0::/slurm/job_4711/step_batch", ""), (None, text("batch")));
        assert_eq!(of("0::/slurm/job_4712", environment), (None, None), "another job's variables");
        assert_eq!(of("0::/user.slice/step_0", environment), (None, None), "no job");
        assert_eq!(of("0::/slurm/job_4711", "SLURM_JOB_ID=4711\0SLURM_JOB_NAME=\0xSLURM_JOB_NAME=a"), (None, None));
    }

    #[test]
    fn fdinfo_keys() {
        let text = "pos:\t0\ndrm-driver:\ttenstorrent\ndrm-memory-dram:\t512 KiB\ndrm-memory-l1:\t96\n";
        let memory = parse_fdinfo(text, DeviceId(3)).unwrap();
        assert_eq!((memory.used[Kind::Dram], memory.used[Kind::L1], memory.used[Kind::Cb]), (Some(512 << 10), Some(96), None));
        assert_eq!(parse_fdinfo("pos:\t0\nflags:\t02\n", DeviceId(3)), None);
        assert_eq!(parse_size("99999999999999999999 KiB"), None);
        assert_eq!(parse_size("18446744073709551615 GiB"), None);
    }

    #[test]
    fn users_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000::/home/ana:/bin/sh\n+nis\n";
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("ana"));
        assert_eq!(user_name(passwd, 1001), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}", lines in "[a-zA-Z0-9:/_.\\-\\t\\n()]{0,200}") {
            for text in [&text, &lines] {
                let _ = (ProcessStat::parse(text), ProcessStatus::parse(text), parse_command(text), parse_cgroup(text), user_name(text, 0));
                let _ = (parse_fdinfo(text, DeviceId(0)), parse_size(text));
            }
        }
    }
}
