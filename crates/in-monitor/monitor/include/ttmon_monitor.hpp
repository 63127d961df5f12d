// ttmon_monitor.hpp: who holds how much memory of which Tenstorrent device, read from your own C++17 program.
//
//     ttmon::SystemMemoryMonitor monitor;
//     if (auto stats = monitor.system_stats(0)) {
//         if (stats->dram_used) std::cout << *stats->dram_used << " bytes of DRAM in use\n";
//         else std::cout << "nobody knows: " << stats->dram_used.reason() << "\n";
//     }
//
// Link with libttmon_monitor (-lttmon_monitor). ttmon_monitor.h says what each figure means. Only the constructor throws
// (std::runtime_error), beside what memory that runs out throws; the other functions return nothing where there is no
// such device or process, or the machine cannot be read: error() says which, of the calling thread's newest failure.
// Threads may share a monitor. A fork of the program has to make one of its own.

#ifndef TTMON_MONITOR_HPP
#define TTMON_MONITOR_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ttmon_monitor.h"

namespace ttmon {

// A std::optional that knows why it is empty.
template <typename T>
class Reading : public std::optional<T> {
public:
    Reading() = default;
    Reading(T value, std::int32_t missing) : missing_(missing) {
        if (missing == TTMON_PRESENT) {
            this->emplace(std::move(value));
        }
    }

    // TTMON_PRESENT or one of TTMON_MISSING_...
    std::int32_t missing() const noexcept { return missing_; }
    // The same as a word: "not_tracked". Empty where there is a value.
    const char* reason() const noexcept { return ttmon_monitor_missing_name(missing_); }

private:
    std::int32_t missing_ = TTMON_MISSING_NO_SOURCE;
};

using Figure = Reading<std::uint64_t>;

enum class Kind : std::uint8_t {
    Dram = TTMON_KIND_DRAM,
    L1 = TTMON_KIND_L1,
    L1Small = TTMON_KIND_L1_SMALL,
    Trace = TTMON_KIND_TRACE,
    Cb = TTMON_KIND_CB,
    Kernel = TTMON_KIND_KERNEL,
};

inline const char* name(Kind kind) noexcept { return ttmon_monitor_kind_name(static_cast<std::uint8_t>(kind)); }

// One value for each kind, found by kind.
template <typename T>
struct PerKind : std::array<T, TTMON_KINDS> {
    using std::array<T, TTMON_KINDS>::operator[];
    T& operator[](Kind kind) { return (*this)[static_cast<std::size_t>(kind)]; }
    const T& operator[](Kind kind) const { return (*this)[static_cast<std::size_t>(kind)]; }
};

struct SystemStats {
    std::uint32_t device = 0;
    std::uint64_t time_ns = 0;
    std::string state;
    std::string health;
    Figure dram_total, dram_used, dram_free;
    Figure l1_total, l1_used, l1_free;
    std::uint64_t processes = 0;
    std::uint64_t untracked_processes = 0;
    std::uint64_t hidden_processes = 0;
    Reading<double> temperature, power;
    Figure aiclk_mhz;
};

// One kind of memory of a process on a chip.
struct ProcessKind {
    Figure used, allocated, peak, peak_time_ns, count;
    Reading<std::string> source;
};

struct DeviceUse {
    std::uint32_t device = 0;
    PerKind<ProcessKind> kinds;
};

struct ProcessStats {
    std::int32_t pid = 0;
    Reading<std::string> name;
    std::string status;
    // Its memory on each device it has to do with.
    std::vector<DeviceUse> devices;
    // On all chips, those that no device is for certain included.
    PerKind<ProcessKind> total;
};

// One kind of memory of a device, all processes together.
struct KindStats {
    Figure total, capacity, used, allocated, free, peak, count;
    Reading<std::string> source;
};

struct ProcessOnDevice {
    std::int32_t pid = 0;
    Reading<std::string> name;
    std::string status;
    PerKind<ProcessKind> kinds;
};

// Banks of one kind of an allocator's memory; all are alike.
struct BankStats {
    Figure banks, bank_bytes, allocated_per_bank, free_per_bank, largest_free_per_bank;
    // The share of the free bytes that is not in the largest block, 0 to 1.
    Reading<double> fragmentation;
    Figure blocks;
};

struct AllocatorStats {
    std::string id;
    std::int32_t pid = 0;
    PerKind<BankStats> kinds;
};

struct DetailedStats {
    std::uint32_t device = 0;
    PerKind<KindStats> kinds;
    std::vector<ProcessOnDevice> processes;
    // Open allocators on the device.
    std::vector<AllocatorStats> allocators;
};

class SystemMemoryMonitor {
public:
    // This machine, or the one below a directory that stands for `/`.
    explicit SystemMemoryMonitor(const char* root = nullptr) : handle_(ttmon_monitor_open(root)) {
        if (handle_ == nullptr) {
            throw std::runtime_error(error());
        }
    }
    explicit SystemMemoryMonitor(const std::string& root) : SystemMemoryMonitor(root.c_str()) {}

