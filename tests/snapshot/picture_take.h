/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of all memory, as a snapshot takes it. Free it with tnri_picture_free. */
#ifndef TENURE_TESTS_SNAPSHOT_PICTURE_TAKE_H
#define TENURE_TESTS_SNAPSHOT_PICTURE_TAKE_H

#include "unit/unit.h"

#include "log/history.h"
#include "see/snapshot/picture.h"

static inline tnri_picture picture_take(void)
{
    tnri_picture picture;
    tnri_picture_still();
    tnri_history_lock_take();
    assert_ok(tnri_picture_take(&picture, TNRI_SNAPSHOT_CALL));
    tnri_history_lock_release();
    return picture;
}

#endif
