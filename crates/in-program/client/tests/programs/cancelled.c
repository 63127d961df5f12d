/* Threads that are cancelled while they report: the program goes on, and so does its ledger. With "deferred" the very first
 * report, which makes the ledger with all its system calls, already finds a cancellation waiting. With "asynchronous" it
 * comes at any instruction. */
#include <pthread.h>

#include "check.h"
#include "ttmon.h"

enum { ROUNDS = 200 };

static int is_deferred;
static volatile int reports;

static void *work(void *argument) {
    uint64_t address = (uint64_t)(uintptr_t)argument;
    int before;
    if (is_deferred) {
        CHECK(pthread_cancel(pthread_self()) == 0);
    } else {
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    }
    do {
        ttmon_report_allocation(0, 1, TTMON_DRAM, address);
        ttmon_report_deallocation(0, address);
        reports++;
    } while (!is_deferred);
    pthread_testcancel();
    CHECK(!"reached");
    return NULL;
}

int main(int argc, char **argv) {
    uintptr_t round;
    CHECK(argc == 2);
    is_deferred = strcmp(argv[1], "deferred") == 0;
    for (round = 0; round < ROUNDS; round++) {
        int enough = (int)(round * 997 % 300);
        pthread_t thread;
        reports = 0;
        CHECK(pthread_create(&thread, NULL, work, (void *)(round + 1)) == 0);
        if (!is_deferred) {
            while (reports <= enough) {
            }
            CHECK(pthread_cancel(thread) == 0);
        }
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(reports > 0);
    }
    EQUAL(ttmon_report_allocation(1, 1, TTMON_DRAM, 1), TTMON_RECORDED);
    EQUAL(word(LOST_REENTRY) + word(LOST_LOCK_TIMEOUT) + word(LOST_UNKNOWN_FREE), 0);
    CHECK(word(LIVE_ENTRIES) <= (is_deferred ? 1 : ROUNDS + 1));
    return 0;
}
