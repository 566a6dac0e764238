/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cudagraph trees save and restore: which blocks of a pool are live, and where. Before they
 * capture the next graph of a path, they bring the pool to the state that it had at the path's end.
 * So the next capture finds memory as it will be when the path is replayed.
 *
 * Tenure's free memory needs no saving: it is all memory without a live block, and nothing moves in
 * a pool that is vouched for. So restoring means to free all blocks and to place each saved block
 * where it was.
 *
 * The blocks that are freed here still have owners. PyTorch tells them afterwards: it takes away
 * the deleters of the storages that it names as stale.
 */
#include "allocator.hpp"

#include <c10/util/Exception.h>

namespace tenure_torch
{

namespace
{

struct saved_block {
    void *base;
    size_t bytes_requested;
    cudaStream_t stream;
    tnr_pool pool;
};

struct saved_state : cca::AllocatorState {
    pool_id id;
    std::vector<saved_block> live;
};

std::vector<saved_block> live_of(DeviceIndex device, pool_id id)
{
    std::vector<saved_block> live;
    auto add = [&live](const tnr_stretch &stretch) {
        for (size_t i = 0; i < stretch.blocks_count; i++) {
            const tnr_walked_block &block = stretch.blocks[i];
            if (block.state == TNR_WALKED_LIVE)
                live.push_back({reinterpret_cast<void *>(block.base), block.bytes_requested,
                                stretch.stream, stretch.pool});
        }
    };
    for (tnr_pool pool : pools_of(device, id))
        memory_walk(pool, device, add);
    return live;
}

/* Who asks for a pool's state, to put it back later, orders all that uses its blocks. */
void vouch(DeviceIndex device, pool_id id)
{
    if (!pools_vouch(device, id))
        refuse("the state of a torch.cuda.MemPool cannot be saved: its memory moves. Use an id of "
               "torch.cuda.graph_pool_handle().");
}

c10::DataPtr placed(DeviceIndex device, const saved_block &block)
{
    std::shared_ptr<c10::GatheredContext> context;
    bool is_watched = watched.load(std::memory_order_acquire) != 0;
    if (is_watched)
        context = context_of_allocation();
    check(tnr_pool_malloc_at(block.base, block.pool, block.bytes_requested, device, block.stream),
          "tnr_pool_malloc_at");
    if (is_watched)
        saw_allocation(block.base, block.bytes_requested, device, block.stream, std::move(context));
    return {block.base, block.base, &free_block, c10::Device(c10::kCUDA, device)};
}

} // namespace

bool allocator::checkPoolLiveAllocations(DeviceIndex device, pool_id id,
                                         const std::unordered_set<void *> &expected)
{
    std::vector<saved_block> live = live_of(device, id);
    for (const saved_block &block : live)
        if (expected.count(block.base) == 0)
            return false;
    return live.size() == expected.size();
}

std::shared_ptr<cca::AllocatorState> allocator::getCheckpointState(DeviceIndex device, pool_id id)
{
    auto state = std::make_shared<saved_state>();
    state->id = id;
    vouch(device, id);
    state->live = live_of(device, id);
    return state;
}

cca::CheckpointDelta allocator::setCheckpointPoolState(DeviceIndex device,
                                                       std::shared_ptr<cca::AllocatorState> state)
{
    auto *saved = dynamic_cast<saved_state *>(state.get());
    TORCH_CHECK(saved != nullptr, "the state of a pool was not saved by Tenure");
    cca::CheckpointDelta delta;
    vouch(device, saved->id);
    TORCH_CHECK(saved->live.empty() || !pools_of(device, saved->id).empty(),
                "the pool whose state is to be restored has ended");
    for (const saved_block &block : live_of(device, saved->id)) {
        free_block(block.base);
        delta.ptrs_freed.push_back(block.base);
    }
    for (const saved_block &block : saved->live)
        delta.dataptrs_allocd.push_back(placed(device, block));
    return delta;
}

} // namespace tenure_torch
