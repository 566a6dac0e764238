/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine can be told to do: see scenarios.def. */
#ifndef TENURE_TESTS_PRELOAD_SCENARIOS_H
#define TENURE_TESTS_PRELOAD_SCENARIOS_H

#define SCENARIO(name) void scenario_##name(void);
#include "scenarios.def"
#undef SCENARIO

#endif
