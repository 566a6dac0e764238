/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/tag.h>: memory by what it is for. This header is the manual of that part of the layer.
 *
 * What it is for. An engine that shares a GPU wants to give its weights back and keep its cache, or
 * the reverse. An operator wants to know, and to limit, what each of them takes. A tag is a name
 * for such a part: "weights", "kv_cache", "graphs". A tag has memory on any number of devices.
 *
 *   tnr_pool pool;
 *   tnr_tag_pool(&pool, "kv_cache", TNR_CONTENT_DISCARD);
 *   tnr_pool_push(pool);            what this thread allocates from here on, on whichever device,
 *   ...                             carries the tag
 *   tnr_pool_pop(pool);
 *   const char *tags[] = {"kv_cache"};
 *   tnr_tags_sleep(tags, 1, 0, NULL);
 *
 * A tag is no more than a set of pools. tnr_tag_pool gives one handle for the tag's own pool of
 * each device; Tenure makes that pool when it is first needed there. The handle is good wherever a
 * pool and a device are asked for, and for tnr_pool_push and tnr_pool_pop. Pools that a thread
 * makes while it is routed to the handle carry the tag too: pools of tnr_pool_create, pools of
 * graphs, and a capture's own. So the memory of a capture that is begun in such a region has the
 * tag. Nothing here touches pools without a tag: the default pools, and pools made elsewhere.
 *
 * A block keeps the tag of its pool for as long as it lives, whichever thread frees it. A
 * growable block keeps its tag whichever thread commits to it. There is no way to give a live block
 * another tag.
 *
 * A program that has no tags pays nothing: records of blocks and the cached path know nothing of
 * them.
 *
 * A name has 1 to 63 visible ASCII characters, but no comma, quotation mark or backslash. A process
 * has at most 64 names, and keeps them also over tnr_shutdown.
 *
 * Threads, context, fork: as <tenure/alloc.h> says.
 */
#ifndef TENURE_TAG_H
#define TENURE_TAG_H

#include <tenure/sleep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores a handle that stands for the tag's own pool of each device; it is the same each time. A
 * tag has one such pool for each `content`. `content` says what becomes of the contents of a block
 * in a sleep, if neither the sleep nor the block says it. These pools end with their device, not by
 * tnr_pool_destroy. Does not call the driver. Errors: TNR_ERR_INVALID_ARGUMENT (pool or tag is
 * null, a bad name, the 65th name, content), TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_tag_pool(tnr_pool *pool, const char *tag, tnr_content content);

/* Puts the pools of a device that carry one of `count` tags to sleep: all of them or none, in the
 * order in which the tags are named. Null with a count of 0: all pools that carry a tag. Otherwise
 * as tnr_pool_sleep. If `options` say nothing of contents, contents are kept, except in pools of
 * tnr_tag_pool that were asked for with TNR_CONTENT_DISCARD. Pools that sleep already stay as they
 * are, and a tag without pools on the device has nothing to do. Pools over foreign segments stay
 * awake. Errors: those of tnr_pool_sleep but TNR_ERR_INVALID_POOL and TNR_ERR_FOREIGN_SEGMENT;
 * TNR_ERR_INVALID_ARGUMENT also if tags is null, or one of them is not a tag that tnr_tag_pool has
 * made. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_tags_sleep(const char *const *tags, size_t count, int device,
                                                const tnr_sleep_options *options);

/* Wakes them, all of them or none. Contents come back in the order in which the tags are named.
 * Pools with other tags sleep on. Errors: those of tnr_pool_wake but TNR_ERR_INVALID_POOL;
 * TNR_ERR_INVALID_ARGUMENT (as above). Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_tags_wake(const char *const *tags, size_t count, int device);

/* The most that the pools of a device that carry the tag may have reserved together, in bytes;
 * SIZE_MAX for no limit. As other limits, one below what is reserved takes effect as memory is
 * given back. Sleeping pools have nothing reserved. Errors: TNR_ERR_INVALID_ARGUMENT (no such
 * tag), those of a device's first use. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_tag_limit_set(const char *tag, size_t limit_bytes, int device);

/* tnr_pool_trim for the pools of a device that carry the tag, until together they have at most
 * `keep_bytes`. Errors: those of tnr_trim, and TNR_ERR_INVALID_ARGUMENT (no such tag). Since
 * 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_tag_trim(size_t *released, const char *tag, size_t keep_bytes,
                                              int device);

/* tnr_stats_get for the pools of a device that carry the tag, added up: peaks are upper bounds, and
 * what only a device counts (chunks_moved, num_*, driver_*) is 0. Errors: those of tnr_stats_get
 * but TNR_ERR_INVALID_POOL; TNR_ERR_INVALID_ARGUMENT also if there is no such tag. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_tag_stats_get(tnr_stats *stats, const char *tag, int device);

/* The same as JSON: tnr_stats_json for a tag. Calls the driver as that does. Since 0.2.0. */
TNR_API size_t tnr_tag_stats_json(char *buffer, size_t bytes, const char *tag, int device);

/* The name of tag number `index`, counted from 0 in the order in which they were first asked for;
 * null past the last. It lives as long as the process. Never blocks. Since 0.2.0. */
TNR_API const char *tnr_tag_name(size_t index);

/* Stores the tag that the pool of the live block that contains `ptr` carries; null: none. Never
 * calls the driver. Errors: TNR_ERR_INVALID_ARGUMENT (tag is null), TNR_ERR_FOREIGN_POINTER,
 * TNR_ERR_NOT_LIVE. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_tag_of(const char **tag, const void *ptr);

#ifdef __cplusplus
}
#endif
#endif
