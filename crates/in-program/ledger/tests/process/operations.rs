//! Operations of programs that affect a ledger: fork, exec, signals, limits, closing all descriptors. Each case runs in its own process.

mod limits;
mod memory;

use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::mpsc;
use std::{fs, ptr, thread};

use limits::{
    address_space_limit, file_size_limit, file_size_limit_below_the_smallest, limit, memfd_refused, mlockall_locks_nothing_untouched,
    no_descriptor_left,
};
use memory::{address_space_is_given_back, pages_are_small_and_not_dumped, without_proc_there_is_none};
use rustix::process::Resource;
use ttmon_ledger::layout::{Lost, status};
use ttmon_ledger::writer::{AllocatorId, Buffer, ClockChoice, Config, Writer};
use ttmon_ledger_reader::Region;
use ttmon_model::ledger::{Exactness, VisibleDevices};

use crate::cases::{Case, in_child, wait};
use crate::made::{CONFIG, Random, key, open};
use crate::raw::{Raw, Truth};

static HANDED_OVER: AtomicI32 = AtomicI32::new(-1);
static HAND_OVERS: AtomicI32 = AtomicI32::new(0);

fn hand_over(descriptor: RawFd) {
    HANDED_OVER.store(descriptor, SeqCst);
    HAND_OVERS.fetch_add(1, SeqCst);
}

static WRITER: Writer = Writer::new(Config { on_created: Some(hand_over), ..CONFIG });
static SECOND: Writer = Writer::new(CONFIG);

pub const CASES: &[Case] = &[
    Case { name: "made_as_promised", run: made_as_promised },
    Case { name: "environment_in_the_header", run: environment_in_the_header },
    Case { name: "environment_that_changes_before_a_device_opens", run: environment_that_changes_before_a_device_opens },
    Case { name: "fork_starts_anew", run: fork_starts_anew },
    Case { name: "raw_clone_starts_anew", run: raw_clone_starts_anew },
    Case { name: "fork_while_another_thread_is_inside", run: fork_while_another_thread_is_inside },
    Case { name: "fork_while_another_thread_starts", run: fork_while_another_thread_starts },
    Case { name: "child_outlives_parent", run: child_outlives_parent },
    Case { name: "spawn_and_exec_inherit_nothing", run: spawn_and_exec_inherit_nothing },
    Case { name: "vfork_child_writes_to_the_same_ledger", run: vfork_child_writes_to_the_same_ledger },
    Case { name: "second_copy_stays_off", run: second_copy_stays_off },
    Case { name: "signal_handler_that_allocates", run: signal_handler_that_allocates },
    Case { name: "threads_that_die_anywhere", run: threads_that_die_anywhere },
    Case { name: "stuck_thread_costs_a_second_once", run: stuck_thread_costs_a_second_once },
    Case { name: "file_size_limit", run: file_size_limit },
    Case { name: "file_size_limit_below_the_smallest", run: file_size_limit_below_the_smallest },
    Case { name: "address_space_limit", run: address_space_limit },
    Case { name: "no_descriptor_left", run: no_descriptor_left },
    Case { name: "memfd_refused", run: memfd_refused },
    Case { name: "without_proc_there_is_none", run: without_proc_there_is_none },
    Case { name: "pages_are_small_and_not_dumped", run: pages_are_small_and_not_dumped },
    Case { name: "address_space_is_given_back", run: address_space_is_given_back },
    Case { name: "mlockall_locks_nothing_untouched", run: mlockall_locks_nothing_untouched },
    Case { name: "all_descriptors_closed", run: all_descriptors_closed },
    Case { name: "errno_is_kept", run: errno_is_kept },
    Case { name: "slow_clock", run: slow_clock },
];

fn truth() -> Truth {
    Raw::of(WRITER.descriptor().expect("descriptor")).truth()
}

fn sized(size: u64) -> Buffer {
    Buffer { size, ..Buffer::default() }
}

/// Starts the ledger with one buffer of 100 bytes.
fn started() -> AllocatorId {
    let mut session = WRITER.session().expect("session");
    let id = open(&mut session, 0);
    session.insert(key(id, 0, 64), &sized(100)).expect("room");
    id
}

