//! The C ABI from C and C++. The headers compile, and programs link with both libraries and find their reports in their own ledger. The
//! programs (tests/programs) check themselves. This file builds and runs them in several environments.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"];
/// System libraries for a Rust static library, from `rustc --print native-static-libs`.
const NATIVE: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Nothing,
    Shared,
    Static,
}

/// A folder for builds, and the compilers.
struct Workshop {
    folder: TempDir,
    libraries: PathBuf,
}

impl Workshop {
    /// Prints a message and returns `None` if there is no compiler.
    fn open() -> Option<Self> {
        for compiler in ["cc", "c++"] {
            if Command::new(compiler).arg("--version").output().is_err() {
                eprintln!("SKIPPED: no {compiler} on this machine, so nothing of the C ABI was tested");
                return None;
            }
        }
        // Cargo builds all forms of the library beside the test program.
        let test = std::env::current_exe().expect("a test has a path");
        let libraries = test.parent().expect("and a folder").to_owned();
        assert!(libraries.join("libttmon_client.so").exists(), "no libttmon_client.so in {}", libraries.display());
        Some(Self { folder: tempfile::tempdir().expect("a folder"), libraries })
    }

    fn library(&self) -> String {
        self.libraries.join("libttmon_client.so").to_str().expect("a path in UTF-8").to_owned()
    }

    /// Compiles a file of tests/programs, or a path.
    fn build(&self, source: &str, link: Link, more: &[&str]) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let built = self.folder.path().join(format!("{}-{}", source.replace('/', "-"), link as u8));
        let is_c = source.ends_with(".c");
        let mut compiler = Command::new(if is_c { "cc" } else { "c++" });
        compiler.args(STRICT).arg(if is_c { "-std=c11" } else { "-std=c++17" }).arg("-D_GNU_SOURCE");
        compiler.arg("-I").arg(here.join("include")).arg("-o").arg(&built).arg(here.join("tests/programs").join(source)).args(more);
        match link {
            Link::Nothing => {}
            Link::Shared => {
                compiler.arg("-L").arg(&self.libraries).arg(format!("-Wl,-rpath,{}", self.libraries.display()));
                compiler.args(["-lttmon_client", "-pthread"]);
            }
            Link::Static => {
                compiler.arg(self.libraries.join("libttmon_client.a")).args(NATIVE);
            }
        }
        let output = compiler.output().expect("the compiler starts");
        assert!(output.status.success(), "{compiler:?}\n{}", String::from_utf8_lossy(&output.stderr));
        built
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path in UTF-8").to_owned()
    }
}

/// A command without the tracking variables of this test's own environment.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    let variables = ["TT_ALLOC_TRACKING_ENABLED", "TTMON_TRACKING", "TTMON_HANDOVER", "TTMON_HANDOVER_OUTER"];
    for variable in variables.into_iter().chain(["XDG_RUNTIME_DIR", "LD_PRELOAD"]) {
        command.env_remove(variable);
    }
    command
}

fn tracked(program: &Path) -> Command {
    let mut command = command(program);
    command.env("TTMON_TRACKING", "1");
    command
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let error_output = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{error_output}", output.status);
    assert_eq!(error_output, "", "a library prints nothing");
    output
}

#[test]
fn headers_compile_alone() {
    let Some(workshop) = Workshop::open() else { return };
    let c = workshop.write("alone.c", "#include \"ttmon.h\"\n#include \"ttmon.h\"\nint main(void) { return TTMON_RECORDED; }\n");
    workshop.build(&c, Link::Nothing, &[]);
    workshop.build(&c, Link::Nothing, &["-std=c99"]);
    let cpp = workshop.write("alone.cpp", "#include \"ttmon.hpp\"\n#include \"ttmon.h\"\nint main() { return TTMON_RECORDED; }\n");
    workshop.build(&cpp, Link::Shared, &[]);
    let text = "#define TTMON_NO_GLOBAL_NAMES\n#include \"ttmon.hpp\"\nclass AllocationClient {};\nint main() { return 0; }\n";
    workshop.build(&workshop.write("own_name.cpp", text), Link::Shared, &["-std=c++20"]);
}

