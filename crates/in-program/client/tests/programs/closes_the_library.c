/* Opens the library (argument 1), reports, closes it, reports again; and repeats all that. A copy that is loaded anew would take
 * the ledger of the one before for another writer's, and be off. */
#include <dlfcn.h>

#include "check.h"

typedef int32_t report(int32_t device, uint64_t size, uint8_t buffer_type, uint64_t buffer_id);

int main(int argc, char **argv) {
    uint64_t round;
    CHECK(argc == 2);
    for (round = 0; round < 3; round++) {
        union {
            void *found;
            report *report;
        } symbol;
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        symbol.found = dlsym(library, "ttmon_report_allocation");
        CHECK(symbol.found != NULL);
        EQUAL(symbol.report(0, 1, 0, 0x1000 + round), 0);
        CHECK(dlclose(library) == 0);
        EQUAL(symbol.report(0, 1, 0, 0x2000 + round), 0);
    }
    EQUAL(word(LIVE_ENTRIES), 6);
    return 0;
}