fn made_as_promised() {
    assert!(!WRITER.is_started());
    started();
    assert!(WRITER.is_started());
    let descriptor = WRITER.descriptor().expect("descriptor");
    assert_eq!((HANDED_OVER.load(SeqCst), HAND_OVERS.load(SeqCst)), (descriptor, 1));
    assert!(descriptor >= 500);
    // SAFETY: queries of our own descriptor.
    let (seals, flags) = unsafe { (libc::fcntl(descriptor, libc::F_GET_SEALS), libc::fcntl(descriptor, libc::F_GETFD)) };
    assert_eq!(seals & 0x1F, 0x17, "SEAL, SHRINK, GROW and FUTURE_WRITE");
    assert_eq!(flags, libc::FD_CLOEXEC);
    let path = format!("/proc/self/fd/{descriptor}");
    let about = fs::metadata(&path).expect("metadata");
    assert_eq!((about.len(), std::os::unix::fs::MetadataExt::mode(&about) & 0o777), (0x4FE_9000, 0o400));
    assert_eq!(fs::read_link(path).expect("link").to_string_lossy(), "/memfd:ttmon-ledger (deleted)");
    let raw = Raw::of(descriptor);
    let stat = fs::read_to_string("/proc/self/stat").expect("stat");
    let start = stat[stat.rfind(')').expect("name") + 2..].split(' ').nth(19).expect("22 fields").parse::<u64>();
    assert_eq!(raw.word(0x80), u64::from(std::process::id()) | 1 << 32);
    assert_eq!(Ok(raw.word(0x88)), start);
    assert_ne!(raw.word(0x90), 0, "pid namespace");
    assert_eq!(raw.word(0x98), 7, "machine");
    assert_eq!(raw.word(0x08), 2 | 2 << 16 | 4096 << 32, "version and header length");
    assert_eq!(raw.word(0xD0), u64::from_le_bytes(*b"test\0\0\0\0"));
    assert_eq!(raw.word(0xF0), u64::from_le_bytes(*b"process-"));
    let mine = raw.truth().live[&(0, 64)].clone();
    // SAFETY: no preconditions.
    assert_eq!(i64::from(mine.thread), unsafe { libc::syscall(libc::SYS_gettid) });
}

/// Checks the header of a ledger with these variables: visible devices, whether they are truncated, whether the chips are mock.
fn says(variables: &[(&str, &str)], expected: (Option<&str>, bool, bool)) {
    let status = in_child(|| {
        for (name, value) in variables {
            // SAFETY: the child has one thread.
            unsafe { std::env::set_var(name, value) };
        }
        started();
        check_environment(&Region::open(opened()).expect("a ledger"), expected);
    });
    assert_eq!(status, 0, "{variables:?}");
}

fn check_environment(region: &Region, expected: (Option<&str>, bool, bool)) {
    let ledger = region.figures().expect("figures");
    let visible = match (expected.0, expected.1) {
        (_, true) => VisibleDevices::Cut,
        (Some(text), false) => VisibleDevices::Only(text.to_owned()),
        (None, false) => VisibleDevices::All,
    };
    assert_eq!((ledger.visible_devices, ledger.is_mock), (visible, expected.2));
    let used: u64 = ledger.allocators.iter().flat_map(|allocator| &allocator.rows).map(|row| row.used).sum();
    assert_eq!((ledger.exactness, used), (Exactness::Exact, 100));
}

fn environment_in_the_header() {
    for name in ["TT_VISIBLE_DEVICES", "TT_METAL_MOCK_CLUSTER_DESC_PATH", "TT_METAL_SIMULATOR"] {
        // SAFETY: the case's process has one thread.
        unsafe { std::env::remove_var(name) };
    }
    says(&[], (None, false, false));
    says(&[("TT_VISIBLE_DEVICES", ""), ("TT_METAL_SIMULATOR", "")], (Some(""), false, false));
    says(&[("TT_METAL_SIMULATOR", "/sim.so")], (None, false, true));
    says(&[("TT_METAL_MOCK_CLUSTER_DESC_PATH", "/t3k.yaml"), ("TT_VISIBLE_DEVICES", "0,1")], (Some("0,1"), false, true));
    let text = "0,".repeat(104);
    says(&[("TT_VISIBLE_DEVICES", &text[..207])], (Some(&text[..207]), false, false));
    says(&[("TT_VISIBLE_DEVICES", &text)], (Some(&text[..207]), true, false));
}

