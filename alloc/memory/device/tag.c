/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tags: see tag.h. */
#include "memory/device/tag.h"

#include <string.h>

#include "base/error.h"
#include "base/lock.h"

static struct {
    tnri_lock lock;
    _Atomic size_t count; /* grows under the lock, after the tag is there */
    tnri_tag tags[TNRI_TAGS_MAX];
} all = {.lock = {.rank = TNRI_RANK_DEVICE}};

tnri_tag *tnri_tag_at(size_t index)
{
    return index < atomic_load_explicit(&all.count, memory_order_acquire) ? &all.tags[index] : NULL;
}

size_t tnri_tag_index(const tnri_tag *tag)
{
    return (size_t)(tag - all.tags);
}

tnri_tag *tnri_tag_find(const char *name)
{
    tnri_tag *tag = NULL;
    for (size_t i = 0; (tag = tnri_tag_at(i)) != NULL; i++)
        if (strcmp(tag->name, name) == 0)
            return tag;
    return NULL;
}

/* 1 if a tag may be called so. Names stand in lists with commas and in JSON, as they are. */
static int name_is_good(const char *name)
{
    size_t length = 0;
    for (; name[length] != '\0' && length < TNRI_TAG_BYTES; length++)
        if (name[length] <= ' ' || name[length] > '~' || strchr(",\"\\", name[length]) != NULL)
            return 0;
    return length > 0 && length < TNRI_TAG_BYTES;
}

/* Under the lock. Null: there are as many as there can be. */
static tnri_tag *tag_add(const char *name)
{
    size_t count = atomic_load(&all.count);
    if (count == TNRI_TAGS_MAX)
        return NULL;
    tnri_tag *tag = &all.tags[count];
    memcpy(tag->name, name, strlen(name) + 1);
    for (int i = 0; i < TNRI_DEVICE_NUMBERS; i++)
        atomic_store(&tag->on[i].limit_bytes, UINT64_MAX);
    atomic_store_explicit(&all.count, count + 1, memory_order_release);
    return tag;
}

tnr_status tnri_tag_enter(tnri_tag **tag, const char *name)
{
    if (!name_is_good(name))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "\"%.80s\" is not a name for a tag. One has 1 to %d visible ASCII "
                          "characters, but no comma, quotation mark or backslash.",
                          name, TNRI_TAG_BYTES - 1);
    *tag = tnri_tag_find(name);
    if (*tag != NULL)
        return TNR_OK;
    tnri_lock_take(&all.lock);
    *tag = tnri_tag_find(name);
    if (*tag == NULL)
        *tag = tag_add(name);
    tnri_lock_release(&all.lock);
    if (*tag != NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                      "tag \"%s\" would be one too many; a process has at most %d. Name what is "
                      "to sleep together alike.",
                      name, TNRI_TAGS_MAX);
}

void tnri_tags_start(int device)
{
    tnri_tag *tag;
    for (size_t i = 0; (tag = tnri_tag_at(i)) != NULL; i++)
        atomic_store(&tag->on[device].limit_bytes, UINT64_MAX);
}
