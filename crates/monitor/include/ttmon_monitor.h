/* ttmon_monitor.h: who holds how much memory of which Tenstorrent device, read from your own program.
 *
 *     ttmon_monitor *monitor = ttmon_monitor_open(NULL);
 *     ttmon_system_stats stats = { .struct_size = sizeof stats };
 *     if (ttmon_monitor_system_stats(monitor, 0, &stats) == TTMON_MONITOR_OK && stats.dram_used.missing == TTMON_PRESENT) {
 *         printf("%llu bytes of DRAM in use\n", (unsigned long long)stats.dram_used.value);
 *     }
 *     ttmon_monitor_close(monitor);
 *
 * Link with libttmon_monitor (-lttmon_monitor). What is not known has a reason, never a number: check `missing` first.
 * Functions that return int32_t return TTMON_MONITOR_OK or a negative number; ttmon_monitor_last_error() has the words.
 * Nothing is written to `out` unless they succeed.
 *
 * Any thread may use a monitor at any time. Nothing is printed, no device is opened, errno is kept. Files are read by a
 * few threads of the library that block all signals; a read that hangs in the driver is given up after 200 ms, and may
 * delay the end of the program until the driver answers. A fork of the program has to open a monitor of its own.
 */

#ifndef TTMON_MONITOR_H
#define TTMON_MONITOR_H

/* Made by cbindgen from crates/monitor/src/exports.rs: do not edit. */

#include <stdint.h>

// Done.
#define TTMON_MONITOR_OK 0

// A null pointer, a pid that is not positive, a kind that is none, a struct_size that does not fit.
#define TTMON_MONITOR_BAD_ARGUMENT -1

// There is no such device, or the process has nothing to do with it.
#define TTMON_MONITOR_NOT_FOUND -2

// A mistake of this library.
#define TTMON_MONITOR_INTERNAL -3

// The machine cannot be read.
#define TTMON_MONITOR_UNREADABLE -4

// The handle was opened before a fork, by another process. Open one in this process.
#define TTMON_MONITOR_FORKED -5

// In place of a device: the sum over all chips of a process, those that no device is for certain included.
#define TTMON_MONITOR_ALL_DEVICES 4294967295

// Kinds of device memory, and places in ttmon_process_stats.kinds. The first: buffers in DRAM.
#define TTMON_KIND_DRAM 0

// Buffers in L1.
#define TTMON_KIND_L1 1

// Buffers in the small L1 area.
#define TTMON_KIND_L1_SMALL 2

// Captured traces, in DRAM.
#define TTMON_KIND_TRACE 3

// Circular and dataflow buffers, in L1.
#define TTMON_KIND_CB 4

// Bytes of loaded programs: not occupied L1, and in no sum.
#define TTMON_KIND_KERNEL 5

// How many kinds there are.
#define TTMON_KINDS 6

// Reasons why there is no value. The first is none: the value is there.
#define TTMON_PRESENT 0

// Chips of this architecture never publish it.
#define TTMON_MISSING_NOT_ON_THIS_ARCH 1

// This driver or firmware does not publish it.
#define TTMON_MISSING_NOT_EXPOSED 2

// The chip is reached over Ethernet only.
#define TTMON_MISSING_REMOTE_CHIP 3

// It is there, and this user may not read it.
#define TTMON_MISSING_NO_PERMISSION 4

// The chip is being reset.
#define TTMON_MISSING_RESETTING 5

// The device left the bus.
#define TTMON_MISSING_GONE 6

// It was read, and cannot be true.
#define TTMON_MISSING_OUT_OF_RANGE 7

// It was read, and is not what the driver documents.
#define TTMON_MISSING_UNPARSABLE 8

// The read did not come back in time.
#define TTMON_MISSING_TIMEOUT 9

// The kernel answered with an error.
#define TTMON_MISSING_IO_ERROR 10

// A rate needs two samples.
#define TTMON_MISSING_FIRST_SAMPLE 11

// A process may use memory, but nothing tracks it.
#define TTMON_MISSING_NOT_TRACKED 12

// Nothing measures it.
#define TTMON_MISSING_NO_SOURCE 13

