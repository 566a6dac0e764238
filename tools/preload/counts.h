/* SPDX-License-Identifier: Apache-2.0 */
/* What the preloaded library counts, and what each count is called in statistics. */
#ifndef TENURE_PRELOAD_COUNTS_H
#define TENURE_PRELOAD_COUNTS_H

#define SERVICE_COUNT_LIST(X)                                                                      \
    X(ALLOCS_SERVED, "allocations_served")                                                         \
    X(ALLOCS_PASSED, "allocations_passed_on")                                                      \
    X(ALLOCS_FAILED, "allocations_failed")                                                         \
    X(CREATES_PASSED, "handles_passed_on")                                                         \
    X(CREATES_PASSED_BYTES, "handles_passed_on_bytes")                                             \
    X(RETRIES, "retries_after_trim")                                                               \
    X(FREES_SERVED, "frees_served")                                                                \
    X(FREES_PASSED, "frees_passed_on")                                                             \
    X(FREES_REFUSED, "frees_refused")                                                              \
    X(PINNED_SERVED, "pinned_allocations_served")                                                  \
    X(PINNED_PASSED, "pinned_allocations_passed_on")                                               \
    X(PINNED_FAILED, "pinned_allocations_failed")                                                  \
    X(PINNED_FREED, "pinned_frees_served")                                                         \
    X(STREAMS, "streams_announced")                                                                \
    X(RECORDS, "event_records_announced")                                                          \
    X(WAITS, "stream_waits_announced")                                                             \
    X(SYNCHRONISED, "synchronisations_announced")                                                  \
    X(CAPTURES, "captures_followed")                                                               \
    X(CAPTURES_PASSED, "captures_passed_on")                                                       \
    X(LAUNCHES, "graph_launches_announced")                                                        \
    X(REGISTERED, "registrations_seen")                                                            \
    X(EXPORTS, "ipc_handles_served")                                                               \
    X(IMPORTS, "ipc_handles_opened")

typedef enum service_count {
#define SERVICE_COUNT_ENUMERATOR(name, text) COUNT_##name,
    SERVICE_COUNT_LIST(SERVICE_COUNT_ENUMERATOR)
#undef SERVICE_COUNT_ENUMERATOR
        COUNT_COUNT
} service_count;

#endif
