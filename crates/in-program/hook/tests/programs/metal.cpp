// A stand-in for libtt_metal.so: the names, the layouts and the manners of the real one that the hook relies on, and nothing else.
// Built by the tests in several shapes:
//   -DOLD      Buffer without functions for size, type, layout and device (before 0.79)
//   -DSHIFTED  with OLD: layouts that nobody knows, with words in them that seem to be addresses
//   -DPOOR     without statistics, device opening, unique ids, programs: a version that exports little
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ttsl {
template <typename T, typename Tag>
struct StrongType {
    T value_;
};
}  // namespace ttsl

namespace tt {
struct xy_pair {
    std::size_t x, y;
};
namespace tt_metal {

enum class BufferType : int { DRAM, L1, SYSTEM_MEMORY, L1_SMALL, TRACE };
enum class TensorMemoryLayout : int { INTERLEAVED = 0, HEIGHT_SHARDED = 2 };
enum class HalMemType : int { L1, DRAM };
class AllocatorImpl;
class Buffer;

class IDevice {
public:
    virtual ~IDevice() = default;
    virtual int arch() const { return 1; }
    virtual int id() const = 0;
};

class Device : public IDevice {
public:
    explicit Device(int id) : id_(id) {}
    ~Device() override;
    __attribute__((visibility("hidden"))) int id() const override;

private:
    int id_;
};
Device::~Device() = default;
int Device::id() const { return id_; }

struct Statistics {
    std::size_t total, allocated, free, largest;
};
struct AllocatorState {};

class AllocatorImpl {
public:
    virtual ~AllocatorImpl();
    std::uint64_t allocate_buffer(Buffer* buffer);
    void deallocate_buffer(Buffer* buffer);
    void deallocate_buffers();
    void clear();
    void shrink_allocator_size(const BufferType& kind, std::uint64_t bytes, bool from_bottom);
    void reset_allocator_size(const BufferType& kind);
    void override_state(const AllocatorState& state);
    std::uint32_t get_num_banks(const BufferType& kind) const;
    std::uint64_t get_bank_size(const BufferType& kind) const;
    std::uint64_t get_base_allocator_addr(const HalMemType& memory) const;
    std::uint32_t get_alignment(BufferType kind) const;
#ifndef POOR
    Statistics get_statistics(const BufferType& kind) const;
#endif
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> blocks_[5];
    std::uint64_t next_[5] = {};
    std::uint64_t lie_ = 0;
    bool throws_on_free_ = false;
};

class Buffer : public std::enable_shared_from_this<Buffer> {
public:
    Buffer(IDevice* device, std::uint64_t size, BufferType kind, std::uint64_t page, TensorMemoryLayout layout, AllocatorImpl* allocator);
    std::uint32_t address() const;
    std::uint64_t aligned_size_per_bank() const;
    std::uint64_t page_size() const;
    std::uint32_t num_pages() const;
    std::optional<std::uint32_t> num_cores() const;
#ifndef OLD
    std::uint64_t size() const;
    BufferType buffer_type() const;
    TensorMemoryLayout buffer_layout() const;
    IDevice* device() const;
#endif
    friend class AllocatorImpl;

#ifdef SHIFTED
    std::uint64_t more_ = 0x1000;  // aligned, and nobody's address
#endif
    IDevice* device_;
    std::uint64_t size_;
    BufferType kind_;
    TensorMemoryLayout layout_;
    std::uint64_t page_;
    AllocatorImpl* allocator_;
    bool is_allocated_ = false;
    std::uint32_t address_ = 0;
};

Buffer::Buffer(
    IDevice* device, std::uint64_t size, BufferType kind, std::uint64_t page, TensorMemoryLayout layout, AllocatorImpl* allocator) :
    device_(device), size_(size), kind_(kind), layout_(layout), page_(page), allocator_(allocator) {}
std::uint32_t Buffer::address() const {
    if (!is_allocated_) throw std::runtime_error("not allocated");
    return address_;
}
std::uint64_t Buffer::aligned_size_per_bank() const {
    std::uint64_t banks = layout_ == TensorMemoryLayout::INTERLEAVED ? allocator_->get_num_banks(kind_) : 4;
    return (num_pages() + banks - 1) / banks * ((page_ + 15) / 16 * 16);
}
std::uint64_t Buffer::page_size() const { return page_; }
std::uint32_t Buffer::num_pages() const { return static_cast<std::uint32_t>(size_ / page_); }
std::optional<std::uint32_t> Buffer::num_cores() const {
    if (layout_ == TensorMemoryLayout::INTERLEAVED) return std::nullopt;
    return 4;
}
#ifndef OLD
std::uint64_t Buffer::size() const { return size_; }
BufferType Buffer::buffer_type() const { return kind_; }
TensorMemoryLayout Buffer::buffer_layout() const { return layout_; }
IDevice* Buffer::device() const { return device_; }
#endif

constexpr std::uint64_t kBanks[] = {12, 64, 0, 64, 12};
constexpr std::uint64_t kBankBytes[] = {1 << 20, 1 << 16, 0, 1 << 12, 1 << 13};

AllocatorImpl::~AllocatorImpl() = default;
std::uint64_t AllocatorImpl::allocate_buffer(Buffer* buffer) {
    std::lock_guard guard(mutex_);
    int kind = static_cast<int>(buffer->kind_);
    std::uint64_t block = (buffer->aligned_size_per_bank() + 31) / 32 * 32;
    std::uint64_t taken = 0;
    for (auto& [address, bytes] : blocks_[kind]) taken += bytes;
    if (taken + block > kBankBytes[kind]) {
        errno = 12;
        throw std::runtime_error("TT_FATAL @ bank_manager.cpp:1: false\ninfo:\nOut of Memory: Not enough space\nbacktrace:\n --- here");
    }
    std::uint64_t address = 0x1000 + next_[kind];
    next_[kind] += block;
    blocks_[kind][address] = block;
    buffer->address_ = static_cast<std::uint32_t>(address);
    buffer->is_allocated_ = true;
    errno = 4711;
    return address;
}
void AllocatorImpl::deallocate_buffer(Buffer* buffer) {
    std::lock_guard guard(mutex_);
    std::uint32_t address = buffer->address();
    if (throws_on_free_) throw std::logic_error("no");
    blocks_[static_cast<int>(buffer->kind_)].erase(address);
}
void AllocatorImpl::deallocate_buffers() {
    std::lock_guard guard(mutex_);
    for (auto& kind : blocks_) kind.clear();
}
void AllocatorImpl::clear() { std::lock_guard guard(mutex_); }
void AllocatorImpl::shrink_allocator_size(const BufferType&, std::uint64_t, bool) {}
void AllocatorImpl::reset_allocator_size(const BufferType&) {}
void AllocatorImpl::override_state(const AllocatorState&) {
    std::lock_guard guard(mutex_);
    for (auto& kind : blocks_) kind.clear();
    blocks_[0][0x9000] = 64;
}
std::uint32_t AllocatorImpl::get_num_banks(const BufferType& kind) const { return kBanks[static_cast<int>(kind)]; }
std::uint64_t AllocatorImpl::get_bank_size(const BufferType& kind) const {
    if (kind == BufferType::TRACE) return 0 - std::uint64_t{0x1000};  // as an allocator of a sub-device says
    return kBankBytes[static_cast<int>(kind)];
}
std::uint64_t AllocatorImpl::get_base_allocator_addr(const HalMemType& memory) const {
    if (memory == HalMemType::L1) return 0x1000;
    return 0x1000;
}
std::uint32_t AllocatorImpl::get_alignment(BufferType) const { return 32; }
#ifndef POOR
Statistics AllocatorImpl::get_statistics(const BufferType& kind) const {
    std::lock_guard guard(mutex_);
    std::uint64_t taken = kind == BufferType::DRAM ? lie_ : 0;
    for (auto& [address, bytes] : blocks_[static_cast<int>(kind)]) taken += bytes;
    std::uint64_t all = kBankBytes[static_cast<int>(kind)];
    return {all, taken, all - taken, (all - taken) / 2};
}
#endif

class BankingAllocator : public AllocatorImpl {};

class CoreRange {
public:
    xy_pair start, end;
};
class CoreRangeSet {
public:
    std::vector<CoreRange> ranges_;
    const std::vector<CoreRange>& ranges() const;
};
const std::vector<CoreRange>& CoreRangeSet::ranges() const { return ranges_; }

namespace distributed {
struct MeshTraceIdTag;
using MeshTraceId = ttsl::StrongType<unsigned int, MeshTraceIdTag>;
class MeshDeviceImpl;
class MeshDevice : public IDevice {
public:
    explicit MeshDevice(int chips) {
        for (int id = 0; id < chips; id++) devices_.push_back(std::make_unique<Device>(id));
    }
    ~MeshDevice() override;
    int id() const override;
    std::vector<int> get_device_ids() const;
    std::size_t num_rows() const;
    std::size_t num_cols() const;
    const std::unique_ptr<AllocatorImpl>& allocator_impl() const;
    std::vector<std::unique_ptr<Device>> devices_;
    std::unique_ptr<AllocatorImpl> allocator_;
    MeshDeviceImpl* impl_ = nullptr;
};
MeshDevice::~MeshDevice() = default;
int MeshDevice::id() const { return 1; }
std::vector<int> MeshDevice::get_device_ids() const {
    std::vector<int> ids;
    for (auto& device : devices_) ids.push_back(device->id());
    return ids;
}
std::size_t MeshDevice::num_rows() const {
    if (devices_.size() == 3) throw std::runtime_error("a mesh of one dimension");
    return 1;
}
std::size_t MeshDevice::num_cols() const { return devices_.size(); }
const std::unique_ptr<AllocatorImpl>& MeshDevice::allocator_impl() const { return allocator_; }

class MeshCommandQueue {
public:
    virtual ~MeshCommandQueue() = default;
    virtual int number() const;
};
int MeshCommandQueue::number() const { return 0; }

#ifndef POOR
class MeshDeviceImpl {
public:
    bool initialize_impl(
        MeshDevice* mesh, unsigned char queues, unsigned long l1_small, unsigned long trace, unsigned long worker,
        std::span<const std::uint32_t> banks, bool minimal);
    void begin_mesh_trace(unsigned char queue, const MeshTraceId& id);
    void end_mesh_trace(unsigned char queue, const MeshTraceId& id);
    void replay_mesh_trace(unsigned char queue, const MeshTraceId& id, bool blocking);
    void release_mesh_trace(const MeshTraceId& id);
    std::uint64_t traced_ = 0;
};
void MeshDeviceImpl::begin_mesh_trace(unsigned char queue, const MeshTraceId& id) {
    traced_ = traced_ * 10 + (queue == 1 && id.value_ == 3 ? 1 : 9);
}
void MeshDeviceImpl::end_mesh_trace(unsigned char queue, const MeshTraceId& id) {
    traced_ = traced_ * 10 + (queue == 1 && id.value_ == 3 ? 2 : 9);
}
void MeshDeviceImpl::replay_mesh_trace(unsigned char queue, const MeshTraceId& id, bool blocking) {
    traced_ = traced_ * 10 + (queue == 1 && id.value_ == 3 && blocking ? 3 : 9);
}
void MeshDeviceImpl::release_mesh_trace(const MeshTraceId& id) { traced_ = traced_ * 10 + (id.value_ == 3 ? 4 : 9); }
bool MeshDeviceImpl::initialize_impl(
    MeshDevice* mesh, unsigned char queues, unsigned long l1_small, unsigned long trace, unsigned long worker,
    std::span<const std::uint32_t> banks, bool minimal) {
    if (queues != 2 || l1_small != 3 || trace != 4 || worker != 5 || banks.size() != 2 || banks[1] != 7 || !minimal) return false;
    mesh->allocator_ = std::make_unique<BankingAllocator>();
    return true;
}
class MeshWorkloadImpl {
public:
    void load_binaries(MeshCommandQueue& queue);
    Buffer* buffer_ = nullptr;
    AllocatorImpl* allocator_ = nullptr;
};
void MeshWorkloadImpl::load_binaries(MeshCommandQueue&) { allocator_->allocate_buffer(buffer_); }
#endif
}  // namespace distributed

#ifndef POOR
class SharedMemoryStatsProvider {
public:
    SharedMemoryStatsProvider(std::uint64_t unique_id, int id, bool a, bool b);
    std::uint64_t sum_;
};
SharedMemoryStatsProvider::SharedMemoryStatsProvider(std::uint64_t unique_id, int id, bool a, bool b) : sum_(unique_id + id + a + b) {}

class Program;
class GraphTracker {
public:
    void track_program(Program* program, const IDevice* device);
    void track_allocate_cb(const CoreRangeSet& cores, std::uint64_t address, std::uint64_t size, bool global, const IDevice* device);
    std::uint64_t seen_ = 0;
};
void GraphTracker::track_program(Program*, const IDevice*) { seen_++; }
void GraphTracker::track_allocate_cb(const CoreRangeSet&, std::uint64_t, std::uint64_t, bool, const IDevice*) { seen_++; }
GraphTracker tracker;

namespace detail {
class ProgramImpl {
public:
    explicit ProgramImpl(std::uint64_t id) : id_(id) {}
    ~ProgramImpl() noexcept;
    std::uint64_t get_id() const;
    void allocate_circular_buffers(const IDevice* device);
    void allocate_dataflow_buffers(const IDevice* device);
    void validate_circular_buffer_region(const IDevice* device);
    void deallocate_circular_buffers();
    struct CircularBufferAllocator {
        CoreRange range;
#ifdef SHIFTED
        std::uint64_t more[3] = {0x1000, 0x1010, 0x1010};
#endif
        std::vector<std::pair<std::uint64_t, std::uint64_t>> regions;
        void mark_address(std::uint64_t address, std::uint64_t size, std::uint64_t base);
    };
    std::uint64_t id_;
    CoreRangeSet cores_;
    CircularBufferAllocator allocator_{.range = {{0, 0}, {1, 1}}, .regions = {}};
    bool clashes_ = false;
    bool misses_a_chip_ = false;
};
ProgramImpl::~ProgramImpl() noexcept { deallocate_circular_buffers(); }
std::uint64_t ProgramImpl::get_id() const { return id_; }
void ProgramImpl::allocate_circular_buffers(const IDevice* device) {
    auto& mesh = static_cast<const distributed::MeshDevice&>(*device);
    for (std::uint64_t number = 0; number < 2; number++) {
        for (auto& chip : mesh.devices_) {
            if (misses_a_chip_ && chip->id() == 1) continue;
            tracker.track_allocate_cb(cores_, 0x2000 + number * 256, 256, number == 1, chip.get());
        }
    }
}
void ProgramImpl::allocate_dataflow_buffers(const IDevice*) {
    allocator_.mark_address(0x3000, 512, 0x3000);
    allocator_.mark_address(0x3200, 128, 0x3000);
}
void ProgramImpl::CircularBufferAllocator::mark_address(std::uint64_t address, std::uint64_t size, std::uint64_t base) {
    if (regions.empty()) regions.emplace_back(base, base);
    regions.back().second = address + size;
}
void ProgramImpl::validate_circular_buffer_region(const IDevice*) {
    if (clashes_) throw std::runtime_error("TT_THROW @ program.cpp:1: tt::exception\ninfo:\nStatically allocated circular buffers clash\n");
}
void ProgramImpl::deallocate_circular_buffers() {}
}  // namespace detail
#endif
}  // namespace tt_metal
}  // namespace tt