// Only the chip has it, and reading the chip was not asked for.
#define TTMON_MISSING_NEEDS_DEEP 14

// The program runs without the dispatch firmware that counts.
#define TTMON_MISSING_SLOW_DISPATCH 15

// The program's counters stand still.
#define TTMON_MISSING_STALE 16

// No process holds the chip.
#define TTMON_MISSING_NOT_HELD 17

// Another program has the device for itself, or all of its windows.
#define TTMON_MISSING_BUSY 18

// The chip is read once its pending power-down has happened.
#define TTMON_MISSING_IDLE_WAIT 19

// What is known of a process's memory. The first: its ledger has every buffer.
#define TTMON_STATUS_TRACKED 1

// TT-Metal's own statistics have it.
#define TTMON_STATUS_REPORTED 2

// It has a device open and does not report its memory.
#define TTMON_STATUS_OPEN 3

// What it uses is written down where this user may not read.
#define TTMON_STATUS_NO_PERMISSION 4

// It has exited, but another process still has its device file open.
#define TTMON_STATUS_DEAD 5

// It reports to the service, on the allocation socket.
#define TTMON_STATUS_CONNECTED 6

// Where a figure comes from. The first, which is the best: the ledger that the process itself writes.
#define TTMON_SOURCE_LEDGER 1

// TT-Metal's statistics in shared memory.
#define TTMON_SOURCE_SHM 2

// The kernel driver.
#define TTMON_SOURCE_FDINFO 3

// The process's reports to the service on the allocation socket.
#define TTMON_SOURCE_SERVER 4

// Whether a device can be read. The first: it answers.
#define TTMON_STATE_OK 1

// It is being reset.
#define TTMON_STATE_RESETTING 2

// It left the bus.
#define TTMON_STATE_GONE 3

// It is there, and nothing that can be believed was read.
#define TTMON_STATE_UNREADABLE 4

// It publishes no telemetry.
#define TTMON_STATE_UNKNOWN 5

// The driver has it, and its firmware does not answer yet.
#define TTMON_STATE_STARTING 6

// How a device fares, against the limits it publishes itself. The first: nothing to judge by.
#define TTMON_HEALTH_UNKNOWN 1

// Within its limits.
#define TTMON_HEALTH_OK 2

// Close to a limit, or something is odd.
#define TTMON_HEALTH_WARNING 3

// At a limit.
#define TTMON_HEALTH_CRITICAL 4

// Bytes of a process's name in ttmon_process_stats, the NUL at its end included.
#define TTMON_NAME_BYTES 64

// An open monitor. Threads may share one; only its closing wants to be alone.
typedef struct ttmon_monitor ttmon_monitor;

// A number, or why there is none: `value` counts only where `missing` is TTMON_PRESENT, and is 0 otherwise.
typedef struct ttmon_figure {
  // Bytes, unless the name says otherwise.
  uint64_t value;
  // TTMON_PRESENT or one of TTMON_MISSING_...
  int32_t missing;
} ttmon_figure;

// A number with a fraction, or why there is none.
typedef struct ttmon_real {
  // 0 where it is missing.
  double value;
  // TTMON_PRESENT or one of TTMON_MISSING_...
  int32_t missing;
} ttmon_real;

// A device, all processes together.
typedef struct ttmon_system_stats {
  // Set by the caller to sizeof(ttmon_system_stats) before the call.
  uint32_t struct_size;
  // N of /dev/tenstorrent/N, or a number after those for a chip reached over Ethernet.
  uint32_t device;
  // Time of the sample, in nanoseconds since 1970.
  uint64_t time_ns;
  // One of TTMON_STATE_...
  uint32_t state;
  // One of TTMON_HEALTH_...
  uint32_t health;
  // What the chip has.
  struct ttmon_figure dram_total;
  // What programs asked for, traces included. A lower bound where there are untracked processes.
  struct ttmon_figure dram_used;
  // The rest.
  struct ttmon_figure dram_free;
  // What the chip has.
  struct ttmon_figure l1_total;
  // What programs asked for, small and circular buffers included.
  struct ttmon_figure l1_used;
  // The rest.
  struct ttmon_figure l1_free;
  // Processes that hold the device or have memory on it.
  uint64_t processes;
  // Those that do not report their memory.
  uint64_t untracked_processes;
  // Those of another pid namespace, which cannot be named; counted as untracked too.
  uint64_t hidden_processes;
  // Degrees Celsius.
  struct ttmon_real temperature;
  // Watts of the chip's core rail, not of the board.
  struct ttmon_real power;
  // Megahertz.
  struct ttmon_figure aiclk_mhz;
} ttmon_system_stats;

