/* SPDX-License-Identifier: Apache-2.0 */
/*
 * borders [MODE]: bulk copies (cp.async.bulk) that end in each other's 2 MiB of one block, so that
 * they lie over the borders of whatever the block is made of. Prints CUDA's last word. MODE:
 *
 *   right    memory of cudaMalloc (the default)
 *   many     blocks of many sizes, each written to its last byte, freed and made again
 *   overrun  a write right behind a block, into memory that is no block's
 *   mapped   two chunks that the program itself maps side by side; nothing is wrong with it
 */
#include <cuda.h>
#include <cuda/ptx>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static const size_t MIB = 1 << 20;
enum { COPY = 256, BLOCKS = 24 };

__global__ void bulk(unsigned char *out)
{
    __shared__ alignas(32) unsigned char bytes[COPY];
    bytes[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    cuda::ptx::fence_proxy_async();
    cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out, bytes, COPY);
    cuda::ptx::cp_async_bulk_commit_group();
    cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>{});
}

__global__ void fill(unsigned char *out, size_t bytes)
{
    for (size_t i = threadIdx.x; i < bytes; i += blockDim.x)
        out[i] = 1;
}

#define MUST(call) must(static_cast<int>(call), #call)

static void must(int result, const char *call)
{
    if (result == 0)
        return;
    std::printf("%s: %d\n", call, result);
    std::exit(1);
}

static void borders(unsigned char *base, size_t bytes)
{
    for (size_t at = 2 * MIB; at < bytes; at += 2 * MIB)
        bulk<<<1, COPY>>>(base + at - COPY / 2);
}

static void right()
{
    unsigned char *base = nullptr;
    MUST(cudaMalloc(&base, 200 * MIB));
    borders(base, 200 * MIB);
    MUST(cudaFree(base));
}

static void many()
{
    unsigned char *all[BLOCKS] = {};
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < BLOCKS; i++) {
            size_t bytes = (static_cast<size_t>(1000) << i % 12) + static_cast<size_t>(i);
            MUST(cudaFree(all[i]));
            MUST(cudaMalloc(&all[i], bytes));
            fill<<<1, 256>>>(all[i], bytes);
        }
    for (unsigned char *one : all)
        MUST(cudaFree(one));
}

static void overrun()
{
    unsigned char *only = nullptr;
    MUST(cudaMalloc(&only, 4096));
    fill<<<1, 256>>>(only, 4096 + 256);
}

static void mapped()
{
    CUmemAllocationProp kind = {};
    CUmemAccessDesc access = {};
    CUdeviceptr base = 0;
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MUST(cudaFree(nullptr));
    MUST(cuMemAddressReserve(&base, 4 * MIB, 2 * MIB, 0, 0));
    for (int i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle chunk;
        MUST(cuMemCreate(&chunk, 2 * MIB, &kind, 0));
        MUST(cuMemMap(base + i * 2 * MIB, 2 * MIB, 0, chunk, 0));
        MUST(cuMemRelease(chunk));
    }
    MUST(cuMemSetAccess(base, 4 * MIB, &access, 1));
    borders(reinterpret_cast<unsigned char *>(base), 4 * MIB);
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "right";
    if (std::strcmp(mode, "mapped") == 0)
        mapped();
    else if (std::strcmp(mode, "overrun") == 0)
        overrun();
    else if (std::strcmp(mode, "many") == 0)
        many();
    else
        right();
    std::printf("%s: %s\n", mode, cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
