/* SPDX-License-Identifier: Apache-2.0 */
/* forward_case.h - the data of the whole pass of a small published checkpoint (published.h). */
#ifndef FORWARD_CASE_H
#define FORWARD_CASE_H

#include "models/model/model_forward.h"
#include "published.h"

/* Opens the checkpoint, in F32, and returns its pass. Fails the test where it has none. */
const struct model_forward *forward_case_open(const char *config, const char *tensors, int layers);

/* Opens a checkpoint that loads without a pass, because of these words, and closes it. */
void forward_case_refused(const char *config, const char *tensors, int layers, const char *words);

/* That numbers are those of the tensor of this name (published_tensor()). */
void forward_case_expect(const void *numbers, const char *name, int layer);

/* The same for name.weight and, if the file has it, name.bias. */
void forward_case_expect_linear(const struct attn_linear *linear, const char *name, int layer,
                                int64_t out, int64_t in);
void forward_case_expect_norm(const struct attn_norm *norm, const char *name, int layer, double eps,
                              bool is_centred);

#endif
