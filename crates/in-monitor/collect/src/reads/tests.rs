use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Long enough that no other read is late on a busy machine.
const TIMEOUT: Duration = Duration::from_millis(800);

fn lane(key: u64, paths: &[&Path]) -> Lane {
    let request = |path: &&Path| Request { path: path.to_path_buf(), want: Want::Whole, bytes_max: 4096, sampling: Sampling::Once };
    Lane { key, requests: paths.iter().map(request).collect() }
}

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(faults: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".ttmon-faults"), faults).unwrap();
        for name in ["a", "b", "c", "d"] {
            fs::write(directory.path().join(name), format!("{name}\n")).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, pool: &mut Pool, lanes: Vec<Lane>) -> Vec<Vec<Reply>> {
        pool.read(lanes).into_iter().map(|lane| lane.replies).collect()
    }

    fn pool(&self) -> Pool {
        Pool::new(TIMEOUT, Some(self.0.path().to_owned()))
    }
}

#[test]
fn replies_come_in_order() {
    let tree = Tree::new("");
    let replies =
        tree.read(&mut tree.pool(), vec![lane(1, &[&tree.path("a"), &tree.path("b")]), lane(2, &[&tree.path("c"), &tree.path("none")])]);
    assert_eq!(replies[0], [Ok(b"a\n".to_vec()), Ok(b"b\n".to_vec())]);
    assert_eq!(replies[1], [Ok(b"c\n".to_vec()), Err(Failure::Errno(2))]);
}

#[test]
fn no_lanes_and_empty_lanes() {
    let tree = Tree::new("");
    assert_eq!(tree.read(&mut tree.pool(), vec![]), Vec::<Vec<Reply>>::new());
    assert_eq!(tree.read(&mut tree.pool(), vec![lane(1, &[])]), [vec![]]);
}

#[test]
fn a_hanging_read_costs_one_file_then_and_later() {
    let tree = Tree::new("b\thang");
    let mut pool = tree.pool();
    let lanes = || vec![lane(1, &[&tree.path("a"), &tree.path("b"), &tree.path("c")]), lane(2, &[&tree.path("d")])];
    let replies = tree.read(&mut pool, lanes());
    assert_eq!(replies[0], [Ok(b"a\n".to_vec()), Err(Failure::Timeout), Ok(b"c\n".to_vec())]);
    assert_eq!(replies[1], [Ok(b"d\n".to_vec())]);
    let again = tree.read(&mut pool, lanes());
    assert_eq!(again[0], replies[0], "only that file is skipped");
    assert_eq!(again[1], [Ok(b"d\n".to_vec())]);
}

#[test]
fn a_lane_has_at_most_two_stuck_reads() {
    let tree = Tree::new("a\thang\nc\thang\nd\thang");
    let mut pool = tree.pool();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| tree.path(name));
    assert_eq!(tree.read(&mut pool, vec![lane(1, &[&a, &b])])[0], [Err(Failure::Timeout), Ok(b"b\n".to_vec())]);
    assert_eq!(pool.stuck_reads(), 1);
    for _ in 0..2 {
        assert_eq!(tree.read(&mut pool, vec![lane(1, &[&a, &c, &d, &b])])[0], [const { Err(Failure::Timeout) }; 4], "b is skipped too");
        assert_eq!(pool.stuck_reads(), 2);
    }
}

/// A worker may be idle since an earlier batch. It must read the lane that waits behind a stuck one.
#[test]
fn a_lane_behind_a_stuck_one_is_read_although_a_worker_is_idle() {
    let tree = Tree::new("b\thang");
    let mut pool = tree.pool();
    for round in 0..5 {
        let many = (0..20).map(|key| lane(key, &[&tree.path("a")])).collect();
        (pool, _) = in_time(pool, many);
        let replies;
        (pool, replies) = in_time(pool, vec![lane(100 + round, &[&tree.path("b")]), lane(1, &[&tree.path("d")])]);
        assert_eq!(replies, [[Err(Failure::Timeout)], [Ok(b"d\n".to_vec())]]);
    }
}

