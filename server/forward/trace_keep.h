/* trace_keep.h - the part of a trace's call that keeps the trace ("keep"): room is made and counted
 * before anything is computed, the pass fills it (pass_attend.c), and when all is computed the
 * trace gets its id. */
#ifndef ATTND_TRACE_KEEP_H
#define ATTND_TRACE_KEEP_H

#include "forward/kept_store.h"
#include "forward/trace.h"
#include "work.h"

/* Makes room for every item that is kept, for the key, and adds the work of their levels. */
bool trace_keep_plan(struct trace_request *request, struct kept_store *store,
                     const struct access_key *key, struct attn_work *work, struct fault *fault);

/* After the passes: tasks that make the levels of all items. */
int64_t trace_keep_tasks(const struct trace_request *request);
size_t trace_keep_workspace_bytes(const struct trace_request *request);
void trace_keep_run(const struct trace_request *request, int64_t task, void *workspace);

/* Publishes what is kept, and sets the items' ids. */
bool trace_keep_publish(struct trace_request *request, struct kept_store *store,
                        struct fault *fault);

/* Gives back what was not published and, where the request failed afterwards, ends what was: nobody
 * knows its id. May be called twice. */
void trace_keep_drop(struct trace_request *request, struct kept_store *store, bool has_failed);

#endif
