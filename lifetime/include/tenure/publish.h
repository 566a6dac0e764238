/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/publish.h>: blocks that a process keeps for others under a name, such as the weights of a
 * model. This header is the manual of that part of the layer.
 *
 *     holder                                         reader
 *     tnr_pool_create(&pool, ...is_shared = 1...)
 *     tnr_pool_malloc(&ptr, pool, bytes, ...)
 *     ... writes the weights, and waits for that ...
 *     tnr_publish(&generation, "weights", ptr, NULL)
 *     tnr_free(ptr)                                  tnr_attach(&info, "weights", device, NULL)
 *     ...                                            ... reads info.ptr ...
 *     tnr_unpublish("weights")                       tnr_import_close(info.ptr)
 *
 * A publication keeps its block. The publisher may free the block: the memory stays until the
 * publication ends and the last reader has closed it. Nothing is copied: readers map the memory,
 * for reading alone where the driver has such a thing (info.is_read_only).
 *
 * Generations. To publish under a name again makes the next generation of that name. It takes the
 * place of the former one at once: a reader that attaches from then on gets the new one, and a
 * reader always finds one. A reader that has the former generation keeps it until
 * the reader closes it. Its memory is handed out again when the last reader has closed it. A reader
 * asks with tnr_published_get which generation is the latest, attaches that one, and closes the one
 * that it had. The number of generations that readers do not let go of is bounded: see older_max.
 *
 * Who holds. A name may have several holders, any of which serves readers. tnr_hold makes this
 * process one more. It takes the latest generation over without a copy, without the driver, and
 * without a context on the device. So the publisher may end, once tnr_published_get says that there
 * are two holders. `tenure hold` does that as a command: docs/hold.md. If a holder is killed,
 * readers that have attached lose nothing. If it was the last holder, no other reader can attach.
 *
 * Who may. Processes of the same user (the kernel says who asks) that use the same folder, which is
 * the user's alone. It is the folder of <tenure/control.h>, the setting control_dir; the setting
 * control need not be on. The processes must be in one network namespace, since blocks are opened
 * by abstract sockets.
 *
 * Reading alone is a promise among one user's processes: the descriptor that a reader gets would
 * let the reader write. Whole chunks are shared, so keep nothing else in a pool for published
 * blocks.
 *
 * Weights as a cache. A publication with `yields` ends when memory is short and its block has no
 * user, as if tnr_unpublish had been called. Of several, that which was published first ends first,
 * and no more than are needed. A reader that comes later is told that no process holds the name:
 * publish it again. tnr_stats counts them (group_yields, group_yielded_bytes).
 *
 * The same address. A reader that asks for the same address (same_address of the options) has the
 * block where the publisher has it, or is refused. Allocate the block from a pool with is_shared,
 * so that the address is free in readers: such a pool begins far from where every process begins to
 * use its own addresses.
 *
 * Memory. What readers have stays physical. As long as the holder lives, it counts in the holder's
 * pool and against its limit: a trim leaves it, and the pool does not sleep (TNR_ERR_BUSY). In a
 * reader it counts as imported, apart from the reader's own memory (tnr_import_at). After the
 * publisher's end only the holders and readers keep it: the driver counts it as the device's, and
 * as no process's. A holder that has taken a generation over, and holds it no more, lets go of it
 * within a second after the last reader that has it from there, also if the holder does nothing.
 *
 * Each holder has a thread and a socket from its first block on (see tnr_export_offer).
 *
 * Threads, context, fork, failure: as <tenure/alloc.h> says. All calls may wait for another
 * process, at most 10 s for each holder.
 */
#ifndef TENURE_PUBLISH_H
#define TENURE_PUBLISH_H

#include <tenure/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many processes may hold a name. */
enum { TNR_HOLDERS_MAX = 4 };

/* ---- holding -------------------------------------------------------------------------------- */

/* How to publish. Zero in any field means its default. */
typedef struct tnr_publish_options {
    size_t struct_bytes; /* sizeof(tnr_publish_options): set by the initialiser below */
    int replace;         /* 1: also a name that other processes hold and this one does not */
    /* Most generations before the latest that readers may have open in this process. With that
     * many, no further one is published. Default 4. */
    uint32_t older_max;
    /* Since 1.1.0. 1: the publication ends by itself when a member of this process's group is short
     * of memory (the setting `group`, docs/elastic.md), this process included, and the block has no
     * user: it was freed here, no reader has it, and no graph refers to it. Not for tnr_hold. */
    int yields;
} tnr_publish_options;