/// Readers that opened the ledger before see the change, too. If nothing changed, there is no event.
fn environment_that_changes_before_a_device_opens() {
    // SAFETY: the case's process has one thread.
    let set = |name: &str, value: &str| unsafe { std::env::set_var(name, value) };
    set("TT_VISIBLE_DEVICES", "0,1,2,3");
    set("TT_METAL_SIMULATOR", "");
    started();
    let region = Region::open(opened()).expect("a ledger");
    check_environment(&region, (Some("0,1,2,3"), false, false));
    let events = truth().seq / 2;
    WRITER.session().expect("session").reread_environment();
    assert_eq!(truth().seq / 2, events);
    set("TT_VISIBLE_DEVICES", "2");
    set("TT_METAL_SIMULATOR", "/sim.so");
    WRITER.session().expect("session").reread_environment();
    check_environment(&region, (Some("2"), false, true));
    assert_eq!(truth().seq / 2, events + 1);
}

/// In a child: the parent's ledger is unchanged, and the first event creates a separate one.
fn child_starts_anew(id: AllocatorId, parents: &fs::File) {
    let before = Raw::of_file(parents).truth().seq;
    assert!(!WRITER.is_started());
    let mut session = WRITER.session().expect("session");
    assert_eq!(session.allocator(1, 0), None, "a new ledger knows nothing");
    assert_eq!(session.insert(key(id, 0, 128), &sized(5)), Err(Lost::NoAllocator));
    let own = open(&mut session, 3);
    session.insert(key(own, 0, 64), &sized(7)).expect("room");
    drop(session);
    let raw = Raw::of(WRITER.descriptor().expect("descriptor"));
    assert_eq!(raw.truth().rows[&0].live_bytes, 7);
    assert_eq!(raw.word(0x80) & 0xFFFF_FFFF, u64::from(std::process::id()));
    assert_eq!(Raw::of_file(parents).truth().seq, before, "the parent's is not touched");
    assert_eq!(maps().matches("ttmon-ledger").count(), 1, "the parent's is let go");
    assert_eq!(HAND_OVERS.load(SeqCst), 2);
}

fn maps() -> String {
    fs::read_to_string("/proc/self/maps").expect("maps")
}

fn opened() -> fs::File {
    fs::File::open(format!("/proc/self/fd/{}", WRITER.descriptor().expect("descriptor"))).expect("open")
}

fn fork_starts_anew() {
    let id = started();
    let parents = opened();
    assert_eq!(in_child(|| child_starts_anew(id, &parents)), 0);
    WRITER.session().expect("session").remove(key(id, 0, 64));
    assert_eq!(truth().rows[&0].count, 0);
}

fn raw_clone_starts_anew() {
    let id = started();
    let parents = opened();
    // SAFETY: clone without CLONE_VM is a fork that glibc does not notice.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child_starts_anew(id, &parents)));
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    assert_eq!(wait(libc::pid_t::try_from(child).expect("pid")), 0);
    assert_eq!(truth().rows[&0].count, 1);
}

fn fork_while_another_thread_is_inside() {
    let id = started();
    let parents = opened();
    let is_inside = AtomicBool::new(false);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = WRITER.session().expect("session");
            is_inside.store(true, SeqCst);
            while !is_over.load(SeqCst) {
                thread::yield_now();
            }
            drop(session);
        });
        while !is_inside.load(SeqCst) {
            thread::yield_now();
        }
        // If the child waited for a thread that does not exist, its session would fail.
        assert_eq!(in_child(|| child_starts_anew(id, &parents)), 0);
        is_over.store(true, SeqCst);
    });
}

/// Counts the mappings and the descriptors of ledgers in this process.
fn ledgers_here() -> (usize, usize) {
    let links = fs::read_dir("/proc/self/fd").expect("fd").filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    (maps().matches("ttmon-ledger").count(), links.filter(|link| link.to_string_lossy().contains("ttmon-ledger")).count())
}

