//! Measures the cost of the allocation server for its clients, against a reader that only drains its sockets: `cargo xtask bench intake
//! [--quick]`. The released program comes in `TTMON_BENCH_DYNAMIC`.
//!
//! It starts servers, and itself as clients: `drain SOCKET`, `send SOCKET MESSAGES BUFFER`, `fill SOCKET BUFFERS`. A rate is measured from
//! the common start of all clients until the server has received everything. A client that has sent everything closes its side and waits
//! until the server does the same.
#![allow(clippy::unwrap_used, reason = "a bench")]

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use ttmon_allocation_server::protocol::{Request, Size, Type, Usage};
use ttmon_testing::measure::Limit::{AtLeast, AtMost};
use ttmon_testing::measure::{Limit, Verdicts, arguments, is_quick, load, process_time, quantile, resident_kib};
use ttmon_testing::{KilledOnDrop, until};

const RATE_MIN: Limit = AtLeast(0.8, "of the drain rate");
const IDLE_P50_MAX: Limit = AtMost(100.0, "µs");
const IDLE_P99_MAX: Limit = AtMost(1.0, "ms");
const LOADED_MAX: Limit = AtMost(1.5, "x the drain-only server's");
const BUFFER_MAX: Limit = AtMost(96.0, "B");
const STALL_MAX: Limit = AtMost(10.0, "ms");
const END_MAX: Limit = AtMost(50.0, "ms");

const SIZE: Size = Size::B144;
/// Live buffers of a sender.
const WINDOW: u64 = 1000;

fn main() {
    let words = arguments();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["drain", socket] => return drain(Path::new(socket)),
        ["send", socket, messages, buffer] => return send(Path::new(socket), messages.parse().unwrap(), buffer.parse().unwrap()),
        ["fill", socket, buffers] => return fill(Path::new(socket), buffers.parse().unwrap()),
        _ => {}
    }
    let Some(ttmon) = env::var_os("TTMON_BENCH_DYNAMIC").map(PathBuf::from) else {
        println!("not measured: cargo xtask bench intake builds the program");
        return;
    };
    println!("# The allocation server, beside its limits{}", if is_quick() { " (quick: fewer messages and rounds)" } else { "" });
    println!("load before: {}", load());
    let mode = fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().prefix("ttmon-bench-").permissions(mode).tempdir_in("/dev/shm").unwrap();
    let mut bench = Bench { ttmon, directory: directory.path().to_owned(), verdicts: Verdicts::default() };
    let (messages, rounds, connects, events) = if is_quick() { (40_000, 5, 1_000, 500_000) } else { (80_000, 15, 10_000, 10_000_000) };
    println!("Rates: messages a second, medians of {rounds} rounds of {messages} messages a connection; ratio to the drain-only reader\n");
    println!("| row | drained | served | ratio | CPU of the drain, ns | CPU of the server, ns | CPU of its clients, ns |");
    for (connections, buffer) in [(1, 0), (1, 1 << 20), (8, 0), (8, 1 << 20)] {
        let name = if buffer == 0 { "default" } else { "1 MiB" };
        bench.rates(&format!("{connections} connections, {name} buffer, quiet"), (connections, buffer), messages, rounds, true);
    }
    bench.rates("1 connections, default buffer, log to a file", (1, 0), messages, rounds, false);
    bench.latencies();
    bench.memory(100_000);
    bench.memory(1_000_000);
    bench.ends();
    bench.soak(connects, events);
    println!("load after:  {}\n\n{}", load(), bench.verdicts);
}

struct Bench {
    ttmon: PathBuf,
    directory: PathBuf,
    verdicts: Verdicts,
}

/// Messages per second, and the CPU time of the server and of the clients per message.
fn rate(server: &Server, connections: u64, messages: u64, buffer: u32) -> [f64; 3] {
    let arguments = [messages.to_string(), buffer.to_string()];
    let mut clients: Vec<Client> = (0..connections).map(|_| server.client(&["send"], &arguments.each_ref().map(String::as_str))).collect();
    let of_clients = |clients: &[Client]| clients.iter().map(|client| process_time(client.process.id())).sum::<Duration>();
    let (before, clients_before) = (process_time(server.process.id()), of_clients(&clients));
    let start = Instant::now();
    clients.iter_mut().for_each(Client::go);
    clients.iter_mut().for_each(Client::wait);
    let seconds = start.elapsed().as_secs_f64();
    let all = (connections * messages) as f64;
    let each = |time: Duration| time.as_secs_f64() * 1e9 / all;
    [all / seconds, each(process_time(server.process.id()) - before), each(of_clients(&clients) - clients_before)]
}

