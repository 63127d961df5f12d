//! Totals always equal the sums of entries.

use ttmon_allocation_server::protocol::{Request, Type, Usage};

use crate::serve::server::{DRAM, L1, Server, alloc, event, free, me};

fn cb(kind: Type, id: u64, size: u64) -> Request {
    event(kind, 0, id, size, 0)
}

#[test]
fn another_size_at_a_live_address_replaces() {
    let server = Server::with(&["--log", "json"]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 100, DRAM), alloc(0, 1, 100, DRAM), alloc(0, 1, 30, DRAM)]);
    assert_eq!(client.usage(0).dram, 30);
    client.send(&[free(0, 1)]);
    assert_eq!(client.usage(0).dram, 0, "a missed free keeps nothing alive");
    let counters = server.counters();
    assert_eq!((&counters["counters"]["replaced"], &counters["counters"]["references"]), (&1.into(), &1.into()));
    server.prints("\"op\":\"replace\"");
}

#[test]
fn references_are_counted() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[alloc(0, 0x10, 100, DRAM), alloc(0, 0x10, 100, DRAM), free(0, 0x10)]);
    assert_eq!(client.usage(0).dram, 100);
    client.send(&[free(0, 0x10)]);
    assert_eq!(client.usage(0).dram, 0);
    let pid = me();
    server.prints(&format!("✓ [PID {pid}] Allocated 100 bytes of DRAM on device 0 (buffer_id=0x10, ref_count=2)"));
    server.prints(&format!("✗ [PID {pid}] Freed buffer 0x10 on device 0 (100 bytes, ref_count=1 remaining)"));
    server.prints(&format!("✗ [PID {pid}] Freed buffer 0x10 on device 0 (100 bytes, FINAL)"));
}

#[test]
fn a_repeated_circular_buffer_or_kernel_is_counted_once() {
    let server = Server::start();
    let mut client = server.connect();
    let kernel = |kind| event(kind, 0, 7, 57344, 1);
    client.send(&[cb(Type::CbAlloc, 5, 4096), cb(Type::CbAlloc, 5, 4096), kernel(Type::KernelLoad), kernel(Type::KernelLoad)]);
    let usage = client.usage(0);
    assert_eq!((usage.cb, usage.kernel), (4096, 57344));
    client.send(&[cb(Type::CbFree, 5, 4096), cb(Type::CbFree, 5, 4096), kernel(Type::KernelUnload), kernel(Type::KernelUnload)]);
    assert_eq!(client.usage(0), Usage::default());
}

#[test]
fn a_free_has_the_size_of_the_entry() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[cb(Type::CbFree, 1, 1 << 40), cb(Type::CbAlloc, 2, 64), cb(Type::CbFree, 2, 1 << 50)]);
    client.send(&[
        event(Type::KernelLoad, 0, 3, 100, 2),
        event(Type::KernelUnload, 0, 3, u64::MAX, 0),
        event(Type::KernelUnload, 0, 4, 1, 0),
    ]);
    assert_eq!(client.usage(0), Usage::default());
    server.prints("✗ [KERNEL_UNLOAD] Dispatch kernel on Device 0: -9.53674e-05 MB (Total: 0 MB)");
}

#[test]
fn unknown_and_double_frees_are_distinguished() {
    let server = Server::with(&["--log", "json"]);
    let mut client = server.connect();
    client.send(&[free(0, 1), free(0, 2), alloc(0, 3, 1, DRAM), free(0, 3), free(0, 3), free(5, 3)]).usage(0);
    let counters = server.counters();
    assert_eq!((&counters["counters"]["unknown_frees"], &counters["counters"]["double_frees"]), (&3.into(), &1.into()));
}