fn fork_while_another_thread_starts() {
    const ROUNDS: u64 = 300;
    let mut random = Random(5);
    let mut kept = 0;
    for _ in 0..ROUNDS {
        // As long as the start of a ledger takes.
        let pause = random.below(20_000);
        let status = in_child(|| {
            let is_starting = AtomicBool::new(false);
            let status = thread::scope(|scope| {
                scope.spawn(|| {
                    is_starting.store(true, SeqCst);
                    started();
                });
                while !is_starting.load(SeqCst) {
                    std::hint::spin_loop();
                }
                (0..pause).for_each(|_| std::hint::spin_loop());
                in_child(|| {
                    started();
                    assert_eq!(truth().rows[&0].live_bytes, 100);
                    let (maps, descriptors) = ledgers_here();
                    // SAFETY: ends this child.
                    unsafe { libc::_exit(if (maps, descriptors) == (1, 1) { 0 } else { 7 }) };
                })
            });
            assert_eq!(ledgers_here(), (1, 1), "the parent's own");
            // SAFETY: ends this child.
            unsafe { libc::_exit(libc::WEXITSTATUS(status) | libc::WTERMSIG(status)) };
        });
        assert!(status == 0 || libc::WEXITSTATUS(status) == 7, "{status:#x}");
        kept += u64::from(status != 0);
    }
    // There is always a short time between the creation of the descriptor by the kernel and its record.
    assert!(kept <= ROUNDS / 100, "{kept} of {ROUNDS} children kept what the parent had begun");
}

fn child_outlives_parent() {
    let mut pipe = [0; 2];
    // SAFETY: the kernel writes two local ints.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let parent = in_child(|| {
        let id = started();
        let parents = opened();
        // SAFETY: no preconditions.
        let own = unsafe { libc::getpid() };
        // SAFETY: one thread.
        if unsafe { libc::fork() } == 0 {
            // SAFETY: no preconditions. An orphan gets another parent.
            while unsafe { libc::getppid() } == own {
                thread::yield_now();
            }
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child_starts_anew(id, &parents)));
            let answer = [u8::from(result.is_ok())];
            // SAFETY: one local byte.
            unsafe { libc::write(pipe[1], answer.as_ptr().cast(), 1) };
        }
    });
    assert_eq!(parent, 0);
    let mut answer = [0_u8];
    // SAFETY: one local byte.
    assert_eq!(unsafe { libc::read(pipe[0], answer.as_mut_ptr().cast(), 1) }, 1);
    assert_eq!(answer, [1]);
}

fn spawn_and_exec_inherit_nothing() {
    let id = started();
    for _ in 0..3 {
        // std uses posix_spawn, which calls vfork.
        let output = Command::new("cat").arg("/proc/self/maps").output().expect("cat");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("ttmon-ledger"));
        let output = Command::new("ls").args(["-l", "/proc/self/fd"]).output().expect("ls");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("ttmon-ledger"));
        WRITER.session().expect("session").mark();
    }
    WRITER.session().expect("session").remove(key(id, 0, 64));
    assert_eq!((truth().rows[&0].count, truth().lost), (0, [0; 8]));
}

fn vfork_child_writes_to_the_same_ledger() {
    let id = started();
    // SAFETY: the child shares this memory until it ends. Its calls change only the ledger and its own memory.
    unsafe {
        #[allow(deprecated, reason = "programs do it")]
        let child = libc::vfork();
        if child == 0 {
            if let Ok(mut session) = WRITER.session() {
                let _ = session.insert(key(id, 0, 4096), &sized(11));
            }
            libc::_exit(0);
        }
        assert_eq!(wait(child), 0);
    }
    assert_eq!((truth().rows[&0].live_bytes, truth().lost), (111, [0; 8]));
}

fn second_copy_stays_off() {
    let id = started();
    assert_eq!(SECOND.session().err(), Some(Lost::NoMemory));
    assert!(!SECOND.is_started());
    assert_eq!(maps().matches("ttmon-ledger").count(), 1);
    WRITER.session().expect("session").remove(key(id, 0, 64));
    assert_eq!(truth().lost, [0; 8]);
    let status = in_child(|| {
        assert_eq!(SECOND.session().err(), Some(Lost::NoMemory), "what is off stays off");
        assert!(WRITER.session().is_ok());
    });
    assert_eq!(status, 0);
}

