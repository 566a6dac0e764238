/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/export.h>: blocks that other processes use too. This header is the manual of that part of
 * the layer.
 *
 * The process that has the block exports it and sends it to another over a connected Unix socket,
 * which the two have from anywhere. The other imports it: all chunks of the block lie one after the
 * other in one range of its addresses.
 *
 *     exporter                                      importer
 *     tnr_export_create(&exported, ptr)
 *     tnr_export_send(exported, socket)             tnr_import_receive(&info, socket, device, NULL)
 *     tnr_free(ptr)                                 ... uses info.ptr ...
 *     tnr_export_close(exported)                    tnr_import_close(info.ptr)
 *
 * Where no such socket is, a block has a name instead, which the two pass on in any way they like:
 * 32 bytes, which processes of the same user open as long as the exporter lives and has not freed
 * the block.
 *
 *     tnr_export_offer(&name, ptr)                  tnr_import_open(&info, &name, device, NULL)
 *     ...                                           ... uses info.ptr ...
 *     tnr_free(ptr)                                 tnr_import_close(info.ptr)
 *
 * How long the memory stays. What is exported can be freed at any time, as any block. Its memory is
 * handed out again only after the export has been closed, every importer has closed its import or
 * has ended, and all uses that the exporter recorded are over. Until then it does not move, is not
 * lent, trimmed or unmapped, and its pool does not sleep while an importer has it open
 * (TNR_ERR_BUSY). Importers are looked at when memory is short, or asked about: there is no thread
 * for it.
 *
 * An importer that dies is noticed, once the system has taken its process apart and with it its
 * work on the device. (Where the kernel has no pidfd_open, Linux before 5.3, as soon as its
 * descriptors are closed, which may be earlier than the end of its work.) One that replaces itself
 * by exec is taken to hold its imports until it ends. A child that the importer has forked keeps
 * the driver's own descriptors: if the importer is killed while that child lives, the driver lets
 * its work go on, and nothing tells when that ends (seen on an H200). Close imports before such an
 * end, or have children exec. If the exporter ends, importers keep the memory until they close it.
 *
 * Order. Contents are not synchronised: finish the work that writes before the other side reads,
 * and tell it so. tnr_import_close waits for the importer's work itself.
 *
 * What is shared is whole chunks (2 MiB and more), with whatever else of the pool lies in them, and
 * for reading and writing. So send only to processes that may see all that, and keep what is
 * exported in a pool of its own. Each chunk costs the importer some 90 us: large blocks in few
 * chunks are best (the settings chunk_mb and chunk_whole_mb).
 *
 * What can be exported: blocks of pools whose handle_type is TNR_HANDLE_POSIX_FD, which is the
 * default where the device has it, or TNR_HANDLE_FABRIC; not those of graph pools.
 *
 * Descriptors. The exporter has one of a chunk for the time that it takes to send it, and then two
 * for each importer; an importer has one for each import. All are closed by exec, and in a child of
 * a fork. Nothing but tnr_export_offer starts a thread, or opens a socket that has a name: its
 * first call does both, until the process ends. The socket is an abstract one of the process's
 * network namespace; the thread has all signals blocked, and a forked child has neither.
 *
 * Threads, context, fork, failure: as <tenure/alloc.h> says. Sending and receiving block.
 */
#ifndef TENURE_EXPORT_H
#define TENURE_EXPORT_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- exporting ------------------------------------------------------------------------------ */

/* An exported block. A number that is never given out again; 0 is none. */
typedef uint64_t tnr_export;

/* Exports the live block that contains `ptr`; of a block of tnr_reserve, what is committed when it
 * is sent. Keeps the block's memory until tnr_export_close, also if it is freed. A block may be
 * exported more than once: each export is closed by itself. Does not call the driver.
 * Errors: TNR_ERR_INVALID_ARGUMENT (exported is null; the pool's chunks have no handles that can be
 * exported, or it is a graph's), TNR_ERR_FOREIGN_SEGMENT, TNR_ERR_FOREIGN_POINTER,
 * TNR_ERR_NOT_LIVE, TNR_ERR_HOST_MEMORY, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_create(tnr_export *exported, const void *ptr);

/* Sends the block to the process at the other end of `socket`, a connected Unix socket of any type,
 * for one import there. Returns when all has been sent; waits at most 10 s at a time for the other
 * side. Counts as open there from now on, until it is closed. Calls the driver once for each chunk.
 * `socket` stays the caller's; after an error it may have been sent a part, and is of no more use.
 * Errors: TNR_ERR_INVALID_EXPORT, TNR_ERR_TRANSPORT (no such socket, or the other side has hung up
 * or does not read), TNR_ERR_ASLEEP, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD,
 * TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_send(tnr_export exported, int socket);

typedef struct tnr_export_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_export_info) */
    void *ptr;           /* the block's start */
    size_t bytes;        /* that were asked for */
    int is_freed;        /* 1: the block was freed */
    uint32_t importers;  /* that have it open: of this export */
} tnr_export_info;

