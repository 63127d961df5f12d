// A program written for TT-Metal's experimental allocation client.
#include <tt-metalium/allocation_client.hpp>

int main() {
    // 0: recorded. Tracking is on only below `ttmon run`.
    return AllocationClient::report_allocation(0, 4096, 0, 0x1000) + AllocationClient::report_deallocation(0, 0x1000);
}
