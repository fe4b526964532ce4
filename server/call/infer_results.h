/* SPDX-License-Identifier: Apache-2.0 */
/* infer_results.h - what a planned item computes: the shapes, dtypes and memory of its results, and
 * the tasks that fill them. */
#ifndef ATTND_INFER_RESULTS_H
#define ATTND_INFER_RESULTS_H

#include "call/infer.h"

enum { INFER_ANSWER_BYTES_PER_NUMBER = 16 }; /* the longest float32, and its comma */

/* Whether the answer has a reduced weight map. A weight_map without the output weights has no
 * effect. */
bool infer_has_weight_map(const struct infer_item *item);

/* Numbers in the answer for each element of an output: 2 where it has indices too. */
size_t infer_numbers_per_element(const struct infer_item *item, enum attn_output output);

/* Elements of an output; false on overflow. */
bool infer_output_count(const struct infer_item *item, enum attn_output output, size_t *count);

/* The most bytes that a number takes in the answer. */
size_t infer_number_bytes(const struct infer_request *request);

/* The most bytes that the results of an item can take in the answer; false on overflow. */
bool infer_answer_bytes(const struct infer_request *request, const struct infer_item *item,
                        size_t *bytes);

/* Allocates item->results in the request's arena, except those that have an address. The first item
 * of a joined request allocates the results of all. */
bool infer_allocate_results(struct infer_request *request, struct infer_item *item,
                            struct fault *fault);

/* Allocates item->scratch and, if the workers' workspaces are too small, item->workspaces. */
bool infer_allocate_scratch(struct infer_request *request, struct infer_item *item,
                            const struct infer_limits *limits, struct fault *fault);

/* ----------------------------------------------------------------- dtypes -- */

/* Converts every array of an item to a dtype that the plan takes: F32, and for a mask also BOOL;
 * attention without projections takes query, key, value and mask of any dtype. An array of a
 * fitting dtype stays where it lies. Sets answer_dtype and result_dtype. The item's model is
 * resolved. */
bool infer_convert_inputs(struct infer_request *request, struct infer_item *item,
                          struct fault *fault);

/* Converts the computed results of an item to the dtype that the answer has, each as
 * infer_output_dtype() says. The first item of
 * a joined request converts the results of all. */
bool infer_convert_results(struct infer_request *request, struct infer_item *item,
                           enum attn_dtype dtype, struct fault *fault);

/* ------------------------------------------------------------- weight map -- */

/* Whether the chosen heads and rows exist. The item's lengths and heads are settled. */
bool infer_check_weight_map(const struct infer_item *item, struct fault *fault);

/* Allocates what the map needs beside the results, which are allocated, as far as it has no address
 * yet, and puts the map into the problem. */
bool infer_plan_weight_map(struct infer_request *request, struct infer_item *item,
                           struct attn_layer_problem *problem, const struct infer_limits *limits,
                           struct fault *fault);

/* -------------------------------------------------------------- selection -- */

/* An item may read only the keys which can matter (select.h). */

/* Checks what goes with a selection, allocates its outputs and puts it into the problem, whose
 * masking is planned. Does nothing for an item without one. */
bool infer_plan_selection(struct infer_request *request, struct infer_item *item,
                          struct attn_layer_problem *problem, struct fault *fault);

/* Numbers of mass_left in the answer; 0 without a selection. */
size_t infer_selection_count(const struct infer_item *item);

/* Keys that were read and that there were to see, over all rows and key/value heads. */
void infer_selection_keys(const struct infer_item *item, int64_t *read, int64_t *seen);

/* ------------------------------------------------------------------ tasks -- */

/* Of the plan that the item has: attention or its gradients. 0 tasks behind the last stage. */
int64_t infer_tasks_count(const struct infer_item *item, int stage);

void infer_tasks_run(const struct infer_item *item, int stage, int64_t task, void *workspace);

size_t infer_tasks_scratch_bytes(const struct infer_item *item);
size_t infer_tasks_workspace_bytes(const struct infer_item *item);

#endif
