/* 64 threads report at once, from the first report on; each leaves one buffer, with its tag. */
#include <pthread.h>

#include "check.h"
#include "ttmon.h"

enum { THREADS = 64, ROUNDS = 2000 };

static pthread_barrier_t together;

static void *work(void *argument) {
    uint64_t base = (uint64_t)(uintptr_t)argument << 32;
    int32_t device = (int32_t)((uintptr_t)argument % 4);
    uint64_t round;
    pthread_barrier_wait(&together);
    EQUAL(ttmon_tag_push("a thread"), TTMON_RECORDED);
    for (round = 0; round < ROUNDS; round++) {
        EQUAL(ttmon_report_allocation(device, 64, (uint8_t)(round % 5), base + round), TTMON_RECORDED);
        EQUAL(ttmon_report_deallocation(device, base + round), TTMON_RECORDED);
    }
    EQUAL(ttmon_report_allocation(device, 64, TTMON_L1, base), TTMON_RECORDED);
    EQUAL(ttmon_tag_pop(), TTMON_RECORDED);
    return NULL;
}

/* Live entries that carry a tag. */
static int tagged(void) {
    int count, found = 0;
    uint64_t left = word(ENTRIES_USED);
    const volatile unsigned char *start = ledger(&count);
    const volatile unsigned char *entry = start + *(const volatile uint64_t *)(start + ENTRIES);
    for (; left > 0; left--, entry += 64) {
        found += entry[0] == 2 && *(const volatile uint32_t *)(entry + 0x30) != 0;
    }
    return found;
}

int main(void) {
    pthread_t threads[THREADS];
    uintptr_t i;
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    EQUAL(word(LIVE_ENTRIES), THREADS);
    EQUAL(word(LIVE_BYTES), THREADS * 64);
    EQUAL(tagged(), THREADS);
    EQUAL(word(LOST_REENTRY) + word(LOST_LOCK_TIMEOUT) + word(LOST_UNKNOWN_FREE) + word(LOST_REPLACED), 0);
    return 0;
}
