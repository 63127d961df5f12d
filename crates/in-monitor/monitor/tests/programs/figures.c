/* Prints what ttmon_monitor.h says of the machine below argv[1] and of the processes argv[2]..., for tests/c_abi.rs. */
#include <stdio.h>
#include <stdlib.h>

#include "ttmon_monitor.h"

static void figure(const char *name, ttmon_figure figure) {
    if (figure.missing == TTMON_PRESENT) {
        printf(" %s=%llu", name, (unsigned long long)figure.value);
    } else {
        printf(" %s=%s", name, ttmon_monitor_missing_name(figure.missing));
    }
}

static void real(const char *name, ttmon_real real) {
    if (real.missing == TTMON_PRESENT) {
        printf(" %s=%.3f", name, real.value);
    } else {
        printf(" %s=%s", name, ttmon_monitor_missing_name(real.missing));
    }
}

static void source(ttmon_figure source) {
    int is_there = source.missing == TTMON_PRESENT;
    printf(" source=%s\n", is_there ? ttmon_monitor_source_name(source.value) : ttmon_monitor_missing_name(source.missing));
}

static void kinds(const char *what, const ttmon_process_stats *stats) {
    for (uint8_t kind = 0; kind < TTMON_KINDS; kind++) {
        const ttmon_process_kind *one = &stats->kinds[kind];
        printf("%s %s", what, ttmon_monitor_kind_name(kind));
        figure("used", one->used);
        figure("allocated", one->allocated);
        figure("peak", one->peak);
        figure("peak_time_ns", one->peak_time_ns);
        figure("count", one->count);
        source(one->source);
    }
}

static void check(int32_t code) {
    if (code != TTMON_MONITOR_OK) {
        fprintf(stderr, "%d: %s\n", (int)code, ttmon_monitor_last_error());
        exit(1);
    }
}

static void device(ttmon_monitor *monitor, uint32_t id) {
    ttmon_system_stats stats = {.struct_size = sizeof stats};
    check(ttmon_monitor_system_stats(monitor, id, &stats));
    printf("system %u state=%s", (unsigned)stats.device, ttmon_monitor_state_name(stats.state));
    printf(" health=%s", ttmon_monitor_health_name(stats.health));
    figure("dram_total", stats.dram_total);
    figure("dram_used", stats.dram_used);
    figure("dram_free", stats.dram_free);
    figure("l1_total", stats.l1_total);
    figure("l1_used", stats.l1_used);
    figure("l1_free", stats.l1_free);
    printf(" processes=%d untracked=%d hidden=%d", (int)stats.processes, (int)stats.untracked_processes, (int)stats.hidden_processes);
    real("temperature", stats.temperature);
    real("power", stats.power);
    figure("aiclk_mhz", stats.aiclk_mhz);
    printf("\n");
    for (uint8_t kind = 0; kind < TTMON_KINDS; kind++) {
        ttmon_kind_stats one = {.struct_size = sizeof one};
        check(ttmon_monitor_detailed_stats(monitor, id, kind, &one));
        printf("kind %u %s", (unsigned)one.device, ttmon_monitor_kind_name((uint8_t)one.kind));
        figure("total", one.total);
        figure("capacity", one.capacity);
        figure("used", one.used);
        figure("allocated", one.allocated);
        figure("free", one.free);
        figure("peak", one.peak);
        figure("count", one.count);
        source(one.source);
    }
    ttmon_bank_stats bank = {.struct_size = sizeof bank};
    for (uint32_t index = 0; ttmon_monitor_bank_stats(monitor, id, TTMON_KIND_DRAM, index, &bank) == TTMON_MONITOR_OK; index++) {
        for (uint8_t kind = 0; kind < TTMON_KINDS; kind++) {
            check(ttmon_monitor_bank_stats(monitor, id, kind, index, &bank));
            printf("banks %u %s %d %s", (unsigned)bank.device, bank.allocator, (int)bank.pid, ttmon_monitor_kind_name((uint8_t)bank.kind));
            figure("banks", bank.banks);
            figure("bank_bytes", bank.bank_bytes);
            figure("allocated_per_bank", bank.allocated_per_bank);
            figure("free_per_bank", bank.free_per_bank);
            figure("largest_free_per_bank", bank.largest_free_per_bank);
            real("fragmentation", bank.fragmentation);
            figure("blocks", bank.blocks);
            printf("\n");
        }
    }
    int32_t pids[64];
    uint32_t count = 0;
    check(ttmon_monitor_process_ids(monitor, id, pids, 64, &count));
    for (uint32_t index = 0; index < count; index++) {
        printf("on %u %d\n", (unsigned)id, (int)pids[index]);
    }
}

static void process(ttmon_monitor *monitor, int32_t pid, const uint32_t *ids, uint32_t count) {
    ttmon_process_stats stats = {.struct_size = sizeof stats};
    char what[64];
    check(ttmon_monitor_process_stats(monitor, pid, TTMON_MONITOR_ALL_DEVICES, &stats));
    printf("process %d %s %s\n", (int)stats.pid, stats.name_missing ? ttmon_monitor_missing_name(stats.name_missing) : stats.name,
           ttmon_monitor_status_name(stats.status));
    snprintf(what, sizeof what, "total %d", (int)pid);
    kinds(what, &stats);
    for (uint32_t index = 0; index < count; index++) {
        int32_t code = ttmon_monitor_process_stats(monitor, pid, ids[index], &stats);
        if (code != TTMON_MONITOR_NOT_FOUND) {
            check(code);
            snprintf(what, sizeof what, "use %d %u", (int)pid, (unsigned)stats.device);
            kinds(what, &stats);
        }
    }
}

int main(int argc, char **argv) {
    ttmon_monitor *monitor = ttmon_monitor_open(argv[1]);
    uint32_t ids[64], count = 0, same = 0;
    if (monitor == NULL) {
        fprintf(stderr, "%s\n", ttmon_monitor_last_error());
        return 1;
    }
    check(ttmon_monitor_device_ids(monitor, ids, 64, &count));
    check(ttmon_monitor_device_count(monitor, &same));
    if (count != same) {
        return 1;
    }
    for (uint32_t index = 0; index < count; index++) {
        device(monitor, ids[index]);
    }
    for (int index = 2; index < argc; index++) {
        process(monitor, atoi(argv[index]), ids, count);
    }
    ttmon_monitor_close(monitor);
    return 0;
}
