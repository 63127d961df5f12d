//! Measures the cost of the allocation server for its clients, against a reader that only drains its sockets: `cargo xtask bench server`.
//!
//! `server_bench TTMON [--quick | --latency]` starts servers, and itself as clients: `drain SOCKET`, `send SOCKET MESSAGES BUFFER`,
//! `fill SOCKET BUFFERS`. A rate is measured from the common start of all clients until the server has received everything. A client that
//! has sent everything closes its side and waits until the server does the same.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench")]

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use ttmon_wire::allocation::{Request, Size, Type, Usage};

const SIZE: Size = Size::B144;
/// Live buffers of a sender.
const WINDOW: u64 = 1000;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["drain", socket] => drain(Path::new(socket)),
        ["send", socket, messages, buffer] => send(Path::new(socket), messages.parse().unwrap(), buffer.parse().unwrap()),
        ["fill", socket, buffers] => fill(Path::new(socket), buffers.parse().unwrap()),
        [ttmon] => measure(Path::new(ttmon), 80_000, 15),
        [ttmon, "--quick"] => measure(Path::new(ttmon), 40_000, 5),
        [ttmon, "--latency"] => latencies(Path::new(ttmon), in_memory().path()),
        _ => panic!("server_bench TTMON [--quick | --latency]"),
    }
}

fn in_memory() -> tempfile::TempDir {
    let mode = fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("ttmon-bench-").permissions(mode).tempdir_in("/dev/shm").unwrap()
}

fn measure(ttmon: &Path, messages: u64, rounds: usize) {
    let directory = in_memory();
    let place = directory.path();
    println!("Rates: messages a second, medians of {rounds} rounds of {messages} messages a connection; ratio to the drain-only reader\n");
    println!("| row | drained | served | ratio | CPU of the drain, ns | CPU of the server, ns | CPU of its clients, ns |");
    for (connections, buffer) in [(1, 0), (1, 1 << 20), (8, 0), (8, 1 << 20)] {
        let name = if buffer == 0 { "default" } else { "1 MiB" };
        rates(ttmon, place, &format!("{connections} connections, {name} buffer, quiet"), (connections, buffer), messages, rounds, true);
    }
    rates(ttmon, place, "1 connections, default buffer, log to a file", (1, 0), messages, rounds, false);
    latencies(ttmon, place);
    for buffers in [100_000, 1_000_000] {
        memory(ttmon, place, buffers);
    }
    ends(ttmon, place);
    soak(ttmon, place, if rounds > 5 { 10_000 } else { 1_000 }, if rounds > 5 { 10_000_000 } else { 500_000 });
}

fn rates(ttmon: &Path, place: &Path, name: &str, (connections, buffer): (u64, u32), messages: u64, rounds: usize, is_quiet: bool) {
    let (mut drained, mut served) = ([vec![], vec![], vec![]], [vec![], vec![], vec![]]);
    for _ in 0..rounds {
        // The two servers alternate, so that both run under the same load of the machine.
        let server = Server::drain(place);
        note(&mut drained, rate(&server, connections, messages, buffer));
        drop(server);
        let server = Server::start(ttmon, place, is_quiet);
        note(&mut served, rate(&server, connections, messages, buffer));
    }
    let ([drained, of_drain, _], [served, of_server, of_clients]) =
        (drained.map(|mut values| median(&mut values)), served.map(|mut values| median(&mut values)));
    println!("| {name} | {drained:.0} | {served:.0} | {:.2} | {of_drain:.0} | {of_server:.0} | {of_clients:.0} |", served / drained);
}

fn note(columns: &mut [Vec<f64>; 3], values: [f64; 3]) {
    columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
}

/// Messages per second, and the CPU time of the server and of the clients per message.
fn rate(server: &Server, connections: u64, messages: u64, buffer: u32) -> [f64; 3] {
    let arguments = ["send", text(&server.socket), &messages.to_string(), &buffer.to_string()];
    let mut clients: Vec<Client> = (0..connections).map(|_| Client::start(&arguments)).collect();
    let of_clients = |clients: &[Client]| clients.iter().map(|client| cpu_ns(client.child.id())).sum::<u64>();
    let (before, clients_before) = (cpu_ns(server.child.id()), of_clients(&clients));
    let start = Instant::now();
    clients.iter_mut().for_each(|client| client.send_word("go"));
    clients.iter_mut().for_each(Client::wait);
    let seconds = start.elapsed().as_secs_f64();
    let all = (connections * messages) as f64;
    [all / seconds, (cpu_ns(server.child.id()) - before) as f64 / all, (of_clients(&clients) - clients_before) as f64 / all]
}

/// CPU time of all threads of a process.
fn cpu_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
    threads.filter_map(of).sum()
}

