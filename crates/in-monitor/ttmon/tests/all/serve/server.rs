//! Starts a server, and clients in this process and in others.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use serde_json::Value;
use ttmon_allocation_server::protocol::{DeviceInfo, Request, Size, Type, Usage};
use ttmon_testing::{Service, Signal, TIMEOUT};

use crate::{command, start_service};

pub(crate) const DRAM: u8 = 0;
pub(crate) const L1: u8 = 1;

/// A service without HTTP, for tests of its allocation socket.
pub(crate) struct Server {
    service: Service,
    /// A machine without devices and without tracked processes.
    _root: tempfile::TempDir,
}

impl Deref for Server {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Service {
        &mut self.service
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server. With `--here` it serves this machine, with all its processes.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut all = vec!["--listen", "off"];
        if !arguments.contains(&"--sim") && !arguments.contains(&"--here") {
            all.extend(["--root", root.path().to_str().unwrap()]);
        }
        all.extend(arguments.iter().filter(|argument| **argument != "--here"));
        Self { service: start_service(&all), _root: root }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("alloc.sock")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Waits for a line of its output.
    pub(crate) fn prints(&self, text: &str) {
        self.until(text, || self.output().contains(text) || self.errors().contains(text));
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(&self.socket(), Size::B144)
    }

    pub(crate) fn connect_in(&self, size: Size) -> Client {
        Client::new(&self.socket(), size)
    }

    pub(crate) fn usage(&self, device: i32) -> Usage {
        self.connect().usage(device)
    }