    static std::string error() { return ttmon_monitor_last_error(); }

    // A sample answers all calls for so long after it was taken: 100 unless this is called.
    void set_max_age(std::uint32_t milliseconds) noexcept { ttmon_monitor_set_max_age(handle_.get(), milliseconds); }

    std::optional<std::uint32_t> device_count() const {
        std::uint32_t count = 0;
        return done(ttmon_monitor_device_count(handle_.get(), &count)) ? std::optional(count) : std::nullopt;
    }

    // They may have gaps.
    std::vector<std::uint32_t> device_ids() const {
        return list<std::uint32_t>([this](std::uint32_t* ids, std::uint32_t capacity, std::uint32_t* count) {
            return ttmon_monitor_device_ids(handle_.get(), ids, capacity, count);
        });
    }

    std::optional<SystemStats> system_stats(std::uint32_t device) const {
        ttmon_system_stats raw{};
        raw.struct_size = sizeof raw;
        if (!done(ttmon_monitor_system_stats(handle_.get(), device, &raw))) {
            return std::nullopt;
        }
        SystemStats stats;
        stats.device = raw.device;
        stats.time_ns = raw.time_ns;
        stats.state = ttmon_monitor_state_name(raw.state);
        stats.health = ttmon_monitor_health_name(raw.health);
        stats.dram_total = figure(raw.dram_total);
        stats.dram_used = figure(raw.dram_used);
        stats.dram_free = figure(raw.dram_free);
        stats.l1_total = figure(raw.l1_total);
        stats.l1_used = figure(raw.l1_used);
        stats.l1_free = figure(raw.l1_free);
        stats.processes = raw.processes;
        stats.untracked_processes = raw.untracked_processes;
        stats.hidden_processes = raw.hidden_processes;
        stats.temperature = {raw.temperature.value, raw.temperature.missing};
        stats.power = {raw.power.value, raw.power.missing};
        stats.aiclk_mhz = figure(raw.aiclk_mhz);
        return stats;
    }

    std::optional<ProcessStats> process_stats(std::int32_t pid) const {
        const auto all = process_on(pid, TTMON_MONITOR_ALL_DEVICES);
        if (!all) {
            return std::nullopt;
        }
        ProcessStats stats{pid, process_name(*all), ttmon_monitor_status_name(all->status), {}, process_kinds(*all)};
        if (all->devices > 0) {
            for (const auto device : device_ids()) {
                if (const auto one = process_on(pid, device)) {
                    stats.devices.push_back({device, process_kinds(*one)});
                }
            }
        }
        return stats;
    }

    // A process on one device.
    std::optional<DeviceUse> process_stats(std::int32_t pid, std::uint32_t device) const {
        const auto one = process_on(pid, device);
        return one ? std::optional(DeviceUse{device, process_kinds(*one)}) : std::nullopt;
    }

