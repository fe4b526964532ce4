/* SPDX-License-Identifier: Apache-2.0 */
/* traces_internal.h - what the handlers of kept traces share. */
#ifndef ATTND_TRACES_INTERNAL_H
#define ATTND_TRACES_INTERNAL_H

#include "call/call.h"
#include "operations/trace/kept_store.h"

/* The trace of the path, held, for the key of the request. NULL, with the fault. */
struct kept_trace *traces_find(const struct exchange *exchange, struct fault *fault);

/* The layer of attention that the query names by its number, and its head. */
bool traces_read_layer(const struct exchange *exchange, const struct kept_trace *kept,
                       const struct kept_layer **layer, struct fault *fault);
bool traces_read_head(const struct exchange *exchange, const struct kept_layer *layer,
                      int64_t *head, struct fault *fault);

/* Two whole numbers with a character between them, as "0:1024" or "256x256". */
bool traces_read_two(const char *value, char between, int64_t two[2]);

/* The parameter FIRST:END of this name, a part of count rows or keys; absent: all. */
bool traces_read_range(const struct exchange *exchange, const char *name, int64_t count,
                       int64_t range[2], struct fault *fault);

/* A call on a kept trace: a job of one stage or a few. */
struct traces_call {
    struct call call;        /* first */
    struct kept_trace *kept; /* held */
    struct arena arena;
    char *workspaces; /* for each slot of the job, where the workers' own are too small */
    size_t workspace_bytes;
};

/* Opens the call in begin: finds the trace, once the query has only these parameters. */
bool traces_begin(struct traces_call *traces, const struct exchange *exchange,
                  const char *const *names, int name_count, struct fault *fault);

/* Makes room for workspaces of so many bytes. */
bool traces_take_workspaces(struct traces_call *traces, size_t bytes, struct fault *fault);
void *traces_workspace(const struct traces_call *traces, const struct worker *worker);

/* What the call costs: pairs of rows of so many columns, and an answer of so many bytes. */
void traces_price(struct traces_call *traces, double pairs, int64_t head_dim, size_t answer_bytes);

void traces_record(struct call *call, struct request_record *record);
void traces_drop(struct call *call);

#endif
