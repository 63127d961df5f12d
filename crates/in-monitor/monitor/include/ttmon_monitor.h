/* ttmon_monitor.h: who holds how much memory of which Tenstorrent device, read from your own program.
 *
 *     ttmon_monitor *monitor = ttmon_monitor_open(NULL);
 *     ttmon_system_stats stats = { .struct_size = sizeof stats };
 *     if (ttmon_monitor_system_stats(monitor, 0, &stats) == TTMON_MONITOR_OK && stats.dram_used.missing == TTMON_PRESENT) {
 *         printf("%llu bytes of DRAM in use\n", (unsigned long long)stats.dram_used.value);
 *     }
 *     ttmon_monitor_close(monitor);
 *
 * Link with libttmon_monitor (-lttmon_monitor). An unknown value has a reason instead of a number: check `missing` first.
 * Functions that return int32_t return TTMON_MONITOR_OK or a negative number; ttmon_monitor_last_error() returns the
 * message. A function that fails does not write to `out`.
 *
 * Any thread may use a monitor at any time. Nothing is printed, no device is opened, errno is kept. Files are read by a
 * few threads of the library that block all signals; a read that hangs in the driver is abandoned after 200 ms, but
 * can delay the end of the program until the driver answers. After a fork, the child must open its own monitor.
 */

#ifndef TTMON_MONITOR_H
#define TTMON_MONITOR_H

/* Made by cbindgen from crates/in-monitor/monitor/src/exports.rs: do not edit. */

#include <stdint.h>

// Success.
#define TTMON_MONITOR_OK 0

// An argument is invalid: a null pointer, a pid that is not positive, an unknown kind, or a wrong struct_size.
#define TTMON_MONITOR_BAD_ARGUMENT -1

// The device does not exist, or the process does not use the device.
#define TTMON_MONITOR_NOT_FOUND -2

// An internal error of this library.
#define TTMON_MONITOR_INTERNAL -3

// The machine cannot be read.
#define TTMON_MONITOR_UNREADABLE -4

// The handle was opened before a fork, by another process. Open one in this process.
#define TTMON_MONITOR_FORKED -5

// Used as a device: the sum over all chips of a process, including chips that cannot be mapped to a device.
#define TTMON_MONITOR_ALL_DEVICES 4294967295

// Kinds of device memory. They are also indices in ttmon_process_stats.kinds. This one: buffers in DRAM.
#define TTMON_KIND_DRAM 0

// Buffers in L1.
#define TTMON_KIND_L1 1

// Buffers in the small L1 area.
#define TTMON_KIND_L1_SMALL 2

// Captured traces, in DRAM.
#define TTMON_KIND_TRACE 3

// Circular and dataflow buffers, in L1.
#define TTMON_KIND_CB 4

// Bytes of loaded programs. They do not occupy L1 and are part of no sum.
#define TTMON_KIND_KERNEL 5

// The number of kinds.
#define TTMON_KINDS 6

// Reasons for missing values. This one: the value is present.
#define TTMON_PRESENT 0

// Chips of this architecture never publish the value.
#define TTMON_MISSING_NOT_ON_THIS_ARCH 1

// This driver or firmware does not publish the value.
#define TTMON_MISSING_NOT_EXPOSED 2

// The chip is reached only over Ethernet.
#define TTMON_MISSING_REMOTE_CHIP 3

// The value exists, but this user may not read it.
#define TTMON_MISSING_NO_PERMISSION 4

// The chip is being reset.
#define TTMON_MISSING_RESETTING 5

// The device left the bus.
#define TTMON_MISSING_GONE 6

// The value is impossible.
#define TTMON_MISSING_OUT_OF_RANGE 7

// The value is not in the documented format of the driver.
#define TTMON_MISSING_UNPARSABLE 8

// The read did not finish in time.
#define TTMON_MISSING_TIMEOUT 9

// The kernel returned an error.
#define TTMON_MISSING_IO_ERROR 10

// A rate needs two samples.
#define TTMON_MISSING_FIRST_SAMPLE 11

// A process may use memory that is not tracked.
#define TTMON_MISSING_NOT_TRACKED 12

// The value is not measured.
#define TTMON_MISSING_NO_SOURCE 13

// The value must be read directly from the chip, which was not requested.
#define TTMON_MISSING_NEEDS_DEEP 14

