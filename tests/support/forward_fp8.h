/* SPDX-License-Identifier: Apache-2.0 */
/* forward_fp8.h - a linear layer whose weight is FP8 in blocks, as DeepSeek and Qwen publish it.
 *
 * Written out of Fp8Dequantize in Hugging Face transformers, src/transformers/integrations/
 * finegrained_fp8.py, and of the OCP 8-bit Floating Point Specification 1.0. Activations are not
 * rounded. */
#ifndef FORWARD_FP8_H
#define FORWARD_FP8_H

#include "forward_reference.h"

/* Blocks of so many rows and columns, which divide no size of the tests. */
enum { FORWARD_FP8_ROWS = 12, FORWARD_FP8_COLUMNS = 7 };

/* torch.nn.Linear of name.weight and name.weight_scale_inv. */
struct rows forward_fp8_linear(struct rows x, const char *name, int layer);

#endif
