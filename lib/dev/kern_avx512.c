/* kern_avx512.c - the inner loops with AVX-512; the Makefile compiles this file for it. */
#include "dev/kern_zmm.inc"

#define PAIR         1
#define macw         fmaw
#define MULTIPLY_ADD "vfmadd231ps"
#define TILES(T)     T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8) T(9) T(10) T(11) T(12)
#include "dev/kern_rows.inc"
#include "dev/kern_gemm.inc"
#include "dev/kern_outer.inc"
#include "dev/kern_fp32.inc"
#include "dev/kern_each.inc"
#include "dev/kern_norm.inc"
#include "dev/kern_attention.inc"
#include "dev/kern_table.inc"

KERN_TABLE(avx512)
