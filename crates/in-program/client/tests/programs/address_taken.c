/* Linked at a fixed address and with a function's address taken, the program itself has an entry of that name, which only
 * jumps to the library: it must not be taken for another writer. */
#include "check.h"
#include "ttmon.h"

int main(void) {
    int32_t (*volatile report)(int32_t, uint64_t, uint8_t, uint64_t) = ttmon_report_allocation;
    EQUAL(report(0, 100, TTMON_DRAM, 0x1000), TTMON_RECORDED);
    EQUAL(report(0, 100, TTMON_DRAM, 0x2000), TTMON_RECORDED);
    EQUAL(ttmon_report_deallocation(0, 0x2000), TTMON_RECORDED);
    EQUAL(word(LIVE_ENTRIES), 1);
    return 0;
}
