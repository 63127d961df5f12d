/* ttmon.h: report your program's device memory to ttmon.
 *
 * Link with libttmon_client (-lttmon_client). Nothing has to be opened or closed. Every function returns one of the codes
 * below, prints nothing and keeps errno. While tracking is off it costs a load and a branch; TT_ALLOC_TRACKING_ENABLED=1
 * or TTMON_TRACKING=1 in the environment of the first call turns it on.
 *
 * Any thread may call them, also after a fork and while the program exits; a signal handler may where its thread has
 * called one before. The first call makes the ledger of the process and hands it over: under `ttmon run`, where very many
 * processes start together, that may take up to a second. Later calls wait for other threads' calls alone, and not for
 * more than a second while none of them gets on: that report is TTMON_LOST.
 *
 * A process has one ledger, and the copy of this library that is called first writes it. So let the program and all its
 * libraries share libttmon_client.so, as Python's ttmon does. A second copy, such as one from libttmon_client.a, passes
 * its reports on where it can see the first one's functions; where it cannot, it is TTMON_OFF.
 */

#ifndef TTMON_H
#define TTMON_H

/* Made by cbindgen from crates/client/src/exports.rs: do not edit. */

#include <stdint.h>

// The report is in the ledger. What is odd about it, such as the free of an unknown buffer, is counted there as such.
#define TTMON_RECORDED 0

// Tracking is off in this process: nobody asked for it, another library does it, or no ledger can be made here.
#define TTMON_OFF 1

// A negative device, a size of 2^40 and more, a null pointer, a pop without a push. Nothing was recorded.
#define TTMON_BAD_ARGUMENT -1

// It could not be recorded; the ledger says so too, as far as there is one.
#define TTMON_LOST -2

// A mistake of this library.
#define TTMON_INTERNAL -3

// Buffer types, as TT-Metal numbers them. Others are listed as "other".
#define TTMON_DRAM 0

// L1 of the cores.
#define TTMON_L1 1

// Memory of the host: listed, in no total of a device.
#define TTMON_SYSTEM_MEMORY 2

// The part of L1 kept for small buffers.
#define TTMON_L1_SMALL 3

// DRAM kept for traces.
#define TTMON_TRACE 4

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Reports a buffer, after the allocator returned it. `device` is TT-Metal's logical id in this process, `size` the bytes
// asked for on that device, `buffer_id` its address. The same buffer again with the same size adds a reference; with
// another size it takes the place of the old one.
int32_t ttmon_report_allocation(int32_t device,
                                uint64_t size,
                                uint8_t buffer_type,
                                uint64_t buffer_id);

// Reports the end of a buffer, before the allocator takes it back. Drops one reference; the last one frees.
int32_t ttmon_report_deallocation(int32_t device,
                                  uint64_t buffer_id);

// Reports a circular buffer.
int32_t ttmon_report_cb_allocation(int32_t device, uint64_t size, uint64_t cb_id);

// Reports the end of a circular buffer. `size` is not needed: what was reported is what goes.
int32_t ttmon_report_cb_deallocation(int32_t device, uint64_t size, uint64_t cb_id);

// Reports a loaded kernel. `kernel_type`: 0 application, 1 fabric, 2 dispatch.
int32_t ttmon_report_kernel_load(int32_t device,
                                 uint64_t size,
                                 uint8_t kernel_type,
                                 uint64_t kernel_id);

// Reports that a kernel was unloaded. `size` is not needed: what was reported is what goes.
int32_t ttmon_report_kernel_unload(int32_t device, uint64_t size, uint64_t kernel_id);

// Reports that a device was closed: all that was reported for it is gone. A later report opens it again.
int32_t ttmon_report_device_close(int32_t device);

// What this thread allocates from now on carries this text, at most 62 bytes of UTF-8, until the matching pop. Every push
// needs its pop, even if it failed. `utf8` ends with NUL; it is copied.
//
// # Safety
// `utf8` is null, or a string that ends with NUL and is not written to until the call returns.
int32_t ttmon_tag_push(const char *utf8);

// Ends the newest tag of this thread.
int32_t ttmon_tag_pop(void);

// Sets a mark: `ttmon run --fail-on-growth` compares the end of the program with the last one.
int32_t ttmon_mark(void);

// Writes the bytes of a buffer type that this process has live on a device, as asked for; a buffer of a mesh counts on each of its
// chips. Where the hook sees the device, what was reported for it by hand is left out. `bytes` is written on success alone.
//
// # Safety
// `bytes` is null, or a place for a number.
int32_t ttmon_memory_allocated(int32_t device,
                               uint8_t buffer_type,
                               uint64_t *bytes);

// The most there was, since tracking began or since `ttmon_reset_peak`, whether the device is still open or not. Where several
// allocators share it (a mesh and its submesh) it is the most they had together.
//
// # Safety
// `bytes` is null, or a place for a number.
int32_t ttmon_max_memory_allocated(int32_t device,
                                   uint8_t buffer_type,
                                   uint64_t *bytes);

// From now on `ttmon_max_memory_allocated` counts anew, of a mesh on all its chips. What others see as the peak stays.
int32_t ttmon_reset_peak(int32_t device,
                         uint8_t buffer_type);

// A phase of the program begins, such as a step or a request. `ttmon run` reports peak, growth and time of each name, all iterations
// together. Phases may be nested. `utf8` ends with NUL; at most 62 bytes are kept.
//
// # Safety
// `utf8` is null, or a string that ends with NUL and is not written to until the call returns.
int32_t ttmon_phase_begin(const char *utf8);

// The newest phase of that name ends.
//
// # Safety
// As `ttmon_phase_begin`.
int32_t ttmon_phase_end(const char *utf8);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TTMON_H */
