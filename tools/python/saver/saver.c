/* SPDX-License-Identifier: Apache-2.0 */
/* The way from torch_memory_saver's C functions to Python: see saver.h. */
#include "saver.h"

#include <stddef.h>

enum { NOT_READY = 3 }; /* cudaErrorInitializationError */

/* Written once, before the names can be found. */
static struct {
    tenure_saver_call pause, resume;
} saver;

__attribute__((visibility("default"))) void tenure_saver_begin(tenure_saver_call pause,
                                                               tenure_saver_call resume)
{
    saver.pause = pause;
    saver.resume = resume;
}

__attribute__((visibility("default"))) int tms_pause(const char *tag)
{
    return saver.pause == NULL ? NOT_READY : saver.pause(tag);
}

__attribute__((visibility("default"))) int tms_resume(const char *tag)
{
    return saver.resume == NULL ? NOT_READY : saver.resume(tag);
}
