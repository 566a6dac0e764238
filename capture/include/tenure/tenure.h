/* SPDX-License-Identifier: Apache-2.0 */
/* <tenure/tenure.h>: all of Tenure. Each part is the manual of its layer. */
#ifndef TENURE_TENURE_H
#define TENURE_TENURE_H

#include <tenure/alloc.h>
#include <tenure/capture.h>
#include <tenure/cgroup.h>
#include <tenure/compact.h>
#include <tenure/control.h>
#include <tenure/export.h>
#include <tenure/history.h>
#include <tenure/lifetime.h>
#include <tenure/park.h>
#include <tenure/publish.h>
#include <tenure/range.h>
#include <tenure/sleep.h>
#include <tenure/tag.h>
#include <tenure/host.h>
#include <tenure/trap.h>

#endif
