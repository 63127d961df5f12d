/* A signal handler that reports, also in the middle of its thread's own report: then it is lost, and counted as that;
 * nothing waits for ever and nothing else is wrong. */
#include <errno.h>
#include <signal.h>
#include <sys/time.h>

#include "check.h"
#include "ttmon.h"

enum { SIGNALS = 3000 };

static volatile sig_atomic_t signals, lost;

static void handler(int number) {
    int32_t code = ttmon_report_allocation(1, 1, TTMON_DRAM, 0x1000);
    (void)number;
    CHECK(code == TTMON_RECORDED || code == TTMON_LOST);
    if (code == TTMON_RECORDED) {
        EQUAL(ttmon_report_deallocation(1, 0x1000), TTMON_RECORDED);
    } else {
        lost++;
    }
    signals++;
}

int main(void) {
    struct itimerval often = {{0, 50}, {0, 50}};
    struct itimerval never = {{0, 0}, {0, 0}};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    EQUAL(ttmon_report_allocation(0, 1, TTMON_DRAM, 0x1000), TTMON_RECORDED);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (signals < SIGNALS) {
        EQUAL(ttmon_report_allocation(0, 1, TTMON_DRAM, 0x2000), TTMON_RECORDED);
        EQUAL(ttmon_tag_push("in the middle"), TTMON_RECORDED);
        EQUAL(ttmon_report_deallocation(0, 0x2000), TTMON_RECORDED);
        EQUAL(ttmon_tag_pop(), TTMON_RECORDED);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    EQUAL(word(LIVE_ENTRIES), 1);
    EQUAL(word(LOST_REENTRY), lost);
    EQUAL(word(LOST_LOCK_TIMEOUT) + word(LOST_UNKNOWN_FREE) + word(LOST_REPLACED), 0);
    return 0;
}
