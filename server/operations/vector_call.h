/* SPDX-License-Identifier: Apache-2.0 */
/* vector_call.h - what calls that answer vectors, classes or ranks of texts have in common: their
 * texts become items of a trace, and are planned, priced, grouped and computed as those are. */
#ifndef ATTND_VECTOR_CALL_H
#define ATTND_VECTOR_CALL_H

#include "operations/operations.h"
#include "operations/plan/trace_job.h"
#include "operations/prompts.h"

/* Objects of the body of /similarity, whose members go to those of struct vector_asked. */
struct vector_compared {
    struct byte_slice source;
    struct prompts sentences;
};
struct vector_parameters {
    const char *prompt_name;
    bool has_truncate, truncate;
    int direction;
};

/* The body. What a call has no field for stays 0. */
struct vector_asked {
    const char *model_name, *user, *prompt_name;
    struct prompts inputs;
    const char *inputs_name; /* of their field, set by the operation */
    bool has_pooling, has_normalize, normalize, has_truncate, truncate, raw_scores, return_text;
    struct byte_slice query;          /* data NULL: none came */
    int pooling, direction, encoding; /* of the names below */
    int64_t dimensions;
    bool has_parameters;
    struct vector_compared compared;
    struct vector_parameters parameters;
};

extern const char *const vector_poolings[], *const vector_directions[], *const vector_encodings[];
enum { VECTOR_POOLINGS = 6, VECTOR_DIRECTIONS = 4, VECTOR_ENCODINGS = 2 };
enum { VECTOR_FLOAT, VECTOR_BASE64 };

/* Reads the body by the table into a new struct vector_asked, the request's. inputs has to come. */
struct vector_asked *vector_call_read(struct call *call, const struct field_table *table,
                                      const char *inputs_name, struct fault *fault);

/* What a model has to have for a call. */
typedef bool vector_fits(const struct model *model);
bool vector_has_embedding(const struct model *model);
bool vector_has_classes(const struct model *model); /* of a whole text */
bool vector_has_rank(const struct model *model);    /* one such class */

/* Finds the model; without a name the only one that fits. */
bool vector_call_find_model(const struct call *call, const struct vector_asked *asked,
                            vector_fits *fits, struct model **model, struct fault *fault);

/* Makes an item of each input, with the model, which it takes over; false too. The caller adds the
 * outputs. */
bool vector_call_make_items(struct call *call, struct vector_asked *asked, struct model *model,
                            struct fault *fault);

/* Texts are cut to what the model takes, and begin with the prompt of that name. The items are
 * made.
 */
void vector_call_cut(const struct call *call, const struct vector_asked *asked);
bool vector_call_add_prompt(struct call *call, const struct vector_asked *asked,
                            struct fault *fault);

/* Asks for the embedding of each item, or for the rows that leave the model. */
void vector_call_embed(const struct call *call, const struct vector_asked *asked);
void vector_call_answer_rows(const struct call *call);

/* For explain: the fault of an item is one of the input's place in the body. */
void vector_call_explain(const struct call *call, struct fault *fault);

static inline const struct vector_asked *vector_asked_of(const struct call *call)
{
    return trace_request_of(call)->asked;
}

/* Tokens that the call's inputs have; the vector of one, and the rows of one. */
int64_t vector_call_tokens(const struct call *call);
typedef const struct trace_tensor *vector_tensor(const struct call *call, int64_t i);
vector_tensor vector_call_at, vector_call_rows_at;

#endif