// The program runs without the dispatch firmware that has the counters.
#define TTMON_MISSING_SLOW_DISPATCH 15

// The program's counters do not advance.
#define TTMON_MISSING_STALE 16

// No process holds the chip.
#define TTMON_MISSING_NOT_HELD 17

// Another program has exclusive use of the device, or all of its windows.
#define TTMON_MISSING_BUSY 18

// The chip will be read after its pending power-down.
#define TTMON_MISSING_IDLE_WAIT 19

// How a process's memory is tracked. This one: the ledger of the process has every buffer.
#define TTMON_STATUS_TRACKED 1

// TT-Metal's own statistics have the process.
#define TTMON_STATUS_REPORTED 2

// The process has a device open and does not report its memory.
#define TTMON_STATUS_OPEN 3

// The memory is recorded in a place that this user may not read.
#define TTMON_STATUS_NO_PERMISSION 4

// The process has exited, but another process still has its device file open.
#define TTMON_STATUS_DEAD 5

// The process reports to the service, on the allocation socket.
#define TTMON_STATUS_CONNECTED 6

// The source of a figure. This one, which is the best: the ledger that the process itself writes.
#define TTMON_SOURCE_LEDGER 1

// TT-Metal's statistics in shared memory.
#define TTMON_SOURCE_SHM 2

// The kernel driver.
#define TTMON_SOURCE_FDINFO 3

// The process's reports to the service on the allocation socket.
#define TTMON_SOURCE_SERVER 4

// Whether a device can be read. This one: the device answers.
#define TTMON_STATE_OK 1

// The device is being reset.
#define TTMON_STATE_RESETTING 2

// The device left the bus.
#define TTMON_STATE_GONE 3

// The device is present, but no valid value could be read.
#define TTMON_STATE_UNREADABLE 4

// The device publishes no telemetry.
#define TTMON_STATE_UNKNOWN 5

// The driver has listed the device, but its firmware does not answer yet.
#define TTMON_STATE_STARTING 6

// Health of a device, compared with the limits that it publishes. This one: unknown, because there are no limits.
#define TTMON_HEALTH_UNKNOWN 1

// Within the limits.
#define TTMON_HEALTH_OK 2

// Close to a limit, or unusual.
#define TTMON_HEALTH_WARNING 3

// At a limit.
#define TTMON_HEALTH_CRITICAL 4

// Bytes of a process's name in ttmon_process_stats, including the NUL at its end.
#define TTMON_NAME_BYTES 64

// An open monitor. Threads may share it. No other thread may use it while it is closed.
typedef struct ttmon_monitor ttmon_monitor;

// A number, or the reason why it is missing. `value` is valid only if `missing` is TTMON_PRESENT, and is 0 otherwise.
typedef struct ttmon_figure {
  // The number, in bytes unless the name states another unit.
  uint64_t value;
  // TTMON_PRESENT or one of TTMON_MISSING_...
  int32_t missing;
} ttmon_figure;

// A number with a fraction, or the reason why it is missing.
typedef struct ttmon_real {
  // The number, or 0 if it is missing.
  double value;
  // TTMON_PRESENT or one of TTMON_MISSING_...
  int32_t missing;
} ttmon_real;

// The figures of a device, over all processes.
typedef struct ttmon_system_stats {
  // Set by the caller to sizeof(ttmon_system_stats) before the call.
  uint32_t struct_size;
  // N of /dev/tenstorrent/N, or a higher number for a chip that is reached over Ethernet.
  uint32_t device;
  // Time of the sample, in nanoseconds since 1970.
  uint64_t time_ns;
  // One of TTMON_STATE_...
  uint32_t state;
  // One of TTMON_HEALTH_...
  uint32_t health;
  // DRAM of the chip.
  struct ttmon_figure dram_total;
  // DRAM that programs requested, including traces. A lower bound if there are untracked processes.
  struct ttmon_figure dram_used;
  // DRAM that is not used.
  struct ttmon_figure dram_free;
  // L1 of the chip.
  struct ttmon_figure l1_total;
  // L1 that programs requested, including small and circular buffers.
  struct ttmon_figure l1_used;
  // L1 that is not used.
  struct ttmon_figure l1_free;
  // Number of processes that hold the device or have memory on it.
  uint64_t processes;
  // Number of processes that do not report their memory.
  uint64_t untracked_processes;
  // Number of processes in another pid namespace, which cannot be named. They are also counted as untracked.
  uint64_t hidden_processes;
  // Temperature in degrees Celsius.
  struct ttmon_real temperature;
  // Power of the chip's core rail in watts, not of the board.
  struct ttmon_real power;
  // AI clock in megahertz.
  struct ttmon_figure aiclk_mhz;
} ttmon_system_stats;