impl Bench {
    fn serve(&self, is_quiet: bool) -> Server {
        let path = |name: &str| self.directory.join(name);
        fs::create_dir_all(path("root")).unwrap();
        let mut command = Command::new(&self.ttmon);
        command.arg("serve").arg("--root").arg(path("root")).arg("--socket").arg(path("served.sock")).arg("--state-dir").arg(path("state"));
        command.args(["--listen", "off", "--api"]).arg(path("api.sock")).arg("--handover").arg(path("handover.sock"));
        command.args(is_quiet.then_some("--quiet")).stdout(File::create(path("log")).unwrap()).stderr(Stdio::null());
        Server::start(&mut command, path("served.sock"))
    }

    /// Starts the server that only drains.
    fn drain(&self) -> Server {
        let socket = self.directory.join("drain.sock");
        Server::start(Command::new(env::current_exe().unwrap()).arg("drain").arg(&socket), socket)
    }

    fn rates(&mut self, name: &str, (connections, buffer): (u64, u32), messages: u64, rounds: usize, is_quiet: bool) {
        let (mut drained, mut served) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            // The two servers alternate, so that both run under the same load of the machine.
            drained.push(rate(&self.drain(), connections, messages, buffer));
            served.push(rate(&self.serve(is_quiet), connections, messages, buffer));
        }
        let median = |rounds: &[[f64; 3]], column: usize| quantile(&rounds.iter().map(|round| round[column]).collect::<Vec<_>>(), 50);
        let (drain_rate, rate) = (median(&drained, 0), median(&served, 0));
        let (of_drain, of_server, of_clients) = (median(&drained, 1), median(&served, 1), median(&served, 2));
        let ratio = rate / drain_rate;
        let line = format!("| {name} | {drain_rate:.0} | {rate:.0} | {ratio:.2} | {of_drain:.0} | {of_server:.0} | {of_clients:.0} |");
        self.verdicts.print(&line, &[(ratio, RATE_MIN)]);
    }

    fn latencies(&mut self) {
        println!("\nQUERY on a connection whose size is known: p50, p99");
        let spread = |times: Vec<Duration>| [50, 99].map(|percent| quantile(&times, percent));
        let idle_and_loaded = |server: &Server| {
            let idle = spread(query_times(&server.socket, 10_000, || false));
            let mut clients: Vec<Client> = (0..8).map(|_| server.client(&["send"], &["4000000", "0"])).collect();
            clients.iter_mut().for_each(Client::go);
            [idle, spread(query_times(&server.socket, 3_000, || false))]
        };
        let [drained, drained_loaded] = idle_and_loaded(&self.drain());
        let [served, served_loaded] = idle_and_loaded(&self.serve(true));
        let line = |name: &str, [p50, p99]: [Duration; 2], drained: [Duration; 2]| {
            format!("{name}: served p50 {p50:?} p99 {p99:?} (drained p50 {:?} p99 {:?})", drained[0], drained[1])
        };
        let limits = [(served[0].as_secs_f64() * 1e6, IDLE_P50_MAX), (served[1].as_secs_f64() * 1e3, IDLE_P99_MAX)];
        self.verdicts.print(&line("idle", served, drained), &limits);
        println!("{}", line("load", served_loaded, drained_loaded));
        for (at, name) in ["p50", "p99"].into_iter().enumerate() {
            let ratio = served_loaded[at].as_secs_f64() / drained_loaded[at].as_secs_f64();
            self.verdicts.print(&format!("load ratio {name}: {ratio:.2}"), &[(ratio, LOADED_MAX)]);
        }
    }

    fn memory(&mut self, buffers: u64) {
        let server = self.serve(true);
        // A first process of the same size excludes the server's one-time costs from the cost per buffer.
        drop(server.filled(buffers));
        let mut connection = connect(&server.socket, 0);
        while query(&mut connection) > 0 {}
        let before = server.settled_kib();
        let client = server.filled(buffers);
        let each = (resident_kib(server.process.id()) - before) as f64 * 1024.0 / buffers as f64;
        self.verdicts.print(&format!("{buffers} live: {each:.1} bytes each"), &[(each, BUFFER_MAX)]);
        drop(client);
    }

    /// Measures the end of a process with a million buffers, and of processes with few.
    fn ends(&mut self) {
        let server = self.serve(true);
        let large = server.filled(1_000_000);
        let is_over = Arc::new(AtomicBool::new(false));
        let (is_over_1, is_over_2) = (Arc::clone(&is_over), Arc::clone(&is_over));
        let socket = server.socket.clone();
        let queries = thread::spawn(move || query_times(&socket, usize::MAX, || is_over_1.load(Ordering::Relaxed)));
        let empty = thread::spawn(move || {
            let mut gaps = Vec::new();
            let mut last = Instant::now();
            while !is_over_2.load(Ordering::Relaxed) {
                thread::yield_now();
                let now = Instant::now();
                gaps.push(now - last);
                last = now;
            }
            gaps
        });
        drop(large);
        thread::sleep(Duration::from_millis(500));
        is_over.store(true, Ordering::Relaxed);
        let [answers, gaps] = [queries, empty].map(|thread| quantile(&thread.join().unwrap(), 99));
        println!("\nwhile 1000000 buffers of a dead process are removed: answers p99 {answers:?}, an empty loop p99 {gaps:?}");
        let stall = answers.saturating_sub(gaps);
        self.verdicts.print(&format!("stall: {stall:?} beside an empty loop"), &[(stall.as_secs_f64() * 1e3, STALL_MAX)]);
        let mut times = Vec::new();
        for _ in 0..20 {
            let mut client = server.filled(1000);
            let mut connection = connect(&server.socket, 0);
            assert!(query(&mut connection) > 0);
            let start = Instant::now();
            client.process.0.kill().unwrap();
            while query(&mut connection) > 0 {}
            times.push(start.elapsed());
        }
        let worst = quantile(&times, 100);
        let line = format!("from SIGKILL to zero: worst {worst:?} (median {:?})", quantile(&times, 50));
        self.verdicts.print(&line, &[(worst.as_secs_f64() * 1e3, END_MAX)]);
    }

    /// Ten thousand connections and ten million events: memory and descriptors must not grow.
    fn soak(&self, connects: usize, events: u64) {
        let server = self.serve(true);
        let round = |events: u64| {
            let mut clients: Vec<Client> = (0..4).map(|_| server.client(&["send"], &[&(events / 4).to_string(), "0"])).collect();
            clients.iter_mut().for_each(Client::go);
            clients.iter_mut().for_each(Client::wait);
            drop(clients);
            for _ in 0..connects {
                query(&mut connect(&server.socket, 0));
            }
            let descriptors = fs::read_dir(format!("/proc/{}/fd", server.process.id())).unwrap().count();
            (server.settled_kib(), descriptors)
        };
        let (before, after) = (round(events / 10), round(events));
        println!(
            "\n{connects} connects, {events} events: {:.2} MB more, {} descriptors more",
            after.0.saturating_sub(before.0) as f64 * 1024.0 / 1e6,
            after.1.saturating_sub(before.1)
        );
    }
}

