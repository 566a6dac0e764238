/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by what it is for: see <tenure/tag.h>. */
#include <tenure/tag.h>

#include "base/prim/calm.h"
#include "base/error.h"
#include "memory/arena/find.h"
#include "api/library.h"
#include "api/stats.h"
#include "memory/pool/family.h"
#include "away/wanted.h"

_Static_assert(TNR_CONTENT_DISK + 1 == (int)TNRI_FAMILY_CONTENTS, "one family for each");

/* The tag of a name that somebody has asked for. */
static tnr_status tag_named(tnri_tag **tag, const char *name)
{
    *tag = name == NULL ? NULL : tnri_tag_find(name);
    if (*tag != NULL)
        return TNR_OK;
    if (name == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "a tag is null.");
    tnr_status status =
        tnri_error(TNR_ERR_INVALID_ARGUMENT, "nothing has the tag \"%.80s\"%s", name,
                   tnri_tag_at(0) == NULL ? "; there are no tags." : ". There are:");
    tnri_tag *other;
    for (size_t i = 0; (other = tnri_tag_at(i)) != NULL; i++)
        tnri_error_append("%s %s", i == 0 ? "" : ",", other->name);
    if (tnri_tag_at(0) != NULL)
        tnri_error_append(".");
    return status;
}

/* A tag and a device in use. */
static tnr_status tag_on(tnri_tag **tag, tnri_device **device, const char *name, int index)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnr_status status = tag_named(tag, name);
    return status == TNR_OK ? tnri_library_device(index, device) : status;
}

tnr_status tnr_tag_pool(tnr_pool *pool, const char *name, tnr_content content)
{
    TNRI_CALM_CALL;
    if (pool == NULL || name == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_tag_pool: %s is null.",
                          pool == NULL ? "pool" : "tag");
    *pool = NULL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if ((int)content < 0 || content > TNR_CONTENT_DISK)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "%d is not a content policy.", (int)content);
    tnri_tag *tag;
    tnr_status status = tnri_tag_enter(&tag, name);
    if (status == TNR_OK)
        *pool = tnri_family_handle(tag, (int)content);
    return status;
}

/* ---- sleeping ------------------------------------------------------------------------------- */

/* The tags of these names, in their order; without names, all that there are. */
static tnr_status tags_find(tnri_tag **found, size_t *found_count, const char *const *names,
                            size_t count)
{
    tnr_status status = TNR_OK;
    *found_count = 0;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (names == NULL && count == 0) {
        while ((found[*found_count] = tnri_tag_at(*found_count)) != NULL)
            ++*found_count;
        return TNR_OK;
    }
    if (names == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "the list of tags is null.");
    for (size_t i = 0; i < count && status == TNR_OK; i++) {
        tnri_tag *tag;
        size_t at = 0;
        status = tag_named(&tag, names[i]);
        while (at < *found_count && found[at] != tag)
            at++;
        if (status == TNR_OK && at == *found_count)
            found[(*found_count)++] = tag;
    }
    return status;
}

tnr_status tnr_tags_sleep(const char *const *tags, size_t count, int device,
                          const tnr_sleep_options *options)
{
    TNRI_CALM_CALL;
    tnri_tag *found[TNRI_TAGS_MAX + 1];
    tnri_wanted wanted = {TNRI_WANTED_TAGS, NULL, found, 0};
    tnr_status status = tags_find(found, &wanted.tags_count, tags, count);
    return status == TNR_OK ? tnri_pools_sleep(device, &wanted, options) : status;
}

tnr_status tnr_tags_wake(const char *const *tags, size_t count, int device)
{
    TNRI_CALM_CALL;
    tnri_tag *found[TNRI_TAGS_MAX + 1];
    tnri_wanted wanted = {TNRI_WANTED_TAGS, NULL, found, 0};
    tnr_status status = tags_find(found, &wanted.tags_count, tags, count);
    return status == TNR_OK ? tnri_pools_wake(device, &wanted) : status;
}

/* ---- limits, giving back, statistics -------------------------------------------------------- */

tnr_status tnr_tag_limit_set(const char *name, size_t limit_bytes, int device)
{
    TNRI_CALM_CALL;
    tnri_tag *tag;
    tnri_device *found;
    tnr_status status = tag_on(&tag, &found, name, device);
    if (status == TNR_OK) {
        tnri_tag_sum *sum = &tag->on[found->index];
        atomic_store(&sum->limit_by, "tnr_tag_limit_set, in Python tenure.tags");
        atomic_store(&sum->limit_bytes, limit_bytes == SIZE_MAX ? UINT64_MAX : limit_bytes);
    }
    return status;
}

tnr_status tnr_tag_trim(size_t *released, const char *name, size_t keep_bytes, int device)
{
    TNRI_CALM_CALL;
    tnri_tag *tag;
    tnri_device *found;
    size_t sum = 0;
    tnr_status status = tag_on(&tag, &found, name, device);
    for (tnr_pool pool = NULL; status == TNR_OK && (pool = tnri_pool_walk(found, pool)) != NULL;) {
        uint64_t of_tag = atomic_load(&tag->on[found->index].reserved_bytes);
        uint64_t of_pool = atomic_load(&pool->account.reserved_bytes);
        size_t excess = of_tag > keep_bytes ? (size_t)(of_tag - keep_bytes) : 0, part = 0;
        if (pool->account.tag == tag && excess > 0)
            status = tnr_pool_trim(&part, pool->handle, of_pool > excess ? of_pool - excess : 0,
                                   found->index);
        sum += part;
        if (status != TNR_OK)
            tnri_pool_drop(pool);
    }
    if (released != NULL)
        *released = sum;
    return status;
}

tnr_status tnr_tag_stats_get(tnr_stats *stats, const char *name, int device)
{
    TNRI_CALM_CALL;
    tnri_tag *tag;
    tnri_device *found;
    if (stats == NULL || !tnri_stats_has_size(stats))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_tag_stats_get: set stats->struct_bytes to sizeof(tnr_stats).");
    tnr_status status = tag_on(&tag, &found, name, device);
    if (status == TNR_OK) {
        tnr_stats all;
        tnri_stats_of_tag(&all, tag, found);
        tnri_stats_hand(stats, &all);
    }
    return status;
}

size_t tnr_tag_stats_json(char *buffer, size_t bytes, const char *tag, int device)
{
    TNRI_CALM_CALL;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (buffer != NULL && bytes > 0)
        buffer[0] = '\0';
    if (tnr_tag_stats_get(&stats, tag, device) != TNR_OK)
        return 0;
    return tnri_stats_json(buffer, bytes, &stats, device);
}

const char *tnr_tag_name(size_t index)
{
    TNRI_CALM_CALL;
    const tnri_tag *tag = tnri_tag_at(index);
    return tag == NULL ? NULL : tag->name;
}

tnr_status tnr_tag_of(const char **tag, const void *ptr)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnri_block *block;
    if (tag == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_tag_of: tag is null.");
    *tag = NULL;
    tnr_status status = tnri_library_live(ptr, &device, &block);
    if (status != TNR_OK)
        return status;
    const tnri_account *account = block->world->arena->account;
    if (account->tag != NULL)
        *tag = account->tag->name;
    tnri_live_leave(device, block);
    return TNR_OK;
}
