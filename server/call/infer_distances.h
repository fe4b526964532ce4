/* SPDX-License-Identifier: Apache-2.0 */
/* infer_distances.h - relative positions that depend on the query or the key: BERT's relative_key
 * and relative_key_query (Shaw, Uszkoreit and Vaswani 2018; Huang et al. 2020), and DeBERTa's
 * disentangled attention (He et al. 2021), whose rows are those of a head.
 *
 * The library's scores are products of a query and a key alone, so these terms are part of a mask
 * of every head, as T5's bias is. Query and key are projected for them once more, before the stage
 * that projects them for the scores. */
#ifndef ATTND_INFER_DISTANCES_H
#define ATTND_INFER_DISTANCES_H

#include "call/infer.h"
#include "linear.h"
#include "work.h"

enum { INFER_DISTANCE_PRODUCTS_MAX = 2 }; /* query, key */

/* Numbers of item->projected; 0: the layer's bias depends on neither; -1: more than can be. The
 * item's lengths and its layer are settled, here and below. */
int64_t infer_distance_numbers(const struct infer_item *item);

/* The products that write them, of an item whose inputs are F32. Returns how many. */
int infer_distance_products(const struct infer_item *item, const struct attn_kernels *kernels,
                            struct attn_product products[INFER_DISTANCE_PRODUCTS_MAX]);

/* The work of these products. */
void infer_distances_work(const struct infer_item *item, const struct attn_kernels *kernels,
                          struct attn_work *work);

/* Computes them in the request's arena, from inputs of any dtype. */
bool infer_distances_project(struct infer_request *request, struct infer_item *item,
                             const struct attn_kernels *kernels, struct fault *fault);

/* Adds to `count` rows of one head of item->bias, which sum points at, what the layer's rows for
 * distances give: scale * query . row, and scale * key . row where the layer has that too. */
void infer_distances_add(const struct infer_item *item, int64_t head, int64_t first, int64_t count,
                         float *sum);

#endif
