/* Opens the library (argument 2) as Python does, invisible to others, and reports through it. The expected result is
 * argument 1: the number that ttmon_report_allocation returns, and how many ledgers there are then (argument 3). A program
 * with a copy of the library in itself reports through that one first, and must get the number WITH_A_COPY. */
#include <dlfcn.h>

#include "check.h"

typedef int32_t report(int32_t device, uint64_t size, uint8_t buffer_type, uint64_t buffer_id);
#ifdef WITH_A_COPY
#include "ttmon.h"
#endif

int main(int argc, char **argv) {
    void *library;
    union {
        void *found;
        report *report;
    } symbol;
    CHECK(argc == 4);
#ifdef WITH_A_COPY
    EQUAL(ttmon_report_allocation(5, 100, 1, 0x1000), WITH_A_COPY);
#endif
    library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    symbol.found = dlsym(library, "ttmon_report_allocation");
    CHECK(symbol.found != NULL);
    EQUAL(symbol.report(5, 100, 1, 0x1000), atoi(argv[1]));
    EQUAL(symbol.report(5, 100, 1, 0x1000), atoi(argv[1]));
    EQUAL(ledgers(), atoi(argv[3]));
    return 0;
}