#define TNR_PUBLISH_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(tnr_publish_options), 0, 0, 0                                                       \
    }

/* Publishes the live block that contains `ptr` as the next generation of a name. A name has 1 to 63
 * letters, digits, '.', '-' and '_', and does not begin with '.'. Contents are not synchronised:
 * finish the work that writes before you publish. `generation` may be null. On an error the former
 * generation stays.
 * Errors: those of tnr_export_create and tnr_export_offer; TNR_ERR_INVALID_ARGUMENT (name or
 * options), TNR_ERR_BUSY (another process holds the name; or readers have older_max older
 * generations open: the message says which), TNR_ERR_FILE (the folder, or the file of the name in
 * it; another process keeps the names locked for 10 s; another version of Tenure wrote it), those
 * of tnr_init. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_publish(uint64_t *generation, const char *published,
                                             const void *ptr, const tnr_publish_options *options);

/* Makes this process a holder of the latest generation of a name that another process holds, and
 * lets go of the generation that this process held before. Call it again when there is a newer one;
 * if there is none, it does nothing. Puts no device into use. `generation` may be null.
 * `older_max` of the options is as in tnr_publish; the options may be null.
 * Errors: TNR_ERR_INVALID_ARGUMENT (name or options, or `yields` of them; memory of fabric
 * handles), TNR_ERR_INVALID_EXPORT (it has no holder), TNR_ERR_BUSY (it has TNR_HOLDERS_MAX
 * holders, or older generations as above), TNR_ERR_TRANSPORT (its holders do not answer; or this
 * process has no room for the descriptors: one for each chunk), TNR_ERR_FILE,
 * TNR_ERR_HOST_MEMORY, those of tnr_init.
 * Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_hold(uint64_t *generation, const char *published,
                                          const tnr_publish_options *options);

/* Ends what this process holds under a name. Other holders go on; readers keep what they have. May
 * call the driver, as tnr_export_close. Errors: TNR_ERR_INVALID_ARGUMENT (no name),
 * TNR_ERR_INVALID_EXPORT (it holds nothing under that name), TNR_ERR_FILE (readers would still find
 * it: try again). Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_unpublish(const char *published);

typedef struct tnr_publication_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_publication_info) */
    char name[TNR_EXPORT_LABEL_BYTES];
    uint64_t generation;
    size_t bytes;
    int is_latest;     /* 0: an older one that readers still have */
    int is_taken_over; /* 1: by tnr_hold */
    uint32_t readers;  /* how many have it open through this process */
    int processes[8];  /* some of them; 0: none, or not known */
} tnr_publication_info;

/* Describes what this process holds, one generation after the other; `index` counts from 0. Looks
 * at its readers, and may call the driver, as tnr_export_get. Errors: TNR_ERR_INVALID_ARGUMENT
 * (also if there are not that many), TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_publication_at(tnr_publication_info *info, size_t index);

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct tnr_published_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_published_info) */
    uint64_t generation; /* the latest; it only grows, also while the name has no holder */
    size_t bytes;
    uint32_t holders;               /* how many live */
    int processes[TNR_HOLDERS_MAX]; /* the holders' numbers, as they see themselves; 0: none */
} tnr_published_info;

/* Describes what a name publishes. Errors: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_INVALID_EXPORT (it was
 * never published), TNR_ERR_FILE, those of tnr_init. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_published_get(tnr_published_info *info, const char *published);

/* Attaches the latest generation of a name for `device`, as tnr_import_open does, but for reading:
 * the call takes read_only of the options to be 1. info->generation says which generation it is.
 * tnr_import_close lets go of it. Errors: those of tnr_import_open; TNR_ERR_INVALID_ARGUMENT (also
 * for what this process holds itself), TNR_ERR_INVALID_EXPORT (it has no holder), TNR_ERR_TRANSPORT
 * (its holders do not answer, or new generations come faster than one can be attached),
 * TNR_ERR_FILE. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_attach(tnr_import_info *info, const char *published,
                                            int device, const tnr_import_options *options);

#ifdef __cplusplus
}
#endif
#endif
