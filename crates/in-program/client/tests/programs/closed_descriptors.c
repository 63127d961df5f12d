/* Closes every descriptor, as a daemon does, before the first report and again after it. The ledger takes none of 0, 1
 * and 2, and needs no descriptor later. Nothing can be printed, so the exit code is the line that failed. */
#include <sys/resource.h>

#include "check.h"
#include "ttmon.h"

#define EXIT_UNLESS(condition) \
    do {                       \
        if (!(condition)) {    \
            _exit(__LINE__);   \
        }                      \
    } while (0)

static void close_all(void) {
    int descriptor;
    for (descriptor = 0; descriptor < 4096; descriptor++) {
        close(descriptor);
    }
}

int main(void) {
    int descriptor;
    close_all();
    EXIT_UNLESS(ttmon_report_allocation(0, 100, TTMON_DRAM, 0x1000) == TTMON_RECORDED);
    for (descriptor = 0; descriptor < 3; descriptor++) {
        EXIT_UNLESS(lseek(descriptor, 0, SEEK_CUR) == -1);
    }
    close_all();
    EXIT_UNLESS(ttmon_report_allocation(0, 20, TTMON_DRAM, 0x2000) == TTMON_RECORDED);
    EXIT_UNLESS(ttmon_report_deallocation(0, 0x1000) == TTMON_RECORDED);
    EXIT_UNLESS(word(LIVE_ENTRIES) == 1);
    EXIT_UNLESS(word(LIVE_BYTES) == 20);
    return 0;
}
