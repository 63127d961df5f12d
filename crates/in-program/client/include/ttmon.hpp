// ttmon.hpp: report your program's device memory to ttmon, from C++17.
//
// The same names as TT-Metal's experimental allocation client, so that code written for it compiles:
//
//     AllocationClient::report_allocation(device_id, size, buffer_type, address);
//     AllocationClient::report_deallocation(device_id, address);
//     ttmon::Tag layer("layer 7");   // what this thread allocates carries the text until `layer` goes out of scope
//
// Link with libttmon_client (-lttmon_client). ttmon.h says what each function means and returns. Nothing here throws.
// With ttmon_monitor.hpp beside it, this header also has ttmon::SystemMemoryMonitor, which reads what all programs use
// (link with -lttmon_monitor where you use it).
// Define TTMON_NO_GLOBAL_NAMES before the include if your program has an AllocationClient of its own.

#ifndef TTMON_HPP
#define TTMON_HPP

#include <cstdint>
#include <string>
#include <utility>

#include "ttmon.h"

namespace ttmon {

class AllocationClient {
public:
    AllocationClient() = delete;

    static std::int32_t report_allocation(int device_id, std::uint64_t size, std::uint8_t buffer_type, std::uint64_t buffer_id) noexcept {
        return ttmon_report_allocation(device_id, size, buffer_type, buffer_id);
    }
    static std::int32_t report_deallocation(int device_id, std::uint64_t buffer_id) noexcept {
        return ttmon_report_deallocation(device_id, buffer_id);
    }
    static std::int32_t report_cb_allocation(int device_id, std::uint64_t size, std::uint64_t cb_id) noexcept {
        return ttmon_report_cb_allocation(device_id, size, cb_id);
    }
    static std::int32_t report_cb_deallocation(int device_id, std::uint64_t size, std::uint64_t cb_id) noexcept {
        return ttmon_report_cb_deallocation(device_id, size, cb_id);
    }
    static std::int32_t report_kernel_load(int device_id, std::uint64_t size, std::uint8_t kernel_type, std::uint64_t kernel_id) noexcept {
        return ttmon_report_kernel_load(device_id, size, kernel_type, kernel_id);
    }
    static std::int32_t report_kernel_unload(int device_id, std::uint64_t size, std::uint64_t kernel_id) noexcept {
        return ttmon_report_kernel_unload(device_id, size, kernel_id);
    }
    static std::int32_t report_device_close(int device_id) noexcept { return ttmon_report_device_close(device_id); }
};

// A tag of the thread that made it: neither copied nor moved.
class Tag {
public:
    explicit Tag(const char* utf8) noexcept { ttmon_tag_push(utf8); }
    explicit Tag(const std::string& utf8) noexcept : Tag(utf8.c_str()) {}
    ~Tag() { ttmon_tag_pop(); }

    Tag(const Tag&) = delete;
    Tag& operator=(const Tag&) = delete;
};

// A phase of the program, from here to the end of the block.
class Phase {
public:
    explicit Phase(std::string name) noexcept : name_(std::move(name)) { ttmon_phase_begin(name_.c_str()); }
    ~Phase() { ttmon_phase_end(name_.c_str()); }

    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

private:
    std::string name_;
};

inline std::int32_t mark() noexcept { return ttmon_mark(); }

// Bytes live on a device now, and at most; 0 if there is no figure (ttmon_memory_allocated has the reason).
inline std::uint64_t memory_allocated(int device_id, std::uint8_t buffer_type = TTMON_DRAM) noexcept {
    std::uint64_t bytes = 0;
    ttmon_memory_allocated(device_id, buffer_type, &bytes);
    return bytes;
}
inline std::uint64_t max_memory_allocated(int device_id, std::uint8_t buffer_type = TTMON_DRAM) noexcept {
    std::uint64_t bytes = 0;
    ttmon_max_memory_allocated(device_id, buffer_type, &bytes);
    return bytes;
}
inline std::int32_t reset_peak(int device_id, std::uint8_t buffer_type = TTMON_DRAM) noexcept {
    return ttmon_reset_peak(device_id, buffer_type);
}

}  // namespace ttmon

#ifndef TTMON_NO_GLOBAL_NAMES
using ttmon::AllocationClient;
#endif

#if __has_include("ttmon_monitor.hpp")
#include "ttmon_monitor.hpp"
#endif

#endif  // TTMON_HPP
