//! Restricts a reading process or a scanning thread. Afterwards it can only open files for reading and send replies.
//!
//! Both open files of other users, possibly as root. The system call filter allows no call that writes to a file, opens a connection,
//! starts a program or affects another process.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

/// Capabilities to keep, if present. They allow opening files of other users and of their processes.
const KEPT: CapabilitySet = CapabilitySet::SYS_PTRACE.union(CapabilitySet::DAC_READ_SEARCH);

/// Capabilities that a scanning thread keeps. It also opens memory of processes that closed all their files.
const KEPT_BY_SCAN: CapabilitySet = KEPT.union(CapabilitySet::CHECKPOINT_RESTORE);

/// Restricts the calling thread and every thread that it starts, as far as the kernel supports that.
pub(crate) fn restrict() {
    restrict_to(KEPT, &[]);
}

/// Restricts a thread that opens and reads ledgers of all users, and every thread that it starts. The other threads of the program keep
/// their rights. Restrictions that the kernel or a filter of the service manager does not allow are skipped, and the function returns
/// false.
pub fn restrict_scan() -> bool {
    // The thread needs these calls to end its reading process.
    restrict_to(KEPT_BY_SCAN, &[libc::SYS_shutdown, libc::SYS_wait4])
}

fn restrict_to(kept: CapabilitySet, more: &[i64]) -> bool {
    let has_dropped = drop_capabilities(kept).is_ok();
    // This also sets no_new_privs.
    let is_filtered = filter(more).is_ok_and(|filter| seccompiler::apply_filter(&filter).is_ok());
    has_dropped && is_filtered
}

fn drop_capabilities(kept: CapabilitySet) -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, .. } = rustix::thread::capabilities(None)?;
    let left = CapabilitySets { effective: effective & kept, permitted: permitted & kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, left)
}

/// System calls that only use memory, threads, time and open files.
const ALLOWED: &[i64] = &[
    // Reading, and the reply socket.
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time and system information.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getuid,
    libc::SYS_geteuid,
];

/// System calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// Flags of `open` that allow anything but reading.
const WRITING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) as u64;
const THREAD: u64 = libc::CLONE_THREAD as u64;

/// System calls that are allowed for some arguments: the call, the index of an argument, the mask of its relevant bits, and their value.
const ALLOWED_IF: &[(i64, u8, u64, u64)] = &[
    (libc::SYS_openat, 2, WRITING, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, WRITING, 0),
    (libc::SYS_clone, 0, THREAD, THREAD),
    (libc::SYS_prctl, 0, !0, libc::PR_SET_NAME as u64),
    // The call may read a limit, but not set one.
    (libc::SYS_prlimit64, 2, !0, 0),
];

/// Builds the filter. A forbidden call fails with ENOSYS, so the C library starts threads by `clone`, whose flags can be checked.
fn filter(more: &[i64]) -> Result<BpfProgram, BackendError> {
    let all = ALLOWED.iter().chain(ALLOWED_HERE).chain(more);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = all.map(|call| (*call, Vec::new())).collect();
    for (call, argument, mask, value) in ALLOWED_IF {
        let condition = SeccompCondition::new(*argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(*mask), *value)?;
        rules.insert(*call, vec![SeccompRule::new(vec![condition])?]);
    }
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    SeccompFilter::new(rules, unknown, SeccompAction::Allow, ARCH.try_into()?)?.try_into()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Restricts a new thread, so that other tests are not affected.
    fn restricted<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        restricted_by(restrict, work)
    }

    fn restricted_by<T: Send>(restrict: fn(), work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    restrict();
                    work()
                })
                .join()
                .unwrap()
        })
    }

    #[test]
    fn nothing_is_written_connected_or_started() {
        [restrict as fn(), || _ = restrict_scan()].into_iter().for_each(refuses_all_but_reading);
    }

    /// A service manager may refuse the calls. The thread continues, and its owner can report the failure.
    #[test]
    fn refused_restrictions_are_reported() {
        assert!(restricted_by(|| (), restrict_scan));
        assert!(!restricted(restrict_scan), "a restricted thread may not change its rights");
    }

    fn refuses_all_but_reading(restrict: fn()) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kept");
        fs::write(&file, "text").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let refused = restricted_by(restrict, || {
            [
                ("create", File::create(directory.path().join("new")).err()),
                ("write", OpenOptions::new().write(true).open(&file).err()),
                ("append", OpenOptions::new().append(true).open(&file).err()),
                ("remove", fs::remove_file(&file).err()),
                ("rename", fs::rename(&file, directory.path().join("other")).err()),
                ("permissions", fs::set_permissions(&file, fs::metadata(directory.path()).unwrap().permissions()).err()),
                ("connect", TcpStream::connect(address).err()),
                ("connect", UnixStream::connect(&file).err()),
                ("listen", TcpListener::bind("127.0.0.1:0").err()),
                ("start", Command::new("true").spawn().err()),
            ]
        });
        for (what, error) in refused {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Unsupported), "{what}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    }

    #[test]
    fn files_are_read_by_old_and_new_threads() {
        let read = || {
            let mut text = String::new();
            File::open("/proc/self/stat").unwrap().read_to_string(&mut text).unwrap();
            let names = fs::read_dir("/proc/self/fd").unwrap().count();
            (!text.is_empty(), names > 0, fs::read_link("/proc/self/exe").is_ok())
        };
        let (here, there) = restricted(|| (read(), thread::spawn(read).join().unwrap()));
        assert_eq!((here, there), ((true, true, true), (true, true, true)));
    }

    #[test]
    fn only_rights_to_read_others_files_stay() {
        let status = restricted(|| fs::read_to_string("/proc/thread-self/status").unwrap());
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        assert_eq!((field("Seccomp:"), field("NoNewPrivs:"), field("CapInh:")), (Some("2"), Some("1"), Some("0000000000000000")));
        for name in ["CapEff:", "CapPrm:"] {
            let bits = u64::from_str_radix(field(name).unwrap(), 16).unwrap();
            assert_eq!(bits & !KEPT.bits(), 0, "{name}");
        }
    }
}
