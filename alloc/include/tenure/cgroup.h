/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What control groups let the process have of a device: the kernel's controller dmem. Tenure keeps
 * to it by itself, with the setting `cgroup`; this only tells. docs/elastic.md has the whole.
 */
#ifndef TENURE_CGROUP_H
#define TENURE_CGROUP_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the groups that the process is in, the one with the least left counts. */
typedef struct tnr_cgroup_info {
    size_t struct_bytes;    /* set by the caller to sizeof(tnr_cgroup_info) */
    size_t hard_bytes;      /* beyond it allocations fail; SIZE_MAX: no limit */
    size_t hard_used_bytes; /* that the group has, with all its processes */
    size_t soft_bytes;      /* beyond it idle memory is given back; SIZE_MAX: no limit */
    size_t soft_used_bytes;
    size_t given_bytes;  /* that Tenure has given back because of it */
    char hard_file[256]; /* says so; empty: none */
    char soft_file[256];
} tnr_cgroup_info;

/* Reads those limits now, also of a device that is not in use. Errors: TNR_ERR_INVALID_ARGUMENT
 * (info is null, struct_bytes), TNR_ERR_INVALID_DEVICE (also of host memory, which dmem does not
 * have), those of tnr_init. Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_cgroup_get(tnr_cgroup_info *info, int device);

#ifdef __cplusplus
}
#endif

#endif
