/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of other processes, as torch.multiprocessing sends them.
 *
 * For a block, PyTorch pickles a mark of Tenure's and the block's name (<tenure/export.h>). A
 * receiver that opens it asks the sender's process. The same block has the same name, so a receiver
 * maps it once, however often it comes. The sender keeps the block as long as PyTorch's own
 * counters say that a receiver has it. If the block is freed before that, its memory stays until
 * receivers are done. PyTorch handles events, and who waits for whom.
 *
 * A tensor that dies while a capture is under way cannot be closed, because that would wait for the
 * device. It is put in a list. The list is worked off when another tensor is opened, and by
 * emptyCache.
 */
#include "allocator.hpp"

#include <cstring>
#include <mutex>

#include <c10/cuda/CUDAException.h>

namespace tenure_torch
{

namespace
{

constexpr char mark[] = "Tenure1:"; /* PyTorch takes it for a version that it does not know */
constexpr size_t mark_bytes = sizeof(mark) - 1;
constexpr int devices_max = 64;

std::mutex unclosed_lock;
/* Of unclosed_lock. Never destroyed: tensors may die after all destructors. */
std::vector<void *> &unclosed = *new std::vector<void *>();
std::atomic<size_t> unclosed_count{0};

/* Bit i of the nth: device i was let in to the memory of device n. */
std::atomic<uint64_t> reached[devices_max];

void unclosed_add(void *ptr)
{
    std::lock_guard<std::mutex> guard(unclosed_lock);
    unclosed.push_back(ptr);
    unclosed_count++;
}

void import_close(void *ptr) noexcept
{
    tnr_status status = tnr_import_close(ptr);
    if (status == TNR_ERR_CAPTURE) {
        try {
            unclosed_add(ptr);
        } catch (const std::exception &) {
            fail_quietly("tnr_import_close"); /* it stays open */
        }
    } else if (status != TNR_OK && status != TNR_ERR_AFTER_FORK && status != TNR_ERR_SHUTDOWN) {
        fail_quietly("tnr_import_close");
    }
}

} // namespace

void imports_settle()
{
    std::vector<void *> now;
    if (unclosed_count.load(std::memory_order_relaxed) == 0)
        return;
    {
        std::lock_guard<std::mutex> guard(unclosed_lock);
        now.swap(unclosed);
        unclosed_count = 0;
    }
    for (void *ptr : now)
        import_close(ptr);
}

void imports_reached_by(DeviceIndex device, DeviceIndex by)
{
    if (device >= 0 && device < devices_max && by >= 0 && by < devices_max)
        reached[device].fetch_or(uint64_t{1} << by);
}

cca::ShareableHandle allocator::shareIpcHandle(void *ptr)
{
    tnr_block_info block;
    tnr_export_name name;
    TORCH_CHECK(tnr_block_get(&block, ptr) == TNR_OK,
                "a tensor that is to be shared is not in memory of Tenure's: clone it first.");
    check(tnr_export_offer(&name, ptr), "tnr_export_offer");
    std::string handle(mark, mark_bytes);
    handle.append(reinterpret_cast<const char *>(&name), sizeof(name));
    return {static_cast<char *>(ptr) - static_cast<char *>(block.base), handle};
}

std::shared_ptr<void> allocator::getIpcDevPtr(std::string handle)
{
    tnr_export_name name;
    if (handle.size() != mark_bytes + sizeof(name) || handle.compare(0, mark_bytes, mark) != 0)
        refuse("this process received a tensor on a GPU from one whose memory is not Tenure's, or "
               "another version's. Call tenure.torch.install() there too, or send a copy in host "
               "memory (tensor.cpu()).");
    std::memcpy(&name, handle.data() + mark_bytes, sizeof(name));
    imports_settle();
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    if (device < devices_max)
        options.peers = reached[device].load();
    tnr_import_info info = {};
    info.struct_bytes = sizeof(info);
    check(tnr_import_open(&info, &name, device, &options), "tnr_import_open");
    return std::shared_ptr<void>(info.ptr, import_close);
}

} // namespace tenure_torch
