/* parts.c - see parts.h. */
#include "base/parts.h"

int attn_parts_of(const struct attn_matrix_kernels *kernels, enum attn_dtype dtype,
                  enum attn_precision precision)
{
    static const int parts[ATTN_PRECISION_COUNT] = {
#define X(NAME, name, parts) parts,
        ATTN_PRECISION_MAP(X)
#undef X
    };

    const bool is_exact = kernels->products_max == 0 || parts[precision] > 2;

    if (dtype == ATTN_F16)
        return is_exact ? 2 : parts[precision];
    return dtype == ATTN_BF16 ? 1 : parts[precision];
}

struct attn_matrix_products attn_products_of(int left_parts, int right_parts,
                                             enum attn_precision precision)
{
    static const struct {
        uint8_t left, right;
    } all[ATTN_MATRIX_PRODUCTS_MAX] = {
        { 0, 2 }, { 0, 1 }, { 1, 1 }, { 1, 0 }, { 2, 0 }, { 0, 0 }
    };
    const int sum_max = precision == ATTN_PRECISION_HIGHEST ? 2 : 1;
    struct attn_matrix_products products = { .left_parts = left_parts, .right_parts = right_parts };

    for (int i = 0; i < ATTN_MATRIX_PRODUCTS_MAX; i++) {
        const uint8_t left = all[i].left, right = all[i].right;
        const int n = products.count;
        if (left >= left_parts || right >= right_parts || left + right > sum_max)
            continue;
        products.left[n] = left;
        products.right[n] = right;
        products.loads_left[n] = n == 0 || left != products.left[n - 1];
        products.loads_right[n] = n == 0 || right != products.right[n - 1];
        products.count++;
    }
    return products;
}
