//! Programs with their own ledgers, in the server's output and dumps.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use ttmon_allocation_server::protocol::{Request, Type};
use ttmon_testing::Signal;

use crate::serve::server::{Server, dump};

/// Returns a number that no program of another test uses, in this run or in another run on this machine.
fn device(server: &Server) -> i32 {
    i32::try_from(server.pid()).unwrap()
}

const DEVICE: &str = "TTMON_TEST_DEVICE";

struct Program {
    child: Child,
    answers: BufReader<std::process::ChildStderr>,
}

impl Program {
    fn start(server: &Server) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serve::tracked::a_program", "--nocapture"])
            .env(DEVICE, device(server).to_string())
            .env("TTMON_TRACKING", "1")
            .env("TTMON_HANDOVER", server.path("handover.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stderr.take().unwrap());
        Self { child, answers }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command. The program has executed it when this returns.
    fn does(&mut self, order: &str) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{order}").unwrap();
        assert!(self.answers.by_ref().lines().map_while(Result::ok).any(|line| line == "done"));
    }

    fn ends(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test. The code of [`Program`]'s process.
#[test]
fn a_program() {
    let Some(device) = std::env::var(DEVICE).ok().and_then(|device| device.parse::<i32>().ok()) else { return };
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match line.as_str() {
            "allocate" => {
                let _ = ttmon_client::report_allocation(device, 1000, 0, 0x1000);
                let _ = ttmon_client::report_allocation(device, 4096, 1, 0x2000);
                let _ = ttmon_client::report_kernel_load(device, 57_344, 1, 0x77);
                let _ = ttmon_client::report_cb_allocation(device, 65_536, 0x1a000);
            }
            "free" => {
                let _ = ttmon_client::report_deallocation(device, 0x1000);
            }
            "flood" => (0..20_000).for_each(|address| {
                let _ = ttmon_client::report_allocation(device, 64, 0, 0x10_0000 + address * 64);
            }),
            other => panic!("{other}"),
        }
        eprintln!("done");
    }
}

#[test]
fn event_lines_of_a_program_with_a_ledger() {
    let server = Server::with(&["--here", "--interval", "0.2"]);
    let mut program = Program::start(&server);
    let (pid, device) = (program.pid(), device(&server));
    program.does("allocate");
    server.prints(&format!("✓ [PID {pid}] Allocated 1000 bytes of DRAM on device {device} (buffer_id=0x1000)\n"));
    server.prints(&format!("✓ [PID {pid}] Allocated 4096 bytes of L1 on device {device} (buffer_id=0x2000)\n"));
    server.prints(&format!("✓ [KERNEL_LOAD] Fabric kernel on Device {device}: +0.0546875 MB (Total: 0.0546875 MB)\n"));
    server.prints(&format!("✓ [CB_ALLOC] Device {device}: +0.0625 MB (Total: 0.0625 MB)\n"));
    program.does("free");
    server.prints(&format!("✗ [PID {pid}] Freed buffer 0x1000 on device {device} (1000 bytes, FINAL)\n"));
    program.ends();
    server.prints(&format!("   PID {pid} is dead, removing its buffers...\n   ✓ Removed 1 buffers (0.00390625 MB) from PID {pid}\n"));
    let once = format!("[PID {pid}] Allocated 1000 bytes");
    assert_eq!(server.output().matches(&once).count(), 1, "{}", server.output());
}

/// The program starts and ends between two samples, because there is only one sample per hour.
#[test]
fn event_lines_of_a_short_program() {
    let server = Server::with(&["--here", "--interval", "3600"]);
    server.until("the only scan", || server.unix("/metrics").body.contains("\nttmon_scan_age_seconds "));
    let mut program = Program::start(&server);
    program.does("allocate");
    program.does("free");
    program.ends();
    let (pid, device) = (program.pid(), device(&server));
    server.prints(&format!("✗ [PID {pid}] Freed buffer 0x1000 on device {device} (1000 bytes, FINAL)\n"));
}

/// The server is stopped meanwhile, so that it receives the ledger of a program that has ended.
#[test]
fn event_lines_of_a_program_that_ended_before_its_ledger_was_received() {
    let server = Server::with(&["--here", "--interval", "3600"]);
    server.until("the only scan", || server.unix("/metrics").body.contains("\nttmon_scan_age_seconds "));
    let device = device(&server);
    server.signal(Signal::STOP);
    let mut program = Program::start(&server);
    program.does("allocate");
    program.does("free");
    program.ends();
    server.signal(Signal::CONT);
    server.prints(&format!("✗ [PID {}] Freed buffer 0x1000 on device {device} (1000 bytes, FINAL)\n", program.pid()));
}

#[test]
fn event_lines_of_a_flood_are_counted() {
    let server = Server::with(&["--here", "--interval", "0.2"]);
    let mut program = Program::start(&server);
    program.does("flood");
    server.prints(&format!("⚠ [PID {}] ", program.pid()));
    server.prints("more events are not shown: too many at once\n");
    let of_program = format!("✓ [PID {}] Allocated", program.pid());
    assert!(server.output().matches(&of_program).count() < 20_000);
}

/// DUMP, DUMP_KERNELS and an empty line list the buffers that QUERY counts. `--quiet` prints dumps, but no events.
#[test]
fn dumps_list_a_program_with_a_ledger() {
    let server = Server::with(&["--here", "-q", "--interval", "0.2"]);
    let mut program = Program::start(&server);
    let (pid, device) = (program.pid(), device(&server));
    program.does("allocate");
    server.until("its figures", || server.usage(device).dram == 1000);
    let text = dump(&server.socket());
    let expected = format!(
        "Device {device}:\n  DRAM: 1 buffers, 0.000953674 MB total\n    - Buffer 0x1000: 0.976562 KB (PID {pid}, ref_count=1)\n  \
         L1: 1 buffers, 0.00390625 MB total\n    - Buffer 0x2000: 4 KB (PID {pid}, ref_count=1)\n"
    );
    assert!(text.contains(&expected), "{text}");
    assert!(
        text.contains(&format!("  CB: 1 circular buffers, 0.0625 MB total\n    - CB 0x1a000: 64 KB (PID {pid}, ref_count=1)\n")),
        "{text}"
    );
    assert!(
        text.contains(&format!("  │ Kernel ID: 0x77\n  │   Size:      56 KB\n  │   Type:      Fabric\n  │   Owner PID: {pid}\n")),
        "{text}"
    );
    server.connect().send(&[Request::new(Type::DumpRemaining), Request::new(Type::DumpKernels)]);
    server.prints(&expected);
    server.prints(&format!("  │   Owner PID: {pid}\n"));
    assert!(!server.output().contains("Allocated 1000 bytes"), "{}", server.output());
    program.ends();
    assert!(!dump(&server.socket()).contains(&format!("PID {pid}")), "a process that ended has nothing");
}
