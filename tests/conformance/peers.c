/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios: memory of one device that another, its peer, reaches. They need two devices with a way
 * to each other, and are skipped elsewhere.
 *
 * Two H200s, driver 580.159.04, give what is expected here. Results that are only observed may
 * differ there; the simulated device takes the stricter answer.
 */
#include "scenario.h"

#include <string.h>

enum { OWNER, PEER, DEVICES };

static CUcontext contexts[DEVICES];

static void in(int device)
{
    need("current", cu.CtxSetCurrent(contexts[device]));
}

/* The owner's context stays current. */
static void peers_need(void)
{
    int count = 0, forth = 0, back = 0;
    need("count", cu.DeviceGetCount(&count));
    if (count < DEVICES)
        skip("it needs two devices, and there is one");
    need("can", cu.DeviceCanAccessPeer(&forth, PEER, OWNER));
    need("can", cu.DeviceCanAccessPeer(&back, OWNER, PEER));
    if (!forth || !back)
        skip("it needs two devices that reach each other's memory");
    for (int i = 0; i < DEVICES; i++)
        need("retain", cu.DevicePrimaryCtxRetain(&contexts[i], i));
    in(OWNER);
}

static CUmemAccessDesc descriptor(int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof(access));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = flags;
    return access;
}

static CUresult give(CUdeviceptr at, size_t bytes, int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = descriptor(device, flags);
    return cu.MemSetAccess(at, bytes, &access, 1);
}

