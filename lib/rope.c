/* rope.c - rotary position embedding.
 *
 * Angles are computed in double and only their cosine and sine are rounded to float: at position
 * 100 000 a float angle would already be off by hundredths of a turn. Every head of a row turns by
 * the same angles, so they are computed once a row. */
#include "rope.h"

#include <math.h>

void attn_rope_turn(const struct attn_rope *rope, float *rows, int64_t row_stride,
                    int64_t row_count, int64_t heads, int64_t head_dim, double first_position)
{
    const int64_t pairs = rope->dim / 2;
    const int64_t step = rope->interleaved ? 2 : 1;
    const int64_t apart = rope->interleaved ? 1 : pairs;

    for (int64_t c = 0; c < pairs; c++) {
        const double frequency = pow(rope->theta, -2.0 * (double)c / (double)rope->dim);
        for (int64_t i = 0; i < row_count; i++) {
            const double angle = (first_position + (double)i) * frequency;
            const float cosine = (float)cos(angle);
            const float sine = (float)sin(angle);
            for (int64_t h = 0; h < heads; h++) {
                float *pair = rows + i * row_stride + h * head_dim + c * step;
                const float a = pair[0];
                const float b = pair[apart];
                pair[0] = a * cosine - b * sine;
                pair[apart] = a * sine + b * cosine;
            }
        }
    }
}