#[test]
fn host_memory_and_unknown_types_are_listed_and_in_no_sum() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 100, 2), alloc(0, 2, 50, 9), alloc(0, 3, 7, 3), alloc(0, 4, 11, 4)]);
    let usage = client.usage(0);
    assert_eq!(usage, Usage { l1_small: 7, trace: 11, ..Usage::default() });
    let json = server.ttmon_json(&["mem", "--json", "--buffers", "--pid", &me().to_string()]);
    let mut kinds: Vec<&str> = json["buffers"].as_array().unwrap().iter().map(|buffer| buffer["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["host", "l1_small", "other", "trace"]);
    client.send(&[free(0, 1), free(0, 2)]).usage(0);
    let json = server.ttmon_json(&["mem", "--json", "--buffers", "--pid", &me().to_string()]);
    assert_eq!(json["buffers"].as_array().unwrap().len(), 2, "their frees are known");
}

#[test]
fn device_numbers_have_no_limit() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[alloc(8, 1, 5, DRAM), alloc(4711, 1, 6, L1), event(Type::CbAlloc, 100, 1, 7, 0), alloc(-1, 1, 5, DRAM)]);
    assert_eq!((client.usage(8).dram, client.usage(4711).l1, client.usage(100).cb), (5, 6, 7));
    assert_eq!(client.usage(9), Usage::default());
    server.prints("asks for device 9, of which nothing is known");
    server.prints("Invalid device_id -1 - ignoring message");
}

#[test]
fn sizes_of_zero_and_of_a_terabyte_are_refused() {
    let server = Server::with(&["--log", "json"]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 0, DRAM), alloc(0, 2, 200 << 30, DRAM), alloc(0, 3, 1 << 40, DRAM), alloc(0, 4, u64::MAX, L1)]);
    assert_eq!(client.usage(0).dram, 200 << 30);
    let json = server.ttmon_json(&["mem", "--json", "--buffers", "--pid", &me().to_string()]);
    assert_eq!(json["buffers"].as_array().unwrap().len(), 2, "nothing is an entry");
    client.send(&[free(0, 1), free(0, 2)]).usage(0);
    let counters = server.counters();
    assert_eq!((&counters["counters"]["bad_sizes"], &counters["counters"]["unknown_frees"]), (&2.into(), &0.into()));
}

/// If the device is known, an allocation beyond its capacity is refused and reported.
#[test]
fn an_allocation_beyond_the_capacity_of_a_known_device_is_refused() {
    let server = Server::with(&["--sim", "n300,idle"]);
    let mut client = server.connect();
    assert_eq!(client.info(0).dram_bytes, 12 << 30);
    client.send(&[alloc(0, 1, 12 << 30, DRAM), alloc(0, 2, (12 << 30) + 1, DRAM), alloc(0, 3, 64 << 20, L1), alloc(0, 4, 1 << 30, L1)]);
    let usage = client.usage(0);
    assert_eq!((usage.dram, usage.l1), (12 << 30, 64 << 20));
    server.prints("⚠️  Invalid size 12884901889 - ignoring message");
    server.prints("⚠️  Invalid size 1073741824 - ignoring message");
    // The capacity of an unknown device is unknown, so nothing is refused.
    client.send(&[alloc(77, 1, 200 << 30, DRAM)]);
    assert_eq!(client.usage(77).dram, 200 << 30);
}

/// Each answer is consistent: this client moves bytes between two kinds, and no answer has them in both or in neither.
#[test]
fn an_answer_is_of_one_time() {
    let server = Server::with(&["--quiet"]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 64, DRAM)]);
    let mut asker = server.connect();
    for round in 1..500 {
        // Both messages are in one write. The server has one thread and reads them between two answers.
        client.send(&[free(0, round), alloc(0, round + 1, 64, if round % 2 == 0 { DRAM } else { L1 })]);
        let usage = asker.usage(0);
        assert!(usage.dram + usage.l1 == 64, "{usage:?}");
    }
}

#[test]
fn figures_of_each_process_are_in_ttmon_mem() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[alloc(2, 1, 4096, DRAM)]).usage(2);
    let json = server.ttmon_json(&["mem", "--json", "--pid", &me().to_string()]);
    let process = &json["processes"][0];
    assert_eq!((&process["status"], &process["source"]), (&"connected".into(), &"server".into()), "{process}");
    assert_eq!((&process["unmapped"][0]["id"], &process["unmapped"][0]["kinds"]["dram"]["used"]), (&"2".into(), &4096.into()));
    assert_eq!(json["allocators"][0]["source"], "server");
    let text = server.ttmon(&["events", "--pid", &me().to_string()]);
    assert!(text.contains("alloc        4.0KB  DRAM"), "{text}");
}

#[test]
fn a_free_of_an_earlier_allocation_is_reported() {
    let server = Server::start();
    server.connect().send(&[free(0, 0x77)]).usage(0);
    server.prints(&format!("⚠ [PID {}] Deallocation for unknown buffer 0x77 on device 0 (allocated before tracking started)", me()));
}
