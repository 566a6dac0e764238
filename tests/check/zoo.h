/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zoo: programs with one planted error of lifetime each, and the same programs without it. They
 * know nothing of Tenure; their kernels are registered with the simulated device.
 *
 *   check_zoo NAME wrong|right
 */
#ifndef TENURE_TESTS_CHECK_ZOO_H
#define TENURE_TESTS_CHECK_ZOO_H

#include "must.h"

/* As many bytes of parameters as a kernel may have. */
enum {
    BYTES = 1 << 20,
    WIDE_BYTES = 32764,
    PAIR_BYTES = 64 + sizeof(CUtensorMap),
    LARGE_WORDS = 512
};

/* What all have: streams that nothing orders with each other, and kernels. */
typedef struct zoo {
    CUstream a, b, c;
    CUstream far; /* of another device, whose context comes next; null: none was made */
    CUcontext far_context;
    CUevent event;
    CUcontext context;
    CUfunction touch;  /* touch(address, count) */
    CUfunction both;   /* both(begin, end) */
    CUfunction whole;  /* whole(struct of three words) */
    CUfunction twin;   /* twin(the same) */
    CUfunction beside; /* beside(struct of four words, and of three) */
    CUfunction wide;   /* wide(struct of WIDE_BYTES) */
    CUfunction large;  /* large(struct of LARGE_WORDS words, which of them) */
    CUfunction tensor; /* tensor(tensor map) */
    CUfunction pair;   /* pair(a word and, at 64, a tensor map) */
    CUfunction many;   /* many(WIDE_BYTES / 8 addresses) */
    int is_wrong;
} zoo;

extern zoo the;

/* A block in the order of a stream. */
CUdeviceptr make(CUstream stream);

/* A kernel that uses a block. */
void touch(CUdeviceptr address, CUstream stream);

/* An executable of one such kernel, of a graph that was made by hand. `is_changed`: its node was
 * set again since. */
CUgraphExec exec_by_hand(CUdeviceptr address, int is_changed);

/* The second stream waits for the first. */
void wait_for(CUstream first, CUstream second);

/* Leaves the rest of the program to a process whose parent has ended. */
void orphan_begin(void);

#define ANIMAL(name) void animal_##name(void);
#include "animals.def"
#undef ANIMAL

#endif