// One kind of memory of a process on a chip.
typedef struct ttmon_process_kind {
  // Sum of the live buffers' sizes as asked for.
  struct ttmon_figure used;
  // What the allocators took, padding included.
  struct ttmon_figure allocated;
  // Highest `used` since tracking began.
  struct ttmon_figure peak;
  // When that was, in nanoseconds since 1970.
  struct ttmon_figure peak_time_ns;
  // Live buffers.
  struct ttmon_figure count;
  // One of TTMON_SOURCE_...
  struct ttmon_figure source;
} ttmon_process_kind;

// A process on a device, or on all of them.
typedef struct ttmon_process_stats {
  // Set by the caller to sizeof(ttmon_process_stats) before the call.
  uint32_t struct_size;
  // As asked for.
  int32_t pid;
  // As asked for.
  uint32_t device;
  // One of TTMON_STATUS_...
  uint32_t status;
  // How many devices it has to do with.
  uint32_t devices;
  // TTMON_PRESENT, or why there is no name.
  int32_t name_missing;
  // What the kernel calls it (comm), in UTF-8, ending with NUL. Its owner chose it: clean it before you print it.
  char name[TTMON_NAME_BYTES];
  // By TTMON_KIND_...
  struct ttmon_process_kind kinds[TTMON_KINDS];
} ttmon_process_stats;

// One kind of memory of a device, all processes together.
typedef struct ttmon_kind_stats {
  // Set by the caller to sizeof(ttmon_kind_stats) before the call.
  uint32_t struct_size;
  // As asked for.
  uint32_t device;
  // As asked for.
  uint32_t kind;
  // Processes that hold the device or have memory on it.
  uint32_t processes;
  // What the chip has.
  struct ttmon_figure total;
  // The allocator's own limit.
  struct ttmon_figure capacity;
  // Sum of the live buffers' sizes as asked for.
  struct ttmon_figure used;
  // What the allocators took, padding included.
  struct ttmon_figure allocated;
  // What can still be had: capacity less allocated, else total less used.
  struct ttmon_figure free;
  // Highest `used`, if it is recorded.
  struct ttmon_figure peak;
  // Live buffers.
  struct ttmon_figure count;
  // One of TTMON_SOURCE_...
  struct ttmon_figure source;
} ttmon_kind_stats;

// One kind of memory of one allocator on a device. All banks are alike: a buffer takes as many bytes of each.
typedef struct ttmon_bank_stats {
  // Set by the caller to sizeof(ttmon_bank_stats) before the call.
  uint32_t struct_size;
  // As asked for.
  uint32_t device;
  // As asked for.
  uint32_t kind;
  // The allocator's process.
  int32_t pid;
  // The allocator's name, the same as in ttmon mem --json, ending with NUL.
  char allocator[TTMON_NAME_BYTES];
  // How many.
  struct ttmon_figure banks;
  // Bytes of one that can be allocated.
  struct ttmon_figure bank_bytes;
  // Allocated bytes of one.
  struct ttmon_figure allocated_per_bank;
  // Free bytes of one.
  struct ttmon_figure free_per_bank;
  // Bytes of its largest free block.
  struct ttmon_figure largest_free_per_bank;
  // The share of the free bytes that is not in that block, 0 to 1.
  struct ttmon_real fragmentation;
  // Blocks, used and free.
  struct ttmon_figure blocks;
} ttmon_bank_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens the machine below a directory that stands for `/`, or this machine for NULL. Returns NULL where that is no
// directory; ttmon_monitor_last_error() says why. A machine without devices can be opened.
//
// # Safety
// `root` is NULL, or a string that ends with NUL and is not written to until the call returns.
struct ttmon_monitor *ttmon_monitor_open(const char *root);