#[test]
fn every_function_on_and_off_shared_and_static() {
    let Some(workshop) = Workshop::open() else { return };
    for source in ["every_function.c", "seeds_names.cpp"] {
        for link in [Link::Shared, Link::Static] {
            let program = workshop.build(source, link, &[]);
            succeeds(command(&program).arg("off"));
            succeeds(command(&program).arg("off").env("TTMON_TRACKING", "0").env("TT_ALLOC_TRACKING_ENABLED", ""));
            succeeds(command(&program).arg("on").env("TTMON_TRACKING", "1"));
            succeeds(command(&program).arg("on").env("TT_ALLOC_TRACKING_ENABLED", "1"));
        }
    }
}

#[test]
fn a_handler_of_exit_may_report() {
    let Some(workshop) = Workshop::open() else { return };
    succeeds(&mut tracked(&workshop.build("at_exit.c", Link::Shared, &[])));
    succeeds(&mut tracked(&workshop.build("at_exit.c", Link::Static, &[])));
}

#[test]
fn a_forked_child_reports_to_its_own_ledger() {
    let Some(workshop) = Workshop::open() else { return };
    succeeds(&mut tracked(&workshop.build("fork_in_the_middle.c", Link::Shared, &[])));
}

#[test]
fn many_threads_report_at_once() {
    let Some(workshop) = Workshop::open() else { return };
    succeeds(&mut tracked(&workshop.build("many_threads.c", Link::Shared, &[])));
}

#[test]
fn a_program_that_closed_its_descriptors_may_report() {
    let Some(workshop) = Workshop::open() else { return };
    succeeds(&mut tracked(&workshop.build("closed_descriptors.c", Link::Shared, &[])));
}

#[test]
fn threads_may_be_cancelled_while_they_report() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.build("cancelled.c", Link::Shared, &[]);
    succeeds(tracked(&program).arg("deferred"));
    // Without optimisation the exported functions have landing pads, which stop a forced unwinding.
    if !cfg!(debug_assertions) {
        succeeds(tracked(&program).arg("asynchronous"));
    }
}

#[test]
fn a_signal_handler_may_report() {
    let Some(workshop) = Workshop::open() else { return };
    succeeds(&mut tracked(&workshop.build("signal_handler.c", Link::Shared, &[])));
}

#[test]
fn an_entry_of_the_same_name_in_the_program_is_no_other_writer() {
    let Some(workshop) = Workshop::open() else { return };
    succeeds(&mut tracked(&workshop.build("address_taken.c", Link::Shared, &["-fno-pie", "-no-pie"])));
}

#[test]
fn a_preloaded_library_gets_the_reports() {
    let Some(workshop) = Workshop::open() else { return };
    let preloaded = workshop.build("preloaded.c", Link::Nothing, &["-shared", "-fPIC"]);
    let program = workshop.build("loads_the_library.c", Link::Nothing, &["-ldl"]);
    let library = workshop.library();
    succeeds(tracked(&program).args(["77", &library, "0"]).env("LD_PRELOAD", &preloaded));
    succeeds(command(&program).args(["1", &library, "0"]).env("LD_PRELOAD", &preloaded));
    succeeds(tracked(&program).args(["0", &library, "1"]));
    // A program that exports the functions itself precedes a preloaded library.
    let copy = workshop.build("loads_the_library.c", Link::Static, &["-DWITH_A_COPY=77", "-rdynamic"]);
    succeeds(tracked(&copy).args(["77", &library, "0"]).env("LD_PRELOAD", &preloaded));
}

#[test]
fn a_preloaded_wrapper_does_not_go_round_in_circles() {
    let Some(workshop) = Workshop::open() else { return };
    let wrapper = workshop.build("wrapper.c", Link::Nothing, &["-shared", "-fPIC", "-ldl"]);
    let program = workshop.build("every_function.c", Link::Shared, &[]);
    succeeds(tracked(&program).arg("on").env("LD_PRELOAD", &wrapper));
}

#[test]
fn two_copies_of_the_client_make_one_ledger() {
    let Some(workshop) = Workshop::open() else { return };
    let library = workshop.library();
    // The program's copy is hidden. The other copy finds its ledger and stays off.
    let hidden = workshop.build("loads_the_library.c", Link::Static, &["-DWITH_A_COPY=0", "-Wl,--exclude-libs,ALL"]);
    succeeds(tracked(&hidden).args(["1", &library, "1"]));
    // The program's copy is visible. The other copy forwards its reports to it.
    let seen = workshop.build("loads_the_library.c", Link::Static, &["-DWITH_A_COPY=0", "-rdynamic"]);
    succeeds(tracked(&seen).args(["0", &library, "1"]));
}

