/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/export.h>: blocks that other processes use too. This header is the manual of that part of
 * the layer.
 *
 * The process that has the block exports it and sends it to another over a connected Unix socket.
 * The two may have that socket from anywhere. The other imports the block: all its chunks lie one
 * after the other in one range of the importer's addresses.
 *
 *     exporter                                      importer
 *     tnr_export_create(&exported, ptr)
 *     tnr_export_send(exported, socket)             tnr_import_receive(&info, socket, device, NULL)
 *     tnr_free(ptr)                                 ... uses info.ptr ...
 *     tnr_export_close(exported)                    tnr_import_close(info.ptr)
 *
 * Without such a socket the two use a name of the block: 32 bytes, which they pass on in any way
 * they like. Processes of the same user can open the name as long as the exporter lives and has not
 * freed the block.
 *
 *     tnr_export_offer(&name, ptr)                  tnr_import_open(&info, &name, device, NULL)
 *     ...                                           ... uses info.ptr ...
 *     tnr_free(ptr)                                 tnr_import_close(info.ptr)
 *
 * How long the memory stays. An exported block can be freed at any time, like any other. Tenure
 * hands its memory out again only after the export has been closed, every importer has closed its
 * import or has ended, and all uses that the exporter recorded are over. Until then the memory does
 * not move and is not lent, trimmed or unmapped. The pool does not sleep while an importer has the
 * block open (TNR_ERR_BUSY). Tenure looks at importers when memory is short, or when it is asked
 * about them; there is no thread for it.
 *
 * Tenure notices an importer that dies, once the system has taken apart its process and the
 * process's work on the device. (Without pidfd_open, on Linux before 5.3, Tenure notices it as soon
 * as the process's descriptors are closed, which may be before the end of its work.) If an importer
 * replaces itself by exec, Tenure takes it to hold its imports until it ends. A child that the
 * importer has forked keeps the driver's own descriptors. If the importer is killed while that
 * child lives, the driver lets the importer's work go on, and nothing tells when that work ends
 * (seen on an H200). Close imports before such an end, or have children exec. If the exporter ends,
 * importers keep the memory until they close it.
 *
 * Order. Contents are not synchronised. Finish the work that writes before the other side reads,
 * and tell the other side so. tnr_import_close itself waits for the importer's work.
 *
 * The two share whole chunks (2 MiB and more), with whatever else of the pool lies in them, for
 * reading and writing. So send only to processes that may see all that, and keep what is exported
 * in a pool of its own. Each chunk costs the importer some 90 us: large blocks in few
 * chunks are best (the settings chunk_mb and chunk_whole_mb).
 *
 * What can be exported: blocks of pools whose handle_type is TNR_HANDLE_POSIX_FD (the default where
 * the device has it) or TNR_HANDLE_FABRIC, but not blocks of graph pools.
 *
 * Descriptors. The exporter has one descriptor of a chunk while it sends the chunk, and then two
 * for each importer. An importer has one for each import. All are closed by exec, and in a child of
 * a fork. Only tnr_export_offer starts a thread, or opens a socket that has a name: its
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

/* Exports the live block that contains `ptr`. A block of tnr_reserve is exported as far as it is
 * committed when it is sent. Keeps the block's memory until tnr_export_close, also if the block is
 * freed. A block may be exported more than once: each export is closed by itself. Does not call the
 * driver.
 * Errors: TNR_ERR_INVALID_ARGUMENT (exported is null; the pool's chunks have no handles that can be
 * exported; or the pool is a graph's), TNR_ERR_FOREIGN_SEGMENT, TNR_ERR_FOREIGN_POINTER,
 * TNR_ERR_NOT_LIVE, TNR_ERR_PARKED (it has no memory to export), TNR_ERR_HOST_MEMORY,
 * TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_create(tnr_export *exported, const void *ptr);

/* Sends the block to the process at the other end of `socket`, a connected Unix socket of any type,
 * for one import there. Returns when all has been sent; waits at most 10 s at a time for the other
 * side. From now on the block counts as open there, until the importer closes it. Calls the driver
 * once for each chunk. `socket` stays the caller's. After an error a part may have been sent, and
 * the socket is of no more use.
 * Errors: TNR_ERR_INVALID_EXPORT, TNR_ERR_TRANSPORT (no such socket, or the other side has hung up
 * or does not read), TNR_ERR_ASLEEP, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD,
 * TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_send(tnr_export exported, int socket);

typedef struct tnr_export_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_export_info) */
    void *ptr;           /* the block's start */
    size_t bytes;        /* as asked for */
    int is_freed;        /* 1: the block was freed */
    uint32_t importers;  /* how many importers of this export have it open */
} tnr_export_info;

