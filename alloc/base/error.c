/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last error: see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Owned by the thread. The text is long enough for an out-of-memory report with its holders; longer
 * ones are cut. */
static _Thread_local tnri_error_aside error_thread;

static tnr_status error_count(tnr_status status)
{
    error_thread.latest.count++;
    error_thread.latest.status = status;
    return status;
}

tnri_error_mark tnri_error_latest(void)
{
    return error_thread.latest;
}

/* A sentence that is not made yet; `format` is null: the text is all there is. */
static _Thread_local struct {
    const char *format;
    const void *ptr;
    int device;
} error_later;

/* The text as it is to be read. */
static char *text_made(void)
{
    const char *format = error_later.format;
    if (format != NULL) {
        error_later.format = NULL;
        (void)snprintf(error_thread.text, sizeof(error_thread.text), format, error_later.ptr,
                       error_later.device);
    }
    return error_thread.text;
}

tnr_status tnri_error(tnr_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_thread.text, sizeof(error_thread.text), format, arguments);
    va_end(arguments);
    error_thread.driver_result = 0;
    error_later.format = NULL;
    return error_count(status);
}

tnr_status tnri_error_at(tnr_status status, const char *format, const void *ptr, int device)
{
    error_later.format = format;
    error_later.ptr = ptr;
    error_later.device = device;
    error_thread.driver_result = 0;
    return error_count(status);
}

tnr_status tnri_error_driver(tnr_status status, int driver_result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_thread.text, sizeof(error_thread.text), format, arguments);
    va_end(arguments);
    error_thread.driver_result = driver_result;
    error_later.format = NULL;
    return error_count(status);
}

void tnri_error_take(tnri_error_aside *aside)
{
    const char *text = text_made();
    memcpy(aside->text, text, strlen(text) + 1);
    aside->driver_result = error_thread.driver_result;
    aside->latest = error_thread.latest;
}

void tnri_error_restore(const tnri_error_aside *aside)
{
    memcpy(error_thread.text, aside->text, strlen(aside->text) + 1);
    error_thread.driver_result = aside->driver_result;
    error_thread.latest = aside->latest;
    error_later.format = NULL;
}

void tnri_error_append(const char *format, ...)
{
    size_t length = strlen(text_made());
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_thread.text + length, sizeof(error_thread.text) - length, format, arguments);
    va_end(arguments);
}

const char *tnr_last_error(void)
{
    return text_made();
}

int tnr_last_driver_result(void)
{
    return error_thread.driver_result;
}

const char *tnr_status_name(tnr_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, text)                                                            \
    case TNR_##name:                                                                               \
        return "TNR_" #name;
        TNR_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "TNR_ERR_?";
}

const char *tnr_status_text(tnr_status status)
{
    switch (status) {
#define STATUS_TEXT(name, number, text)                                                            \
    case TNR_##name:                                                                               \
        return text;
        TNR_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "no status of Tenure's";
}