    /// Runs a `ttmon` that reads this server's state. Returns its output.
    pub(crate) fn ttmon(&self, arguments: &[&str]) -> String {
        let output = command(arguments).env("TTMON_STATE_DIR", self.state()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn ttmon_json(&self, arguments: &[&str]) -> Value {
        let text = self.ttmon(arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the counters of `--log json`.
    pub(crate) fn counters(&self) -> Value {
        let before = self.output().len();
        self.signal(Signal::USR1);
        let statistics =
            |text: &str| text.lines().rev().find(|line| line.contains("\"op\":\"statistics\"") && line.ends_with('}')).map(str::to_owned);
        self.until("statistics", || statistics(&self.output()[before..]).is_some());
        let line = statistics(&self.output()[before..]).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

/// A connection of this process.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) size: Size,
}

pub(crate) fn me() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

pub(crate) fn event(kind: Type, device: i32, id: u64, size: u64, buffer_type: u8) -> Request {
    Request { device_id: device, size, buffer_type, process_id: me(), buffer_id: id, ..Request::new(kind) }
}

pub(crate) fn alloc(device: i32, id: u64, size: u64, buffer_type: u8) -> Request {
    event(Type::Alloc, device, id, size, buffer_type)
}

pub(crate) fn free(device: i32, id: u64) -> Request {
    event(Type::Free, device, id, 0, 0)
}

impl Client {
    pub(crate) fn new(socket: &Path, size: Size) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, size }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, requests: &[Request]) -> &mut Self {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.encode(self.size).as_bytes().to_vec()).collect();
        self.raw(&bytes);
        self
    }

    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.size.bytes()];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn usage(&mut self, device: i32) -> Usage {
        self.send(&[Request { device_id: device, ..Request::new(Type::Query) }]);
        Usage::decode(&self.reply()).unwrap()
    }

    pub(crate) fn info(&mut self, device: i32) -> DeviceInfo {
        self.send(&[Request { device_id: device, ..Request::new(Type::DeviceInfoQuery) }]);
        DeviceInfo::decode(&self.reply()).unwrap()
    }

    /// Whether the server has closed it.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

const SOCKET: &str = "TTMON_TEST_SOCKET";
const SPEAK: &str = "TTMON_TEST_SPEAK";
/// If this variable is set, the process first connects, allocates 64 bytes 20 times and closes the connection, without pauses.
pub(crate) const HASTY: &str = "TTMON_TEST_HASTY";

/// Another process with a connection. It is this program, which executes commands from its input.
pub(crate) struct Other {
    pub(crate) child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStderr>,
}

impl Other {
    pub(crate) fn connect(server: &Server) -> Self {
        Self::from(other_command(server))
    }

    pub(crate) fn from(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stderr.take().unwrap()));
        let mut other = Self { child, orders, answers };
        assert_eq!(other.answer(), "ready");
        other
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the other process ended");
            // The test harness may print lines too.
            if let Some(answer) = line.trim().strip_prefix("answer ") {
                return answer.to_owned();
            }
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends messages with its own pid or another pid. The server has received all of them when this returns.
    pub(crate) fn sends(&mut self, requests: &[Request]) {
        let hex: String =
            requests.iter().flat_map(|request| request.encode(Size::B144).as_bytes().to_vec()).map(|byte| format!("{byte:02x}")).collect();
        self.order(&format!("send {hex}"));
    }

    /// Sends these messages with its own pid.
    pub(crate) fn prints(&mut self, requests: &[Request]) {
        let own: Vec<Request> = requests.iter().map(|request| Request { process_id: self.pid(), ..*request }).collect();
        self.sends(&own);
    }

    pub(crate) fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.answer()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn other_command(server: &Server) -> Command {
    other_command_by(server, &std::env::current_exe().unwrap())
}

/// Returns the same command for another user, with a copy of this program that the user may run.
pub(crate) fn other_command_of(server: &Server, program: &Path, uid: u32) -> Command {
    let mut command = other_command_by(server, program);
    command.uid(uid).gid(uid).current_dir("/");
    command
}

fn other_command_by(server: &Server, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--exact", "serve::server::another_process", "--nocapture"])
        .env(SOCKET, server.socket())
        .env_remove("TT_VISIBLE_DEVICES");
    command
}

/// Returns the output of `echo "" | nc -U`.
pub(crate) fn dump(socket: &Path) -> String {
    let mut asker = UnixStream::connect(socket).unwrap();
    asker.write_all(b"\n").unwrap();
    asker.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    asker.read_to_string(&mut text).unwrap();
    text
}

/// Not a test. The code of [`Other`]'s process. Its commands:
///
/// - `send HEX`: sends messages.
/// - `usage DEVICE`: prints the used DRAM.
/// - `dump`: prints a dump, with `|` for line feeds.
/// - `again`: connects again.
/// - `child HEX`: starts a child that sends the first message on the same connection with its own pid, and stays. If there are more
///   messages, the child sends them unchanged when a file `go` exists beside the socket, and ends.
/// - `end-child`: kills the children.
/// - `close`: shuts down the connection.
#[test]
fn another_process() {
    if let Ok(bytes) = std::env::var(SPEAK) {
        return speak(&bytes);
    }
    let Ok(socket) = std::env::var(SOCKET) else { return };
    if std::env::var_os(HASTY).is_some() {
        let many: Vec<Request> = (0..20).map(|id| alloc(0, id, 64, DRAM)).collect();
        Client::new(Path::new(&socket), Size::B144).send(&many);
    }
    let mut client = Client::new(Path::new(&socket), Size::B144);
    eprintln!("answer ready");
    let mut children: Vec<Child> = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (order, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let mut answer = "done".to_owned();
        match order {
            "send" => {
                client.raw(&decode(rest));
                client.usage(0);
            }
            "usage" => answer = client.usage(rest.parse().unwrap()).dram.to_string(),
            "dump" => answer = dump(Path::new(&socket)).replace('\n', "|"),
            "again" => client = Client::new(Path::new(&socket), Size::B144),
            "close" => drop(client.stream.shutdown(std::net::Shutdown::Both)),
            "child" => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "serve::server::another_process", "--nocapture"]).env(SPEAK, rest).stdout(Stdio::null());
                let child = command.stdin(OwnedFd::from(client.stream.try_clone().unwrap())).stderr(Stdio::piped()).spawn().unwrap();
                answer = child.id().to_string();
                children.push(child);
                let errors = BufReader::new(children.last_mut().unwrap().stderr.take().unwrap());
                assert!(errors.lines().map_while(Result::ok).any(|line| line.contains("spoken")));
                client.usage(0);
            }
            "end-child" => children.drain(..).for_each(|mut child| {
                child.kill().unwrap();
                child.wait().unwrap();
            }),
            other => panic!("{other}"),
        }
        eprintln!("answer {answer}");
    }
}

/// A forked child uses its parent's connection with its own pid.
fn speak(bytes: &str) {
    let mut message = decode(bytes);
    let later = message.split_off(Size::B144.bytes());
    message[20..24].copy_from_slice(&me().to_le_bytes());
    let stream = std::io::stdin();
    let socket = rustix::io::dup(&stream).unwrap();
    rustix::io::write(&socket, &message).unwrap();
    eprintln!("spoken");
    // Wait to be killed.
    while later.is_empty() {
        std::thread::park();
    }
    let go = PathBuf::from(std::env::var_os(SOCKET).unwrap()).with_file_name("go");
    while !go.exists() {
        std::thread::yield_now();
    }
    rustix::io::write(&socket, &later).unwrap();
}

fn decode(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub(crate) fn hex(request: &Request) -> String {
    request.encode(Size::B144).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The ledgers in the state directory. It also has the list of devices, and drafts of it while it is written.
pub(crate) fn ledgers(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.state()).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.ends_with(".ledger")).collect()
}
