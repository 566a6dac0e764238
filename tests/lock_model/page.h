/* SPDX-License-Identifier: Apache-2.0 */
/* A page of alloc/log/page.h under the explorer. */
#ifndef LOCK_MODEL_PAGE_H
#define LOCK_MODEL_PAGE_H

#include "explorer.h"

extern const explorer_program page_program;

#endif
