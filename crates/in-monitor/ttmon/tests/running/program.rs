//! The program that is run. It executes a script of steps: `a 0 4096 16; t weights; exit 3`.

use std::fs::File;
use std::io::{BufRead, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType};
use ttmon_ledger::layout::{Coverage, Refused, WriterKind, flag, kind};
use ttmon_ledger::writer::{AllocatorSpec, Buffer, Chip, ClockChoice, Config, Failure, Frame, Key, KindGeometry, TraceStep, Writer};

pub(crate) const SCRIPT: &str = "RUNNING_SCRIPT";

pub(crate) fn run(script: &str) {
    for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let numbers: Vec<u64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
        let device = || i32::try_from(numbers[0]).unwrap();
        match word {
            // Device, size, address and, if not DRAM, type.
            "a" => {
                let kind = numbers.get(3).map_or(0, |kind| u8::try_from(*kind).unwrap());
                ttmon_client::report_allocation(device(), numbers[1], kind, numbers[2]);
            }
            "f" => drop(ttmon_client::report_deallocation(device(), numbers[1])),
            "close" => drop(ttmon_client::report_device_close(device())),
            "mark" => drop(ttmon_client::mark()),
            "request" => request(usize::try_from(numbers[0]).unwrap()),
            "trace" => replayed_trace(),
            "t" => std::mem::forget(ttmon_client::tag(rest)),
            "exit" => std::process::exit(i32::try_from(numbers[0]).unwrap()),
            "die" => die(i32::try_from(numbers[0]).unwrap()),
            "say" => println!("{rest}"),
            "flush" => std::io::stdout().flush().unwrap(),
            "echo" => {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line).unwrap();
                print!("{line}");
            }
            "wait" => drop(std::io::stdin().lock().read_line(&mut String::new())),
            "sleep" => loop {
                std::thread::park();
            },
            "cd" => std::env::set_current_dir(rest).unwrap(),
            "pid" => println!("{}", std::process::id()),
            "spawn" => spawn(usize::try_from(numbers[0]).unwrap()),
            "daemon" => drop(again("rename; a 0 77 7; say alive; flush; sleep").spawn().unwrap()),
            // The kernel accepts any bytes as a name.
            "rename" => std::fs::write("/proc/self/comm", b"\xff) S 1").unwrap(),
            "exec" => panic!("{}", again("a 0 222 2").exec()),
            "threads" => {
                let threads: Vec<_> =
                    (0..4).map(|id| std::thread::spawn(move || ttmon_client::report_allocation(0, 10, 0, 1000 + id))).collect();
                threads.into_iter().for_each(|thread| drop(thread.join()));
            }
            "closefds" => (3..1024).for_each(|file| {
                let _ = nix::unistd::close(file);
            }),
            "fork" => match fork::fork().unwrap() {
                fork::Fork::Parent(pid) => drop(fork::waitpid(pid).unwrap()),
                fork::Fork::Child => return run("a 0 333 3; exit 0"),
            },
            "parent" => signal_parent(),
            "hook" => like_the_hook(),
            // Sends a file that is not a valid ledger, as a ledger of another version would be.
            "nonsense" => hand_over(rustix::fs::memfd_create("ttmon-ledger", rustix::fs::MemfdFlags::CLOEXEC).unwrap().as_raw_fd()),
            // Records this many measured calls, each with this many nanoseconds.
            "cost" => (0..numbers[0]).for_each(|_| WRITER.cost(numbers[1])),
            other => panic!("{other}"),
        }
    }
}

