/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/status.h>: every error that a Tenure call can return.
 *
 * The enum, the names and the default texts are made from one list, so that they cannot drift
 * apart. A function has one error domain: it returns a tnr_status and nothing else. A tnr_status
 * never replaces the driver's own code: tnr_last_driver_result() keeps that code beside it.
 */
#ifndef TENURE_STATUS_H
#define TENURE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * X(enumerator suffix, number, default text)
 *
 * Numbers are part of the ABI: they are never changed or used again.
 */
#define TNR_STATUS_LIST(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(ERR_INVALID_ARGUMENT, 1, "an argument is null, out of range or inconsistent")                \
    X(ERR_INVALID_SIZE, 2, "the size is larger than any device memory or overflows")               \
    X(ERR_INVALID_ALIGNMENT, 3, "the alignment is not a power of two, or too large")               \
    X(ERR_INVALID_DEVICE, 4, "there is no such device")                                            \
    X(ERR_INVALID_POOL, 5, "the pool was destroyed or never created")                              \
    X(ERR_FOREIGN_POINTER, 6, "the pointer was not allocated by Tenure")                           \
    X(ERR_INTERIOR_POINTER, 7, "the pointer lies inside a block, not at its start")                \
    X(ERR_NOT_LIVE, 8, "the block is not live: freed already, or never handed out")                \
    X(ERR_OUT_OF_MEMORY, 9, "the device has no memory left that could be reclaimed")               \
    X(ERR_LIMIT, 10, "a configured memory limit would be exceeded")                                \
    X(ERR_ADDRESS_SPACE, 11, "the reserved address space is used up")                              \
    X(ERR_HOST_MEMORY, 12, "host memory for metadata is exhausted")                                \
    X(ERR_CONFIG, 13, "a configuration key or value is not understood")                            \
    X(ERR_NO_DRIVER, 14, "the CUDA driver library could not be loaded")                            \
    X(ERR_DRIVER_TOO_OLD, 15, "the CUDA driver lacks an entry point that Tenure needs")            \
    X(ERR_NO_DEVICE, 16, "the driver reports no device")                                           \
    X(ERR_NO_VMM, 17, "the device does not support virtual memory management")                     \
    X(ERR_DRIVER, 18, "a driver call failed")                                                      \
    X(ERR_AFTER_FORK, 19, "the process forked after Tenure started; CUDA does not survive that")   \
    X(ERR_SHUTDOWN, 20, "Tenure or the driver has been shut down")                                 \
    X(ERR_BUSY, 21, "the object is still in use")                                                  \
    X(ERR_INTERNAL, 22, "an internal invariant was found broken")                                  \
    X(ERR_INVALID_STREAM, 23, "the stream does not exist or belongs to another device")            \
    X(ERR_INVALID_EVENT, 24, "the event was never recorded, or belongs to another device")         \
    X(ERR_CAPTURE, 25, "the call does not go with the capture that is under way, or with none")    \
    X(ERR_CAPTURE_INVALIDATED, 26, "the capture was invalidated by an illegal call")               \
    X(ERR_INVALID_GRAPH, 27, "the graph is not one that Tenure knows, or has ended")               \
    X(ERR_OVERWRITE, 28, "the launch would overwrite a live block")                                \
    X(ERR_ASLEEP, 29, "the pool is asleep")                                                        \
    X(ERR_FILE, 30, "a file could not be written")                                                 \
    X(ERR_NO_PEER_ACCESS, 31, "the device cannot reach the other device's memory")                 \
    X(ERR_FOREIGN_SEGMENT, 32, "the memory of the pool is its owner's, not Tenure's")              \
    X(ERR_INVALID_EXPORT, 33, "the export was closed or never created")                            \
    X(ERR_TRANSPORT, 34, "the other process hung up, is too slow, or isn't part of an export")     \
    X(ERR_SECOND_COPY, 35, "another copy of libtenure runs in this process")                       \
    X(ERR_PARKED, 36, "the block is parked")

typedef enum tnr_status {
#define TNR_STATUS_ENUMERATOR(name, number, text) TNR_##name = (number),
    TNR_STATUS_LIST(TNR_STATUS_ENUMERATOR)
#undef TNR_STATUS_ENUMERATOR
} tnr_status;

#ifdef __cplusplus
}
#endif
#endif
