/* SPDX-License-Identifier: Apache-2.0 */
/* Adds vectors. The kernel has a host version, so the sum is right without a GPU, too. */
#include <cstdio>
#include <vector>

#include <tenure/simcuda_kernel.h>

__global__ void add(float *out, const float *a, const float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] + b[i];
}

static void add_on_host(void *const *params)
{
    float *out = *(float **)params[0];
    const float *a = *(const float **)params[1], *b = *(const float **)params[2];
    for (int i = 0, n = *(int *)params[3]; i < n; i++)
        out[i] = a[i] + b[i];
}

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                                  \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main()
{
    const int n = 10000;
    const size_t sizes[] = {sizeof(float *), sizeof(float *), sizeof(float *), sizeof(int)};
    std::vector<float> a(n), b(n), sum(n);
    float *da, *db, *out;
    simcuda_kernel_offer("add", 4, sizes, add_on_host, nullptr);
    for (int i = 0; i < n; i++) {
        a[i] = float(i);
        b[i] = float(2 * i);
    }
    CHECK(cudaMalloc(&da, n * sizeof(float)));
    CHECK(cudaMalloc(&db, n * sizeof(float)));
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    CHECK(cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    add<<<(n + 255) / 256, 256>>>(out, da, db, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        if (sum[i] != float(3 * i)) {
            printf("element %d is %f\n", i, double(sum[i]));
            return 1;
        }
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(out));
    puts("the sums are right");
    return 0;
}
