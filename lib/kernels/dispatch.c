/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - which kernel tables this CPU can run.
 *
 * A pure function of the CPU, so a plan, a test or a log line can name any table of the list. Only
 * what the CPU answers is stored: in a virtual machine each CPUID leaves to the host, 2 to 4 us,
 * which is more than a small plan costs. The CPU features tested here are exactly those of the -m
 * flags that the Makefile gives avx2.o, avx512.o, avx512_bf16.o, vnni.o, amx.o and neon_bf16.o;
 * change both together. */
#include "kernels.h"

#include <stddef.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#ifdef __x86_64__

/* Bit 29 of ecx of CPUID's leaf 1 (Intel SDM 2A, CPUID); every x86-64 CPU has that leaf. This is
 * what __builtin_cpu_supports("f16c") tests in compilers that know the name; clang 14 does not.
 * F16C needs the operating system to save the same registers as AVX2. */
static bool has_f16c(void)
{
    unsigned eax = 1, ebx, ecx = 0, edx;

    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    return ecx >> 29 & 1;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

/* Bit 5 of eax of subleaf 1 of CPUID's leaf 7; eax of subleaf 0 is the last subleaf. The operating
 * system saves the same registers as for AVX-512 F. Every such CPU has AVX512-VNNI, which the table
 * uses as well. */
static bool has_avx512_bf16(void)
{
    unsigned eax = 7, ebx, ecx = 0, edx;

    if (!__builtin_cpu_supports("avx512vnni"))
        return false;
    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    if (eax < 1)
        return false;
    eax = 7;
    ecx = 1;
    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    return eax >> 5 & 1;
}

/* Bit 23 of edx of CPUID's leaf 7, AVX512-FP16, tells Intel's cores from Golden Cove (Sapphire
 * Rapids) on, which make half the multiply-adds by VDPBF16PS that they make by floats. */
static bool has_slow_bf16(void)
{
    unsigned eax = 7, ebx, ecx = 0, edx;

    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    return __builtin_cpu_is("intel") && edx >> 23 & 1;
}

/* Bits 22 and 24 of edx of CPUID's leaf 7: AMX-BF16 and AMX-TILE; vnni.o is beside them. */
static bool has_amx(void)
{
    const unsigned needed = 1u << 22 | 1u << 24;
    unsigned eax = 7, ebx, ecx = 0, edx;

    if (!__builtin_cpu_supports("avx512vnni"))
        return false;

    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    return (edx & needed) == needed;
}

/* Bits 17 and 18 of XCR0: the operating system saves the configuration of tiles, and tiles. A CPU
 * with AMX-TILE has XGETBV, and an operating system that hides it says so in bit 27 of ecx of leaf
 * 1. */
static bool saves_tiles(void)
{
    unsigned eax = 1, ebx, ecx = 0, edx;

    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    if ((ecx >> 27 & 1) == 0)
        return false;
    __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return (eax >> 17 & 3) == 3;
}

enum { GENERIC, AVX2, AVX512, AVX512_BF16, AVX512_VNNI, HAS_TILES = 8, ASKED = 16 };

static int ask(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return GENERIC;
    if (!has_avx512())
        return AVX2;
    const int best = !has_avx512_bf16() ? AVX512 : has_slow_bf16() ? AVX512_VNNI : AVX512_BF16;
    return best | (has_amx() && saves_tiles() ? HAS_TILES : 0);
}

/* The best table, and HAS_TILES. Threads that ask at once store the same answer. */
static int answer(void)
{
    static _Atomic int stored;
    int known = stored;

    if (!(known & ASKED)) {
        known = ask() | ASKED;
        stored = known;
    }
    return known & ~ASKED;
}

const struct attn_kernels *attn_kernels_amx(void)
{
    return answer() & HAS_TILES ? &attn_kernels_with_amx : NULL;
}

const struct attn_kernels *const *attn_kernels_available(void)
{
    static const struct attn_kernels *const tables[] = {
        &attn_kernels_avx512_vnni, &attn_kernels_avx512_bf16, &attn_kernels_avx512,
        &attn_kernels_avx2,        &attn_kernels_generic,     NULL,
    };

    return &tables[AVX512_VNNI - (answer() & ~HAS_TILES)];
}

/* By lanes, because a table may be a copy (attn_kernels_given()). */
const struct attn_kernels *attn_kernels_shorter(const struct attn_kernels *kernels)
{
    if (kernels->lanes <= attn_kernels_generic.lanes)
        return NULL;
    return kernels->lanes <= attn_kernels_avx2.lanes ? &attn_kernels_generic : &attn_kernels_avx2;
}

#else

const struct attn_kernels *attn_kernels_shorter(const struct attn_kernels *kernels)
{
    (void)kernels;
    return NULL;
}

#if defined(__aarch64__) && defined(__linux__)

/* FEAT_BF16, as Linux tells a program when it starts it. */
static bool has_bf16(void)
{
    enum { BF16 = 1 << 14 };

    return (getauxval(AT_HWCAP2) & BF16) != 0;
}

const struct attn_kernels *const *attn_kernels_available(void)
{
    static const struct attn_kernels *const tables[] = { &attn_kernels_neon_bf16,
                                                         &attn_kernels_generic, NULL };

    return has_bf16() ? tables : tables + 1;
}

#else

const struct attn_kernels *const *attn_kernels_available(void)
{
    static const struct attn_kernels *const tables[] = { &attn_kernels_generic, NULL };

    return tables;
}

#endif

const struct attn_kernels *attn_kernels_amx(void)
{
    return NULL;
}

#endif

const char *attn_kernels_name(const struct attn_kernels *kernels)
{
    return kernels->name;
}
