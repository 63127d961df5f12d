/* Reports after exit() began: the very first one, in a handler of atexit. */
#include "check.h"
#include "ttmon.h"

static void last(void) {
    EQUAL(ttmon_report_allocation(0, 1, TTMON_DRAM, 0x1000), TTMON_RECORDED);
    EQUAL(word(LIVE_ENTRIES), 1);
}

int main(void) {
    CHECK(atexit(last) == 0);
    return 0;
}
