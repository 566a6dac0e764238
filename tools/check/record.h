/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses that are recorded with Tenure by themselves: see record.c. Between check_enter and
 * check_leave, and only with auto_record:seen (CHECK_RECORDS).
 */
#ifndef TENURE_PRELOAD_CHECK_RECORD_H
#define TENURE_PRELOAD_CHECK_RECORD_H

#include "check/check.h"

/* Work of the stream uses the memory at an address of Tenure's. */
void check_record(CUdeviceptr address, CUstream stream);

#endif
