/* SPDX-License-Identifier: Apache-2.0 */
/* vector_case.h - vectors of rows in double, and the files beside a checkpoint that say how its
 * vectors are made.
 *
 * Written out of sentence-transformers, sentence_transformer/modules/pooling.py and
 * base/modules/dense.py (Apache-2.0), one function for each of theirs. Nothing here knows how the
 * daemon computes a vector. */
#ifndef VECTOR_CASE_H
#define VECTOR_CASE_H

#include "forward_reference.h"
#include "http_client.h"

/* Pooling.forward() of one mode, without the first rows; its names are those of the source. */
struct rows vector_pool(struct rows rows, const char *mode, int first);

/* torch.nn.functional.normalize(); the vectors x and y side by side; the first numbers of x. */
struct rows vector_unit(struct rows x);
struct rows vector_join(struct rows x, struct rows y);
struct rows vector_cut(struct rows x, int64_t count);

/* Writes a file, perhaps in a folder below: "1_Pooling/config.json". */
void vector_write(const char *folder, const char *file, const char *text);

/* Writes folder/sub/model.safetensors of the open tensors name.weight and, if there is one,
 * name.bias (published.h), as linear.weight and linear.bias, in F32. */
void vector_write_dense(const char *folder, const char *sub, const char *name);

/* Makes the first number of an F32 tensor of folder/file NaN. */
void vector_break(const char *folder, const char *file, const char *tensor);

/* Asks for the embedding with these fields. Its member of that name must be want, whose norm the
 * difference is measured by. */
void vector_expect(struct http_client *client, const char *model, const char *fields,
                   const char *member, struct rows want);

#endif
