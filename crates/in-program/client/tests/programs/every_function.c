/* Every function once, with tracking on or off (argument 1). Leaves 3 buffers of 100 + 20 + 3 bytes. */
#include <errno.h>

#include "check.h"
#include "ttmon.h"

int main(int argc, char **argv) {
    int32_t good;
    CHECK(argc == 2);
    good = strcmp(argv[1], "on") == 0 ? TTMON_RECORDED : TTMON_OFF;
    EQUAL(ledgers(), 0);

    errno = 4711;
    EQUAL(ttmon_report_allocation(0, 100, TTMON_DRAM, 0x1000), good);
    EQUAL(errno, 4711);
    EQUAL(ttmon_report_allocation(0, 1, TTMON_L1, 0x2000), good);
    EQUAL(ttmon_report_deallocation(0, 0x2000), good);
    EQUAL(ttmon_tag_push("layer 7"), good);
    EQUAL(ttmon_report_cb_allocation(0, 20, 1), good);
    EQUAL(ttmon_report_cb_allocation(0, 2, 2), good);
    EQUAL(ttmon_report_cb_deallocation(0, 2, 2), good);
    EQUAL(ttmon_tag_pop(), good);
    EQUAL(ttmon_report_kernel_load(1, 3, 2, 1), good);
    EQUAL(ttmon_report_kernel_load(1, 5, 1, 2), good);
    EQUAL(ttmon_report_kernel_unload(1, 5, 2), good);
    EQUAL(ttmon_report_allocation(2, 7, TTMON_TRACE, 0x1000), good);
    EQUAL(ttmon_report_device_close(2), good);
    EQUAL(ttmon_mark(), good);
    EQUAL(ttmon_phase_begin("step"), good);
    EQUAL(ttmon_phase_end("step"), good);
    {
        uint64_t bytes = 4711;
        EQUAL(ttmon_memory_allocated(0, TTMON_DRAM, &bytes), good);
        EQUAL(bytes, good == TTMON_OFF ? 4711 : 100);
        EQUAL(ttmon_max_memory_allocated(0, TTMON_L1, &bytes), good);
        EQUAL(bytes, good == TTMON_OFF ? 4711 : 1);
        EQUAL(ttmon_reset_peak(0, TTMON_L1), good);
        EQUAL(ttmon_max_memory_allocated(0, TTMON_L1, &bytes), good);
        EQUAL(bytes, good == TTMON_OFF ? 4711 : 0);
        EQUAL(ttmon_memory_allocated(99, TTMON_DRAM, &bytes), good);
        EQUAL(bytes, good == TTMON_OFF ? 4711 : 0);
    }
    EQUAL(errno, 4711);

    if (good == TTMON_OFF) {
        EQUAL(ttmon_tag_push(NULL), TTMON_OFF);
        EQUAL(ledgers(), 0);
        return 0;
    }
    EQUAL(ttmon_report_allocation(-1, 1, TTMON_DRAM, 1), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_report_allocation(0, (uint64_t)1 << 40, TTMON_DRAM, 1), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_tag_pop(), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_memory_allocated(0, TTMON_DRAM, NULL), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_reset_peak(-1, TTMON_DRAM), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_phase_begin(NULL), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_phase_end(NULL), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_tag_push(NULL), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_tag_pop(), TTMON_RECORDED);
    EQUAL(ttmon_tag_push("no \xff utf8"), TTMON_RECORDED);
    EQUAL(ttmon_tag_pop(), TTMON_RECORDED);
    EQUAL(word(LIVE_ENTRIES), 3);
    EQUAL(word(LIVE_BYTES), 123);
    EQUAL(word(LOST_UNKNOWN_FREE), 0);
    EQUAL(word(LOST_SIZE), 1);
    return 0;
}
