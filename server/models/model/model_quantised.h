/* SPDX-License-Identifier: Apache-2.0 */
/* model_quantised.h - weights of quantised checkpoints whose scales are tensors of their own, made
 * into what the library takes: for model_parameters.c.
 *
 * Sources: convert_moe_packed_tensors() of Hugging Face transformers' integrations/mxfp4.py, the
 * OCP Microscaling Formats specification 1.0, and Fp8Dequantize of integrations/finegrained_fp8.py.
 */
#ifndef ATTND_MODEL_QUANTISED_H
#define ATTND_MODEL_QUANTISED_H

#include "models/model/model_converted.h"

/* Numbers of a block of MXFP4, and its bytes in a file beside its scale. */
enum { MODEL_MXFP4_NUMBERS = 32, MODEL_MXFP4_BYTES = 16 };

/* MXFP4: source->bytes are blocks of 32 numbers, two in a byte, the first in its lower half, and
 * source->scales one byte for each block. They become blocks of ATTN_MXFP4, source->decoded_bytes
 * of them. */
void model_quantised_mxfp4(void *values, const struct model_converted_source *source);

/* FP8: a matrix of E4M3, and a scale for each of its blocks of scale_rows by scale_columns numbers;
 * blocks at the ends are smaller. They become floats, each number times its scale. */
void model_quantised_fp8(void *values, const struct model_converted_source *source);

/* A number of E4M3 (OCP 8-bit Floating Point Specification 1.0): no infinity, two NaN. */
float model_quantised_e4m3(unsigned char bits);

#endif