    std::optional<DetailedStats> detailed_stats(std::uint32_t device) const {
        DetailedStats stats;
        stats.device = device;
        for (std::uint8_t kind = 0; kind < TTMON_KINDS; ++kind) {
            ttmon_kind_stats raw{};
            raw.struct_size = sizeof raw;
            if (!done(ttmon_monitor_detailed_stats(handle_.get(), device, kind, &raw))) {
                return std::nullopt;
            }
            stats.kinds[static_cast<Kind>(kind)] = {figure(raw.total), figure(raw.capacity), figure(raw.used),
                                                    figure(raw.allocated), figure(raw.free), figure(raw.peak),
                                                    figure(raw.count), source(raw.source)};
        }
        const auto pids = list<std::int32_t>([&](std::int32_t* place, std::uint32_t capacity, std::uint32_t* count) {
            return ttmon_monitor_process_ids(handle_.get(), device, place, capacity, count);
        });
        for (const auto pid : pids) {
            // One that has gone since it was listed is not there.
            if (const auto one = process_on(pid, device)) {
                stats.processes.push_back({pid, process_name(*one), ttmon_monitor_status_name(one->status), process_kinds(*one)});
            }
        }
        for (std::uint32_t index = 0;; ++index) {
            AllocatorStats allocator;
            for (std::uint8_t kind = 0; kind < TTMON_KINDS; ++kind) {
                ttmon_bank_stats raw{};
                raw.struct_size = sizeof raw;
                if (!done(ttmon_monitor_bank_stats(handle_.get(), device, kind, index, &raw))) {
                    return stats;
                }
                // A new sample between two calls: its allocators may be others.
                if (kind > 0 && allocator.id != raw.allocator) {
                    return stats;
                }
                allocator.id = raw.allocator;
                allocator.pid = raw.pid;
                allocator.kinds[static_cast<Kind>(kind)] = {figure(raw.banks),
                                                            figure(raw.bank_bytes),
                                                            figure(raw.allocated_per_bank),
                                                            figure(raw.free_per_bank),
                                                            figure(raw.largest_free_per_bank),
                                                            {raw.fragmentation.value, raw.fragmentation.missing},
                                                            figure(raw.blocks)};
            }
            stats.allocators.push_back(std::move(allocator));
        }
    }

private:
    struct Close {
        void operator()(ttmon_monitor* handle) const noexcept { ttmon_monitor_close(handle); }
    };
    std::unique_ptr<ttmon_monitor, Close> handle_;

    static bool done(std::int32_t code) noexcept { return code == TTMON_MONITOR_OK; }

    static Figure figure(const ttmon_figure& raw) { return {raw.value, raw.missing}; }

    static Reading<std::string> source(const ttmon_figure& raw) { return {ttmon_monitor_source_name(raw.value), raw.missing}; }

    static Reading<std::string> process_name(const ttmon_process_stats& raw) { return {raw.name, raw.name_missing}; }

    static PerKind<ProcessKind> process_kinds(const ttmon_process_stats& raw) {
        PerKind<ProcessKind> kinds;
        for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
            const auto& one = raw.kinds[kind];
            kinds[kind] = {figure(one.used),         figure(one.allocated), figure(one.peak),
                           figure(one.peak_time_ns), figure(one.count),     source(one.source)};
        }
        return kinds;
    }

    std::optional<ttmon_process_stats> process_on(std::int32_t pid, std::uint32_t device) const {
        ttmon_process_stats raw{};
        raw.struct_size = sizeof raw;
        return done(ttmon_monitor_process_stats(handle_.get(), pid, device, &raw)) ? std::optional(raw) : std::nullopt;
    }

    // Asks with more room until all fit; empty where there is no answer.
    template <typename T, typename Ask>
    static std::vector<T> list(Ask ask) {
        std::vector<T> found(64);
        std::uint32_t count = 0;
        for (;;) {
            if (!done(ask(found.data(), static_cast<std::uint32_t>(found.size()), &count))) {
                return {};
            }
            const bool fits = count <= found.size();
            found.resize(count);
            if (fits) {
                return found;
            }
        }
    }
};

}  // namespace ttmon

#endif  // TTMON_MONITOR_HPP
