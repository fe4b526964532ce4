/* SPDX-License-Identifier: Apache-2.0 */
/* bench_additive.c - additive scores beside as many tanhs at vector speed, on one core. The
 * tanhs are our softcap of 1, which is a tanh and a division more, and those of glibc's libmvec,
 * where this CPU and this machine have it. Best of alternating runs in CPU time. */
#include "own.h"

#include "base/internal.h"
#include "kernels/kernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 12, LENGTH = 512, HEAD_DIM = 128, CHUNK = 4096 };
static const int64_t TANHS = (int64_t)LENGTH * LENGTH * HEAD_DIM;

static double softcap_s(const struct attn_kernels *kernels, const float *from, float *to)
{
    const double begin = now_s(1);

    for (int64_t i = 0; i < TANHS; i += CHUNK) {
        memcpy(to, from, CHUNK * sizeof *to);
        kernels->softcap_tile(to, 1.0f, CHUNK / kernels->lanes, kernels->lanes);
    }
    return now_s(1) - begin;
}

#ifdef __x86_64__
typedef float vec16 __attribute__((vector_size(64)));
typedef vec16 tanh16(vec16);

__attribute__((target("avx512f"))) static double libmvec_s(tanh16 *tanh_of, const float *from,
                                                           float *to)
{
    const double begin = now_s(1);

    for (int64_t i = 0; i < TANHS; i += CHUNK)
        for (int64_t j = 0; j < CHUNK; j += 16) {
            vec16 x;
            memcpy(&x, from + j, sizeof x);
            x = tanh_of(x);
            memcpy(to + j, &x, sizeof x);
        }
    return now_s(1) - begin;
}
#endif

int main(void)
{
    static const struct bench_shape shape = { 1, 1, 1, LENGTH, LENGTH, HEAD_DIM, 0, 1 };
    float weight[HEAD_DIM], from[CHUNK], to[CHUNK];
    double scores_s = 1e9, own_s = 1e9, other_s = 1e9;
    struct own own;

    bench_fill(weight, HEAD_DIM, BENCH_VALUE);
    bench_fill(from, CHUNK, BENCH_QUERY);
    own_init(&own, &shape);
    own.problem.additive_weight = weight;
    own_plan(&own);
    const struct attn_kernels *kernels = attn_plan_full(&own.plan)->kernels;
#ifdef __x86_64__
    void *library = __builtin_cpu_supports("avx512f") ? dlopen("libmvec.so.1", RTLD_NOW) : NULL;
    tanh16 *tanh_of = NULL;
    if (library)
        *(void **)&tanh_of = dlsym(library, "_ZGVeN16v_tanhf");
#endif
    for (int i = 0; i < ROUNDS; i++) {
        const double scores_now = own_time(&own);
        scores_s = scores_now < scores_s ? scores_now : scores_s;
        const double own_now = softcap_s(kernels, from, to);
        own_s = own_now < own_s ? own_now : own_s;
#ifdef __x86_64__
        if (tanh_of) {
            const double other_now = libmvec_s(tanh_of, from, to);
            other_s = other_now < other_s ? other_now : other_s;
        }
#endif
    }
    printf("additive attention %d x %d x %d, %s: %.2f ms\n", LENGTH, LENGTH, HEAD_DIM,
           kernels->name, scores_s * 1e3);
    printf("  of as many softcaps of ours:    %.2f\n", scores_s / own_s);
    if (other_s < 1e9)
        printf("  of as many tanhs of libmvec's:  %.2f\n", scores_s / other_s);
    own_free(&own);
    return 0;
}