// One kind of memory of a process on a chip.
typedef struct ttmon_process_kind {
  // Sum of the live buffers' requested sizes.
  struct ttmon_figure used;
  // Bytes that the allocators took, including padding.
  struct ttmon_figure allocated;
  // Highest `used` since tracking began.
  struct ttmon_figure peak;
  // Time of the peak, in nanoseconds since 1970.
  struct ttmon_figure peak_time_ns;
  // Number of live buffers.
  struct ttmon_figure count;
  // One of TTMON_SOURCE_...
  struct ttmon_figure source;
} ttmon_process_kind;

// The figures of a process on a device, or on all devices.
typedef struct ttmon_process_stats {
  // Set by the caller to sizeof(ttmon_process_stats) before the call.
  uint32_t struct_size;
  // The requested pid.
  int32_t pid;
  // The requested device.
  uint32_t device;
  // One of TTMON_STATUS_...
  uint32_t status;
  // Number of devices that the process uses.
  uint32_t devices;
  // TTMON_PRESENT, or the reason why the name is missing.
  int32_t name_missing;
  // The kernel's name of the process (comm), in UTF-8, ending with NUL. The owner of the process chose it, so sanitise it before
  // printing.
  char name[TTMON_NAME_BYTES];
  // The figures of each kind, by TTMON_KIND_...
  struct ttmon_process_kind kinds[TTMON_KINDS];
} ttmon_process_stats;

// The figures of one kind of memory of a device, over all processes.
typedef struct ttmon_kind_stats {
  // Set by the caller to sizeof(ttmon_kind_stats) before the call.
  uint32_t struct_size;
  // The requested device.
  uint32_t device;
  // The requested kind.
  uint32_t kind;
  // Number of processes that hold the device or have memory on it.
  uint32_t processes;
  // Capacity of the chip.
  struct ttmon_figure total;
  // The allocator's own limit.
  struct ttmon_figure capacity;
  // Sum of the live buffers' requested sizes.
  struct ttmon_figure used;
  // Bytes that the allocators took, including padding.
  struct ttmon_figure allocated;
  // Free bytes: capacity minus allocated, else total minus used.
  struct ttmon_figure free;
  // Highest `used`, if it is recorded.
  struct ttmon_figure peak;
  // Number of live buffers.
  struct ttmon_figure count;
  // One of TTMON_SOURCE_...
  struct ttmon_figure source;
} ttmon_kind_stats;

// The figures of one kind of memory of one allocator on a device. A buffer takes the same number of bytes of each bank.
typedef struct ttmon_bank_stats {
  // Set by the caller to sizeof(ttmon_bank_stats) before the call.
  uint32_t struct_size;
  // The requested device.
  uint32_t device;
  // The requested kind.
  uint32_t kind;
  // The pid of the allocator's process.
  int32_t pid;
  // The id of the allocator, the same as in ttmon mem --json, ending with NUL.
  char allocator[TTMON_NAME_BYTES];
  // Number of banks.
  struct ttmon_figure banks;
  // Bytes of a bank that can be allocated.
  struct ttmon_figure bank_bytes;
  // Allocated bytes of a bank.
  struct ttmon_figure allocated_per_bank;
  // Free bytes of a bank.
  struct ttmon_figure free_per_bank;
  // Bytes of the largest free block of a bank.
  struct ttmon_figure largest_free_per_bank;
  // The share of the free bytes outside the largest free block, 0 to 1.
  struct ttmon_real fragmentation;
  // Number of blocks, used and free.
  struct ttmon_figure blocks;
} ttmon_bank_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens the machine below a directory that is used as `/`, or this machine for NULL. Returns NULL if the directory cannot be read.
// ttmon_monitor_last_error() then has the reason. A machine without devices can be opened.
//
// # Safety
// `root` is NULL, or a string that ends with NUL and is not modified until the call returns.
struct ttmon_monitor *ttmon_monitor_open(const char *root);