fn latencies(ttmon: &Path, place: &Path) {
    println!("\nQUERY on a connection whose size is known: p50, p99");
    let idle = |socket: &Path| spread(&asked(socket, 10_000, || false));
    let loaded = |socket: &Path| {
        let mut clients: Vec<Client> = (0..8).map(|_| Client::start(&["send", text(socket), "4000000", "0"])).collect();
        clients.iter_mut().for_each(|client| client.send_word("go"));
        let spread = spread(&asked(socket, 3_000, || false));
        clients.into_iter().for_each(Client::kill);
        spread
    };
    let server = Server::drain(place);
    let (drained, drained_loaded) = (idle(&server.socket), loaded(&server.socket));
    drop(server);
    let server = Server::start(ttmon, place, true);
    let (served, served_loaded) = (idle(&server.socket), loaded(&server.socket));
    println!("idle: served p50 {:?} p99 {:?} (drained p50 {:?} p99 {:?})", served.0, served.1, drained.0, drained.1);
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!(
        "load: served p50 {:?} p99 {:?} (drained p50 {:?} p99 {:?})",
        served_loaded.0, served_loaded.1, drained_loaded.0, drained_loaded.1
    );
    println!("load ratio p50: {:.2}", ratio(served_loaded.0, drained_loaded.0));
    println!("load ratio p99: {:.2}", ratio(served_loaded.1, drained_loaded.1));
}

fn memory(ttmon: &Path, place: &Path, buffers: u64) {
    let server = Server::start(ttmon, place, true);
    // A first process of the same size excludes the server's one-time costs from the cost per buffer.
    let mut first = Client::start(&["fill", text(&server.socket), &buffers.to_string()]);
    first.send_word("go");
    first.wait();
    first.kill();
    let mut asker = connect(&server.socket, 0);
    while query(&mut asker) > 0 {}
    server.settle();
    let before = server.resident();
    let mut client = Client::start(&["fill", text(&server.socket), &buffers.to_string()]);
    client.send_word("go");
    client.wait();
    println!("{buffers} live: {:.1} bytes each", (server.resident() - before) as f64 / buffers as f64);
    client.kill();
}

/// Ten thousand connections and ten million events: memory and descriptors must not grow.
fn soak(ttmon: &Path, place: &Path, connects: usize, messages: u64) {
    let server = Server::start(ttmon, place, true);
    let round = |messages: u64| {
        let mut clients: Vec<Client> =
            (0..4).map(|_| Client::start(&["send", text(&server.socket), &(messages / 4).to_string(), "0"])).collect();
        clients.iter_mut().for_each(|client| client.send_word("go"));
        clients.iter_mut().for_each(Client::wait);
        clients.into_iter().for_each(Client::kill);
        for _ in 0..connects {
            query(&mut connect(&server.socket, 0));
        }
        server.settle();
        (server.resident(), server.descriptors())
    };
    let (before, after) = (round(messages / 10), round(messages));
    println!(
        "\n{connects} connects, {messages} events: {:.2} MB more, {} descriptors more",
        after.0.saturating_sub(before.0) as f64 / 1e6,
        after.1.saturating_sub(before.1)
    );
}

/// Measures the end of a process with a million buffers, and of one with few.
fn ends(ttmon: &Path, place: &Path) {
    let server = Server::start(ttmon, place, true);
    let mut large = Client::start(&["fill", text(&server.socket), "1000000"]);
    large.send_word("go");
    large.wait();
    let socket = server.socket.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let (of_asker, of_empty) = (Arc::clone(&is_over), Arc::clone(&is_over));
    let asker = thread::spawn(move || asked(&socket, usize::MAX, || of_asker.load(Ordering::Relaxed)));
    let empty = thread::spawn(move || {
        let mut gaps = Vec::new();
        let mut last = Instant::now();
        while !of_empty.load(Ordering::Relaxed) {
            thread::yield_now();
            let now = Instant::now();
            gaps.push(now - last);
            last = now;
        }
        gaps
    });
    large.kill();
    thread::sleep(Duration::from_millis(500));
    is_over.store(true, Ordering::Relaxed);
    let (asked_for, gaps) = (spread(&asker.join().unwrap()), spread(&empty.join().unwrap()));
    println!("\nwhile 1000000 buffers of a dead process are removed: answers p99 {:?}, an empty loop p99 {:?}", asked_for.1, gaps.1);
    let more = asked_for.1.saturating_sub(gaps.1);
    println!("stall: {more:?} beside an empty loop");
    let mut times = Vec::new();
    for _ in 0..20 {
        let mut client = Client::start(&["fill", text(&server.socket), "1000"]);
        client.send_word("go");
        client.wait();
        let mut asker = connect(&server.socket, 0);
        assert!(query(&mut asker) > 0);
        let start = Instant::now();
        client.child.kill().unwrap();
        while query(&mut asker) > 0 {}
        times.push(start.elapsed());
        client.child.wait().unwrap();
    }
    times.sort_unstable();
    println!("from SIGKILL to zero: worst {:?} (median {:?})", times[times.len() - 1], times[times.len() / 2]);
}

