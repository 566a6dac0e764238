/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of `bench_sections` that `tenure bench` does not have: bench_sections.c.
 */
#ifndef TENURE_TESTS_BENCH_SECTIONS_H
#define TENURE_TESTS_BENCH_SECTIONS_H

#include "bench.h"

exit_code bench_uses_run(const bench_setup *setup, bench_rows *out);     /* bench_uses.c */
exit_code bench_moves_run(const bench_setup *setup, bench_rows *out);    /* bench_moves.c */
exit_code bench_handover_run(const bench_setup *setup, bench_rows *out); /* bench_handover.c */
exit_code bench_storm_run(const bench_setup *setup, bench_rows *out);

#endif
