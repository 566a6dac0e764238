/* SPDX-License-Identifier: Apache-2.0 */
/* An internal header of the lower layer. */
#define LOW_INSIDE 1
