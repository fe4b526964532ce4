/* top_k.c - see top_k.h.
 *
 * The result's own memory is a heap whose root is the last of the k best numbers so far. Most
 * numbers are only compared with the root. At the end the roots are removed one after the other,
 * which sorts the result. */
#include "top_k.h"

#include <math.h>
#include <stdbool.h>

static bool is_behind(float a, int64_t index_a, float b, int64_t index_b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || index_a > index_b);
    return a < b || (a == b && index_a > index_b);
}

/* Numbers that are compared at once. */
enum { STEP_NUMBERS = 16 };

/* Is any of STEP_NUMBERS numbers not <= bound? All have higher indices than the numbers in the
 * heap, so none that equals bound belongs into it. */
static bool has_above(const float *row, float bound)
{
    int above = 0;

    for (int i = 0; i < STEP_NUMBERS; i++)
        above |= !(row[i] <= bound);
    return above != 0;
}

/* Sift value down from index at, in a heap of count numbers. */
static void sink(float *values, int64_t *indices, int64_t count, int64_t at, float value,
                 int64_t index)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count
            && is_behind(values[child + 1], indices[child + 1], values[child], indices[child]))
            child++;
        if (!is_behind(values[child], indices[child], value, index))
            break;
        values[at] = values[child];
        indices[at] = indices[child];
        at = child;
    }
    values[at] = value;
    indices[at] = index;
}

void attn_top_k(const float *row, int64_t count, int64_t k, float *values, int64_t *indices)
{
    if (k == 0)
        return;
    for (int64_t i = 0; i < k; i++) {
        values[i] = row[i];
        indices[i] = i;
    }
    for (int64_t i = k / 2; i-- > 0;)
        sink(values, indices, k, i, values[i], indices[i]);
    for (int64_t j = k; j < count;) {
        const int64_t end = count - j < STEP_NUMBERS ? count : j + STEP_NUMBERS;
        if (end - j == STEP_NUMBERS && !has_above(row + j, values[0])) {
            j = end;
            continue;
        }
        for (; j < end; j++)
            if (is_behind(values[0], indices[0], row[j], j))
                sink(values, indices, k, 0, row[j], j);
    }
    for (int64_t end = k - 1; end > 0; end--) {
        const float value = values[end];
        const int64_t index = indices[end];
        values[end] = values[0];
        indices[end] = indices[0];
        sink(values, indices, end, 0, value, index);
    }
}
