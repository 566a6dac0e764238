/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that write and check patterns on a GPU, as PTX that the driver compiles at run time.
 * pattern.c holds the same in C for the simulated device and says what a pattern is.
 *
 * tenure_fill (ptr, bytes, seed, points)
 * tenure_check(ptr, bytes, seed, points, counter)
 *
 * Threads stride over 16-byte words. With points == 0 these are all words of the block. Otherwise
 * there are `points` of them, numbered as in pattern_point_word(): four at each end, then two
 * around each 2 MiB border inside the block. The bytes after the last whole word are done one by
 * one. A check adds its number of wrong words to counter[0], and the first thread that found any in
 * the whole run leaves the seed in counter[1] and the word's offset in counter[2].
 *
 * The lowest common target is used, so that every GPU with virtual memory management can run them.
 */
#ifndef TENURE_TOOLS_PATTERN_PTX_H
#define TENURE_TOOLS_PATTERN_PTX_H

/* Registers that both kernels use. */
#define PTX_REGISTERS                                                                              \
    ".reg .pred %p, %q, %full;\n"                                                                  \
    ".reg .b32 %nt, %ct, %th, %nct, %sh;\n"                                                        \
    ".reg .b64 %ptr, %bytes, %seed, %points, %gid, %stride, %words, %count, %base, %i, %w, %x,\n"  \
    "          %y, %t, %u, %address, %end;\n"

/* Parameters, thread number, stride, and how many words there are to do. */
#define PTX_PROLOGUE                                                                               \
    "ld.param.u64 %ptr, [p_ptr];\n"                                                                \
    "ld.param.u64 %bytes, [p_bytes];\n"                                                            \
    "ld.param.u64 %seed, [p_seed];\n"                                                              \
    "ld.param.u64 %points, [p_points];\n"                                                          \
    "cvta.to.global.u64 %ptr, %ptr;\n"                                                             \
    "mov.u32 %ct, %ctaid.x;\n"                                                                     \
    "mov.u32 %nt, %ntid.x;\n"                                                                      \
    "mov.u32 %nct, %nctaid.x;\n"                                                                   \
    "mov.u32 %th, %tid.x;\n"                                                                       \
    "mul.wide.u32 %gid, %ct, %nt;\n"                                                               \
    "cvt.u64.u32 %t, %th;\n"                                                                       \
    "add.u64 %gid, %gid, %t;\n"                                                                    \
    "mul.wide.u32 %stride, %nct, %nt;\n"                                                           \
    "shr.u64 %words, %bytes, 4;\n"                                                                 \
    "setp.eq.u64 %full, %points, 0;\n"                                                             \
    "selp.b64 %count, %words, %points, %full;\n"                                                   \
    "mul.lo.u64 %base, %seed, 0x9E3779B97F4A7C15;\n"

/* %w = the word that point %i stands for, and %i moves on. A border at the very end of a block may
 * have no whole word behind it: that point is skipped. */
#define PTX_POINT(label)                                                                           \
    "mov.b64 %w, %i;\n"                                                                            \
    "@%full bra " label ";\n"                                                                      \
    "setp.lt.u64 %p, %i, 4;\n"                                                                     \
    "@%p bra " label ";\n"                                                                         \
    "add.u64 %w, %words, 3;\n"                                                                     \
    "sub.u64 %w, %w, %i;\n"                                                                        \
    "setp.lt.u64 %p, %i, 8;\n"                                                                     \
    "@%p bra " label ";\n"                                                                         \
    "sub.u64 %t, %i, 8;\n"                                                                         \
    "shr.u64 %u, %t, 1;\n"                                                                         \
    "and.b64 %t, %t, 1;\n"                                                                         \
    "shr.u64 %w, %ptr, 21;\n"                                                                      \
    "add.u64 %w, %w, %u;\n"                                                                        \
    "add.u64 %w, %w, 1;\n"                                                                         \
    "shl.b64 %w, %w, 21;\n"                                                                        \
    "sub.u64 %w, %w, %ptr;\n"                                                                      \
    "shr.u64 %w, %w, 4;\n"                                                                         \
    "add.u64 %w, %w, %t;\n"                                                                        \
    "sub.u64 %w, %w, 1;\n" label ":\n"                                                             \
    "add.u64 %i, %i, %stride;\n"                                                                   \
    "setp.ge.u64 %p, %w, %words;\n"                                                                \
    "@%p bra WORDS;\n"

/* %x, %y = the two halves of word %w. */
#define PTX_WORD                                                                                   \
    "mul.lo.u64 %x, %w, 0xBF58476D1CE4E5B9;\n"                                                     \
    "add.u64 %x, %x, %base;\n"                                                                     \
    "shr.u64 %t, %x, 29;\n"                                                                        \
    "xor.b64 %x, %x, %t;\n"                                                                        \
    "mul.lo.u64 %x, %x, 0x94D049BB133111EB;\n"                                                     \
    "shr.u64 %t, %x, 32;\n"                                                                        \
    "xor.b64 %x, %x, %t;\n"                                                                        \
    "not.b64 %y, %x;\n"                                                                            \
    "add.u64 %y, %y, %w;\n"