// How the program plays on it. Every call of a function above goes through the table of procedures, as in the real library.
using namespace tt::tt_metal;

extern "C" {
void* fake_open(int chips) {
    auto* mesh = new distributed::MeshDevice(chips);
#ifdef POOR
    mesh->allocator_ = std::make_unique<BankingAllocator>();
#else
    for (int id = 0; id < chips; id++) SharedMemoryStatsProvider(1000 + id, id, true, false);
    std::uint32_t banks[] = {1, 7};
    mesh->impl_ = new distributed::MeshDeviceImpl;
    if (!mesh->impl_->initialize_impl(mesh, 2, 3, 4, 5, banks, true)) return nullptr;
#endif
    return mesh;
}
static AllocatorImpl* allocator_of(void* mesh) { return static_cast<distributed::MeshDevice*>(mesh)->allocator_.get(); }
void* fake_buffer(void* mesh, int kind, std::uint64_t size, std::uint64_t page, int layout) {
    auto* device = static_cast<distributed::MeshDevice*>(mesh);
    return new Buffer(device, size, BufferType(kind), page, TensorMemoryLayout(layout), allocator_of(mesh));
}
std::uint64_t fake_allocate(void* buffer) {
    auto* it = static_cast<Buffer*>(buffer);
    return it->allocator_->allocate_buffer(it);
}
// In a thread of its own, which has no Python.
void fake_allocate_in_thread(void* buffer) { std::thread(fake_allocate, buffer).join(); }
void fake_free(void* buffer) {
    auto* it = static_cast<Buffer*>(buffer);
    it->allocator_->deallocate_buffer(it);
}
void fake_free_throws(void* mesh, int throws) { allocator_of(mesh)->throws_on_free_ = throws != 0; }
void fake_free_all(void* mesh) { allocator_of(mesh)->deallocate_buffers(); }
void fake_lie(void* mesh, std::uint64_t bytes) { allocator_of(mesh)->lie_ = bytes; }
void fake_shrink(void* mesh, std::uint64_t bytes) {
    if (bytes == 0) {
        allocator_of(mesh)->reset_allocator_size(BufferType::L1);
    } else {
        allocator_of(mesh)->shrink_allocator_size(BufferType::L1, bytes, true);
    }
}
void fake_override(void* mesh) { allocator_of(mesh)->override_state({}); }
void fake_close(void* mesh) {
    allocator_of(mesh)->deallocate_buffers();
    allocator_of(mesh)->clear();
    delete static_cast<distributed::MeshDevice*>(mesh);
}
#ifndef POOR
// Steps: 1 begin, 2 end, 3 replay, 4 release. Returns the steps that arrived with their arguments, a digit each.
std::uint64_t fake_trace(void* mesh, int step) {
    auto* impl = static_cast<distributed::MeshDevice*>(mesh)->impl_;
    const distributed::MeshTraceId id{3};
    if (step == 1) impl->begin_mesh_trace(1, id);
    if (step == 2) impl->end_mesh_trace(1, id);
    if (step == 3) impl->replay_mesh_trace(1, id, true);
    if (step == 4) impl->release_mesh_trace(id);
    return impl->traced_;
}
void fake_load_binaries(void* mesh, void* buffer) {
    distributed::MeshCommandQueue queue;
    distributed::MeshWorkloadImpl workload;
    workload.buffer_ = static_cast<Buffer*>(buffer);
    workload.allocator_ = allocator_of(mesh);
    workload.load_binaries(queue);
}
void* fake_program(std::uint64_t id, int clashes, int misses_a_chip) {
    auto* program = new detail::ProgramImpl(id);
    program->cores_.ranges_ = {{{0, 0}, {3, 1}}, {{5, 5}, {5, 5}}};
    program->clashes_ = clashes != 0;
    program->misses_a_chip_ = misses_a_chip != 0;
    return program;
}
void fake_run(void* program, void* mesh) {
    auto* it = static_cast<detail::ProgramImpl*>(program);
    auto* device = static_cast<distributed::MeshDevice*>(mesh);
    tracker.track_program(nullptr, device);
    it->allocate_circular_buffers(device);
    it->validate_circular_buffer_region(device);
    it->allocate_dataflow_buffers(device);
}
void fake_drop(void* program) { delete static_cast<detail::ProgramImpl*>(program); }
std::uint64_t fake_seen() { return tracker.seen_; }
#endif
}
