/* kernel_tables.c - see kernel_tables.h. */
#include "kernel_tables.h"

#include "kernels/kernels.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TABLES_MAX = 8, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

static struct attn_kernels model;
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

/* The model is the table avx512 with tiles beside it. */
static void list_tables(void)
{
    int count = 0;
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        tables[count++] = *k;
    if (kernel_table_of_unit() != NULL)
        tables[count++] = kernel_table_of_unit();
#ifdef __x86_64__
    if (strcmp(attn_kernels_name(tables[0]), "avx512") == 0) {
        model = *tables[0];
        model.name = "amx-model";
        model.matrix = &matrix_model;
        tables[count++] = &model;
    }
#endif
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
