/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks what this layer knows, in both directions. For every place:
 *
 *   pieces in the lists == RETIRED records whose uses lead back to a piece; each is in the list of
 *   its size, and its bits are those of the views that come after all of its nodes
 *   live records of the captures under way == LIVE records that lead back to one of them
 *   without a capture under way there are neither
 *   keepers of the pool == graphs of the place, those under construction among them
 */
#ifndef TNRI_GRAPH_VALIDATE_H
#define TNRI_GRAPH_VALIDATE_H

#include "graph/place.h"

/* TNR_ERR_INTERNAL: it is not so. TNRI_DEVICE_VALIDATES. */
tnr_status tnri_captures_validate(tnri_device *device);

#endif
