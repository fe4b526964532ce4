/* infer_convert.h - what a wire brought and wants, in the dtypes that are computed in. */
#ifndef ATTND_INFER_CONVERT_H
#define ATTND_INFER_CONVERT_H

#include "infer/infer.h"

/* Turns every array of an item whose model is known into what the plan takes: F32, and for a mask
 * also BOOL; in attention without projections query, key, value and mask may be of any dtype. What
 * is so already stays where it lies. Notes the query's dtype as the answer's. */
bool infer_convert_inputs(struct infer_request *request, struct infer_item *item,
                          struct fault *fault);

/* Turns the results of an item that has been computed into dtype, for a wire that answers so; those
 * of a joined request all together, by its first item. */
bool infer_convert_results(struct infer_request *request, struct infer_item *item,
                           enum attn_dtype dtype, struct fault *fault);

#endif
