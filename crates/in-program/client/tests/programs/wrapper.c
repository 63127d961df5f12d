/* A library in LD_PRELOAD that counts reports and passes them on to the next library, which is ours. */
#include <dlfcn.h>
#include <stdint.h>

typedef int32_t report(int32_t device, uint64_t size, uint8_t buffer_type, uint64_t buffer_id);

report ttmon_report_allocation;
int32_t ttmon_report_allocation(int32_t device, uint64_t size, uint8_t buffer_type, uint64_t buffer_id) {
    union {
        void *found;
        report *next;
    } symbol;
    symbol.found = dlsym(RTLD_NEXT, "ttmon_report_allocation");
    return symbol.next(device, size, buffer_type, buffer_id);
}