// Closes a monitor. Does nothing for NULL.
//
// # Safety
// `monitor` is NULL or came from ttmon_monitor_open, and no other call uses it now or later.
void ttmon_monitor_close(struct ttmon_monitor *monitor);

// Returns the text of the last failed call in this thread, or "" if none has failed. Never returns NULL. Each thread has its own text,
// which stays unchanged until the next failed call in the thread.
const char *ttmon_monitor_last_error(void);

// Sets how many milliseconds a sample is used after it was taken. The default is 100. With 0, every call takes its own sample.
//
// # Safety
// `monitor` is NULL or an open monitor.
int32_t ttmon_monitor_set_max_age(struct ttmon_monitor *monitor,
                                  uint32_t milliseconds);

// Writes the number of devices to `count`.
//
// # Safety
// `monitor` is NULL or an open monitor. `count` is NULL or writable.
int32_t ttmon_monitor_device_count(struct ttmon_monitor *monitor, uint32_t *count);

// Writes the ids of the devices to `ids`, in order. There may be gaps. Writes at most `capacity` ids, and the number of devices to
// `count`.
//
// # Safety
// `monitor` is NULL or an open monitor. `ids` has room for `capacity` numbers, or is NULL and `capacity` is 0. `count` is NULL or
// writable.
int32_t ttmon_monitor_device_ids(struct ttmon_monitor *monitor,
                                 uint32_t *ids,
                                 uint32_t capacity,
                                 uint32_t *count);

// Writes the pids of the processes that hold a device or have memory on it. The arguments are like those of ttmon_monitor_device_ids.
//
// # Safety
// The same as for ttmon_monitor_device_ids.
int32_t ttmon_monitor_process_ids(struct ttmon_monitor *monitor,
                                  uint32_t device,
                                  int32_t *pids,
                                  uint32_t capacity,
                                  uint32_t *count);

// Writes the figures of a device, over all processes.
//
// # Safety
// `monitor` is NULL or an open monitor. `out` is NULL, or has as many bytes as its struct_size states.
int32_t ttmon_monitor_system_stats(struct ttmon_monitor *monitor,
                                   uint32_t device,
                                   struct ttmon_system_stats *out);

// Writes the figures of a process on a device, or on all devices with TTMON_MONITOR_ALL_DEVICES. `pid` is the pid on this host. If the
// process holds no device, all processes must be searched, which may take 0.2 s.
//
// # Safety
// The same as for ttmon_monitor_system_stats.
int32_t ttmon_monitor_process_stats(struct ttmon_monitor *monitor,
                                    int32_t pid,
                                    uint32_t device,
                                    struct ttmon_process_stats *out);

// Writes the figures of one kind of memory of a device, over all processes. `kind` is one of TTMON_KIND_...
//
// # Safety
// The same as for ttmon_monitor_system_stats.
int32_t ttmon_monitor_detailed_stats(struct ttmon_monitor *monitor,
                                     uint32_t device,
                                     uint8_t kind,
                                     struct ttmon_kind_stats *out);

// Writes banks and fragmentation of one kind of memory of one allocator on a device. `index` counts the allocators from 0. After the last
// one, the result is TTMON_MONITOR_NOT_FOUND. The order is the same as long as the sample is used (see ttmon_monitor_set_max_age).
//
// # Safety
// The same as for ttmon_monitor_system_stats.
int32_t ttmon_monitor_bank_stats(struct ttmon_monitor *monitor,
                                 uint32_t device,
                                 uint8_t kind,
                                 uint32_t index,
                                 struct ttmon_bank_stats *out);

// Returns the name of a reason, for example "not_tracked". All functions of this group return the names of ttmon --json. They return ""
// for TTMON_PRESENT and for an unknown number, and never NULL.
const char *ttmon_monitor_missing_name(int32_t missing);

// Returns the name of a TTMON_KIND_...
const char *ttmon_monitor_kind_name(uint8_t kind);

// Returns the name of a TTMON_STATUS_...
const char *ttmon_monitor_status_name(uint32_t status);

// Returns the name of a TTMON_SOURCE_...
const char *ttmon_monitor_source_name(uint64_t source);

// Returns the name of a TTMON_STATE_...
const char *ttmon_monitor_state_name(uint32_t state);

// Returns the name of a TTMON_HEALTH_...
const char *ttmon_monitor_health_name(uint32_t health);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TTMON_MONITOR_H */
