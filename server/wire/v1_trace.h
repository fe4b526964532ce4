/* v1_trace.h - a trace in the native API: its fields, and its answer as JSON (API_TRACE.md). */
#ifndef ATTND_V1_TRACE_H
#define ATTND_V1_TRACE_H

#include "forward/trace.h"
#include "text/json.h"
#include "text/text.h"

/* Fills request->items from a document, which must stay until the request has been computed and
 * whose strings have U+0000 kept (json_string.h). batch: the document is {"requests": [...]} with
 * fields that all requests share, and an item that cannot be read carries its own fault. False only
 * for a fault of the whole document. */
bool v1_trace_read(struct trace_request *request, bool batch, const struct json_document *document,
                   struct fault *fault);

/* Writes the answer of a request that has been computed. */
void v1_trace_write(const struct trace_request *request, struct text *text);

/* Parts of it. */

/* The members of the answer of one item, without braces. */
void v1_trace_write_members(const struct trace_item *item, struct text *text);

/* The name of a stream's list of tokens in the answer; NULL: the answer has none. */
const char *v1_trace_tokens_name(const struct trace_item *item, int stream);
void v1_trace_write_tokens(const struct trace_item *item, const struct token_list *list,
                           struct text *text);

/* The spans that sums are answered of, in tokens, in place of the tokens: [[0,120],[120,480]]. */
void v1_trace_write_spans(const struct trace_item *item, struct text *text);

/* The name of the rows that leave a stream: of an encoder-decoder the answer has those of both, of
 * streams that stand apart those of each that runs. */
const char *v1_trace_final_name(const struct trace_item *item, int stream);

#endif
