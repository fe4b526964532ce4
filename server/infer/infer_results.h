/* infer_results.h - the sizes and the memory of a planned item's results. */
#ifndef ATTND_INFER_RESULTS_H
#define ATTND_INFER_RESULTS_H

#include "infer/infer.h"

enum { INFER_ANSWER_BYTES_PER_NUMBER = 16 }; /* the longest float32, and its comma */

/* Whether the weights are to be answered smaller; a weight_map says nothing where no weights are
 * asked for. */
bool infer_has_weight_map(const struct infer_item *item);

/* The numbers that are answered for each element of an output: 2 where it has indices too. */
size_t infer_numbers_per_element(const struct infer_item *item, enum infer_output output);

/* Numbers of an output; false on overflow. */
bool infer_output_count(const struct infer_item *item, enum infer_output output, size_t *count);

/* The most bytes that a number of the answer takes. */
size_t infer_number_bytes(const struct infer_request *request);

/* The most bytes that the numbers of an item can take in the answer; false on overflow. */
bool infer_answer_bytes(const struct infer_request *request, const struct infer_item *item,
                        size_t *bytes);

/* item->results, in the request's arena; of a joined request with the first item's for all. */
bool infer_allocate_results(struct infer_request *request, struct infer_item *item,
                            struct fault *fault);

/* item->scratch and, where the workers' own are too small, item->workspaces. */
bool infer_allocate_scratch(struct infer_request *request, struct infer_item *item,
                            const struct infer_limits *limits, struct fault *fault);

#endif
