/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h - a session is made, changed, forked, cut and ended (API_SESSIONS.md), and how it is
 * shown. */
#ifndef ATTND_OPERATION_SESSIONS_H
#define ATTND_OPERATION_SESSIONS_H

#include "fields/field.h"
#include "formats/writer.h"
#include "http/http.h"
#include "operations/session/session.h"

/* What a body asks for. Strings lie in its document, and lists in the arena. */
struct session_settings {
    const char *model_name; /* NULL: the only one that is not built in */
    int64_t *layers;        /* [layer_count], ascending; NULL: all */
    int64_t layer_count;
    enum attn_dtype dtype;
    int64_t kv_len_max; /* INT64_MAX: absent */
    int64_t window;     /* 0: absent */
    int64_t first_keys;
    int64_t ttl_ns; /* 0: absent */
    bool has_evictable, is_evictable;
    const char *id;      /* NULL: the daemon's choice */
    bool spread;         /* over the peers */
    int64_t spread_rows; /* of a range at least; 0: absent */
    int64_t kv_len;      /* to truncate to; -1: absent */
};

/* Into a struct session_settings: of each body. */
extern const struct field_table session_create_fields, session_change_fields, session_fork_fields,
    session_truncate_fields;

/* Reads a message by one of these tables, with the defaults of what is absent. */
bool session_settings_read(struct session_settings *settings, const struct field_table *table,
                           const struct message *message, struct arena *arena, struct fault *fault);

/* Says what a session is, as members of the object that is open. */
void session_say(struct writer *writer, const struct session *session);

void sessions_create(struct exchange *exchange);
void sessions_change(struct exchange *exchange);
void sessions_fork(struct exchange *exchange);
void sessions_truncate(struct exchange *exchange);
void sessions_delete(struct exchange *exchange);

#endif