/* %x = the byte at offset %i of the block, in its low bits. */
#define PTX_BYTE                                                                                   \
    "shr.u64 %w, %i, 4;\n" PTX_WORD "and.b64 %t, %i, 8;\n"                                         \
    "setp.eq.u64 %p, %t, 0;\n"                                                                     \
    "selp.b64 %x, %x, %y, %p;\n"                                                                   \
    "cvt.u32.u64 %sh, %i;\n"                                                                       \
    "and.b32 %sh, %sh, 7;\n"                                                                       \
    "shl.b32 %sh, %sh, 3;\n"                                                                       \
    "shr.u64 %x, %x, %sh;\n"                                                                       \
    "and.b64 %x, %x, 255;\n"

/* The module is these three texts, one after the other. */
static const char pattern_ptx_head[] = ".version 6.0\n"
                                       ".target sm_60\n"
                                       ".address_size 64\n";

static const char pattern_ptx_fill[] =
    ".visible .entry tenure_fill(.param .u64 p_ptr, .param .u64 p_bytes, .param .u64 p_seed,\n"
    "                            .param .u64 p_points)\n"
    "{\n" PTX_REGISTERS PTX_PROLOGUE "mov.b64 %i, %gid;\n"
    "WORDS:\n"
    "setp.ge.u64 %p, %i, %count;\n"
    "@%p bra TAIL;\n" PTX_POINT("FOUND") PTX_WORD "shl.b64 %t, %w, 4;\n"
                                                  "add.u64 %address, %ptr, %t;\n"
                                                  "st.global.v2.u64 [%address], {%x, %y};\n"
                                                  "bra WORDS;\n"
                                                  "TAIL:\n"
                                                  "shl.b64 %i, %words, 4;\n"
                                                  "add.u64 %i, %i, %gid;\n"
                                                  "TAIL_BYTES:\n"
                                                  "setp.ge.u64 %p, %i, %bytes;\n"
                                                  "@%p bra DONE;\n" PTX_BYTE
                                                  "add.u64 %address, %ptr, %i;\n"
                                                  "st.global.u8 [%address], %x;\n"
                                                  "add.u64 %i, %i, %stride;\n"
                                                  "bra TAIL_BYTES;\n"
                                                  "DONE:\n"
                                                  "ret;\n"
                                                  "}\n";

static const char pattern_ptx_check[] =
    ".visible .entry tenure_check(.param .u64 p_ptr, .param .u64 p_bytes, .param .u64 p_seed,\n"
    "                             .param .u64 p_points, .param .u64 p_counter)\n"
    "{\n" PTX_REGISTERS ".reg .b64 %wrong, %first, %a, %b, %counter, %old;\n" PTX_PROLOGUE
    "ld.param.u64 %counter, [p_counter];\n"
    "cvta.to.global.u64 %counter, %counter;\n"
    "mov.b64 %wrong, 0;\n"
    "mov.b64 %first, 0;\n"
    "mov.b64 %i, %gid;\n"
    "WORDS:\n"
    "setp.ge.u64 %p, %i, %count;\n"
    "@%p bra TAIL;\n" PTX_POINT("FOUND") PTX_WORD
    "shl.b64 %t, %w, 4;\n"
    "add.u64 %address, %ptr, %t;\n"
    "ld.global.v2.u64 {%a, %b}, [%address];\n"
    "setp.eq.u64 %p, %a, %x;\n"
    "setp.eq.and.u64 %p, %b, %y, %p;\n"
    "@%p bra WORDS;\n"
    "add.u64 %wrong, %wrong, 1;\n"
    "mov.b64 %first, %t;\n"
    "bra WORDS;\n"
    "TAIL:\n"
    "shl.b64 %i, %words, 4;\n"
    "add.u64 %i, %i, %gid;\n"
    "TAIL_BYTES:\n"
    "setp.ge.u64 %p, %i, %bytes;\n"
    "@%p bra COUNT;\n" PTX_BYTE "add.u64 %address, %ptr, %i;\n"
    "ld.global.u8 %a, [%address];\n"
    "setp.eq.u64 %q, %a, %x;\n"
    "@%q bra BYTE_GOOD;\n"
    "add.u64 %wrong, %wrong, 1;\n"
    "mov.b64 %first, %i;\n"
    "BYTE_GOOD:\n"
    "add.u64 %i, %i, %stride;\n"
    "bra TAIL_BYTES;\n"
    "COUNT:\n"
    "setp.eq.u64 %p, %wrong, 0;\n"
    "@%p bra DONE;\n"
    "red.global.add.u64 [%counter], %wrong;\n"
    "atom.global.cas.b64 %old, [%counter+8], 0, %seed;\n"
    "setp.ne.u64 %p, %old, 0;\n"
    "@%p bra DONE;\n"
    "st.global.u64 [%counter+16], %first;\n"
    "DONE:\n"
    "ret;\n"
    "}\n";

#undef PTX_REGISTERS
#undef PTX_PROLOGUE
#undef PTX_POINT
#undef PTX_WORD
#undef PTX_BYTE

#endif
