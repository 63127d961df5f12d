// A stand-in for ttnn: one operation, named by -DNAME, which allocates a buffer in the requested way.
#include <cstdint>

namespace ttnn {
std::uint64_t NAME(std::uint64_t (*allocate)(void*), void* buffer) {
    std::uint64_t address = allocate(buffer);
    asm volatile("" ::: "memory");
    return address;
}
}  // namespace ttnn

extern "C" std::uint64_t operate(std::uint64_t (*allocate)(void*), void* buffer) { return ttnn::NAME(allocate, buffer) + 1; }

#ifdef MORE
// So that names lie elsewhere in a library whose code is the same.
extern "C" void something_else_that_is_exported_by_this_library() {}
#endif