/* Describes an export; looks at its importers. May call the driver, where the end of one frees the
 * block. Errors: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_INVALID_EXPORT, TNR_ERR_AFTER_FORK. Since
 * 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_get(tnr_export_info *info, tnr_export exported);

/* Ends an export: it can no longer be sent. Importers keep what they have. May call the driver,
 * where that frees the block. Errors: TNR_ERR_INVALID_EXPORT, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_export_close(tnr_export exported);

/* The name of a block, for tnr_import_open in any other process of the same user. Plain bytes: copy
 * them, and compare them with memcmp. */
typedef struct tnr_export_name {
    uint64_t words[4];
} tnr_export_name;

/* Offers the live block that contains `ptr` by name, until the block is freed: exports it, and
 * answers every process that opens the name. The name is the block's: the same each time, and never
 * another block's. After the free it cannot be opened any more. Tenure hands the memory out again
 * when all who have opened the name have closed it or have ended. Errors: those of
 * tnr_export_create; TNR_ERR_INVALID_ARGUMENT (also if name is null), TNR_ERR_TRANSPORT (the system
 * refuses a socket or a thread). Since 0.2.0. */
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
    size_t bytes;        /* as the exporter asked for them */
    int device;          /* the device that it was imported for */
    int device_owner;    /* the device whose memory it is, by this process's number of it */
    int is_read_only;    /* 1: the driver refuses to write to it */
    int process;         /* the process that it was opened from, by name; 0: came by a socket */
    /* If it was attached (<tenure/publish.h>): its generation, else 0; and its name, else empty. */
    uint64_t generation;
    char published[TNR_EXPORT_LABEL_BYTES];
} tnr_import_info;

/* Receives a block from the process at the other end of `socket`, and maps it for `device`. This
 * must be the device whose memory it is, or one that reaches it. The device reads and writes. Waits
 * at most 10 s at a time for the other side; to wait longer for it to begin, poll the socket.
 * tnr_stats does not count the memory as the device's, nor does the device's limit. `options` may
 * be null.
 *
 * An import is not a block: don't free it (tnr_import_close ends it), and record no uses of it.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT (info, or an option), TNR_ERR_INVALID_DEVICE (also if this
 * process does not see the device whose memory it is), TNR_ERR_NO_PEER_ACCESS, TNR_ERR_TRANSPORT
 * (no such socket; the other side has hung up or does not send; or what it sent is not an export
 * of this version), TNR_ERR_ADDRESS_SPACE (the address is taken, or there are none left),
 * TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER (also if a descriptor is of no device memory),
 * TNR_ERR_DRIVER_TOO_OLD, those of a device's first use. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_receive(tnr_import_info *info, int socket, int device,
                                                    const tnr_import_options *options);

/* Asks the process that offers the name for its block, and imports the block as tnr_import_receive
 * does. If the same name is opened again for the same device with the same options, that is the
 * same import: it is there once, and must be closed as often as it was opened. May wait as
 * tnr_import_receive does.
 * Errors: those of tnr_import_receive. TNR_ERR_INVALID_ARGUMENT also if the bytes are no name of
 * this version, or the name of a block of this process. TNR_ERR_TRANSPORT also if the process has
 * ended, is another user's, is in another network namespace, or hangs up; it hangs up if the block
 * was freed or its pool is asleep. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_open(tnr_import_info *info, const tnr_export_name *name,
                                                 int device, const tnr_import_options *options);

/* Describes the import that contains `ptr`. Never blocks, never calls the driver. Errors:
 * TNR_ERR_INVALID_ARGUMENT, TNR_ERR_FOREIGN_POINTER, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_get(tnr_import_info *info, const void *ptr);

/* Describes one import after the other: `index` counts from 0. Never blocks, never calls the
 * driver. Errors: TNR_ERR_INVALID_ARGUMENT (also if there are not that many), TNR_ERR_AFTER_FORK.
 * Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_at(tnr_import_info *info, size_t index);

/* Ends the import that begins at `ptr`: waits for all work of the devices that reach it, takes it
 * out of the addresses, and tells the exporter. Work that these devices are given meanwhile must
 * not use it. An import that was opened several times ends with the last call. Errors:
 * TNR_ERR_FOREIGN_POINTER (no import begins there), TNR_ERR_CAPTURE (a capture is under way, and
 * forbids waiting), TNR_ERR_DRIVER, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_import_close(void *ptr);

#ifdef __cplusplus
}
#endif
#endif
