//! Checks that nothing under /dev/tenstorrent is ever opened.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::program::run::{command, root};

/// Watches device nodes while every command runs. The nodes are FIFOs, on which a plain open would block forever.
#[test]
fn device_nodes_are_left_alone() {
    let root = root("t3k");
    let nodes = root.path().join("dev/tenstorrent");
    fs::create_dir_all(&nodes).unwrap();
    for node in 0..4 {
        fifo(&nodes.join(node.to_string()));
    }
    // A link to a node, in a directory where any user may create one.
    std::os::unix::fs::symlink(nodes.join("0"), root.path().join("dev/shm/tt_device_77_memory")).unwrap();
    let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, &nodes, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
    for arguments in
        ["", "--json", "-q", "-L", "who", "wait --idle", "--fields heartbeat_alive", "--query-gpu=index,name", "--no-processes"]
    {
        let status = command(arguments).arg("--root").arg(root.path()).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{arguments}");
    }
    assert_eq!(events(&watch), 0, "a device node was touched");
    // Checks that the watch reports an open.
    fs::read_dir(&nodes).unwrap();
    assert!(events(&watch) > 0);
}

fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn events(watch: &impl std::os::fd::AsFd) -> usize {
    let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let mut count = 0;
    while let Ok(event) = reader.next() {
        assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
        count += 1;
    }
    count
}
