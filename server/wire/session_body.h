/* session_body.h - the bodies that make, fork and truncate a session. */
#ifndef ATTND_SESSION_BODY_H
#define ATTND_SESSION_BODY_H

#include "base/arena.h"
#include "session/session.h"
#include "text/json.h"

/* As asked; strings and lists lie in the document and in the arena. */
struct session_body {
    const char *model_name; /* NULL: the only one that is not built in */
    int64_t *layers;        /* [layer_count], ascending; NULL: all */
    int64_t layer_count;
    enum attn_dtype dtype;
    int64_t kv_len_max; /* INT64_MAX: absent */
    int64_t window;     /* 0: absent */
    int64_t first_keys;
    int64_t ttl_ns; /* 0: absent */
    bool has_evictable, is_evictable;
    const char *id; /* NULL: the daemon's choice */
    int64_t kv_len; /* to truncate to; -1: absent */
};

/* Each reads a document whose root may be NULL where all fields are optional. */
bool session_body_read_create(struct session_body *body, const struct json_document *document,
                              struct arena *arena, struct fault *fault);
bool session_body_read_change(struct session_body *body, const struct json_document *document,
                              struct arena *arena, struct fault *fault);
bool session_body_read_fork(struct session_body *body, const struct json_document *document,
                            struct arena *arena, struct fault *fault);
bool session_body_read_truncate(struct session_body *body, const struct json_document *document,
                                struct arena *arena, struct fault *fault);

#endif