static IN_HANDLER: AtomicU64 = AtomicU64::new(0);
static REFUSED_IN_HANDLER: AtomicU64 = AtomicU64::new(0);

extern "C" fn allocate_in_handler(_: libc::c_int) {
    match WRITER.session() {
        Ok(mut session) => {
            session.mark();
            IN_HANDLER.fetch_add(1, SeqCst);
        }
        Err(reason) => {
            assert_eq!(reason, Lost::Reentry);
            REFUSED_IN_HANDLER.fetch_add(1, SeqCst);
        }
    }
}

fn on_signal(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler only does what the test needs.
    unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
}

fn signal_handler_that_allocates() {
    let id = started();
    on_signal(libc::SIGALRM, allocate_in_handler);
    let every = libc::timeval { tv_sec: 0, tv_usec: 50 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the kernel reads a local struct.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
    let mut random = Random(1);
    let mut events = 0;
    while IN_HANDLER.load(SeqCst) < 500 || REFUSED_IN_HANDLER.load(SeqCst) < 100 {
        let address = random.below(100) * 4096 + 4096;
        let mut session = WRITER.session().expect("the handler has ended");
        if session.remove(key(id, 0, address)).is_none() {
            session.insert(key(id, 0, address), &sized(random.below(1000))).expect("room");
        }
        events += 1;
    }
    let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: libc::timeval { tv_sec: 0, tv_usec: 0 } };
    // SAFETY: as above.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
    let truth = truth();
    let (done, refused) = (IN_HANDLER.load(SeqCst), REFUSED_IN_HANDLER.load(SeqCst));
    assert_eq!(truth.seq / 2, events + done + 2);
    assert_eq!((truth.lost[Lost::Reentry as usize], truth.status & status::INEXACT), (refused, status::INEXACT));
}

/// Number of attempts of the newest thread.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
/// For each address: 0 if free, size + 1 if live. The top bit is set while it changes.
static INTENTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
const CHANGING: u64 = 1 << 63;

extern "C" fn die_here(_: libc::c_int) {
    // SAFETY: ends this thread immediately at any point; the kernel marks its robust mutexes.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

extern "C" fn allocate_for_ever(seed: *mut libc::c_void) -> *mut libc::c_void {
    let mut random = Random(seed.addr() as u64);
    let id = AllocatorIdCell::get();
    loop {
        ATTEMPTS.fetch_add(1, SeqCst);
        let number = random.below(64);
        let intent = &INTENTS[usize::try_from(number).expect("small")];
        let address = 4096 * (number + 1);
        let was = intent.load(SeqCst) & !CHANGING;
        intent.store(was | CHANGING, SeqCst);
        let Ok(mut session) = WRITER.session() else { continue };
        if session.find(key(id, 0, address)).is_some() {
            session.remove(key(id, 0, address));
            drop(session);
            intent.store(0, SeqCst);
        } else {
            let size = random.below(1000);
            intent.store((size + 1) | CHANGING, SeqCst);
            session.insert(key(id, 0, address), &sized(size)).expect("room");
            drop(session);
            intent.store(size + 1, SeqCst);
        }
    }
}

/// The id for threads that start without arguments.
struct AllocatorIdCell;

static ID: std::sync::OnceLock<AllocatorId> = std::sync::OnceLock::new();

impl AllocatorIdCell {
    fn get() -> AllocatorId {
        *ID.get().expect("set before the threads")
    }
}

fn threads_that_die_anywhere() {
    let id = started();
    ID.set(id).expect("first");
    on_signal(libc::SIGUSR1, die_here);
    let mut random = Random(99);
    for round in 0..300_usize {
        ATTEMPTS.store(0, SeqCst);
        let mut thread = 0;
        // SAFETY: pthread_create writes a local id; the thread uses only statics. It never returns, because a signal ends it.
        unsafe {
            let seed = ptr::without_provenance_mut(round + 1);
            assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), allocate_for_ever, seed), 0);
            let attempts = random.below(4000);
            while ATTEMPTS.load(SeqCst) <= attempts {
                thread::yield_now();
            }
            libc::pthread_kill(thread, libc::SIGUSR1);
            libc::pthread_join(thread, ptr::null_mut());
        }
        // The next thread repairs the ledger, which must match the intents.
        WRITER.session().expect("session").mark();
        let truth = truth();
        for (number, intent) in (1..).zip(&INTENTS) {
            let intent = intent.load(SeqCst);
            let found = truth.live.get(&(0, 4096 * number)).map_or(0, |entry| entry.size + 1);
            let as_meant = found == intent & !CHANGING;
            assert!(as_meant || intent & CHANGING != 0, "round {round}, {number}: {found}, meant {intent:#x}");
            INTENTS[usize::try_from(number - 1).expect("small")].store(found, SeqCst);
        }
    }
    let truth = truth();
    assert_eq!(truth.status & status::REPAIRED != 0, truth.repairs > 0);
    assert!(truth.repairs > 5, "{} of 300 died inside", truth.repairs);
}

