//! Implements [`Transport`] with the kernel driver.
//!
//! Five ioctls are used: driver info, device info, and to allocate, configure and free a window. The window is mapped for reading. The
//! device is opened with `O_APPEND`, so that the driver does not power up the chip.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use ttmon_model::{Arch, Missing, Reading};

use crate::transport::{Tile, Transport, Window, window_bytes};

/// `_IO(0xFA, n)`. The number includes neither size nor direction.
const GET_DEVICE_INFO: libc::Ioctl = 0xFA00;
const GET_DRIVER_INFO: libc::Ioctl = 0xFA05;
const ALLOCATE_TLB: libc::Ioctl = 0xFA0B;
const FREE_TLB: libc::Ioctl = 0xFA0C;
const CONFIGURE_TLB: libc::Ioctl = 0xFA0D;

/// The first version of the driver's interface that has windows.
const API_VERSION_MIN: u32 = 2;

/// A device node.
#[derive(Debug)]
pub struct Kernel {
    node: PathBuf,
    arch: Arch,
}

impl Kernel {
    /// Creates a device of this architecture. It is opened for each sample.
    pub fn new(node: &Path, arch: Arch) -> Self {
        Self { node: node.to_owned(), arch }
    }
}

/// Arguments of an ioctl as words: `{in, out}`, one after the other.
type Words<const N: usize> = [u32; N];

/// A mapped window of the driver.
#[derive(Debug)]
pub struct KernelWindow {
    // The fields are dropped in this order: a mapped window cannot be freed.
    mapping: Mapping,
    allocated: Allocated,
    target: Option<(Tile, u64)>,
}

/// A window that the driver allocated, and the open device.
#[derive(Debug)]
struct Allocated {
    id: u32,
    file: OwnedFd,
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // The driver frees the window in any case when the file is closed.
        let _ = ioctl(&self.file, FREE_TLB, &mut [self.id]);
    }
}

impl Transport for Kernel {
    type Open = KernelWindow;

    fn open(&mut self) -> Reading<KernelWindow> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&self.node, flags, Mode::empty()).map_err(not_opened)?;
        // Ioctls are sent only to a character device.
        let kind = rustix::fs::fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode)).map_err(not_opened)?;
        if kind != FileType::CharacterDevice {
            return Err(Missing::NotExposed);
        }
        let mut driver: Words<4> = [12, 0, 0, 0];
        ioctl(&file, GET_DRIVER_INFO, &mut driver)?;
        let mut device: Words<6> = [20, 0, 0, 0, 0, 0];
        ioctl(&file, GET_DEVICE_INFO, &mut device)?;
        let pci_device = u64::from(device[2] >> 16);
        if driver[2] < API_VERSION_MIN || Arch::from_pci_device(pci_device) != Some(self.arch) {
            return Err(Missing::NotExposed);
        }
        let size = window_bytes(self.arch);
        let mut allocated: Words<12> = [low(size), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        ioctl(&file, ALLOCATE_TLB, &mut allocated)?;
        let (id, offset) = (allocated[4], u64::from(allocated[6]) | u64::from(allocated[7]) << 32);
        let allocated = Allocated { id, file };
        let mapping = Mapping::new(&allocated.file, offset, size)?;
        Ok(KernelWindow { mapping, allocated, target: None })
    }

    fn check(&self) -> Reading<()> {
        let stat = rustix::fs::statat(CWD, &self.node, AtFlags::SYMLINK_NOFOLLOW).map_err(not_opened)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice {
            return Err(Missing::NotExposed);
        }
        rustix::fs::access(&self.node, Access::READ_OK | Access::WRITE_OK).map_err(not_opened)
    }
}

impl Window for KernelWindow {
    fn configure(&mut self, tile: Tile, address: u64) -> Reading<()> {
        if self.target == Some((tile, address)) {
            return Ok(());
        }
        let mut words: Words<12> = [0; 12];
        words[0] = self.allocated.id;
        (words[2], words[3]) = (low(address), low(address >> 32));
        // Unicast: the target is the end of the range, and its start stays 0. Ordering, NoC and the rest have their defaults.
        words[4] = u32::from(tile.x) | u32::from(tile.y) << 16;
        self.target = None;
        ioctl(&self.allocated.file, CONFIGURE_TLB, &mut words)?;
        self.target = Some((tile, address));
        Ok(())
    }