#[test]
fn a_closed_library_stays_and_goes_on() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.build("closes_the_library.c", Link::Nothing, &["-ldl"]);
    succeeds(tracked(&program).arg(workshop.library()));
}

#[test]
fn a_program_linked_by_path_finds_the_library_elsewhere() {
    let Some(workshop) = Workshop::open() else { return };
    let here = workshop.folder.path().join("libttmon_client.so");
    std::fs::copy(workshop.library(), &here).expect("copied");
    let program = workshop.build("at_exit.c", Link::Nothing, &[here.to_str().expect("a path in UTF-8")]);
    std::fs::remove_file(here).expect("removed");
    succeeds(tracked(&program).env("LD_LIBRARY_PATH", &workshop.libraries));
}

#[test]
fn the_ledger_is_handed_over() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.build("every_function.c", Link::Shared, &[]);
    let run = |variable: &str, value: &Path| {
        let mut child = tracked(&program).arg("on").env(variable, value).spawn().expect("starts");
        assert!(child.wait().expect("ends").success());
        child.id()
    };

    let place = workshop.folder.path().join("handover.sock");
    let socket = UnixDatagram::bind(&place).expect("bound");
    let pid = run("TTMON_HANDOVER", &place);
    receives_ledger_of(&socket, pid);

    let runtime = workshop.folder.path().join("ttmon");
    std::fs::create_dir(&runtime).expect("made");
    let below = UnixDatagram::bind(runtime.join("handover.sock")).expect("bound");
    let pid = run("XDG_RUNTIME_DIR", workshop.folder.path());
    receives_ledger_of(&below, pid);

    // Without a listener, or with a full socket, the program is not affected.
    run("TTMON_HANDOVER", &workshop.folder.path().join("nobody.sock"));
    let sender = UnixDatagram::unbound().expect("made");
    sender.set_nonblocking(true).expect("set");
    while sender.send_to(b"full", &place).is_ok() {}
    run("TTMON_HANDOVER", &place);
}

/// A user who starts a program with another user's rights controls its environment, but may not read its ledger.
#[test]
fn a_program_with_other_rights_than_its_callers_hands_over_to_nobody() {
    let Some(workshop) = Workshop::open() else { return };
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("not run: only root can make such a program");
        return;
    }
    let allow = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("allowed");
    let program = workshop.build("every_function.c", Link::Static, &[]);
    let place = workshop.folder.path().join("handover.sock");
    let socket = UnixDatagram::bind(&place).expect("bound");
    socket.set_nonblocking(true).expect("set");
    allow(workshop.folder.path(), 0o755);
    allow(&place, 0o666);
    let mut run = tracked(&program);
    run.arg("on").env("TTMON_HANDOVER", &place);
    succeeds(&mut run);
    assert!(receive(&socket).is_ok());
    chown(&program, Some(65534), None).expect("owner changed");
    allow(&program, 0o4755);
    succeeds(&mut run);
    assert!(receive(&socket).is_err());
}

/// The process has ended, but its ledger is still readable.
#[track_caller]
fn receives_ledger_of(socket: &UnixDatagram, pid: u32) {
    socket.set_nonblocking(true).expect("set");
    let (payload, ledger) = receive(socket).expect("a datagram");
    assert_eq!(payload, ttmon_ledger::handover::message(pid));
    let ledger = std::fs::File::from(ledger);
    let word = |offset| {
        let mut bytes = [0; 8];
        ledger.read_exact_at(&mut bytes, offset).expect("read");
        u64::from_le_bytes(bytes)
    };
    assert_eq!(word(0).to_le_bytes(), *b"TTMONLDG");
    assert_eq!(word(0x080) & 0xFFFF_FFFF, u64::from(pid));
    assert_eq!((word(0x220), word(0x228)), (3, 123), "what every_function.c left");
}

fn receive(socket: &UnixDatagram) -> io::Result<([u8; 16], OwnedFd)> {
    let mut payload = [0; 16];
    let mut control = [0_u64; 8];
    let mut parts = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    // SAFETY: all zero is a valid value; every stored pointer is to a local that outlives its use, with its own length.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut parts;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        if libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) != 16 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS);
        let descriptor = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
        Ok((payload, OwnedFd::from_raw_fd(descriptor)))
    }
}