// Closes a monitor; NULL is nothing to close.
//
// # Safety
// `monitor` is NULL or came from ttmon_monitor_open, and no call uses it now or later.
void ttmon_monitor_close(struct ttmon_monitor *monitor);

// The text of the newest failure of a call in this thread, "" where there was none. Never NULL. Each thread has its own;
// it stays unchanged until the thread's next call that fails.
const char *ttmon_monitor_last_error(void);

// From now on a sample answers all calls for so many milliseconds after it was taken: 100 unless this is called; with 0
// every call takes its own.
//
// # Safety
// `monitor` is NULL or an open monitor.
int32_t ttmon_monitor_set_max_age(struct ttmon_monitor *monitor,
                                  uint32_t milliseconds);

// How many devices there are.
//
// # Safety
// `monitor` is NULL or an open monitor; `count` is NULL or can be written to.
int32_t ttmon_monitor_device_count(struct ttmon_monitor *monitor, uint32_t *count);

// The ids of the devices, in order; they may have gaps. Writes as many as `capacity` says, and how many there are to
// `count`.
//
// # Safety
// `monitor` is NULL or an open monitor; `ids` has room for `capacity` numbers, or is NULL and `capacity` 0; `count` is
// NULL or can be written to.
int32_t ttmon_monitor_device_ids(struct ttmon_monitor *monitor,
                                 uint32_t *ids,
                                 uint32_t capacity,
                                 uint32_t *count);

// The pids of the processes that hold a device or have memory on it, as ttmon_monitor_device_ids gives ids.
//
// # Safety
// As of ttmon_monitor_device_ids.
int32_t ttmon_monitor_process_ids(struct ttmon_monitor *monitor,
                                  uint32_t device,
                                  int32_t *pids,
                                  uint32_t capacity,
                                  uint32_t *count);

// A device, all processes together.
//
// # Safety
// `monitor` is NULL or an open monitor; `out` is NULL, or has the bytes that its struct_size says.
int32_t ttmon_monitor_system_stats(struct ttmon_monitor *monitor,
                                   uint32_t device,
                                   struct ttmon_system_stats *out);

// A process on a device, or on all of them with TTMON_MONITOR_ALL_DEVICES. `pid` is its number on this host. For one that
// holds no device all processes have to be looked through, which may take 0.2 s.
//
// # Safety
// As of ttmon_monitor_system_stats.
int32_t ttmon_monitor_process_stats(struct ttmon_monitor *monitor,
                                    int32_t pid,
                                    uint32_t device,
                                    struct ttmon_process_stats *out);

// One kind of memory of a device, all processes together: one of TTMON_KIND_...
//
// # Safety
// As of ttmon_monitor_system_stats.
int32_t ttmon_monitor_detailed_stats(struct ttmon_monitor *monitor,
                                     uint32_t device,
                                     uint8_t kind,
                                     struct ttmon_kind_stats *out);

// Banks and fragmentation of one kind of memory, of one allocator on a device: `index` counts them from 0 on, and after the last
// there is TTMON_MONITOR_NOT_FOUND. Their order holds for as long as a sample answers: see ttmon_monitor_set_max_age.
//
// # Safety
// As of ttmon_monitor_system_stats.
int32_t ttmon_monitor_bank_stats(struct ttmon_monitor *monitor,
                                 uint32_t device,
                                 uint8_t kind,
                                 uint32_t index,
                                 struct ttmon_bank_stats *out);

// The word for a reason: "not_tracked". As all of these: "" for TTMON_PRESENT and for a number that is none, never NULL,
// the same words as in ttmon --json.
const char *ttmon_monitor_missing_name(int32_t missing);

// The word for a TTMON_KIND_...
const char *ttmon_monitor_kind_name(uint8_t kind);

// The word for a TTMON_STATUS_...
const char *ttmon_monitor_status_name(uint32_t status);

// The word for a TTMON_SOURCE_...
const char *ttmon_monitor_source_name(uint64_t source);

// The word for a TTMON_STATE_...
const char *ttmon_monitor_state_name(uint32_t state);

// The word for a TTMON_HEALTH_...
const char *ttmon_monitor_health_name(uint32_t health);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TTMON_MONITOR_H */
