/* SPDX-License-Identifier: Apache-2.0 */
/* Uses a library that has a runtime of its own. */
#include <cstdio>
#include <cublas_v2.h>

int main()
{
    cublasHandle_t handle;
    void *block = nullptr;
    int status = int(cublasCreate(&handle));
    printf("cublas %d, memory %d\n", status, int(cudaMalloc(&block, 4096)));
    cudaFree(block);
    return 0;
}
