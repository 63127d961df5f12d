//! A snapshot as lines: the expected output of the programs in tests/programs and of python/tests/test_monitor.py.

use std::fmt::Write;

use ttmon_model::memory::Figure;
use ttmon_model::snapshot::{Banks, Process};
use ttmon_model::{Kind, Missing, PerKind, Reading, Snapshot};

fn text(reading: Reading<impl ToString>) -> String {
    reading.map_or_else(|reason| reason.name().to_owned(), |value| value.to_string())
}

fn real(reading: Reading<f64>) -> String {
    text(reading.map(|value| format!("{value:.3}")))
}

/// Formats all devices and these processes.
pub(crate) fn lines(snapshot: &Snapshot, pids: &[u32]) -> String {
    let mut out = String::new();
    for device in &snapshot.devices {
        let (id, memory) = (device.id, &device.memory);
        let bar = |name: &str, bar: &ttmon_model::memory::Bar| {
            format!(" {name}_total={} {name}_used={} {name}_free={}", text(bar.total), text(bar.used), text(bar.free()))
        };
        write!(out, "system {id} state={} health={}", device.state.name(), device.health.name()).unwrap();
        write!(out, "{}{}", bar("dram", &memory.dram), bar("l1", &memory.l1)).unwrap();
        write!(out, " processes={} untracked={}", snapshot.processes_on(id).count(), memory.untracked_processes).unwrap();
        write!(out, " hidden={} temperature={}", memory.hidden_processes, real(device.temperature.map(|value| value.0))).unwrap();
        let (power, aiclk) = (real(device.power.map(|value| value.0)), text(device.aiclk_mhz.map(|value| value.0)));
        writeln!(out, " power={power} aiclk_mhz={aiclk}").unwrap();
        for (kind, one) in memory.kinds.iter() {
            let (total, capacity, free) = (text(one.total), text(one.capacity), text(one.free));
            let Figure { used, allocated, peak, count, source, .. } = &one.figure;
            let (used, allocated) = (text(*used), text(*allocated));
            write!(out, "kind {id} {} total={total} capacity={capacity} used={used} allocated={allocated}", kind.name()).unwrap();
            let source = text(source.map(|source| source.name()));
            writeln!(out, " free={free} peak={} count={} source={source}", text(*peak), text(*count)).unwrap();
        }
        for allocator in snapshot.allocators.iter().filter(|allocator| allocator.is_open && allocator.devices.contains(&id)) {
            for kind in Kind::ALL {
                let banks = allocator.kinds[kind].as_ref().map_or(Err(Missing::NotTracked), |item| item.banks.clone());
                let of = |get: fn(&Banks) -> Reading<u64>| text(banks.as_ref().map_err(|reason| *reason).and_then(get));
                let fragmentation = real(banks.as_ref().map_err(|reason| *reason).and_then(|banks| banks.fragmentation));
                write!(out, "banks {id} {} {} {}", allocator.id, allocator.process.pid, kind.name()).unwrap();
                write!(out, " banks={} bank_bytes={}", of(|banks| Ok(banks.banks)), of(|banks| Ok(banks.bank_bytes))).unwrap();
                write!(out, " allocated_per_bank={}", of(|banks| banks.allocated_per_bank)).unwrap();
                write!(out, " free_per_bank={}", of(|banks| banks.free_per_bank)).unwrap();
                write!(out, " largest_free_per_bank={}", of(|banks| banks.largest_free_per_bank)).unwrap();
                writeln!(out, " fragmentation={fragmentation} blocks={}", of(|banks| banks.blocks)).unwrap();
            }
        }
        snapshot.processes_on(id).for_each(|(process, _)| writeln!(out, "on {id} {}", process.key.pid).unwrap());
    }
    for pid in pids {
        process(&mut out, snapshot.processes.iter().find(|process| process.key.pid == *pid).unwrap());
    }
    out
}

fn process(out: &mut String, process: &Process) {
    let pid = process.key.pid;
    writeln!(out, "process {pid} {} {}", text(process.name.clone()), process.status.name()).unwrap();
    let places: Vec<_> =
        process.devices.iter().map(|one| &one.kinds).chain(process.unmapped.iter().map(|unmapped| &unmapped.kinds)).collect();
    let total = match places.as_slice() {
        [only] => (*only).clone(),
        all => PerKind::from_fn(|kind| {
            let add = |get: fn(&Figure) -> Reading<u64>| ttmon_model::memory::sum(all.iter().map(|kinds| get(&kinds[kind])));
            let source = all.iter().find_map(|kinds| kinds[kind].source.ok()).ok_or(Missing::NotTracked);
            let (used, allocated, count) = (add(|one| one.used), add(|one| one.allocated), add(|one| one.count));
            Figure { used, allocated, count, source, ..Figure::missing(Missing::NoSource) }
        }),
    };
    kinds(out, &format!("total {pid}"), &total);
    for one in &process.devices {
        kinds(out, &format!("use {pid} {}", one.device), &one.kinds);
    }
}

fn kinds(out: &mut String, what: &str, kinds: &PerKind<Figure>) {
    for kind in Kind::ALL {
        let Figure { used, allocated, peak, peak_time, count, source, .. } = &kinds[kind];
        let (used, allocated, peak, count) = (text(*used), text(*allocated), text(*peak), text(*count));
        let (time, source) = (text(peak_time.map(|time| time.0)), text(source.map(|source| source.name())));
        write!(out, "{what} {} used={used} allocated={allocated} peak={peak}", kind.name()).unwrap();
        writeln!(out, " peak_time_ns={time} count={count} source={source}").unwrap();
    }
}
