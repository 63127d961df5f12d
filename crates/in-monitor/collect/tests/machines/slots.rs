//! An id belongs to its slot. Devices may leave, be missing at first, or return.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ttmon_collect::reads::Sampling;
use ttmon_collect::{Machine, Options};
use ttmon_model::select::Selection;
use ttmon_model::snapshot::State;
use ttmon_model::{DeviceId, Missing, Snapshot};

use crate::tree::{N300, Tree, device};

const BUS: &str = "sys/devices/pci0000:00/0000:00:01.0";

fn bdf(n: u32) -> String {
    format!("0000:{}1:00.0", n + 1)
}

fn serial(n: u32) -> String {
    format!("01000145117220{n:02}")
}

/// Four n300, as in a t3k: devices 0-3 are local, 4-7 are the remote chips behind them.
fn t3k() -> Tree {
    let tree = Tree::new("2.9.0");
    for n in 0..4 {
        tree.device(n, &bdf(n));
        tree.files(n, N300);
        tree.files(n, &format!("tt_serial\t{}\ndevice/subsystem_device\t0x0014", serial(n)));
        tree.pids(n, "");
    }
    tree
}

/// The driver releases a device: its entries vanish, the PCI device stays.
fn unbind(tree: &Tree, n: u32) {
    fs::remove_file(tree.path(&format!("sys/class/tenstorrent/tenstorrent!{n}"))).unwrap();
    fs::rename(tree.path(&format!("{BUS}/{}/tenstorrent", bdf(n))), tree.path(&format!("away-{n}"))).unwrap();
    fs::remove_dir_all(tree.path(&format!("proc/driver/tenstorrent/{n}"))).unwrap();
}

/// The driver binds a device under a number.
fn bind(tree: &Tree, n: u32, id: u32) {
    let place = format!("{BUS}/{}/tenstorrent", bdf(n));
    fs::rename(tree.path(&format!("away-{n}")), tree.path(&place)).unwrap();
    if n != id {
        fs::rename(tree.path(&format!("{place}/tenstorrent!{n}")), tree.path(&format!("{place}/tenstorrent!{id}"))).unwrap();
    }
    let target = Path::new("../../..").join(format!("{place}/tenstorrent!{id}"));
    symlink(target, tree.path(&format!("sys/class/tenstorrent/tenstorrent!{id}"))).unwrap();
    tree.pids(id, "");
}

/// The PCI device is removed too.
fn remove(tree: &Tree, n: u32) {
    unbind(tree, n);
    fs::remove_file(tree.path(&format!("sys/bus/pci/devices/{}", bdf(n)))).unwrap();
    fs::rename(tree.path(&format!("{BUS}/{}", bdf(n))), tree.path(&format!("removed-{n}"))).unwrap();
}

fn taken(machine: &mut Machine) -> Snapshot {
    Snapshot::derive(&machine.sample().unwrap(), None)
}

fn repeated(tree: &Tree) -> Machine {
    tree.machine_with(Options { sampling: Sampling::Repeated, ..Options::default() })
}

/// Id, gateway and serial of each chip except those of one board.
fn others(snapshot: &Snapshot, n: u32) -> Vec<(u32, Option<u32>, String)> {
    let is_other = |id: DeviceId| id.0 % 4 != n;
    let devices = snapshot.devices.iter().filter(|device| is_other(device.id));
    devices.map(|device| (device.id.0, device.via.ok().map(|via| via.0), device.serial.clone().unwrap_or_default())).collect()
}

#[test]
fn an_unbound_device_keeps_its_ids() {
    let whole = t3k().snapshot();
    for n in 0..4 {
        let tree = t3k();
        unbind(&tree, n);
        for mut machine in [tree.machine(), repeated(&tree)] {
            let snapshot = taken(&mut machine);
            assert_eq!(others(&snapshot, n), others(&whole, n), "{n}");
            let (gone, behind) = (device(&snapshot, n), device(&snapshot, n + 4));
            assert_eq!((gone.state, gone.board.as_deref(), gone.bdf.map(|bdf| bdf.to_string())), (State::Gone, Ok("n300"), Ok(bdf(n))));
            assert_eq!((behind.state, behind.via), (State::Gone, Ok(DeviceId(n))));
            assert_eq!((gone.temperature, gone.memory.holders), (Err(Missing::Gone), Err(Missing::Gone)));
            // Programs that start now do not see the device.
            assert_eq!(gone.metal_id, Err(Missing::NoSource));
            let listed: Vec<_> =
                snapshot.devices.iter().filter(|device| device.id.0 < 4).filter_map(|device| device.metal_id.ok()).collect();
            assert_eq!(listed, [0, 1, 2]);
            let problems: Vec<_> = snapshot.problems.iter().map(|problem| problem.detail.clone()).collect();
            assert_eq!(problems, [format!("PCI device {} is on the bus, and the driver does not list it", bdf(n))]);
        }
        let mut machine = repeated(&tree);
        taken(&mut machine);
        bind(&tree, n, n);
        assert_eq!(taken(&mut machine).devices.len(), 8);
        let back = taken(&mut machine);
        assert_eq!((device(&back, n).state, &device(&back, n).serial), (State::Ok, &device(&whole, n).serial));
        assert_eq!((others(&back, 9), &back.problems), (others(&whole, 9), &whole.problems));
    }
}

