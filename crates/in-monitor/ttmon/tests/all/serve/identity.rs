//! Which process an entry belongs to, and when it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ttmon_allocation_server::protocol::{Request, Type};
use ttmon_testing::{copied, until};

use crate::serve::server::{DRAM, HASTY, L1, Other, Server, alloc, event, free, hex, ledgers, other_command, other_command_of};

#[test]
fn equal_addresses_of_two_processes_are_two_buffers() {
    let server = Server::start();
    let (mut one, mut two) = (Other::connect(&server), Other::connect(&server));
    one.prints(&[alloc(0, 0x1000, 100, DRAM)]);
    two.prints(&[alloc(0, 0x1000, 30, DRAM)]);
    assert_eq!(server.usage(0).dram, 130);
    one.kill();
    server.until("the first one's go", || server.usage(0).dram == 30);
    two.prints(&[free(0, 0x1000)]);
    assert_eq!(server.usage(0).dram, 0);
}

#[test]
fn same_address_in_dram_and_l1_is_two_buffers() {
    let server = Server::with(&["--log", "json"]);
    let mut client = server.connect();
    client.send(&[alloc(0, 0x1000, 100, DRAM), alloc(0, 0x1000, 7, L1)]);
    let usage = client.usage(0);
    assert_eq!((usage.dram, usage.l1), (100, 7));
    client.send(&[free(0, 0x1000)]);
    let usage = client.usage(0);
    assert_eq!((usage.dram, usage.l1), (100, 0), "the newest goes");
    client.send(&[free(0, 0x1000)]);
    assert_eq!(client.usage(0).dram, 0);
    assert_eq!(server.counters()["counters"]["ambiguous_frees"], 1);
}

/// Circular buffers have addresses too, and kernels have arbitrary numbers. A free affects neither.
#[test]
fn a_newer_circular_buffer_does_not_change_a_free() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[alloc(0, 0x1000, 100, DRAM), alloc(0, 0x1000, 200, L1), event(Type::CbAlloc, 0, 0x1000, 64, 0), free(0, 0x1000)]);
    let usage = client.usage(0);
    assert_eq!((usage.dram, usage.l1, usage.cb), (100, 0, 64), "the newest buffer goes");
    client.send(&[event(Type::KernelLoad, 0, 0x1000, 7, 0), free(0, 0x1000), free(0, 0x1000)]);
    let usage = client.usage(0);
    assert_eq!((usage.dram, usage.cb, usage.kernel), (0, 64, 7));
}

#[test]
fn the_pid_of_another_process_is_only_a_label() {
    let server = Server::start();
    let mut victim = Other::connect(&server);
    victim.prints(&[alloc(0, 0x1000, 100, DRAM)]);
    let mut liar = Other::connect(&server);
    let theirs = |request: Request| Request { process_id: victim.pid(), ..request };
    liar.sends(&[theirs(alloc(0, 0x2000, 40, DRAM)), theirs(free(0, 0x1000))]);
    assert_eq!(server.usage(0).dram, 140, "nothing of the other's was freed");
    let json = server.ttmon_json(&["mem", "--json", "--buffers", "--pid", &liar.pid().to_string()]);
    assert_eq!(json["buffers"][0]["tag"], format!("pid {}", victim.pid()), "{json}");
    victim.kill();
    server.until("only its own go with it", || server.usage(0).dram == 40);
}

/// Runs as root with a client of another user. A server that is not root finds that a process is alive because signals to it are not
/// permitted.
#[test]
fn a_process_of_another_user_is_alive() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let server = Server::start();
    let program = copied(&std::env::current_exe().unwrap(), server.directory.path());
    let mut other = Other::from(other_command_of(&server, &program, 65_534));
    other.prints(&[alloc(0, 1, 64, DRAM)]);
    assert_eq!(server.usage(0).dram, 64);
    other.kill();
    server.until("it ended", || server.usage(0).dram == 0);
}

#[test]
fn a_reused_pid_takes_nothing_over() {
    let mut server = Server::start();
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 64, DRAM)]);
    server.kill();
    let names = ledgers(&server);
    let name = names.iter().find(|name| name.starts_with(&format!("{}-", other.pid()))).unwrap();
    // Simulates that the process has ended and another process has its pid.
    std::fs::rename(server.state().join(name), server.state().join(format!("{}-12345.ledger", other.pid()))).unwrap();
    server.start_again();
    assert_eq!(server.usage(0).dram, 0);
    assert_eq!(ledgers(&server), [""; 0]);
}