fn stuck_thread_costs_a_second_once() {
    started();
    let is_inside = AtomicBool::new(false);
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let is_inside = &is_inside;
        scope.spawn(move || {
            let session = WRITER.session().expect("session");
            is_inside.store(true, SeqCst);
            assert!(ended.recv().is_err(), "the other end is dropped");
            drop(session);
        });
        while !is_inside.load(SeqCst) {
            thread::yield_now();
        }
        // One second for each would exceed the two minutes of a case.
        for _ in 0..1000 {
            assert_eq!(WRITER.session().err(), Some(Lost::LockTimeout));
        }
        drop(end);
    });
    assert!(WRITER.session().is_ok());
    assert_eq!(truth().lost[Lost::LockTimeout as usize], 1000);
}

fn all_descriptors_closed() {
    let id = started();
    let descriptor = WRITER.descriptor().expect("descriptor");
    let held = opened();
    // SAFETY: closes all descriptors except the held one, as daemons do.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, held.as_raw_fd() - 1, 0);
        libc::syscall(libc::SYS_close_range, held.as_raw_fd() + 1, libc::c_uint::MAX, 0);
    }
    WRITER.session().expect("session").insert(key(id, 0, 4096), &sized(5)).expect("room");
    assert_eq!(Raw::of_file(&held).truth().rows[&0].live_bytes, 105);
    assert!(maps().contains("ttmon-ledger"));
    // The number now belongs to a descriptor of the program. A child that releases the ledger must not close it.
    let null = fs::File::open("/dev/null").expect("null");
    // SAFETY: our own descriptors.
    unsafe { libc::dup2(null.as_raw_fd(), descriptor) };
    let status = in_child(|| {
        started();
        assert_eq!(fs::read_link(format!("/proc/self/fd/{descriptor}")).expect("link").to_string_lossy(), "/dev/null");
        assert_ne!(WRITER.descriptor(), Some(descriptor));
    });
    assert_eq!(status, 0);
}

fn errno_is_kept() {
    limit(Resource::Nofile, 3);
    // SAFETY: the errno of this thread.
    let errno = unsafe { &mut *libc::__errno_location() };
    *errno = 4711;
    assert!(WRITER.session().is_err());
    assert_eq!(*errno, 4711);
    limit(Resource::Nofile, 1024);
    *errno = 4711;
    while WRITER.session().is_err() {}
    let id = started();
    for number in 0..10_000_u64 {
        WRITER.session().expect("session").insert(key(id, 0, number * 64), &sized(1)).expect("room");
    }
    WRITER.session().expect("session").tag("text");
    assert_eq!(*errno, 4711);
}

static MONOTONIC: Writer = Writer::new(Config { clock: ClockChoice::Monotonic, ..CONFIG });

fn slow_clock() {
    MONOTONIC.session().expect("session").mark();
    let raw = Raw::of(MONOTONIC.descriptor().expect("descriptor"));
    assert_eq!((raw.word(0xA0), raw.word(0x230)), (0, 0), "asked for, so not a fallback");
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a local struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
    let (created, last) = (raw.word(0xA8), raw.word(0x238));
    assert!(created <= last && last <= now, "{created} {last} {now}");
}
