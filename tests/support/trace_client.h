/* SPDX-License-Identifier: Apache-2.0 */
/* trace_client.h - answers of POST /v1/trace against a whole pass in double. */
#ifndef TRACE_CLIENT_H
#define TRACE_CLIENT_H

#include "forward_reference.h"
#include "http_client.h"

/* What a trace that is compared asks for, beside its tokens. */
#define TRACE_OUTPUTS                                                                              \
    "\"outputs\":[\"weights\",\"lse\",\"inputs\",\"hidden_states\",\"attention_output\"]"

/* Traces the model with these fields of a request, which need "tokens" or what takes their place,
 * and compares every layer and what leaves the last block. Of every layer POST /v1/attention is
 * also asked, with the inputs that the trace answered: its weights must be the same to the bit. So
 * must be a second trace, from the first layer's hidden states as "embeddings". Last come the laws
 * of edits (edited_laws.h). A layer of 0 heads is one without attention and has no maps, and where
 * the pass has no inputs of it none of these and no attention_output; of a model with such layers
 * there are none of these laws. */
void trace_client_expect(struct http_client *client, const char *model, const char *fields,
                         const struct forward *want);

/* Whether some layer of the pass has no attention. */
bool trace_client_is_hybrid(const struct forward *want);

/* The same of a pass whose fields have edits, without the calls for what was not edited. */
void trace_client_expect_edited(struct http_client *client, const char *model, const char *fields,
                                const struct forward *want);

/* The same of a model whose scores are sharp, between 16 and 64 at their largest, which multiplies
 * each rounding: rows and weights may differ by more. */
void trace_client_expect_sharp(struct http_client *client, const char *model, const char *fields,
                               const struct forward *want);

/* The same request with the output "predictions" only, at each of these positions: the most
 * probable tokens, in order, and the logarithms of their probabilities. */
void trace_client_expect_predictions(struct http_client *client, const char *model,
                                     const char *fields, const int *positions, int count,
                                     const struct forward *want);

/* GET /v1/models/{model} must say that there is no trace, with these words in the reason, and
 * POST /v1/trace must refuse these fields with the same words. */
void trace_client_expect_none(struct http_client *client, const char *model, const char *fields,
                              const char *words);

/* The description of the model must say that a trace takes these inputs, a list in JSON. */
void trace_client_expect_inputs(struct http_client *client, const char *model, const char *inputs);

/* "[5,3,8]" */
const char *trace_client_list(char *text, size_t size, const int *ids, int64_t count);

#endif
