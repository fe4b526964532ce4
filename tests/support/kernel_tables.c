/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_tables.c - see kernel_tables.h. */
#include "kernel_tables.h"

#include "kernels/kernels.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TABLES_MAX = 8, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

static struct attn_kernels model, model_of_dots, dots;
static const struct attn_kernels *tables[TABLES_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct attn_kernels *kernel_table_of_unit(void)
{
#ifdef __x86_64__
    if (attn_kernels_amx() && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0)
        return attn_kernels_amx();
#endif
    return NULL;
}

/* What stands beside the vectors of the best table: products of bf16 vectors, if the CPU has them,
 * and the model of those. */
#ifdef __x86_64__
#define VECTORS    attn_kernels_avx512
#define DOTS       attn_kernels_avx512_bf16
#define DOTS_MODEL dots_model
#define MODEL_NAME "avx512_bf16-model"
#elif defined(__aarch64__)
#define VECTORS    attn_kernels_generic
#define DOTS       attn_kernels_neon_bf16
#define DOTS_MODEL squares_model
#define MODEL_NAME "neon_bf16-model"
#endif

#ifdef DOTS
static struct attn_matrix_kernels dots_of_all;

/* The table of vectors with other matrix kernels beside it. */
static struct attn_kernels beside(const char *name, const struct attn_matrix_kernels *matrix)
{
    struct attn_kernels table = VECTORS;
    table.name = name;
    table.matrix = matrix;
    table.fixed = attn_kernels_available()[0]->fixed;
    return table;
}

static bool can_run(const struct attn_kernels *table)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        if (*k == table)
            return true;
    return false;
}

/* Returns whether the CPU can run the vectors. */
static bool make_tables(void)
{
    if (!can_run(&VECTORS))
        return false;
#ifdef __x86_64__
    model = beside("amx-model", &matrix_model);
#endif
    model_of_dots = beside(MODEL_NAME, &DOTS_MODEL);
    dots = model_of_dots;
    if (can_run(&DOTS)) {
        dots_of_all = *DOTS.matrix;
        dots_of_all.takes_small = true;
        dots = beside(DOTS.name, &dots_of_all);
    }
    return true;
}
#endif

static void list_tables(void)
{
    int count = 0;
#ifdef DOTS
    if (make_tables()) {
        tables[count++] = &dots;
        if (model.name != NULL)
            tables[count++] = &model;
    }
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        if (*k != &DOTS)
            tables[count++] = *k;
#else
    tables[count++] = attn_kernels_available()[0];
#endif
    if (kernel_table_of_unit() != NULL)
        tables[count++] = kernel_table_of_unit();
}

const struct attn_kernels *const *kernel_tables(void)
{
    pthread_once(&once, list_tables);
    return tables;
}

const struct attn_kernels *kernel_table_of_turn(uint64_t turn)
{
    uint64_t count = 0;
    while (kernel_tables()[count] != NULL)
        count++;
    return tables[turn % count];
}

const struct attn_kernels *kernel_table_of_model(void)
{
    pthread_once(&once, list_tables);
    return model.name != NULL ? &model : NULL;
}

const struct attn_kernels *kernel_table_of_dots(void)
{
    pthread_once(&once, list_tables);
    return dots.name != NULL ? &dots : NULL;
}

const struct attn_kernels *kernel_table_of_dots_model(void)
{
    pthread_once(&once, list_tables);
    return model_of_dots.name != NULL ? &model_of_dots : NULL;
}
