//! A killed server loses no entry that it has confirmed.

use std::collections::BTreeMap;

use ttmon_allocation_server::protocol::{Request, Size, Type, Usage};

use crate::serve::server::{DRAM, Other, Server, alloc, free, ledgers, me};

#[test]
fn a_ledger_of_another_version_is_left_alone() {
    let mut server = Server::start();
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 30, DRAM)]);
    server.kill();
    let name = ledgers(&server).into_iter().find(|name| name.starts_with(&format!("{}-", other.pid()))).unwrap();
    std::fs::write(server.state().join(&name), "of another version").unwrap();
    server.start_again();
    server.prints("1 ledgers of live processes are another version's or machine's, and are left alone");
    assert_eq!(server.usage(0).dram, 0);
    assert!(ledgers(&server).contains(&name));
}

/// A simulated machine that is started again is a different machine, even with the same state directory.
#[test]
fn another_simulated_machine_takes_over_nothing() {
    let mut server = Server::with(&["--sim", "n300,idle"]);
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 30, DRAM)]);
    assert_eq!(server.usage(0).dram, 30);
    server.kill();
    let kept = ledgers(&server);
    server.start_again();
    server.prints("1 ledgers of live processes are another version's or machine's, and are left alone");
    assert_eq!((server.usage(0).dram, ledgers(&server)), (0, kept));
}

#[test]
fn confirmed_entries_are_there_after_a_kill() {
    let mut server = Server::start();
    let mut mine = server.connect();
    mine.send(&[alloc(0, 1, 100, DRAM), alloc(0, 1, 100, DRAM), alloc(3, 9, 7, 1)]).usage(0);
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 30, DRAM)]);
    let mut gone = Other::connect(&server);
    gone.prints(&[alloc(0, 1, 500, DRAM)]);
    server.kill();
    gone.kill();
    server.start_again();
    server.prints("Took over 3 entries of 2 processes from an earlier server");
    server.prints("Removed what an earlier server kept of 1 process, now ended");
    let mut mine = server.connect();
    assert_eq!((mine.usage(0).dram, mine.usage(3).l1), (130, 7), "the dead one's are not there");
    mine.send(&[free(0, 1)]);
    assert_eq!(mine.usage(0).dram, 130, "references were kept too");
    mine.send(&[free(0, 1)]);
    assert_eq!(mine.usage(0).dram, 30);
    other.kill();
    server.until("its end is noticed", || server.usage(0).dram == 0);
}

#[test]
fn a_clean_stop_keeps_what_lives() {
    let mut server = Server::start();
    server.connect().send(&[alloc(0, 1, 100, DRAM)]).usage(0);
    assert_eq!(server.stop(), Some(0));
    server.start_again();
    assert_eq!(server.usage(0).dram, 100);
}

/// Kills the server repeatedly under load. `TTMON_TEST_KILLS` is the number of kills.
#[test]
fn killed_under_load_it_loses_nothing_it_confirmed() {
    let kills = std::env::var("TTMON_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let mut server = Server::with(&["--quiet"]);
    // Entries that must exist, and entries that may exist because they were sent but not confirmed.
    let mut confirmed: BTreeMap<u64, u64> = BTreeMap::new();
    let mut next = 1;
    let mut random = 7_u64;
    for round in 0..kills {
        let mut bystander = Other::connect(&server);
        bystander.prints(&[alloc(1, 1, 64, DRAM)]);
        let mut client = server.connect();
        for _ in 0..20 {
            let batch: Vec<Request> = (0..50)
                .map(|_| {
                    next += 1;
                    alloc(0, next, next % 1000 + 1, DRAM)
                })
                .collect();
            let freed: Vec<u64> = confirmed.keys().copied().take(10).collect();
            client.send(&batch).send(&freed.iter().map(|id| free(0, *id)).collect::<Vec<_>>());
            let usage = client.usage(0);
            confirmed.retain(|id, _| !freed.contains(id));
            confirmed.extend(batch.iter().map(|request| (request.buffer_id, request.size)));
            assert_eq!(usage.dram, confirmed.values().sum::<u64>(), "round {round}");
        }
        // Sends more entries without confirmation, and kills the server meanwhile.
        let unconfirmed: Vec<Request> = (0..2000)
            .map(|_| {
                next += 1;
                alloc(0, next, 5, DRAM)
            })
            .collect();
        let bytes: Vec<u8> = unconfirmed.iter().flat_map(|request| request.encode(Size::B144).as_bytes().to_vec()).collect();
        let stream = client.stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || drop(std::io::Write::write_all(&mut &stream, &bytes)));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        for _ in 0..random >> 54 {
            std::thread::yield_now();
        }
        server.kill();
        sender.join().unwrap();
        bystander.kill();
        server.start_again();
        let json = server.ttmon_json(&["mem", "--json", "--buffers", "--pid", &me().to_string()]);
        let live: BTreeMap<u64, u64> = json["buffers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|buffer| {
                let address = buffer["address"].as_str().unwrap().trim_start_matches("0x");
                (u64::from_str_radix(address, 16).unwrap(), buffer["size"].as_u64().unwrap())
            })
            .collect();
        for (id, size) in &confirmed {
            assert_eq!(live.get(id), Some(size), "round {round}: {id} was confirmed");
        }
        for (id, size) in live.iter().filter(|(id, _)| !confirmed.contains_key(id)) {
            assert!(
                unconfirmed.iter().any(|request| request.buffer_id == *id && request.size == *size),
                "round {round}: {id} was never sent"
            );
        }
        let mut client = server.connect();
        assert_eq!(client.usage(0).dram, live.values().sum::<u64>(), "round {round}: totals are the sum of entries");
        assert_eq!(client.usage(1), Usage::default(), "round {round}: nothing of the dead survives");
        // Frees the unconfirmed entries, so that the next round begins with a known state.
        let rest: Vec<Request> = live.keys().filter(|id| !confirmed.contains_key(id)).map(|id| free(0, *id)).collect();
        client.send(&rest).send(&[Request::new(Type::Query)]).reply();
    }
    assert_eq!(ledgers(&server).len(), 1);
}