/// Performs the default action of the signal, even if the parent of these tests ignores the signal.
fn die(signal: i32) {
    if signal == signal_hook::consts::SIGKILL {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    signal_hook::low_level::emulate_default_handler(signal).unwrap();
}

fn again(script: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(SCRIPT, script);
    command
}

/// Starts this many processes at once, each with a buffer of a different size.
fn spawn(count: usize) {
    let children: Vec<_> = (1..=count).map(|number| again(&format!("a 0 {number} 5; f 0 5")).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

/// Sends a signal to the parent and waits until it was handled.
fn signal_parent() {
    let parent = rustix::process::getppid().unwrap();
    rustix::process::kill_process(parent, rustix::process::Signal::USR1).unwrap();
    let is_pending = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", parent.as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() & (1 << 9) != 0
    };
    while is_pending() {
        std::thread::yield_now();
    }
}

static WRITER: Writer =
    Writer::new(Config { kind: WriterKind::Hook, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: Some(hand_over) });

/// Sends a ledger in the same way as the client.
fn hand_over(ledger: RawFd) {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
    let file = File::open(format!("/proc/self/fd/{ledger}")).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let address = SocketAddrUnix::new(std::env::var("TTMON_HANDOVER").unwrap()).unwrap();
    let mut message = *b"TTMONHND\0\0\0\0\0\0\0\0";
    message[8..].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
    rustix::net::sendmsg_addr(&socket, &address, &[IoSlice::new(&message)], &mut control, SendFlags::empty()).unwrap();
}

/// A phase that frees its device memory, and leaves this many bytes of host memory.
fn request(bytes: usize) {
    let _phase = ttmon_client::phase("request");
    ttmon_client::report_allocation(0, 4096, 0, 7);
    std::mem::forget(std::hint::black_box(vec![1_u8; bytes]));
    ttmon_client::report_deallocation(0, 7);
}

/// A buffer that was allocated after the capture of a trace is live while the trace is replayed.
fn replayed_trace() {
    let mut session = WRITER.session().unwrap();
    let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
    let spec = AllocatorSpec { given_id: 0, origin: 2, mesh: (1, 1), kinds: [KindGeometry::default(); 6], chips: &chips };
    let allocator = session.open_allocator(&spec).unwrap();
    let code = session.code("/me/model.py", "forward", 1).unwrap();
    let stack = session.add_stack(7, &[Frame { code, line: 42 }], false);
    session.trace(allocator, TraceStep::Begin, 3);
    session.trace(allocator, TraceStep::End, 3);
    session.insert(Key { allocator, kind: kind::DRAM, address: 64 }, &Buffer { size: 1 << 20, stack, ..Buffer::default() }).unwrap();
    session.trace(allocator, TraceStep::Replay, 3);
    session.close_allocator(allocator);
}

/// Records data that only the hook has: banks, operations, the program cache, refusals; on two chips of a mesh.
fn like_the_hook() {
    let mut session = WRITER.session().unwrap();
    let mut kinds = [KindGeometry::default(); 6];
    kinds[usize::from(kind::DRAM)] = KindGeometry { banks: 12, alignment: 32, bank_bytes: 1 << 30, base: 0 };
    kinds[usize::from(kind::L1)] = KindGeometry { banks: 64, alignment: 32, bank_bytes: 1 << 20, base: 0 };
    let chips = [0, 1].map(|metal_id| Chip { metal_id, unique_id: 0, flags: 0 });
    let spec = AllocatorSpec { given_id: 0, origin: 2, mesh: (1, 2), kinds, chips: &chips };
    let allocator = session.open_allocator(&spec).unwrap();
    session.cover(0, "allocate_buffer", Coverage::Found, "");
    session.cover(1, "dataflow_buffers", Coverage::SteppedAside, "unknown layout");
    let key = |kind, address| Key { allocator, kind, address };
    for (number, (size, tag)) in [(3 << 20, "layer 1"), (3 << 20, "layer 2"), (8 << 20, "load")].into_iter().enumerate() {
        let buffer = Buffer { size, per_bank: 1 << 20, tag: session.tag(tag), ..Buffer::default() };
        session.insert(key(kind::DRAM, 0x1000 * (1 + number as u64)), &buffer).unwrap();
    }
    session.insert(key(kind::L1, 0x40), &Buffer { size: 4096, per_bank: 64, flags: flag::CACHE, ..Buffer::default() }).unwrap();
    session.insert(key(kind::L1, 0x80), &Buffer { size: 2048, per_bank: 32, ..Buffer::default() }).unwrap();
    let refused = Failure {
        what: Refused::OutOfMemory,
        allocator,
        kind: kind::L1,
        size: 32 << 20,
        per_bank: 512 << 10,
        banks: 64,
        free_per_bank: 700 << 10,
        largest_free_per_bank: 410 << 10,
        tag: 0,
        operation: 0,
        stack: 0,
        message: "Out of Memory: Not enough space to allocate 33554432 B L1 buffer\nbacktrace: ...",
    };
    session.failed(&refused);
    session.failed(&Failure { what: Refused::Clash, message: "Statically allocated circular buffers clash with L1 buffers", ..refused });
    session.mark();
    session.remove(key(kind::DRAM, 0x3000)).unwrap();
    session.insert(key(kind::DRAM, 0x9000), &Buffer { size: 1 << 20, per_bank: 1 << 20, ..Buffer::default() }).unwrap();
    session.close_allocator(allocator);
}
