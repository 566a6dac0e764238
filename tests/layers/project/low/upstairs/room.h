/* SPDX-License-Identifier: Apache-2.0 */
/* A header of the upper room that the lower one must not include. */
#define UPSTAIRS_ROOM 8