/// A server: `ttmon`, or the one that only drains.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(ttmon: &Path, place: &Path, is_quiet: bool) -> Self {
        let root = place.join("root");
        fs::create_dir_all(&root).unwrap();
        let socket = place.join("served.sock");
        let mut command = Command::new(ttmon);
        command.arg("serve").arg("--root").arg(root).arg("--socket").arg(&socket).arg("--state-dir").arg(place.join("state"));
        command.args(["--listen", "off", "--api"]).arg(place.join("api.sock")).arg("--handover").arg(place.join("handover.sock"));
        command.args(is_quiet.then_some("--quiet")).stdout(File::create(place.join("log")).unwrap()).stderr(Stdio::null());
        Self::until_it_listens(command, socket)
    }

    fn drain(place: &Path) -> Self {
        let socket = place.join("drain.sock");
        let mut command = Command::new(env::current_exe().unwrap());
        command.arg("drain").arg(&socket);
        Self::until_it_listens(command, socket)
    }

    fn until_it_listens(mut command: Command, socket: PathBuf) -> Self {
        let _ = fs::remove_file(&socket);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        while UnixStream::connect(&socket).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        Self { child, socket }
    }

    /// Waits until the memory is constant. A thread frees the memory of dead processes.
    fn settle(&self) {
        let mut last = 0;
        while last != self.resident() {
            last = self.resident();
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Resident bytes, including shared memory.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client in a separate process.
struct Client {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn start(arguments: &[&str]) -> Self {
        let mut child =
            Command::new(env::current_exe().unwrap()).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, answers };
        client.wait();
        client
    }

    fn send_word(&mut self, word: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{word}").unwrap();
    }

    fn wait(&mut self) {
        assert!(self.answers.read_line(&mut String::new()).unwrap() > 0);
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn send(socket: &Path, messages: u64, buffer: u32) {
    let mut stream = connect(socket, buffer);
    let pid = i32::try_from(std::process::id()).unwrap();
    let request = |kind, id| Request { process_id: pid, buffer_id: id, size: 4096, ..Request::new(kind) }.encode(SIZE);
    ready_and_go();
    for number in 0..messages {
        // An allocation, then the free of the buffer that was allocated `WINDOW` allocations before.
        let id = number / 2 * 4096;
        let message = if number % 2 == 0 { request(Type::Alloc, id) } else { request(Type::Free, id.wrapping_sub(WINDOW * 4096)) };
        if stream.write_all(message.as_bytes()).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0]);
    println!("done");
    // The parent reads the CPU time before this process ends.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Fills the server, reports when the server has received everything, and stays.
fn fill(socket: &Path, buffers: u64) {
    let mut stream = connect(socket, 0);
    let pid = i32::try_from(std::process::id()).unwrap();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for chunk in (0..buffers).collect::<Vec<_>>().chunks(1000) {
        let message = |id: &u64| {
            Request { process_id: pid, buffer_id: id * 4096, size: 64, ..Request::new(Type::Alloc) }.encode(SIZE).as_bytes().to_vec()
        };
        stream.write_all(&chunk.iter().flat_map(message).collect::<Vec<u8>>()).unwrap();
    }
    query(&mut stream);
    println!("filled");
    loop {
        thread::park();
    }
}

fn ready_and_go() {
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn connect(socket: &Path, buffer: u32) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    if buffer > 0 {
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, buffer as usize).unwrap();
    }
    stream
}

fn query(stream: &mut UnixStream) -> u64 {
    stream.write_all(Request::new(Type::Query).encode(SIZE).as_bytes()).unwrap();
    let mut reply = [0; 144];
    stream.read_exact(&mut reply).unwrap();
    Usage::decode(&reply).map_or(0, |usage| usage.dram)
}

fn asked(socket: &Path, most: usize, is_over: impl Fn() -> bool) -> Vec<Duration> {
    let mut stream = connect(socket, 0);
    query(&mut stream);
    let mut times = Vec::new();
    while times.len() < most && !is_over() {
        let start = Instant::now();
        query(&mut stream);
        times.push(start.elapsed());
    }
    times
}

/// Receives everything without parsing. A chunk that begins like a query is answered.
fn drain(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
    let mut streams: Vec<Option<UnixStream>> = Vec::new();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
    let mut buffer = vec![0; 256 * 1024];
    let reply = Usage::default().reply(SIZE, 0);
    loop {
        events.clear();
        if epoll::wait(&epoll, spare_capacity(&mut events), None).is_err() {
            continue;
        }
        for event in &events {
            let token = event.data.u64();
            if token == 0 {
                let stream = listener.accept().unwrap().0;
                epoll::add(&epoll, &stream, epoll::EventData::new_u64(streams.len() as u64 + 1), epoll::EventFlags::IN).unwrap();
                streams.push(Some(stream));
                continue;
            }
            let Some(slot) = streams.get_mut(usize::try_from(token - 1).unwrap()) else { continue };
            let Some(stream) = slot else { continue };
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => *slot = None,
                Ok(_) if buffer[0] == Type::Query as u8 => drop(stream.write_all(reply.as_bytes())),
                Ok(_) => {}
            }
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(times: &[Duration]) -> (Duration, Duration) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    (sorted[sorted.len() / 2], sorted[sorted.len() * 99 / 100])
}
