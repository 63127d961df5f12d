/* A library in LD_PRELOAD that has one of the functions, as the hook has all of them. */
#include <stdint.h>

int32_t ttmon_report_allocation(int32_t device, uint64_t size, uint8_t buffer_type, uint64_t buffer_id);
int32_t ttmon_report_allocation(int32_t device, uint64_t size, uint8_t buffer_type, uint64_t buffer_id) {
    return device == 5 && size == 100 && buffer_type == 1 && buffer_id == 0x1000 ? 77 : 78;
}