static CUresult open_to(CUdeviceptr at, size_t bytes, int device)
{
    return give(at, bytes, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static CUresult close_to(CUdeviceptr at, size_t bytes, int device)
{
    return give(at, bytes, device, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

/* What both devices may do at an address: 30 is the owner alone, 33 both. */
static unsigned both_at(CUdeviceptr at)
{
    unsigned digits = 0;
    for (int i = 0; i < DEVICES; i++) {
        unsigned long long flags = 0;
        CUmemLocation location = descriptor(i, 0).location;
        need("get", cu.MemGetAccess(&flags, &location, at));
        digits = digits * 10 + (unsigned)flags;
    }
    return digits;
}

/* Mapped chunks, one after the other, that only their owner reaches. */
static CUdeviceptr chunks_mapped(size_t count)
{
    CUdeviceptr at = reserve(count * CHUNK);
    for (size_t i = 0; i < count; i++)
        need("map", cu.MemMap(at + i * CHUNK, CHUNK, 0, chunk_create(CHUNK), 0));
    need("access", set_access(at, count * CHUNK));
    return at;
}

/* Memory of the peer's own. */
static CUdeviceptr peer_block(size_t bytes)
{
    CUdeviceptr at = 0;
    in(PEER);
    need("alloc", cu.MemAlloc(&at, bytes));
    need("set", cu.MemsetD8(at, 0x11, bytes));
    need("sync", cu.CtxSynchronize());
    in(OWNER);
    return at;
}

/* A byte as the device's own context reads it. */
static unsigned byte_in(int device, CUdeviceptr at)
{
    in(device);
    unsigned byte = byte_at(at);
    in(OWNER);
    return byte;
}

/* ---- who has access ------------------------------------------------------------------------- */

/* Each device by itself: what one gets or loses changes nothing for the other. */
static void peer_access_per_device(void)
{
    peers_need();
    CUdeviceptr at = reserve(CHUNK);
    need("map", cu.MemMap(at, CHUNK, 0, chunk_create(CHUNK), 0));
    expect_number("mapped", both_at(at), 0);
    expect("owner", open_to(at, CHUNK, OWNER), CUDA_SUCCESS);
    expect_number("owner_only", both_at(at), 30);
    expect("peer", open_to(at, CHUNK, PEER), CUDA_SUCCESS);
    expect_number("both", both_at(at), 33);
    expect("peer_again", open_to(at, CHUNK, PEER), CUDA_SUCCESS);
    expect("owner_closed", close_to(at, CHUNK, OWNER), CUDA_SUCCESS);
    expect_number("peer_only", both_at(at), 3);
    expect("owner_back", open_to(at, CHUNK, OWNER), CUDA_SUCCESS);
    expect("peer_closed", close_to(at, CHUNK, PEER), CUDA_SUCCESS);
    expect_number("closed", both_at(at), 30);
    expect("closed_again", close_to(at, CHUNK, PEER), CUDA_SUCCESS);
    expect_number("still", both_at(at), 30);
}

/* Access that comes when the memory has long been used, and contents that the peer then finds, and
 * leaves. */
static void peer_access_later(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(1);
    expect("set", cu.MemsetD8(at, 0x5a, CHUNK), CUDA_SUCCESS);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS); /* a memset does not make the host wait */
    expect_number("before", both_at(at), 30);
    expect("open", open_to(at, CHUNK, PEER), CUDA_SUCCESS);
    expect_number("after", both_at(at), 33);
    expect_number("peer_reads", byte_in(PEER, at + CHUNK - 1), 0x5a);
    in(PEER);
    expect("peer_writes", cu.MemsetD8(at, 0x77, CHUNK), CUDA_SUCCESS);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
    in(OWNER);
    expect_number("owner_reads", byte_at(at + 5), 0x77);
}

/* Access is a property of the mapping, not of the memory. */
static void peer_new_mapping(void)
{
    peers_need();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr first = chunk_mapped(CHUNK, &handle);
    CUdeviceptr second = reserve(CHUNK);
    need("open", open_to(first, CHUNK, PEER));
    expect("map_again", cu.MemMap(second, CHUNK, 0, handle, 0), CUDA_SUCCESS);
    expect_number("second", both_at(second), 0);
    expect_number("first", both_at(first), 33);
    expect("unmap", cu.MemUnmap(first, CHUNK), CUDA_SUCCESS);
    expect("map_same_place", cu.MemMap(first, CHUNK, 0, handle, 0), CUDA_SUCCESS);
    expect_number("same_place", both_at(first), 0);
    expect("open_second", open_to(second, CHUNK, PEER), CUDA_SUCCESS);
    expect_number("peer_only", both_at(second), 3);
    expect_number("not_first", both_at(first), 0);
}

/* One call speaks of two devices. One with a descriptor that is wrong does nothing of what the
 * other one says, on H200s. */
static void peer_two_descriptors(void)
{
    peers_need();
    CUdeviceptr at = reserve(CHUNK);
    need("map", cu.MemMap(at, CHUNK, 0, chunk_create(CHUNK), 0));
    CUmemAccessDesc both[] = {descriptor(OWNER, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                              descriptor(PEER, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
    expect("both", cu.MemSetAccess(at, CHUNK, both, 2), CUDA_SUCCESS);
    expect_number("open", both_at(at), 33);
    both[1].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    expect("one_of_them", cu.MemSetAccess(at, CHUNK, both, 2), CUDA_SUCCESS);
    expect_number("closed", both_at(at), 30);
    both[0] = descriptor(PEER, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    both[1] = descriptor(1000, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    observe("bad_second", cu.MemSetAccess(at, CHUNK, both, 2));
    observe_number("unchanged", both_at(at));
}

/* A call over several mappings, each of its own memory, and over some of them. */
static void peer_several_mappings(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(4);
    expect("middle", open_to(at + CHUNK, 2 * CHUNK, PEER), CUDA_SUCCESS);
    expect_number("first", both_at(at), 30);
    expect_number("second", both_at(at + CHUNK), 33);
    expect_number("third", both_at(at + 3 * CHUNK - 1), 33);
    expect_number("fourth", both_at(at + 3 * CHUNK), 30);
    expect("all", open_to(at, 4 * CHUNK, PEER), CUDA_SUCCESS);
    expect_number("all_open", both_at(at) + both_at(at + 3 * CHUNK), 66);
    expect("close_third", close_to(at + 2 * CHUNK, CHUNK, PEER), CUDA_SUCCESS);
    expect_number("third_closed", both_at(at + 2 * CHUNK), 30);
    need("unmap", cu.MemUnmap(at + CHUNK, CHUNK));
    /* H200s close what is mapped, and call it success; the simulated device refuses all of it. */
    observe("with_hole", close_to(at, 4 * CHUNK, PEER));
    observe_number("after_it", both_at(at) + both_at(at + 3 * CHUNK));
}

/* Half of a mapping cannot be opened, as it cannot be for the owner. */
static void peer_half_of_a_mapping(void)
{
    peers_need();
    CUdeviceptr at = chunk_mapped(2 * CHUNK, NULL);
    expect("first_half", open_to(at, CHUNK, PEER), CUDA_ERROR_INVALID_VALUE);
    expect("second_half", open_to(at + CHUNK, CHUNK, PEER), CUDA_ERROR_INVALID_VALUE);
    expect_number("unchanged", both_at(at), 30);
    expect("whole", open_to(at, 2 * CHUNK, PEER), CUDA_SUCCESS);
    expect_number("open", both_at(at + 2 * CHUNK - 1), 33);
}

/* What is asked, and of what. Which error a device has that does not exist is only observed. */
static void peer_get_access(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(1), nothing = reserve(CHUNK);
    unsigned long long flags = 99;
    CUmemLocation location = descriptor(PEER, 0).location;
    expect("get", cu.MemGetAccess(&flags, &location, at + 12345), CUDA_SUCCESS);
    expect_number("flags", flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    need("open", open_to(at, CHUNK, PEER));
    expect("get_open", cu.MemGetAccess(&flags, &location, at + CHUNK - 1), CUDA_SUCCESS);
    expect_number("flags_open", flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    in(PEER);
    expect("in_peers_context", cu.MemGetAccess(&flags, &location, at), CUDA_SUCCESS);
    in(OWNER);
    need("read", give(at, CHUNK, PEER, CU_MEM_ACCESS_FLAGS_PROT_READ));
    expect("get_read", cu.MemGetAccess(&flags, &location, at), CUDA_SUCCESS);
    expect_number("flags_read", flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    expect("unmapped", cu.MemGetAccess(&flags, &location, nothing), CUDA_ERROR_INVALID_VALUE);
    location.id = 1000;
    observe("bad_device", cu.MemGetAccess(&flags, &location, at));
}

/* Opened memory goes as any other, and leaves nothing behind. */
static void peer_unmap_while_open(void)
{
    peers_need();
    size_t before = 0, after = 0, total = 0;
    CUdeviceptr at = reserve(CHUNK);
    need("info", cu.MemGetInfo(&before, &total));
    CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
    need("map", cu.MemMap(at, CHUNK, 0, handle, 0));
    need("access", set_access(at, CHUNK));
    need("open", open_to(at, CHUNK, PEER));
    expect("unmap", cu.MemUnmap(at, CHUNK), CUDA_SUCCESS);
    expect("release", cu.MemRelease(handle), CUDA_SUCCESS);
    expect("address_free", cu.MemAddressFree(at, CHUNK), CUDA_SUCCESS);
    need("info", cu.MemGetInfo(&after, &total));
    expect_yes("given_back", before == after, 1);
}

/* ---- work of the peer ----------------------------------------------------------------------- */

static void peer_work_with_access(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(2), own = peer_block(CHUNK);
    need("open", open_to(at, 2 * CHUNK, PEER));
    need("set", cu.MemsetD8(at, 0x5a, 2 * CHUNK));
    need("sync", cu.CtxSynchronize());
    in(PEER);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    expect("copy_from", cu.MemcpyDtoDAsync(own, at + CHUNK / 2, CHUNK, stream), CUDA_SUCCESS);
    expect("set", cu.MemsetD8Async(at, 0x33, 16, stream), CUDA_SUCCESS);
    expect("set_words", cu.MemsetD32Async(at + 16, 0x44444444, 4, stream), CUDA_SUCCESS);
    expect("copy_to", cu.MemcpyDtoDAsync(at + 32, own, 16, stream), CUDA_SUCCESS);
    expect("copy_peer",
           cu.MemcpyPeerAsync(at + 48, contexts[OWNER], own, contexts[PEER], 16, stream),
           CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    in(OWNER);
    expect_number("copied", byte_in(PEER, own + CHUNK - 1), 0x5a);
    expect_number("was_set", byte_at(at + 15), 0x33);
    expect_number("words", byte_at(at + 16), 0x44);
    expect_number("copied_to", byte_at(at + 32), 0x5a);
    expect_number("copied_peer", byte_at(at + 63), 0x5a);
}

/* Closed memory is not written, and its owner goes on as before. How the peer is told, and when, is
 * not relied on: H200s refuse the calls, copies as well as sets, as the simulated device does. */
static void peer_work_without_access(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(1), own = peer_block(CHUNK);
    need("set", cu.MemsetD8(at, 0x5a, CHUNK));
    need("sync", cu.CtxSynchronize());
    need("open", open_to(at, CHUNK, PEER));
    need("close", close_to(at, CHUNK, PEER));
    in(PEER);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    observe("copy_from", cu.MemcpyDtoDAsync(own, at, 16, stream));
    observe("copy_to", cu.MemcpyDtoDAsync(at + 64, own + 64, 16, stream));
    observe("set", cu.MemsetD8Async(at, 0x33, 16, stream));
    observe("sync", cu.StreamSynchronize(stream));
    in(OWNER);
    expect_number("not_set", byte_at(at), 0x5a);
    observe_number("byte_copied_to", byte_at(at + 64));
    expect("owner_goes_on", cu.MemsetD8(at, 0x66, 16), CUDA_SUCCESS);
    expect_number("owner_reads", byte_at(at + 15), 0x66);
}

/* The driver's own copy between devices needs no access of either to the other's memory. */
static void peer_copy_without_access(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(1), own = peer_block(CHUNK);
    need("set", cu.MemsetD8(at, 0x5a, CHUNK));
    need("sync", cu.CtxSynchronize());
    in(PEER);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    expect("from", cu.MemcpyPeerAsync(own, contexts[PEER], at, contexts[OWNER], CHUNK / 2, stream),
           CUDA_SUCCESS);
    expect("to",
           cu.MemcpyPeerAsync(at, contexts[OWNER], own + CHUNK - 16, contexts[PEER], 16, stream),
           CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    in(OWNER);
    expect_number("came", byte_in(PEER, own + CHUNK / 2 - 1), 0x5a);
    expect_number("no_more", byte_in(PEER, own + CHUNK / 2), 0x11);
    expect_number("went", byte_at(at + 15), 0x11);
    expect_number("closed", both_at(at), 30);
}

/* A row between the host's memory and the owner's, in the words that tell whose it is. */
static CUDA_MEMCPY3D_PEER row(CUdeviceptr device, void *host, size_t bytes, int is_to_host)
{
    CUDA_MEMCPY3D_PEER copy;
    memset(&copy, 0, sizeof(copy));
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    copy.srcPitch = copy.dstPitch = bytes;
    copy.srcHeight = copy.dstHeight = 1;
    copy.srcMemoryType = is_to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy.dstMemoryType = is_to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = is_to_host ? device : 0;
    copy.dstDevice = is_to_host ? 0 : device;
    copy.srcHost = is_to_host ? NULL : host;
    copy.dstHost = is_to_host ? host : NULL;
    copy.srcContext = contexts[is_to_host ? OWNER : PEER];
    copy.dstContext = contexts[is_to_host ? PEER : OWNER];
    return copy;
}

/* Copies between the host and memory of another device: what was mapped by hand wants access,
 * unless the call tells the contexts; what cuMemAlloc gave wants none. */
static void peer_host_copies(void)
{
    static unsigned char host[256];
    peers_need();
    CUdeviceptr mapped = chunks_mapped(1), block = 0;
    need("alloc", cu.MemAlloc(&block, CHUNK));
    need("set", cu.MemsetD8(mapped, 0x5a, CHUNK));
    need("set", cu.MemsetD8(block, 0x5a, CHUNK));
    need("sync", cu.CtxSynchronize());
    in(PEER);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    memset(host, 0x22, sizeof(host));
    expect("to_mapped", cu.MemcpyHtoD(mapped, host, sizeof(host)), CUDA_ERROR_INVALID_VALUE);
    expect("to_mapped_async", cu.MemcpyHtoDAsync(mapped, host, sizeof(host), stream),
           CUDA_ERROR_INVALID_VALUE);
    expect("from_mapped", cu.MemcpyDtoH(host, mapped, sizeof(host)), CUDA_ERROR_INVALID_VALUE);
    expect("to_block", cu.MemcpyHtoD(block, host, sizeof(host)), CUDA_SUCCESS);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
    CUDA_MEMCPY3D_PEER to = row(mapped, host, sizeof(host), 0);
    expect("told", cu.Memcpy3DPeer(&to), CUDA_SUCCESS);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
    memset(host, 0x33, sizeof(host));
    CUDA_MEMCPY3D_PEER half = row(mapped, host, sizeof(host) / 2, 0);
    expect("told_async", cu.Memcpy3DPeerAsync(&half, stream), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    CUDA_MEMCPY3D_PEER from = row(mapped, host, sizeof(host), 1);
    expect("back", cu.Memcpy3DPeerAsync(&from, stream), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("first", host[0], 0x33);
    expect_number("last", host[sizeof(host) - 1], 0x22);
    memset(host, 0, sizeof(host));
    expect("from_block", cu.MemcpyDtoH(host, block, sizeof(host)), CUDA_SUCCESS);
    expect_number("of_block", host[0], 0x22);
    in(OWNER);
    expect_number("there", byte_at(mapped + sizeof(host) - 1), 0x22);
    expect_number("not_beyond", byte_at(mapped + sizeof(host)), 0x5a);
}

/* A stream of the one device waits for an event of the other: how a peer's use is ordered before
 * what the owner does next. */
static void peer_event(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(1);
    need("open", open_to(at, CHUNK, PEER));
    struct gate *gate = gate_new();
    CUstream owners = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent after = event_new(CU_EVENT_DISABLE_TIMING);
    in(PEER);
    CUstream peers = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    gate_close(gate, peers);
    need("set", cu.MemsetD8Async(at, 1, CHUNK, peers));
    expect("record", cu.EventRecord(event, peers), CUDA_SUCCESS);
    in(OWNER);
    expect("wait", cu.StreamWaitEvent(owners, event, 0), CUDA_SUCCESS);
    need("set", cu.MemsetD8Async(at, 2, 16, owners));
    expect("record_after", cu.EventRecord(after, owners), CUDA_SUCCESS);
    expect("query", cu.EventQuery(after), CUDA_ERROR_NOT_READY);
    expect("query_peers", cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("synchronize", cu.EventSynchronize(after), CUDA_SUCCESS);
    expect("query_peers", cu.EventQuery(event), CUDA_SUCCESS);
    expect_number("last", byte_at(at), 2);
    expect_number("first", byte_at(at + 16), 1);
}

/* Whether opening waits for work under way, of either device. An H200 does not wait when it gives
 * itself access (calls_that_do_not_wait in vmm.c); of peers nothing is known, and nothing relied
 * on. */
static void peer_opening_under_work(void)
{
    peers_need();
    CUdeviceptr at = chunks_mapped(2);
    struct gate *gate = gate_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    gate_close(gate, stream);
    need("set", cu.MemsetD8Async(at, 1, CHUNK, stream));
    watch_start(gate, WAITS_MS);
    expect("open", open_to(at, 2 * CHUNK, PEER), CUDA_SUCCESS);
    observe_yes("waited", watch_stop(gate));
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_in(PEER, at + CHUNK - 1), 1);
}

const struct scenario peer_scenarios[] = {
    {"peer_access_per_device", peer_access_per_device, 0},
    {"peer_access_later", peer_access_later, 0},
    {"peer_new_mapping", peer_new_mapping, 0},
    {"peer_two_descriptors", peer_two_descriptors, 0},
    {"peer_several_mappings", peer_several_mappings, 0},
    {"peer_half_of_a_mapping", peer_half_of_a_mapping, 0},
    {"peer_get_access", peer_get_access, 0},
    {"peer_unmap_while_open", peer_unmap_while_open, 0},
    {"peer_work_with_access", peer_work_with_access, 0},
    {"peer_work_without_access", peer_work_without_access, 0},
    {"peer_copy_without_access", peer_copy_without_access, 0},
    {"peer_host_copies", peer_host_copies, 0},
    {"peer_event", peer_event, 0},
    {"peer_opening_under_work", peer_opening_under_work, 0},
    {NULL, NULL, 0},
};