    fn read(&mut self, offset: usize, words: &mut [u32]) -> Reading<()> {
        self.mapping.read(offset, words)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
fn low(number: u64) -> u32 {
    number as u32
}

fn ioctl<const N: usize>(file: &OwnedFd, request: libc::Ioctl, words: &mut Words<N>) -> Reading<()> {
    // SAFETY: `words` is as long as the driver's struct for the request, or as the output size in its first word states (a struct of
    // `GET_*_INFO`). The driver writes only within it and keeps no pointer. The file is a character device. Another driver would reject the
    // number.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request, words.as_mut_ptr()) };
    match result {
        0.. => Ok(()),
        _ => Err(refused(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))),
    }
}

fn not_opened(errno: Errno) -> Missing {
    match errno {
        // A container without access to the device has no node.
        Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::PERM => Missing::NoPermission,
        Errno::NXIO | Errno::NODEV => Missing::Gone,
        Errno::AGAIN | Errno::BUSY => Missing::Busy,
        // The driver creates neither links nor directories.
        Errno::LOOP | Errno::ISDIR => Missing::NotExposed,
        _ => Missing::IoError,
    }
}

fn refused(errno: Errno) -> Missing {
    match errno {
        Errno::NODEV => Missing::Resetting,
        Errno::NOMEM => Missing::Busy,
        Errno::NOTTY | Errno::INVAL | Errno::OPNOTSUPP => Missing::NotExposed,
        _ => Missing::IoError,
    }
}

/// A window that is mapped for reading. A process has only one at a time, so that the handler of SIGBUS can identify it.
#[derive(Debug)]
struct Mapping {
    start: *const u32,
    bytes: usize,
}

/// The address of the mapped window for the handler, or 0 if there is none.
static WINDOW_START: AtomicUsize = AtomicUsize::new(0);
/// The length of the window, or 0 if there is none. The thread that changes it from 0 may map the window.
static WINDOW_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Whether the window was removed during the read.
static IS_LOST: AtomicBool = AtomicBool::new(false);
static HANDLER: Once = Once::new();

impl Mapping {
    fn new(file: &OwnedFd, offset: u64, bytes: u64) -> Reading<Self> {
        HANDLER.call_once(handle_bus_errors);
        let bytes = usize::try_from(bytes).map_err(|_| Missing::NotExposed)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| Missing::NotExposed)?;
        // Acquire, paired with the release of `drop`: the earlier window is no longer mapped.
        WINDOW_BYTES.compare_exchange(0, bytes, Ordering::Acquire, Ordering::Relaxed).map_err(|_| Missing::Busy)?;
        // SAFETY: this creates a new mapping at an address that the kernel chooses, and changes nothing else. It is read only through this
        // struct.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            WINDOW_BYTES.store(0, Ordering::Release);
            return Err(refused(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)));
        }
        IS_LOST.store(false, Ordering::Relaxed);
        WINDOW_START.store(start.addr(), Ordering::Release);
        Ok(Self { start: start.cast(), bytes })
    }

    fn read(&self, offset: usize, words: &mut [u32]) -> Reading<()> {
        let is_inside = offset.is_multiple_of(4) && offset.checked_add(4 * words.len()).is_some_and(|end| end <= self.bytes);
        if !is_inside {
            return Err(Missing::IoError);
        }
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: the address is inside the mapping, as checked, and aligned. The chip changes the words, so the reads are volatile. If
            // the driver removes the window, the handler of SIGBUS maps zeros there and the read continues.
            *word = unsafe { self.start.add(offset / 4 + index).read_volatile() };
        }
        if IS_LOST.load(Ordering::Acquire) { Err(Missing::Resetting) } else { Ok(()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        WINDOW_START.store(0, Ordering::Release);
        // SAFETY: this is the mapping of `new`, or the zeros that the handler mapped in its place. Nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.bytes) };
        WINDOW_BYTES.store(0, Ordering::Release);
    }
}