/// A device leaves while it is sampled, and returns.
#[test]
fn a_device_that_leaves_and_returns_keeps_its_ids() {
    for away in [unbind, remove] {
        let tree = t3k();
        let mut machine = repeated(&tree);
        let whole = taken(&mut machine);
        away(&tree, 2);
        let gone = taken(&mut machine);
        assert_eq!((others(&gone, 9), device(&gone, 2).state), (others(&whole, 9), State::Gone));
        if tree.path("removed-2").exists() {
            fs::rename(tree.path("removed-2"), tree.path(&format!("{BUS}/{}", bdf(2)))).unwrap();
            symlink(Path::new("../../../..").join(format!("{BUS}/{}", bdf(2))), tree.path(&format!("sys/bus/pci/devices/{}", bdf(2))))
                .unwrap();
        }
        bind(&tree, 2, 2);
        taken(&mut machine);
        let back = taken(&mut machine);
        assert_eq!((others(&back, 9), device(&back, 2).state, back.problems.len()), (others(&whole, 9), State::Ok, 0));
    }
}

/// A card was removed before ttmon started. Only a gap in the numbers is left, and the kind of card is unknown.
#[test]
fn a_hole_in_the_numbers_is_said() {
    let tree = t3k();
    remove(&tree, 1);
    let snapshot = tree.snapshot();
    let problem = &snapshot.problems[0];
    assert_eq!((problem.part.as_str(), problem.reason, snapshot.problems.len()), ("device 1", Missing::Gone, 1));
    assert!(problem.detail.contains("not stable") && problem.detail.contains("serials"), "{}", problem.detail);
    let by_serial = Selection::parse(&serial(3)).unwrap();
    let chosen = snapshot.devices.iter().filter(|device| by_serial.matches(device));
    assert_eq!(chosen.map(|device| device.via.ok()).collect::<Vec<_>>(), [None, Some(DeviceId(3))]);
    // A gap without remote chips behind it has no effect.
    let tree = t3k();
    remove(&tree, 3);
    assert_eq!(tree.snapshot().problems, []);
}

#[test]
fn a_device_of_another_driver_is_none_of_ours() {
    let tree = t3k();
    unbind(&tree, 3);
    symlink("../../../../bus/pci/drivers/vfio-pci", tree.path(&format!("{BUS}/{}/driver", bdf(3)))).unwrap();
    let snapshot = tree.snapshot();
    assert_eq!((snapshot.devices.len(), snapshot.problems.len()), (6, 0));
}

/// The driver gives a number to the device that is bound first.
#[test]
fn a_number_that_another_chip_has_now_is_said() {
    let tree = t3k();
    let mut machine = repeated(&tree);
    taken(&mut machine);
    unbind(&tree, 1);
    unbind(&tree, 2);
    taken(&mut machine);
    bind(&tree, 2, 1);
    bind(&tree, 1, 2);
    taken(&mut machine);
    let snapshot = taken(&mut machine);
    assert_eq!(device(&snapshot, 1).serial, Ok(serial(2)));
    let problems: Vec<_> =
        snapshot.problems.iter().map(|problem| (problem.part.clone(), problem.detail.contains("numbered its devices anew"))).collect();
    assert_eq!(problems, [("device 1".to_owned(), true), ("device 2".to_owned(), true)]);
}

/// A service stores the numbers while the machine runs, so programs that start later know the earlier devices.
#[test]
fn numbers_are_kept_while_the_machine_runs() {
    let tree = t3k();
    tree.put("proc/sys/kernel/random/boot_id", "3f1c-a");
    fs::create_dir_all(tree.path("run/ttmon/state")).unwrap();
    let file = tree.path("run/ttmon/state/devices");
    let serving = || tree.machine_with(Options { slots: Some(file.clone()), ..Options::default() });
    let whole = taken(&mut serving());
    // The last device leaves no gap. The first device is also removed from the bus.
    remove(&tree, 3);
    remove(&tree, 0);
    for mut machine in [tree.machine(), serving(), serving()] {
        let snapshot = taken(&mut machine);
        let chips = |snapshot: &Snapshot| {
            snapshot.devices.iter().map(|device| (device.id, device.via.ok(), device.board.clone())).collect::<Vec<_>>()
        };
        assert_eq!(chips(&snapshot), chips(&whole));
        let states: Vec<State> = snapshot.devices.iter().take(4).map(|device| device.state).collect();
        assert_eq!(states, [State::Gone, State::Ok, State::Ok, State::Gone]);
        let problems: Vec<_> = snapshot.problems.iter().map(|problem| problem.detail.as_str()).collect();
        assert_eq!(problems, [0, 3].map(|n| format!("PCI device {} was here before, and is not on the bus", bdf(n))));
    }
    // After a restart of the machine, the stored numbers are invalid.
    tree.put("proc/sys/kernel/random/boot_id", "3f1c-b");
    assert_eq!(tree.snapshot().devices.len(), 4);
    // A file that is not a valid list is ignored.
    tree.put("proc/sys/kernel/random/boot_id", "3f1c-a");
    for text in ["", "ttmon-devices 1 3f1c-a 7\n0 0000:11:00.0 n300\n", "ttmon-devices 1 3f1c-a 0\nx y\n4294967296 0000:11:00.0 n300\n"] {
        fs::write(&file, text).unwrap();
        assert_eq!(tree.snapshot().devices.len(), 4, "{text}");
    }
}
