/* SPDX-License-Identifier: Apache-2.0 */
/* operations.h - the operations that a path asks for, a row each: method, path, scope, operation.
 *
 * api/routes.c makes a route of each row, and its handler. call/operation.h says what an operation
 * consists of. Of the Open Inference Protocol the names of inputs choose the operation: oip.h. */
#ifndef ATTND_OPERATIONS_H
#define ATTND_OPERATIONS_H

#include "call/operation.h"

#define OPERATION_MAP(X)                                                                           \
    X("POST", "/v1/attention", INFER, attention_single)                                            \
    X("POST", "/v1/attention/batch", INFER, attention_batch)                                       \
    X("POST", "/v1/attention/merge", INFER, attention_merge)                                       \
    X("POST", "/v1/attention/gradients", INFER, attention_gradients)                               \
    X("POST", "/v1/softmax", INFER, softmax_call)                                                  \
    X("POST", "/v1/tokenize", INFER, tokenize_call)                                                \
    X("POST", "/v1/detokenize", INFER, detokenize_call)                                            \
    X("POST", "/v1/completions", INFER, completions_call)                                          \
    X("POST", "/v1/embeddings", INFER, embeddings_call)                                            \
    X("POST", "/predict", INFER, predict_call)                                                     \
    X("POST", "/rerank", INFER, rerank_call)                                                       \
    X("POST", "/embed", INFER, embed_call)                                                         \
    X("POST", "/embed_all", INFER, embed_all_call)                                                 \
    X("POST", "/similarity", INFER, similarity_call)                                               \
    X("POST", "/v1/effects", INFER, effects_call)                                                  \
    X("POST", "/v1/trace", INFER, trace_single)                                                    \
    X("POST", "/v1/trace/batch", INFER, trace_batch)                                               \
    X("POST", "/v1/sessions/attention", SESSIONS, session_attention_of_items)                      \
    X("POST", "/v1/sessions/{session}/attention", SESSIONS, session_attention_of_path)             \
    X("POST", "/v1/sessions/{session}/trace", SESSIONS, trace_of_session)

#define X(method, path, scope, name) extern const struct operation name;
OPERATION_MAP(X)
#undef X

#endif
