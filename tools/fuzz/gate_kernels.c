/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of gated programs, as PTX that the driver compiles when it loads them. gate_touch.c
 * has the first one in C; the offsets are those of the structures there.
 *
 * tenure_gate_touch(launch)       visits the words of up to two blocks, one after the other
 * tenure_gate_hold (word, number) spins until the word has reached the number
 * tenure_gate_mark (word, number) writes it
 *
 * The lowest common target is used, so that every GPU with virtual memory management can run them.
 * If the host or another stream accesses the same words, loads and stores are volatile.
 */
#include "gate_state.h"

/* The visits of one block: `at` is the offset of its gate_visit; label names end in `n`. */
#define PTX_VISIT(at_address, at_words, at_tag, at_count, at_page, at_grid, at_step, at_how, n)    \
    "ld.param.u64 %count, [p_launch+" at_count "];\n"                                              \
    "ld.param.u64 %address, [p_launch+" at_address "];\n"                                          \
    "ld.param.u64 %words, [p_launch+" at_words "];\n"                                              \
    "ld.param.u64 %tag, [p_launch+" at_tag "];\n"                                                  \
    "ld.param.u64 %page, [p_launch+" at_page "];\n"                                                \
    "ld.param.u64 %grid, [p_launch+" at_grid "];\n"                                                \
    "ld.param.u64 %step, [p_launch+" at_step "];\n"                                                \
    "ld.param.u64 %how, [p_launch+" at_how "];\n"                                                  \
    "cvta.to.global.u64 %address, %address;\n"                                                     \
    "setp.eq.u64 %full, %count, %words;\n"                                                         \
    "setp.ne.u64 %checks, %how, 0;\n" /* 0: VISIT_CHECK */                                         \
    "not.pred %checks, %checks;\n"                                                                 \
    "setp.eq.u64 %writes, %how, 1;\n" /* 1: VISIT_WRITE */                                         \
    "shr.u64 %t, %tag, 56;\n"                                                                      \
    "setp.ne.u64 %plain, %t, 0;\n"                                                                 \
    "mul.lo.u64 %base, %tag, 0x9E3779B97F4A7C15;\n"                                                \
    "mov.b64 %i, %gid;\n"                                                                          \
    "NEXT_" n ":\n"                                                                                \
    "setp.ge.u64 %p, %i, %count;\n"                                                                \
    "@%p bra END_" n ";\n"                                                                         \
    "mov.b64 %w, %i;\n"                                                                            \
    "@%full bra WORD_" n ";\n"                                                                     \
    "setp.lt.u64 %p, %i, 8;\n"                                                                     \
    "@%p bra WORD_" n ";\n"                                                                        \
    "sub.u64 %w, %words, %i;\n" /* words - 1 - (i - 8) */                                          \
    "add.u64 %w, %w, 7;\n"                                                                         \
    "setp.lt.u64 %p, %i, 16;\n"                                                                    \
    "@%p bra WORD_" n ";\n"                                                                        \
    "add.u64 %w, %page, %i;\n"                                                                     \
    "sub.u64 %w, %w, 16;\n"                                                                        \
    "setp.lt.u64 %p, %i, 528;\n"                                                                   \
    "@%p bra WORD_" n ";\n"                                                                        \
    "sub.u64 %w, %i, 528;\n"                                                                       \
    "mad.lo.u64 %w, %w, %step, %grid;\n"                                                           \
    "WORD_" n ":\n"                                                                                \
    "add.u64 %i, %i, %stride;\n"                                                                   \
    "shl.b64 %t, %w, 3;\n"                                                                         \
    "add.u64 %at, %address, %t;\n"                                                                 \
    "mul.lo.u64 %x, %at, 0xBF58476D1CE4E5B9;\n"                                                    \
    "add.u64 %x, %x, %base;\n"                                                                     \
    "selp.b64 %x, %tag, %x, %plain;\n"                                                             \
    "@!%writes bra READ_" n ";\n"                                                                  \
    "st.volatile.global.u64 [%at], %x;\n"                                                          \
    "bra NEXT_" n ";\n"                                                                            \
    "READ_" n ":\n"                                                                                \
    "ld.volatile.global.u64 %y, [%at];\n"                                                          \
    "@!%checks bra NEXT_" n ";\n"                                                                  \
    "setp.eq.u64 %p, %x, %y;\n"                                                                    \
    "@%p bra NEXT_" n ";\n"                                                                        \
    "red.global.add.u64 [%found+8], 1;\n"                                                          \
    "atom.global.cas.b64 %t, [%found], 0, 1;\n"                                                    \
    "setp.ne.u64 %p, %t, 0;\n"                                                                     \
    "@%p bra NEXT_" n ";\n"                                                                        \
    "st.volatile.global.u64 [%record+8], %number;\n"                                               \
    "st.volatile.global.u64 [%record+16], %at;\n"                                                  \
    "st.volatile.global.u64 [%record+24], %x;\n"                                                   \
    "st.volatile.global.u64 [%record+32], %y;\n"                                                   \
    "membar.sys;\n"                                                                                \
    "st.volatile.global.u64 [%record], 1;\n"                                                       \
    "bra NEXT_" n ";\n"                                                                            \
    "END_" n ":\n"