/// Each of six files in three lanes answers or hangs. Then a second batch finds the stuck workers.
#[test]
fn every_pattern_of_hanging_files_is_answered() {
    const LANES: [[usize; 2]; 3] = [[0, 1], [2, 3], [4, 5]];
    let is_right = |pattern: u32| {
        let hangs = |file: usize| pattern & 1 << file != 0;
        let files = LANES.iter().flatten().copied();
        let tree = Tree::new(&files.clone().filter(|file| hangs(*file)).map(|file| format!("{file}\thang\n")).collect::<String>());
        files.for_each(|file| fs::write(tree.path(&file.to_string()), "x").unwrap());
        let path = |file: usize| tree.path(&file.to_string());
        let lanes = || (0..).zip(LANES).map(|(key, [one, other])| lane(key, &[&path(one), &path(other)])).collect();
        let reply = |file: usize| if hangs(file) { Err(Failure::Timeout) } else { Ok(b"x".to_vec()) };
        let expected = LANES.map(|files| files.map(reply));
        let (pool, first) = in_time(Pool::new(TIMEOUT, Some(tree.0.path().to_owned())), lanes());
        let (_, second) = in_time(pool, lanes());
        assert_eq!((first, second), (expected.clone().map(Vec::from).into(), expected.map(Vec::from).into()), "{pattern:06b}");
    };
    thread::scope(|scope| (0..64).for_each(|pattern| _ = scope.spawn(move || is_right(pattern))));
}

/// Reads a batch in another thread, so that a batch that never ends fails the test.
fn in_time(mut pool: Pool, lanes: Vec<Lane>) -> (Pool, Vec<Vec<Reply>>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let replies = pool.read(lanes).into_iter().map(|lane| lane.replies).collect();
        let _ = sender.send((pool, replies));
    });
    receiver.recv_timeout(Duration::from_secs(30)).expect("the batch never ended")
}

#[test]
fn a_slow_read_that_came_back_is_read_again() {
    let tree = Tree::new("b\tslow:2000");
    let mut pool = tree.pool();
    assert_eq!(tree.read(&mut pool, vec![lane(1, &[&tree.path("b")])])[0], [Err(Failure::Timeout)]);
    fs::write(tree.path(".ttmon-faults"), "").unwrap();
    ttmon_testing::until("the read came back", || tree.read(&mut pool, vec![lane(1, &[&tree.path("b")])])[0] == [Ok(b"b\n".to_vec())]);
}

#[test]
fn kept_files_see_new_contents_and_new_files() {
    let tree = Tree::new("");
    let mut pool = tree.pool();
    let mut request = || {
        let request = Request { path: tree.path("a"), want: Want::Whole, bytes_max: 64, sampling: Sampling::Repeated };
        tree.read(&mut pool, vec![Lane { key: 1, requests: vec![request].into() }]).remove(0).remove(0)
    };
    assert_eq!(request(), Ok(b"a\n".to_vec()));
    fs::write(tree.path("a"), "z").unwrap();
    assert_eq!(request(), Ok(b"z".to_vec()));
}

#[test]
fn odd_files_are_answered() {
    let tree = Tree::new("a\tENODATA");
    let fifo = tree.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::write(tree.path("long"), vec![b'1'; 1 << 20]).unwrap();
    fs::write(tree.path("empty"), "").unwrap();
    fs::write(tree.path("page"), vec![b'2'; 4096]).unwrap();
    let replies = tree
        .read(
            &mut tree.pool(),
            vec![lane(1, &[&fifo, &tree.path("long"), &tree.path("empty"), &tree.path("page"), tree.0.path(), &tree.path("a")])],
        )
        .remove(0);
    assert_eq!(replies[0], Err(Failure::Errno(Errno::SPIPE.raw_os_error())));
    assert_eq!(replies[1], Err(Failure::TooLong));
    assert_eq!(replies[2], Ok(vec![]));
    assert_eq!(replies[3], Ok(vec![b'2'; 4096]));
    assert_eq!(replies[4], Err(Failure::Errno(Errno::ISDIR.raw_os_error())));
    assert_eq!(replies[5], Err(Failure::Errno(Errno::NODATA.raw_os_error())));
}