#[test]
fn a_message_without_a_pid_makes_no_entry() {
    let server = Server::with(&["--log", "json"]);
    let mut client = server.connect();
    let under = |pid: i32, request: Request| Request { process_id: pid, ..request };
    client.send(&[under(0, alloc(0, 1, 5, DRAM)), under(-1, alloc(0, 2, 5, DRAM)), under(i32::MIN, event(Type::CbAlloc, 0, 3, 5, 0))]);
    let usage = client.usage(0);
    assert_eq!((usage.dram, usage.cb), (0, 0));
    client.send(&[alloc(0, 4, 9, DRAM), under(0, free(0, 4))]);
    assert_eq!(client.usage(0).dram, 0, "the demonstration client's frees name nobody and are its own");
    assert_eq!(server.counters()["counters"]["bad_pids"], 3);
}

#[test]
fn a_zombie_is_dead() {
    let server = Server::start();
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 64, DRAM)]);
    other.child.kill().unwrap();
    // No process waits for this child, so it stays a zombie.
    server.until("it is dead", || server.usage(0).dram == 0);
    assert!(std::path::Path::new(&format!("/proc/{}", other.pid())).exists());
}

/// The client is in a separate pid namespace, where its pid is 1.
#[test]
fn a_pid_of_another_namespace_is_its_own() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let server = Server::start();
    let inner = other_command(&server);
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if std::process::Command::new("unshare").args(["--pid", "--fork", "true"]).status().is_ok_and(|status| status.success()) {
        let mut other = Other::from(command);
        other.sends(&[Request { process_id: 1, ..alloc(0, 1, 64, DRAM) }]);
        let json = server.ttmon_json(&["mem", "--json", "--buffers"]);
        let buffer = json["buffers"].as_array().unwrap().iter().find(|buffer| buffer["size"] == 64).unwrap();
        assert!(buffer["tag"].is_null() && buffer["pid"] != 1, "{buffer}");
    }
}

#[test]
fn the_end_of_a_connection_frees_nothing() {
    let server = Server::start();
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 64, DRAM)]);
    other.order("close");
    assert_eq!(server.usage(0).dram, 64);
    other.order("again");
    other.prints(&[free(0, 1), alloc(0, 2, 5, DRAM)]);
    assert_eq!(server.usage(0).dram, 5, "over any of its connections");
    other.kill();
    server.until("its end does", || server.usage(0).dram == 0);
}

/// Messages before the end of a client count, although the server must first identify a new process.
#[test]
fn a_client_that_leaves_at_once_still_counts() {
    let server = Server::with(&["--quiet"]);
    let others: Vec<Other> = (0..10)
        .map(|_| {
            let mut command = other_command(&server);
            command.env(HASTY, "1");
            Other::from(command)
        })
        .collect();
    server.until("everything", || server.usage(0).dram == 10 * 20 * 64);
    drop(others);
}

/// A client sends a query that waits for other sources, then an allocation, and ends. No process reads the answer, and the allocation
/// counts.
#[test]
fn messages_behind_a_query_count() {
    let server = Server::with(&["--quiet"]);
    for round in 1..=5 {
        // Wait until the data of other sources is too old for an answer.
        let sent = Instant::now();
        until("data that is too old", || sent.elapsed() >= Duration::from_millis(300));
        server.connect().send(&[Request::new(Type::Query), alloc(0, round, 64, DRAM), Request::new(Type::Query), alloc(1, round, 1, DRAM)]);
        server.until("both", || (server.usage(0).dram, server.usage(1).dram) == (round * 64, round));
    }
}

#[test]
fn a_forked_child_owns_its_entries() {
    let server = Server::start();
    let mut parent = Other::connect(&server);
    parent.prints(&[alloc(0, 1, 100, DRAM)]);
    let child: u32 = parent.order(&format!("child {}", hex(&alloc(0, 1, 30, DRAM)))).parse().unwrap();
    assert_eq!(server.usage(0).dram, 130);
    let json = server.ttmon_json(&["mem", "--json", "--pid", &child.to_string()]);
    assert_eq!(json["processes"][0]["kinds"]["dram"]["used"], 30, "{json}");
    parent.order("end-child");
    server.until("the child's go", || server.usage(0).dram == 100);
    parent.kill();
    server.until("the parent's go", || server.usage(0).dram == 0);
}

