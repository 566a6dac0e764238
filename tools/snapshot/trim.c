/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames lie between the program and its memory: see trim.h. */
#include "trim.h"

#include <string.h>

#include "see/snapshot/whose.h"

static int is_between(const model *snapshot, const frame *one)
{
    const char *function = model_string(snapshot, one->function);
    const char *path = model_string(snapshot, one->module);
    const char *slash = strrchr(path, '/');
    const char *module = slash ? slash + 1 : path;
    return tnri_frame_is_between(function, module);
}

void stacks_trim(model *snapshot)
{
    for (size_t i = 0; i < snapshot->stacks.count; i++) {
        stack *one = MODEL_AT(snapshot->stacks, stack, i);
        while (one->count > 1) {
            uint32_t at = *MODEL_AT(snapshot->stack_frames, uint32_t, one->first);
            if (!is_between(snapshot, MODEL_AT(snapshot->frames, frame, at)))
                break;
            one->first++;
            one->count--;
        }
    }
}
