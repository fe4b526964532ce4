/* session_text.c - see session_text.h. */
#include "wire/session_text.h"

#include "base/clock.h"
#include "session/session_file_words.h"
#include "wire/v1_time.h"

static void write_layers(const struct session *session, struct text *text)
{
    text_raw(text, ",\"layers\":[");
    for (int64_t i = 0; i < session->layer_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_integer(text, session->layers[i].number);
    }
    text_raw(text, "],\"layer_kv_len\":[");
    for (int64_t i = 0; i < session->layer_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_integer(text, atomic_load(&session->layers[i].kv_len));
    }
    text_raw(text, "]");
}

static void write_bounds(const struct session *session, struct text *text)
{
    if (session->kv_len_max < INT64_MAX) {
        text_raw(text, ",\"kv_len_max\":");
        text_integer(text, session->kv_len_max);
    }
    if (session->window > 0) {
        text_raw(text, ",\"window\":");
        text_integer(text, session->window);
        text_raw(text, ",\"first_keys\":");
        text_integer(text, session->first_keys);
    }
    text_raw(text, ",\"bytes\":");
    text_integer(text, (int64_t)session_bytes(session));
    text_raw(text, ",\"bytes_reserved\":");
    text_integer(text, (int64_t)session_bytes_held(session));
    text_raw(text, session->is_evictable ? ",\"evictable\":true" : ",\"evictable\":false");
}

void session_text_write(const struct session *session, struct text *text)
{
    const int64_t expires_ns = atomic_load(&session->used_ns) + session->ttl_ns;
    text_raw(text, "{\"session\":");
    text_string(text, session->id);
    text_raw(text, ",\"model\":");
    text_string(text, session->model->name);
    if (session->account) {
        text_raw(text, ",\"owner\":");
        text_string(text, session->account->name);
    }
    text_raw(text, ",\"dtype\":");
    text_string(text, session_file_dtype_of(session->dtype)->name);
    text_raw(text, ",\"kv_len\":");
    text_integer(text, session_kv_len(session));
    write_layers(session, text);
    write_bounds(session, text);
    text_raw(text, ",\"age_ms\":");
    text_integer(text, (clock_now_ns() - session->created_ns) / 1000000);
    text_raw(text, ",\"ttl_ms\":");
    text_integer(text, session->ttl_ns / 1000000);
    v1_time_write_end(expires_ns, text);
    text_raw(text, "}");
}

void session_text_write_length(const struct session *session, struct text *text)
{
    text_raw(text, "\"session\":");
    text_string(text, session->id);
    text_raw(text, ",\"kv_len\":");
    text_integer(text, session_kv_len_then(session));
}
