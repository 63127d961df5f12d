/* ttmon.h: report your program's device memory to ttmon.
 *
 * Link with libttmon_client (-lttmon_client). Nothing has to be opened or closed. Every function returns one of the codes
 * below, prints nothing and keeps errno. While tracking is off, a call costs a load and a branch. Set
 * TT_ALLOC_TRACKING_ENABLED=1 or TTMON_TRACKING=1 in the environment before the first call to turn tracking on.
 *
 * Any thread may call the functions, also after a fork and while the program exits. A signal handler may call them if
 * its thread has called one before. The first call creates the ledger of the process and sends it to `ttmon run` or to
 * the service; if very many processes start together, this takes up to a second. Later calls wait only for calls of
 * other threads. If no other thread makes progress for a second, the report is lost and the call returns TTMON_LOST.
 *
 * A process has one ledger. The copy of this library that is called first writes it. Therefore the program and all its
 * libraries should share libttmon_client.so, as Python's ttmon does. A second copy, such as one from libttmon_client.a,
 * forwards its reports if it can see the functions of the first copy; otherwise its functions return TTMON_OFF.
 */

#ifndef TTMON_H
#define TTMON_H

/* Made by cbindgen from crates/in-program/client/src/exports.rs: do not edit. */

#include <stdint.h>

// The report is in the ledger. The ledger also counts unusual reports, such as the free of an unknown buffer.
#define TTMON_RECORDED 0

// Tracking is off in this process: it was not requested, another library does it, or no ledger can be created here.
#define TTMON_OFF 1

// A negative device, a size of 2^40 or more, a null pointer, or a pop without a push. Nothing was recorded.
#define TTMON_BAD_ARGUMENT -1

// The report could not be recorded. The ledger counts it, if there is one.
#define TTMON_LOST -2

// A defect of this library.
#define TTMON_INTERNAL -3

// Buffer types, with TT-Metal's numbers. Other numbers are listed as "other".
#define TTMON_DRAM 0

// L1 of the cores.
#define TTMON_L1 1

// Host memory. It is listed, but not included in the totals of a device.
#define TTMON_SYSTEM_MEMORY 2

// The part of L1 that is reserved for small buffers.
#define TTMON_L1_SMALL 3

// DRAM that is reserved for traces.
#define TTMON_TRACE 4

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Reports a buffer, after the allocator returned it. `device` is TT-Metal's logical id in this process, `size` the requested bytes on that
// device, `buffer_id` the address. Reporting the same buffer again with the same size adds a reference. With another size it replaces the
// old buffer.
int32_t ttmon_report_allocation(int32_t device,
                                uint64_t size,
                                uint8_t buffer_type,
                                uint64_t buffer_id);

// Reports the end of a buffer, before the allocator frees it. Removes one reference; the last one frees the buffer.
int32_t ttmon_report_deallocation(int32_t device,
                                  uint64_t buffer_id);

// Reports a circular buffer.
int32_t ttmon_report_cb_allocation(int32_t device, uint64_t size, uint64_t cb_id);

// Reports the end of a circular buffer. `size` is ignored; the reported size is used.
int32_t ttmon_report_cb_deallocation(int32_t device, uint64_t size, uint64_t cb_id);

// Reports a loaded kernel. `kernel_type`: 0 application, 1 fabric, 2 dispatch.
int32_t ttmon_report_kernel_load(int32_t device,
                                 uint64_t size,
                                 uint8_t kernel_type,
                                 uint64_t kernel_id);

// Reports that a kernel was unloaded. `size` is ignored; the reported size is used.
int32_t ttmon_report_kernel_unload(int32_t device, uint64_t size, uint64_t kernel_id);

// Reports that a device was closed. All its buffers are removed. A later report opens the device again.
int32_t ttmon_report_device_close(int32_t device);

// Sets the tag of all buffers that this thread allocates until the matching pop: at most 62 bytes of UTF-8. Every push needs its pop, even
// if it failed. `utf8` is NUL-terminated and copied.
//
// # Safety
// `utf8` is null, or a NUL-terminated string that does not change until the call returns.
int32_t ttmon_tag_push(const char *utf8);

// Ends the newest tag of this thread.
int32_t ttmon_tag_pop(void);

// Sets a mark. `ttmon run --fail-on-growth` compares the end of the program with the last mark.
int32_t ttmon_mark(void);

// Writes the live bytes of a buffer type that this process has on a device, as requested from the allocator. A buffer of a mesh counts on
// each of its chips. If the hook tracks the device, reports by the program itself are not included. `bytes` is written only on success.
//
// # Safety
// `bytes` is null, or points to a writable number.
int32_t ttmon_memory_allocated(int32_t device,
                               uint8_t buffer_type,
                               uint64_t *bytes);

// Writes the peak of the live bytes, since tracking began or since `ttmon_reset_peak`, also for a device that was closed. If several
// allocators share the device (a mesh and its submesh), it is their common peak.
//
// # Safety
// `bytes` is null, or points to a writable number.
int32_t ttmon_max_memory_allocated(int32_t device,
                                   uint8_t buffer_type,
                                   uint64_t *bytes);

// Restarts the peak of `ttmon_max_memory_allocated`; for a mesh, on all its chips. The peak that ttmon shows does not change.
int32_t ttmon_reset_peak(int32_t device,
                         uint8_t buffer_type);

// Begins a phase of the program, such as a step or a request. `ttmon run` reports peak, growth and time for each name, over all its
// iterations. Phases may be nested. `utf8` is NUL-terminated; at most 62 bytes are stored.
//
// # Safety
// `utf8` is null, or a NUL-terminated string that does not change until the call returns.
int32_t ttmon_phase_begin(const char *utf8);

// Ends the newest phase with this name.
//
// # Safety
// As `ttmon_phase_begin`.
int32_t ttmon_phase_end(const char *utf8);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TTMON_H */