/// Installs a handler for SIGBUS. After a reset the driver removes all windows, and an access to one raises SIGBUS.
fn handle_bus_errors() {
    // SAFETY: the struct consists of plain numbers and pointers, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the signature that SA_SIGINFO requires, and calls only async-signal-safe functions.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
}

/// Maps zeros in place of the window. Any other SIGBUS ends the process as usual.
extern "C" fn on_bus_error(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let (start, bytes) = (WINDOW_START.load(Ordering::Acquire), WINDOW_BYTES.load(Ordering::Relaxed));
    // SAFETY: the kernel passes a valid `siginfo_t` of SIGBUS, which has an address.
    let address = unsafe { (*info).si_addr() }.addr();
    if start != 0 && (start..start + bytes).contains(&address) {
        // SAFETY: exactly the pages of our own mapping are replaced. `mmap` is only a system call.
        let zeros = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(ptr::with_exposed_provenance_mut(start), bytes, libc::PROT_READ, flags, -1, 0)
        };
        if zeros != libc::MAP_FAILED {
            IS_LOST.store(true, Ordering::Release);
            return;
        }
    }
    // SAFETY: a handler may set the default action of a signal. The access is repeated and ends the process.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn reason_of(path: &Path) -> Option<Missing> {
        Kernel::new(path, Arch::Wormhole).open().err()
    }

    #[test]
    fn files_that_are_no_device_get_no_request() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert_eq!(reason_of(&directory.path().join("absent")), Some(Missing::NoPermission));
        assert_eq!(reason_of(&file), Some(Missing::NotExposed));
        assert_eq!(reason_of(&link), Some(Missing::NotExposed));
        assert_eq!(reason_of(directory.path()), Some(Missing::NotExposed));
        // The device of another driver rejects the first ioctl.
        assert_eq!(reason_of(Path::new("/dev/null")), Some(Missing::NotExposed));
    }

    /// Held by tests that map a window, because a process has only one.
    static ONE_WINDOW: Mutex<()> = Mutex::new(());

    #[test]
    fn a_window_that_another_thread_is_mapping_is_busy() {
        let _alone = ONE_WINDOW.lock();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let file = OwnedFd::from(file);
        // The other thread is between its check and its mapping.
        WINDOW_BYTES.store(8192, Ordering::Relaxed);
        assert_eq!(Mapping::new(&file, 0, 8192).err(), Some(Missing::Busy));
        WINDOW_BYTES.store(0, Ordering::Relaxed);
        assert!(Mapping::new(&file, 0, 8192).is_ok());
        assert_eq!(Mapping::new(&file, 1, 8192).err(), Some(Missing::NotExposed), "no start of a page");
        assert!(Mapping::new(&file, 0, 8192).is_ok(), "a window that could not be mapped is free again");
    }

    /// A file that is truncated while mapped raises SIGBUS, like a window that the driver removes.
    #[test]
    fn a_removed_window_is_a_reset() {
        let _alone = ONE_WINDOW.lock();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let (file, other) = (OwnedFd::from(file.try_clone().unwrap()), file);
        let mapping = Mapping::new(&file, 0, 8192).unwrap();
        let mut words = [1; 4];
        assert_eq!(mapping.read(4096, &mut words), Ok(()));
        assert_eq!(Mapping::new(&file, 0, 8192).err(), Some(Missing::Busy));
        other.set_len(0).unwrap();
        assert_eq!(mapping.read(4096, &mut words), Err(Missing::Resetting));
        assert_eq!(mapping.read(8192, &mut words), Err(Missing::IoError));
        assert_eq!(mapping.read(2, &mut words), Err(Missing::IoError));
        drop(mapping);
        other.set_len(8192).unwrap();
        assert_eq!(Mapping::new(&file, 0, 8192).unwrap().read(0, &mut words), Ok(()));
    }
}