/// A server: `ttmon`, or the one that only drains.
struct Server {
    process: KilledOnDrop,
    socket: PathBuf,
}

impl Server {
    /// Starts a server and waits until it listens.
    fn start(command: &mut Command, socket: PathBuf) -> Self {
        // There is none the first time.
        let _ = fs::remove_file(&socket);
        let process = KilledOnDrop(command.stdin(Stdio::null()).spawn().unwrap());
        until("a server that listens", || UnixStream::connect(&socket).is_ok());
        Self { process, socket }
    }

    /// Starts a client with these words before and after the socket.
    fn client(&self, before: &[&str], after: &[&str]) -> Client {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(before).arg(&self.socket).args(after).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = KilledOnDrop(command.spawn().unwrap());
        let lines = BufReader::new(process.0.stdout.take().unwrap());
        let mut client = Client { process, lines };
        client.wait();
        client
    }

    /// Starts a client and waits until the server has so many buffers of it.
    fn filled(&self, buffers: u64) -> Client {
        let mut client = self.client(&["fill"], &[&buffers.to_string()]);
        client.go();
        client.wait();
        client
    }

    /// Returns the resident memory when it is constant. A thread frees the memory of dead processes.
    fn settled_kib(&self) -> u64 {
        loop {
            let kib = resident_kib(self.process.id());
            thread::sleep(Duration::from_millis(200));
            if kib == resident_kib(self.process.id()) {
                return kib;
            }
        }
    }
}

/// A client in a separate process.
struct Client {
    process: KilledOnDrop,
    lines: BufReader<ChildStdout>,
}

impl Client {
    fn go(&mut self) {
        writeln!(self.process.0.stdin.as_mut().unwrap(), "go").unwrap();
    }

    /// Waits for the next line of the client.
    fn wait(&mut self) {
        assert!(self.lines.read_line(&mut String::new()).unwrap() > 0);
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

fn query_times(socket: &Path, most: usize, is_over: impl Fn() -> bool) -> Vec<Duration> {
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
