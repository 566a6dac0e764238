/* SPDX-License-Identifier: Apache-2.0 */
/* Adding strings to a model: see texts.h. */
#include "texts.h"

int texts_start(texts *to, model *snapshot)
{
    to->out = snapshot;
    map64_start(&to->strings, snapshot->limits);
    return value_heap_start(&to->heap, snapshot->limits);
}

int texts_add(texts *to, const char *text, size_t length, uint32_t *number)
{
    value interned;
    model *out = to->out;
    *number = 0;
    if (length == 0)
        return 0;
    if (value_make_text(&to->heap, text, length, &interned) != 0)
        return -1;
    uint32_t known = map64_get(&to->strings, interned);
    if (known == MAP64_ABSENT) {
        const char *copy = model_text(out, text, length);
        const char **made = copy ? MODEL_ADD(out, &out->strings, const char *) : NULL;
        if (!made)
            return -1;
        *made = copy;
        known = (uint32_t)out->strings.count - 1;
        if (map64_put(&to->strings, interned, known) != 0)
            return -1;
    }
    *number = known;
    return 0;
}

void texts_release(texts *to)
{
    map64_release(&to->strings);
    value_heap_release(&to->heap);
}
