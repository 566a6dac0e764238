/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentence behind a status. Each thread has one text, replaced by its next error; the driver's
 * own code is kept beside it and never flattened into the status.
 */
#ifndef TNRI_BASE_ERROR_H
#define TNRI_BASE_ERROR_H

#include <tenure/alloc.h>

/* Stores the formatted text as the calling thread's last error and returns `status`, so that an
 * error is one line at its place: return tnri_error(TNR_ERR_..., "what, why, what to do"). */
tnr_status tnri_error(tnr_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for an error that the driver reported with the code `driver_result`. */
tnr_status tnri_error_driver(tnr_status status, int driver_result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a sentence of a pointer and a device, where errors are frequent. The sentence is
 * made only when somebody reads it, and most are never read. `format` has a %p and then a %d, and
 * must last as long as the library. */
tnr_status tnri_error_at(tnr_status status, const char *format, const void *ptr, int device);

/* The calling thread's latest error, without its text: for what goes on after errors and is asked
 * for the reason later. `count` grows with each error. */
typedef struct tnri_error_mark {
    uint64_t count;
    tnr_status status;
} tnri_error_mark;
tnri_error_mark tnri_error_latest(void);

/* Takes the calling thread's last error aside, and puts it back. For use around clean-up, so that
 * errors of the clean-up do not hide the one that is being reported. */
enum { TNRI_ERROR_TEXT_BYTES = 4096 };
typedef struct tnri_error_aside {
    char text[TNRI_ERROR_TEXT_BYTES];
    int driver_result;
    tnri_error_mark latest;
} tnri_error_aside;
void tnri_error_take(tnri_error_aside *aside);
void tnri_error_restore(const tnri_error_aside *aside);

/* Adds to the calling thread's text what a caller further up knows. Truncates silently. */
void tnri_error_append(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