/* Describes an export; looks at its importers. Errors: TNR_ERR_INVALID_ARGUMENT,
 * TNR_ERR_INVALID_EXPORT, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_get(tnr_export_info *info, tnr_export exported);

/* Ends an export: it can be sent no more. Importers keep what they have. Errors:
 * TNR_ERR_INVALID_EXPORT, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_close(tnr_export exported);

/* The name of a block, for tnr_import_open in any other process of the same user. Plain bytes: copy
 * them, and compare them with memcmp. */
typedef struct tnr_export_name {
    uint64_t words[4];
} tnr_export_name;

/* Offers the live block that contains `ptr` by name, until it is freed: exports it, and answers
 * whoever opens the name. The name is that of the block: the same each time, and never another's.
 * From the free on it cannot be opened any more; the memory is handed out again when all who have
 * opened it have closed it or have ended. Errors: those of tnr_export_create;
 * TNR_ERR_INVALID_ARGUMENT (also if name is null), TNR_ERR_TRANSPORT (the system refuses a socket
 * or a thread). Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_offer(tnr_export_name *name, const void *ptr);

/* ---- importing ------------------------------------------------------------------------------ */

/* How to import. Zero in any field means its default. */
typedef struct tnr_import_options {
    size_t struct_bytes; /* sizeof(tnr_import_options): set by the initialiser below */
    int same_address;    /* 1: at the address that the block has in the exporter, or not at all */
    uint64_t peers;      /* bit i: device i reaches the import too */
    int read_only;       /* 1: mapped for reading alone, where the driver has such a thing */
} tnr_import_options;

#define TNR_IMPORT_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(tnr_import_options), 0, 0, 0                                                        \
    }

/* Room for a name of <tenure/publish.h>, with its end. */
enum { TNR_EXPORT_LABEL_BYTES = 64 };

typedef struct tnr_import_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_import_info) */
    void *ptr;           /* where the block begins here */
    size_t bytes;        /* that were asked for in the exporter */
    int device;          /* that it was imported for */
    int device_owner;    /* whose memory it is: this process's number of that device */
    int is_read_only;    /* 1: the driver refuses to write to it */
    int process;         /* that it was opened from, by name; 0: received by a socket */
    uint64_t generation; /* of what it was attached as (<tenure/publish.h>); 0: not so */
    char published[TNR_EXPORT_LABEL_BYTES]; /* likewise, its name; empty: none */
} tnr_import_info;

/* Receives a block from the process at the other end of `socket`, and maps it for `device`, which
 * must be the one whose memory it is, or reach it. The device reads and writes. Waits at most 10 s
 * at a time for the other side; poll the socket to wait longer for its beginning. The memory is not
 * counted as the device's in tnr_stats, nor against its limit. `options` may be null.
 *
 * An import is no block: it is not freed (tnr_import_close ends it), and has no uses to record.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT (info, or an option), TNR_ERR_INVALID_DEVICE (also if this
 * process does not see the device whose memory it is), TNR_ERR_NO_PEER_ACCESS, TNR_ERR_TRANSPORT
 * (no such socket, the other side has hung up or does not send, or what it sent is no export of
 * this version), TNR_ERR_ADDRESS_SPACE (the address is taken, or there are none left),
 * TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER (also where a descriptor is of no device memory),
 * TNR_ERR_DRIVER_TOO_OLD, TNR_ERR_AFTER_FORK, those of tnr_init. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_receive(tnr_import_info *info, int socket, int device,
                                                    const tnr_import_options *options);

/* Asks the process that offers the name for its block, and imports that as tnr_import_receive does.
 * The same name, opened again for the same device with the same options, is the same import: it is
 * there once, and is to be closed as often as it was opened. Blocking and errors as there;
 * TNR_ERR_INVALID_ARGUMENT also if the bytes are no name of this version's, or that of a block of
 * this process; TNR_ERR_TRANSPORT also if the process has ended, is another user's or in another
 * network namespace, or hangs up, as it does if the block was freed or its pool is asleep. Since
 * 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_open(tnr_import_info *info, const tnr_export_name *name,
                                                 int device, const tnr_import_options *options);

/* Describes the import that contains `ptr`. Never blocks, never calls the driver. Errors:
 * TNR_ERR_INVALID_ARGUMENT, TNR_ERR_FOREIGN_POINTER, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_get(tnr_import_info *info, const void *ptr);

/* Describes one import after the other: `index` counts from 0. Never blocks, never calls the
 * driver. Errors: TNR_ERR_INVALID_ARGUMENT (also if there are not so many), TNR_ERR_AFTER_FORK.
 * Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_at(tnr_import_info *info, size_t index);

/* Ends the import that begins at `ptr`: waits for all work of the devices that reach it, takes it
 * out of the addresses, and tells the exporter. Work that is given to them meanwhile must not use
 * it. One that was opened several times ends with the last call. Errors: TNR_ERR_FOREIGN_POINTER
 * (no import begins there), TNR_ERR_CAPTURE (a capture is under way, which forbids waiting),
 * TNR_ERR_DRIVER, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_close(void *ptr);

#ifdef __cplusplus
}
#endif
#endif
