// The seeds' names, a tag, and static and thread-local destructors that still report when everything is being torn down.
#include <thread>

#include "check.h"
#include "ttmon.hpp"

namespace {

std::int32_t good;

struct Late {
    std::uint64_t address;
    ~Late() {
        ttmon::Tag tag("late");
        EQUAL(AllocationClient::report_allocation(0, 1, TTMON_DRAM, address), good);
        EQUAL(AllocationClient::report_deallocation(0, address), good);
        if (good == TTMON_RECORDED) {
            EQUAL(word(LIVE_ENTRIES), 2);
            EQUAL(word(LOST_UNKNOWN_FREE), 0);
        }
    }
};

Late constructed_first{0x100};
thread_local Late of_a_thread{0x200};

}  // namespace

int main(int argc, char** argv) {
    CHECK(argc == 2);
    good = std::string(argv[1]) == "on" ? TTMON_RECORDED : TTMON_OFF;
    {
        ttmon::Tag outer("outer");
        ttmon::Tag inner(std::string("inner"));
        EQUAL(AllocationClient::report_allocation(0, 10, TTMON_L1, 0x1000), good);
    }
    EQUAL(AllocationClient::report_cb_allocation(0, 10, 1), good);
    EQUAL(AllocationClient::report_cb_deallocation(0, 10, 1), good);
    EQUAL(AllocationClient::report_kernel_load(0, 10, 0, 1), good);
    EQUAL(AllocationClient::report_kernel_load(0, 10, 0, 2), good);
    EQUAL(AllocationClient::report_kernel_unload(0, 10, 2), good);
    EQUAL(AllocationClient::report_allocation(1, 10, TTMON_L1, 0x1000), good);
    EQUAL(AllocationClient::report_device_close(1), good);
    EQUAL(ttmon::mark(), good);
    EQUAL(ttmon::memory_allocated(0, TTMON_L1), good == TTMON_OFF ? 0 : 10);
    EQUAL(ttmon::max_memory_allocated(0, TTMON_L1), good == TTMON_OFF ? 0 : 10);
    EQUAL(ttmon::reset_peak(0, TTMON_L1), good);
    EQUAL(ledgers(), good == TTMON_RECORDED ? 1 : 0);
    std::thread([] { CHECK(of_a_thread.address == 0x200); }).join();
    CHECK(of_a_thread.address == 0x200);
    return 0;
}
