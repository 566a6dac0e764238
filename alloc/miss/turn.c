/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: see turn.h. */
#include "miss/turn.h"

#include "base/lock.h"
#include "base/rest.h"
#include "memory/device/device.h"

enum { RESTS_MAX = 20000 }; /* most of them naps: a second in all */

int tnri_turn_begin(tnri_account *account)
{
    if (!tnri_device_is_host(account->device) || account->is_contents ||
        tnri_account_is_owners(account))
        return 0;
    tnri_assert_none_held();
    for (unsigned round = 0; round < RESTS_MAX; round++) {
        if (atomic_exchange_explicit(&account->is_growing, 1, memory_order_acquire) == 0)
            return 1;
        tnri_rest(round);
    }
    return 0;
}

void tnri_turn_end(tnri_account *account, int has_turn)
{
    if (has_turn)
        atomic_store_explicit(&account->is_growing, 0, memory_order_release);
}
