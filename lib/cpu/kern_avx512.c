/* kern_avx512.c - the inner loops with AVX-512; the Makefile compiles this file for it. */
#include "cpu/kern_zmm.inc"

#define PAIR         1
#define macw         fmaw
#define MULTIPLY_ADD "vfmadd231ps"
#define TILES(T)     T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8) T(9) T(10) T(11) T(12)
#include "cpu/kern_rows.inc"
#include "cpu/kern_gemm.inc"
#include "cpu/kern_stored.inc"
#include "cpu/kern_outer.inc"
#include "cpu/kern_fp32.inc"
#include "cpu/kern_each.inc"
#include "cpu/kern_norm.inc"
#include "cpu/kern_heads.inc"
#include "cpu/kern_attention.inc"
#include "cpu/kern_map.inc"
#include "cpu/kern_block.inc"
#include "cpu/kern_table.inc"

KERN_TABLE(avx512)
