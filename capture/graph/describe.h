/* SPDX-License-Identifier: Apache-2.0 */
/* What pictures are told of graphs and captures. Under the graph lock. */
#ifndef TNRI_GRAPH_DESCRIBE_H
#define TNRI_GRAPH_DESCRIBE_H

#include "memory/arena/wait.h"

/* Tells of all graphs, and of what they and their captures keep: tnri_upper.show. */
void tnri_graphs_describe(const tnri_listener *listener);

#endif
