/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the table, as calls.py reads them from the headers. */
#include "misuse.h"

#include "calls.inc"