#[test]
fn links_and_devices_are_not_opened_where_others_may_put_them() {
    let tree = Tree::new("");
    std::os::unix::fs::symlink(tree.path("a"), tree.path("link")).unwrap();
    let fifo = tree.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let plain = |path: PathBuf| Request { path, want: Want::PlainFile, bytes_max: 64, sampling: Sampling::Once };
    let requests = vec![plain(tree.path("a")), plain(tree.path("link")), plain(fifo)];
    fs::set_permissions(tree.path("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let replies = tree.read(&mut tree.pool(), vec![Lane { key: 1, requests: requests.into() }]).remove(0);
    let refused = Err(Failure::Errno(Errno::INVAL.raw_os_error()));
    assert_eq!(replies[1..], [refused.clone(), refused]);
    let (owner, content) = Owner::split(replies[0].as_ref().unwrap());
    let uid = fs::metadata(tree.path("a")).unwrap().uid();
    assert_eq!((owner.and_then(Owner::only_writer), content), (Some(uid), &b"a\n"[..]));
    assert_eq!([0o600, 0o664, 0o666].map(|mode| Owner { uid, mode }.only_writer()), [Some(uid), Some(uid), None]);
}

#[test]
fn beginnings_and_names() {
    let tree = Tree::new("");
    fs::write(tree.path("long"), vec![b'1'; 10_000]).unwrap();
    fs::write(tree.path("tt_device_7_memory"), "").unwrap();
    let beginning = Request { path: tree.path("long"), want: Want::Beginning, bytes_max: 4096, sampling: Sampling::Once };
    let names = Request { path: tree.0.path().to_owned(), want: Want::Names, bytes_max: 4096, sampling: Sampling::Once };
    let replies = tree.read(&mut tree.pool(), vec![Lane { key: 1, requests: vec![beginning, names].into() }]).remove(0);
    assert_eq!(replies[0], Ok(vec![b'1'; 4096]));
    let names = String::from_utf8(replies[1].clone().unwrap()).unwrap();
    assert_eq!(names.lines().skip(1).collect::<Vec<_>>(), ["tt_device_7_memory"]);
}

#[test]
fn first_ledger_mapping_is_returned() {
    let tree = Tree::new("");
    let other = "55d0-55e0 r-xp 00000000 08:01 77  /usr/bin/python3\n7f00-7f10 rw-p 00000000 00:01 1  /memfd:x (deleted)\n";
    let ledger = |start: &str| format!("{start}-7f20 rw-s 00000000 00:01 1234  /memfd:ttmon-ledger (deleted)\n");
    let text = [other.repeat(100), ledger("7f10"), ledger("7f11")].concat();
    fs::write(tree.path("maps"), &text).unwrap();
    let read = |bytes_max| {
        let request = Request { path: tree.path("maps"), want: Want::LedgerMapping, bytes_max, sampling: Sampling::Once };
        tree.read(&mut tree.pool(), vec![Lane { key: 1, requests: vec![request].into() }]).remove(0).remove(0)
    };
    assert_eq!(read(1 << 20), Ok(format!("{}\n{}", text.len(), ledger("7f10").trim_end()).into_bytes()));
    assert_eq!(read(4096), Ok(b"4096\n".to_vec()), "only the beginning is read");
}

#[test]
fn a_plain_file_that_was_replaced_is_opened_anew() {
    let tree = Tree::new("");
    let mut pool = tree.pool();
    let request = Request { path: tree.path("a"), want: Want::PlainFile, bytes_max: 20_000, sampling: Sampling::Repeated };
    let requests: Arc<[Request]> = vec![request].into();
    let mut reply = || tree.read(&mut pool, vec![Lane { key: 1, requests: requests.clone() }]).remove(0).remove(0);
    let mut read = || reply().map(|reply| Owner::split(&reply).1.to_vec());
    assert_eq!(read(), Ok(b"a\n".to_vec()));
    fs::write(tree.path("new"), vec![b'3'; 20_000]).unwrap();
    fs::rename(tree.path("new"), tree.path("a")).unwrap();
    assert_eq!(read(), Ok(vec![b'3'; 20_000]));
    fs::remove_file(tree.path("a")).unwrap();
    assert_eq!(read(), Err(Failure::Errno(Errno::NOENT.raw_os_error())));
    std::os::unix::fs::symlink(tree.path("b"), tree.path("a")).unwrap();
    assert_eq!(read(), Err(Failure::Errno(Errno::INVAL.raw_os_error())));
    fs::remove_file(tree.path("a")).unwrap();
    fs::write(tree.path("a"), vec![b'4'; 20_001]).unwrap();
    assert_eq!(read(), Err(Failure::TooLong));
}

/// A file of `/proc/PID` fails with ESRCH when its process is gone, like a file of the driver fails with ENODEV.
#[test]
fn kept_file_of_a_gone_process_is_opened_again_in_the_same_read() {
    struct Child(std::process::Child);
    impl Drop for Child {
        fn drop(&mut self) {
            let _ = self.0.kill().and_then(|()| self.0.wait());
        }
    }

    let tree = Tree::new("");
    let child = Child(std::process::Command::new("sleep").arg("600").spawn().unwrap());
    // The name changes a moment after `spawn` has returned.
    let comm = format!("/proc/{}/comm", child.0.id());
    ttmon_testing::until("the child executes sleep", || fs::read(&comm).unwrap() == b"sleep\n");
    let link_to = |target: PathBuf| {
        std::os::unix::fs::symlink(target, tree.path("next")).unwrap();
        fs::rename(tree.path("next"), tree.path("device")).unwrap();
    };
    link_to(PathBuf::from(format!("/proc/{}", child.0.id())));
    let request = Request { path: tree.path("device/comm"), want: Want::Whole, bytes_max: 64, sampling: Sampling::Repeated };
    let requests: Arc<[Request]> = vec![request].into();
    let mut pool = Pool::new(Duration::from_secs(10), None);
    let mut read = || tree.read(&mut pool, vec![Lane { key: 1, requests: requests.clone() }]).remove(0).remove(0);
    assert_eq!(read(), Ok(b"sleep\n".to_vec()));
    drop(child);
    fs::create_dir(tree.path("new")).unwrap();
    fs::write(tree.path("new/comm"), "new\n").unwrap();
    link_to(tree.path("new"));
    assert_eq!(read(), Ok(b"new\n".to_vec()));
}

#[test]
fn a_single_read_closes_the_open_files_of_its_lane() {
    let tree = Tree::new("");
    let mut pool = tree.pool();
    let mut read = |sampling| {
        let request = Request { path: tree.path("a"), want: Want::Whole, bytes_max: 64, sampling };
        tree.read(&mut pool, vec![Lane { key: 1, requests: vec![request].into() }]).remove(0).remove(0)
    };
    assert_eq!(read(Sampling::Repeated), Ok(b"a\n".to_vec()));
    fs::remove_file(tree.path("a")).unwrap();
    assert_eq!(read(Sampling::Once), Err(Failure::Errno(Errno::NOENT.raw_os_error())));
    fs::write(tree.path("a"), "new\n").unwrap();
    assert_eq!(read(Sampling::Repeated), Ok(b"new\n".to_vec()));
}

#[test]
fn another_list_of_a_lane_keeps_open_what_it_still_has() {
    let tree = Tree::new("");
    let mut pool = tree.pool();
    let request = |name: &str| Request { path: tree.path(name), want: Want::Whole, bytes_max: 64, sampling: Sampling::Repeated };
    let mut read = |names: &[&str]| {
        let requests = names.iter().map(|name| request(name)).collect();
        tree.read(&mut pool, vec![Lane { key: 1, requests }]).remove(0)
    };
    assert_eq!(read(&["a", "b", "c"]).len(), 3);
    ["a", "b", "c"].iter().for_each(|name| fs::remove_file(tree.path(name)).unwrap());
    let gone = Err(Failure::Errno(Errno::NOENT.raw_os_error()));
    assert_eq!(read(&["a", "c"]), [Ok(b"a\n".to_vec()), Ok(b"c\n".to_vec())], "they were open");
    assert_eq!(read(&["b", "c"]), [gone, Ok(b"c\n".to_vec())], "what was left out was closed");
}

#[test]
fn errors_have_a_meaning() {
    for (errno, reason) in [
        (2, Missing::NotExposed),
        (95, Missing::NotExposed),
        (524, Missing::NotExposed),
        (19, Missing::Gone),
        (61, Missing::Resetting),
        (13, Missing::NoPermission),
        (1, Missing::NoPermission),
        (5, Missing::IoError),
        (22, Missing::IoError),
    ] {
        assert_eq!(Missing::from(Failure::Errno(errno)), reason, "{errno}");
    }
}

/// Another user keeps replacing a region. Only regular files are ever opened.
#[test]
fn only_plain_files_are_opened() {
    use rustix::fs::{CWD, FileType, Mode, RenameFlags, inotify, mknodat, renameat_with};
    const ROUNDS: usize = 20_000;

    let tree = Tree::new("");
    let (region, other) = (tree.path("a"), tree.path("fifo"));
    mknodat(CWD, &other, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, &other, inotify::WatchFlags::OPEN).unwrap();

    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                renameat_with(CWD, &region, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            match open_beside(&mut None, &region, Want::PlainFile) {
                Ok(file) => read += usize::from(read_plain(&file, 64).is_ok_and(|reply| Owner::split(&reply).1 == b"a\n")),
                Err(_) => refused += 1,
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(rustix::io::read(&watch, &mut [0; 64]).unwrap_err(), Errno::AGAIN, "the FIFO was opened");
    assert_eq!(read + refused, ROUNDS);
    assert!(read > 0 && refused > 0, "{read} {refused}: both were seen");
}