/// The server often sees the end of a child before it reads the last messages of the child.
#[test]
fn the_last_messages_of_a_child_are_not_its_parents() {
    let server = Server::with(&["--log", "json"]);
    let mut parent = Other::connect(&server);
    parent.prints(&[alloc(0, 1, 100, DRAM)]);
    let child: i32 = parent.order(&format!("child {}", hex(&alloc(0, 1, 30, DRAM)))).parse().unwrap();
    parent.order("end-child");
    server.until("the child's go", || server.usage(0).dram == 100);
    let last: Vec<Request> = (2..5).map(|id| Request { process_id: child, ..alloc(0, id, 7, DRAM) }).collect();
    parent.sends(&last);
    assert_eq!(server.usage(0).dram, 100);
    assert_eq!(server.counters()["counters"]["of_the_dead"], 3);
}

/// Unread last messages of an ended program are not an error. Messages of another process on its connection are an error.
#[test]
fn messages_after_the_end_are_reported_only_of_others() {
    let server = Server::with(&["--log", "json"]);
    let mut other = Other::connect(&server);
    let (own, stranger) = (other.pid(), 4_194_303);
    let under = |id: u64, pid: i32| hex(&Request { process_id: pid, ..alloc(0, id, 64, DRAM) });
    other.prints(&[alloc(0, 1, 64, DRAM)]);
    other.order(&format!("child {}{}{}{}", hex(&alloc(0, 2, 1, DRAM)), under(3, own), under(4, own), under(5, stranger)));
    other.kill();
    server.until("its end is known", || server.usage(0).dram == 1);
    std::fs::write(server.path("go"), "").unwrap();
    server.prints(&format!("[PID {stranger}] not tracked: process {own}, whose connection it uses, has ended"));
    assert_eq!(server.counters()["counters"]["of_the_dead"], 3);
    assert_eq!(server.errors().matches("not tracked").count(), 1, "{}", server.errors());
}

/// This program is the parent of all clients, but they have their own connections. Its messages with their pids do not free their
/// entries.
#[test]
fn a_parent_frees_no_entries_of_a_child_with_its_own_connection() {
    let server = Server::with(&["--log", "json"]);
    let mut child = Other::connect(&server);
    child.prints(&[alloc(0, 1, 100, DRAM)]);
    let theirs = |request: Request| Request { process_id: child.pid(), ..request };
    server.connect().send(&[theirs(free(0, 1)), theirs(alloc(0, 2, 40, DRAM))]).usage(0);
    assert_eq!(server.usage(0).dram, 140, "nothing of the child's was freed");
    let counters = server.counters();
    assert_eq!((&counters["counters"]["labelled"], &counters["counters"]["unknown_frees"]), (&2.into(), &1.into()));
    child.kill();
    server.until("only its own goes with it", || server.usage(0).dram == 40);
}

/// A query in the middle of a batch is answered correctly too: processes that ended since the beginning of the batch are known.
#[test]
fn bytes_of_ended_processes_are_not_answered_under_load() {
    let server = Server::with(&["--quiet"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for device in 1..=4 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = server.connect();
                let many: Vec<Request> = (0..500).flat_map(|id| [alloc(device, id, 1, DRAM), free(device, id)]).collect();
                while !is_over.load(Ordering::Relaxed) {
                    client.send(&many);
                }
            });
        }
        let mut asker = server.connect();
        let answers: Vec<(u64, u64)> = (0..50)
            .map(|round| {
                let mut other = Other::connect(&server);
                other.prints(&[alloc(0, round, 64, DRAM)]);
                let before = asker.usage(0).dram;
                other.kill();
                (before, asker.usage(0).dram)
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answers, [(64, 0); 50]);
    });
}

#[test]
fn bytes_of_ended_processes_are_not_answered() {
    let server = Server::start();
    for round in 0..20 {
        let mut other = Other::connect(&server);
        other.prints(&[alloc(0, round, 64, DRAM)]);
        let mut asker = server.connect();
        assert_eq!(asker.usage(0).dram, 64);
        other.kill();
        // The parent and the server were notified of its end, so no later answer has it.
        server.until("zero", || server.usage(0).dram == 0);
        assert_eq!(asker.usage(0).dram, 0);
    }
}
