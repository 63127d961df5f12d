/* For the programs of tests/c_abi.rs: what a program finds in its own ledger, by the offsets of docs/ledger.md. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)

#define EQUAL(left, right)                                                                            \
    do {                                                                                              \
        long long left_ = (long long)(left), right_ = (long long)(right);                             \
        if (left_ != right_) {                                                                        \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #left, left_, right_); \
            _exit(1);                                                                                 \
        }                                                                                             \
    } while (0)

enum { ENTRIES = 0x068, PID = 0x080, ENTRIES_USED = 0x208, LIVE_ENTRIES = 0x220, LIVE_BYTES = 0x228, LOST = 0x240 };
enum { LOST_REENTRY = LOST, LOST_LOCK_TIMEOUT = LOST + 8, LOST_UNKNOWN_FREE = LOST + 16 };
enum { LOST_AMBIGUOUS_FREE = LOST + 24, LOST_REPLACED = LOST + 32, LOST_SIZE = LOST + 40 };

/* The mapping of this very process (a forked child also has its parent's), or NULL. How many there are goes to *count. */
static inline const volatile unsigned char *ledger(int *count) {
    char line[8192];
    const volatile unsigned char *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    *count = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        const volatile unsigned char *start;
        uint32_t pid;
        if (strstr(line, "/memfd:ttmon-ledger") == NULL) {
            continue;
        }
        start = (const volatile unsigned char *)(uintptr_t)strtoull(line, NULL, 16);
        pid = *(const volatile uint32_t *)(start + PID);
        if (pid == (uint32_t)getpid()) {
            found = start;
            *count += 1;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

static inline int ledgers(void) {
    int count;
    ledger(&count);
    return count;
}

static inline uint64_t word(int offset) {
    int count;
    const volatile unsigned char *start = ledger(&count);
    EQUAL(count, 1);
    return *(const volatile uint64_t *)(start + offset);
}

#endif
