/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The atomics of C, as steps of the explorer. To be included before the code that is explored, and
 * after all headers of the C library that it needs.
 */
#ifndef LOCK_MODEL_ATOMICS_H
#define LOCK_MODEL_ATOMICS_H

#include <stdatomic.h>

#include "explorer.h"

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_signal_fence

#define MODEL_SITE(operation, object, order)                                                       \
    __extension__({                                                                                \
        static explorer_site model_site = {__FILE__, __func__, operation, object,                  \
                                           __LINE__, order,    NULL,      0};                      \
        &model_site;                                                                               \
    })
/* The type of an atomic object's value. */
#define MODEL_VALUE(object) __typeof__(*(object) + 0)

#define atomic_load_explicit(object, order)                                                        \
    ((MODEL_VALUE(object))explorer_load(MODEL_SITE("load", #object, order), object, order))
#define atomic_load(object) atomic_load_explicit(object, memory_order_seq_cst)

#define atomic_store_explicit(object, value, order)                                                \
    explorer_store(MODEL_SITE("store", #object, order), object, (MODEL_VALUE(object))(value), order)
#define atomic_store(object, value) atomic_store_explicit(object, value, memory_order_seq_cst)

#define atomic_compare_exchange_strong_explicit(object, expected, value, order, order_failed)      \
    __extension__({                                                                                \
        uint64_t model_expected = *(expected);                                                     \
        int model_done =                                                                           \
            explorer_exchange_if(MODEL_SITE("exchange", #object, order), object, &model_expected,  \
                                 (MODEL_VALUE(object))(value), order, order_failed);               \
        *(expected) = (__typeof__(*(expected)))model_expected;                                     \
        model_done;                                                                                \
    })
/* One that fails for no reason is followed by a rest, as if it had not been tried. */
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong(object, expected, value)                                    \
    atomic_compare_exchange_strong_explicit(object, expected, value, memory_order_seq_cst,         \
                                            memory_order_seq_cst)

#define atomic_signal_fence(order) explorer_light_fence(MODEL_SITE("compiler's fence", "", order))

#endif
