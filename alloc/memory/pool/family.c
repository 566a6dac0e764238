/* SPDX-License-Identifier: Apache-2.0 */
/* Pools by tag and device: see family.h. */
#include "memory/pool/family.h"

#include "base/error.h"
#include "memory/pool/cache.h"

/* As memory/pool/handle.c has it, with another mark in the bits 60 to 63; a handle of a pool has
 * 7. */
#define FAMILY_MARK ((uintptr_t)6 << 60)

tnr_pool tnri_family_handle(const tnri_tag *tag, int content)
{
    tnri_assert(content >= 0 && content < TNRI_FAMILY_CONTENTS);
    return (tnr_pool)(FAMILY_MARK | (tnri_tag_index(tag) * TNRI_FAMILY_CONTENTS + (size_t)content));
}

static size_t family_number(tnr_pool handle)
{
    return (uintptr_t)handle ^ FAMILY_MARK;
}

static tnri_tag *family_tag(tnr_pool handle)
{
    return tnri_tag_at(family_number(handle) / TNRI_FAMILY_CONTENTS);
}

int tnri_family_is(tnr_pool handle)
{
    return (uintptr_t)handle >> 60 == FAMILY_MARK >> 60 && family_tag(handle) != NULL;
}

tnr_pool tnri_family_find(tnri_device *device, tnr_pool handle)
{
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
        if (pool->family == handle)
            return pool;
    return NULL;
}

tnr_status tnri_family_pool(tnri_device *device, tnr_pool handle, tnr_pool *pool)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    *pool = tnri_family_find(device, handle);
    if (*pool != NULL)
        return TNR_OK;
    tnri_tag *tag = family_tag(handle);
    options.name = tag->name;
    tnri_tagging tagging = {tag, handle, (int)(family_number(handle) % TNRI_FAMILY_CONTENTS)};
    tnr_status status = tnri_pool_make(device, &options, TNRI_POOL_PLAIN, &tagging, pool);
    /* It is new, and only threads that find it here know it: none ends it. */
    if (status == TNR_OK && !tnri_pool_hold(*pool))
        status = tnri_error(TNR_ERR_INVALID_POOL, "pool \"%s\" has been destroyed.", tag->name);
    return status;
}

tnri_tag *tnri_tag_here(void)
{
    const tnri_thread *thread = tnri_thread_here();
    if (thread->routes_epoch != atomic_load_explicit(&tnri_library_epoch, memory_order_relaxed))
        return NULL;
    for (int i = thread->routes_count; i-- > 0;) {
        tnr_pool handle = thread->routes->at[i].handle;
        if (handle == NULL)
            return NULL; /* as if the thread were routed nowhere */
        if (tnri_family_is(handle))
            return family_tag(handle);
    }
    return NULL;
}
