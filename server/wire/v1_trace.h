/* v1_trace.h - the answer of a trace as JSON (API_TRACE.md). */
#ifndef ATTND_V1_TRACE_H
#define ATTND_V1_TRACE_H

#include "forward/trace.h"
#include "text/text.h"

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
