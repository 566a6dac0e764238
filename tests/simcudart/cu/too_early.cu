/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong: frees in one stream what a kernel of another still uses. */
#include <cstdio>

__global__ void touch(float *data)
{
    data[threadIdx.x] += 1;
}

int main()
{
    cudaStream_t one, other;
    float *data;
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMallocAsync(&data, 1 << 20, one);
    cudaStreamSynchronize(one);
    touch<<<1, 32, 0, other>>>(data);
    cudaFreeAsync(data, one);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
