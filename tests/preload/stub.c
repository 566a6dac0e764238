/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 to link programs against, as CUDA's own stub is; never loaded. It has the symbols
 * of the simulated device.
 */
#define SIM_ENTRY(name, symbol, since) STUB(symbol)
#define SIM_ENTRY_STREAM(name, symbol, since, per_thread) STUB(symbol) STUB(per_thread)
#define STUB(symbol)                                                                               \
    void stub_##symbol(void) __asm__(#symbol);                                                     \
    void stub_##symbol(void)                                                                       \
    {                                                                                              \
    }
#include "entry_points.def"
