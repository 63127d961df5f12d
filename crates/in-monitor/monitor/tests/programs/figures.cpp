// The same as figures.c, by ttmon_monitor.hpp.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "ttmon_monitor.hpp"

namespace {

std::string text(const ttmon::Figure& figure) { return figure ? std::to_string(*figure) : figure.reason(); }

std::string text(const ttmon::Reading<std::string>& reading) { return reading ? *reading : reading.reason(); }

std::string text(const ttmon::Reading<double>& reading) {
    char digits[64];
    std::snprintf(digits, sizeof digits, "%.3f", reading.value_or(0));
    return reading ? digits : reading.reason();
}

void kinds(const std::string& what, const ttmon::PerKind<ttmon::ProcessKind>& kinds) {
    for (std::uint8_t kind = 0; kind < kinds.size(); ++kind) {
        const auto& one = kinds[kind];
        std::cout << what << " " << name(static_cast<ttmon::Kind>(kind)) << " used=" << text(one.used)
                  << " allocated=" << text(one.allocated) << " peak=" << text(one.peak)
                  << " peak_time_ns=" << text(one.peak_time_ns) << " count=" << text(one.count) << " source=" << text(one.source) << "\n";
    }
}

void device(const ttmon::SystemMemoryMonitor& monitor, std::uint32_t id) {
    const auto stats = monitor.system_stats(id).value();
    std::cout << "system " << stats.device << " state=" << stats.state << " health=" << stats.health
              << " dram_total=" << text(stats.dram_total) << " dram_used=" << text(stats.dram_used)
              << " dram_free=" << text(stats.dram_free) << " l1_total=" << text(stats.l1_total)
              << " l1_used=" << text(stats.l1_used) << " l1_free=" << text(stats.l1_free) << " processes=" << stats.processes
              << " untracked=" << stats.untracked_processes << " hidden=" << stats.hidden_processes
              << " temperature=" << text(stats.temperature) << " power=" << text(stats.power)
              << " aiclk_mhz=" << text(stats.aiclk_mhz) << "\n";
    const auto detailed = monitor.detailed_stats(id).value();
    for (std::uint8_t kind = 0; kind < TTMON_KINDS; ++kind) {
        const auto& one = detailed.kinds[static_cast<ttmon::Kind>(kind)];
        std::cout << "kind " << detailed.device << " " << name(static_cast<ttmon::Kind>(kind)) << " total=" << text(one.total)
                  << " capacity=" << text(one.capacity) << " used=" << text(one.used) << " allocated=" << text(one.allocated)
                  << " free=" << text(one.free) << " peak=" << text(one.peak) << " count=" << text(one.count)
                  << " source=" << text(one.source) << "\n";
    }
    for (const auto& allocator : detailed.allocators) {
        for (std::uint8_t kind = 0; kind < TTMON_KINDS; ++kind) {
            const auto& one = allocator.kinds[static_cast<ttmon::Kind>(kind)];
            std::cout << "banks " << id << " " << allocator.id << " " << allocator.pid << " " << name(static_cast<ttmon::Kind>(kind))
                      << " banks=" << text(one.banks) << " bank_bytes=" << text(one.bank_bytes)
                      << " allocated_per_bank=" << text(one.allocated_per_bank) << " free_per_bank=" << text(one.free_per_bank)
                      << " largest_free_per_bank=" << text(one.largest_free_per_bank) << " fragmentation=" << text(one.fragmentation)
                      << " blocks=" << text(one.blocks) << "\n";
        }
    }
    for (const auto& process : detailed.processes) {
        std::cout << "on " << id << " " << process.pid << "\n";
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        ttmon::SystemMemoryMonitor nowhere("/nonexistent");
        return 1;
    } catch (const std::runtime_error& error) {
        if (std::string(error.what()).find("/nonexistent") == std::string::npos) {
            return 2;
        }
    }
    ttmon::SystemMemoryMonitor first{std::string(argv[1])};
    const ttmon::SystemMemoryMonitor monitor = std::move(first);
    const auto ids = monitor.device_ids();
    bool has_unknown = monitor.system_stats(4000) || monitor.detailed_stats(4000) || monitor.process_stats(0);
    if (ids.size() != monitor.device_count().value() || has_unknown) {
        return 3;
    }
    for (const auto id : ids) {
        device(monitor, id);
    }
    for (int index = 2; index < argc; ++index) {
        const auto pid = std::atoi(argv[index]);
        const auto stats = monitor.process_stats(pid).value();
        std::cout << "process " << stats.pid << " " << text(stats.name) << " " << stats.status << "\n";
        kinds("total " + std::to_string(pid), stats.total);
        for (const auto& one : stats.devices) {
            if (!monitor.process_stats(pid, one.device) || monitor.process_stats(pid, 4000)) {
                return 4;
            }
            kinds("use " + std::to_string(pid) + " " + std::to_string(one.device), one.kinds);
        }
    }
    return 0;
}
