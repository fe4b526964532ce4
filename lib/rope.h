/* rope.h - rotary position embedding of rows (Su et al. 2021, RoFormer). */
#ifndef ATTN_ROPE_H
#define ATTN_ROPE_H

#include "layer.h"

/* Turns row_count rows of heads * head_dim columns in place. Row i stands at position
 * first_position + i; the first rope->dim columns of each head are turned, the rest stay. */
void attn_rope_turn(const struct attn_rope *rope, float *rows, int64_t row_stride,
                    int64_t row_count, int64_t heads, int64_t head_dim, double first_position);

#endif
