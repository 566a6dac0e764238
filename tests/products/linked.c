/* SPDX-License-Identifier: Apache-2.0 */
/* The table of features of programs that call Tenure. */
#include "all.h"

const feature *const compose_features[] = {
    &device_first,      &device_second,  &pool_default,    &pool_own,          &pool_graph,
    &pool_vouched,      &pool_shared,    &pool_foreign,    &pool_rdma,         &pool_tagged,
    &pool_host,         &graph_here,     &graph_elsewhere, &graph_adopted,     &graph_updated,
    &capture_open,      &capture_beside, &capture_left,    &capture_wrong_end, &capture_invalidated,
    &capture_destroyed, &state_parked,   &state_asleep,    &state_published,   &state_growable,
    &state_ranged,      &state_guarded,  &stream_ended,    &thread_ended,      &thread_cancelled,
    &thread_forked,     &thread_host,    &thread_beside,   (void *)0};

int main(int argc, char **argv)
{
    return compose_main(argc, argv);
}