/* In parts, because a text in C may not be as long as all of them. */
const char *const gate_kernels[] = {
    ".version 6.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".visible .entry tenure_gate_touch(.param .align 8 .b8 p_launch[152])\n"
    "{\n"
    ".reg .pred %p, %full, %checks, %writes, %plain;\n"
    ".reg .b32 %block, %width, %blocks, %thread;\n"
    ".reg .b64 %count, %address, %words, %tag, %page, %grid, %step, %how, %base, %i, %w, %t, %x,\n"
    "          %y, %at, %gid, %stride, %found, %record, %number;\n"
    "ld.param.u64 %number, [p_launch+128];\n"
    "ld.param.u64 %found, [p_launch+136];\n"
    "ld.param.u64 %record, [p_launch+144];\n"
    "cvta.to.global.u64 %found, %found;\n"
    "cvta.to.global.u64 %record, %record;\n"
    "mov.u32 %block, %ctaid.x;\n"
    "mov.u32 %width, %ntid.x;\n"
    "mov.u32 %blocks, %nctaid.x;\n"
    "mov.u32 %thread, %tid.x;\n"
    "mul.wide.u32 %gid, %block, %width;\n"
    "cvt.u64.u32 %t, %thread;\n"
    "add.u64 %gid, %gid, %t;\n"
    "mul.wide.u32 %stride, %blocks, %width;\n",
    PTX_VISIT("0", "8", "16", "24", "32", "40", "48", "56", "0"),
    PTX_VISIT("64", "72", "80", "88", "96", "104", "112", "120", "1"),
    "ret;\n"
    "}\n"
    ".visible .entry tenure_gate_hold(.param .u64 p_word, .param .u32 p_number)\n"
    "{\n"
    ".reg .pred %p;\n"
    ".reg .b32 %number, %v;\n"
    ".reg .b64 %word;\n"
    "ld.param.u64 %word, [p_word];\n"
    "ld.param.u32 %number, [p_number];\n"
    "cvta.to.global.u64 %word, %word;\n"
    "AGAIN:\n"
    "ld.volatile.global.u32 %v, [%word];\n"
    "sub.u32 %v, %v, %number;\n"
    "setp.lt.s32 %p, %v, 0;\n"
    "@%p bra AGAIN;\n"
    "membar.sys;\n"
    "ret;\n"
    "}\n"
    ".visible .entry tenure_gate_mark(.param .u64 p_word, .param .u32 p_number)\n"
    "{\n"
    ".reg .b32 %number;\n"
    ".reg .b64 %word;\n"
    "ld.param.u64 %word, [p_word];\n"
    "ld.param.u32 %number, [p_number];\n"
    "cvta.to.global.u64 %word, %word;\n"
    "membar.sys;\n"
    "st.volatile.global.u32 [%word], %number;\n"
    "ret;\n"
    "}\n",
    NULL};
