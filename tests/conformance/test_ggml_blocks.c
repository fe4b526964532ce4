/* SPDX-License-Identifier: Apache-2.0 */
/* test_ggml_blocks.c - blocks and the numbers that libggml reads from them, to the bit. */
#include "quantize.h"
#include "tensor_file.h"
#include "test.h"

#include "kernels/kernels.h"

static const struct {
    const char *name;
    enum attn_dtype dtype;
} DTYPES[] = {
#define X(NAME, numbers, bytes) { #NAME, ATTN_##NAME },
    ATTN_BLOCK_MAP(X)
#undef X
};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

static struct tensor tensor_of(const struct tensor_file *file, int dtype, const char *what)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%s", DTYPES[dtype].name, what);
    return tensor_file_get(file, name);
}

static void expect_numbers(const char *kernels, int dtype, const float *got, const float *want,
                           int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(got + i, want + i, sizeof *got) != 0)
            fail_msg("%s, %s: number %lld of block %lld is %a, want %a", kernels,
                     DTYPES[dtype].name, (long long)(i % attn_block_numbers(DTYPES[dtype].dtype)),
                     (long long)(i / attn_block_numbers(DTYPES[dtype].dtype)), (double)got[i],
                     (double)want[i]);
}

TEST(have_the_numbers_of_libggml)
{
    struct tensor_file file;
    tensor_file_open(&file, "tests/conformance/ggml/blocks.safetensors");
    for (int d = 0; d < DTYPE_COUNT; d++) {
        const struct tensor blocks = tensor_of(&file, d, "blocks");
        const struct tensor numbers = tensor_of(&file, d, "numbers");
        assert_int_equal(blocks.shape[1], attn_block_bytes(DTYPES[d].dtype));
        assert_int_equal(numbers.shape[1], attn_block_numbers(DTYPES[d].dtype));
        assert_int_equal(numbers.shape[0], blocks.shape[0]);
        assert_true(blocks.shape[0] >= 5);
        float *want = tensor_floats(&numbers);
        float *got = malloc((size_t)numbers.count * sizeof *got);
        assert_non_null(got);
        attn_unpack(DTYPES[d].dtype, blocks.data, blocks.shape[0], got);
        expect_numbers("attn_unpack()", d, got, want, numbers.count);
        for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++) {
            memset(got, 1, (size_t)numbers.count * sizeof *got);
            (*table)->unpack[d](got, blocks.data, blocks.shape[0]);
            expect_numbers(attn_kernels_name(*table), d, got, want, numbers.count);
        }
        free(got);
        free(want);
    }
    tensor_file_close(&file);
}
