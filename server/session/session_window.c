/* session_window.c - see session_window.h. */
#include "session/session_window.h"

#include <inttypes.h>
#include <string.h>

int64_t session_window_page_rows(const struct session *session)
{
    enum { PAGES = 4 }; /* of a window */
    if (session->window == 0)
        return 0;
    const int64_t part = session->window / PAGES;
    return part < SESSION_PAGE_ROWS       ? SESSION_PAGE_ROWS
           : part > SESSION_PAGE_ROWS_MAX ? SESSION_PAGE_ROWS_MAX
                                          : part / SESSION_PAGE_ROWS * SESSION_PAGE_ROWS;
}

/* The first key of the window of the row at this position. */
static int64_t window_begin(const struct session *session, int64_t position)
{
    return position < session->window ? 0 : position - session->window + 1;
}

bool session_window_check_cut(const struct session *session, const struct session_layer *layer,
                              int64_t length, const char *pointer, struct fault *fault)
{
    return length <= session->first_keys
           || session_window_check(session, layer, &layer->rows, length, pointer, fault);
}

bool session_window_check(const struct session *session, const struct session_layer *layer,
                          const struct session_rows *rows, int64_t past, const char *pointer,
                          struct fault *fault)
{
    const int64_t dropped = rows->dropped;
    if (session->window == 0 || dropped == 0 || window_begin(session, past) >= dropped)
        return true;
    return fault_set_at(
        fault, pointer, FAULT_CONFLICT,
        "rows from %" PRId64 " on see keys from %" PRId64 " on; those before %" PRId64
        " of layer %" PRId64 " of session '%s' have left its window of %" PRId64 " and are gone",
        past, window_begin(session, past), dropped, layer->number, session->id, session->window);
}

bool session_window_check_there(const struct session *session, const struct session_layer *layer,
                                int64_t first, int64_t count, const char *pointer,
                                struct fault *fault)
{
    const struct session_rows *rows = &layer->rows;
    if (first >= rows->dropped || count <= rows->dropped_from - first)
        return true;
    return fault_set_at(fault, pointer, FAULT_CONFLICT,
                        "at is %" PRId64 ", with %" PRId64 " keys; those from %" PRId64
                        " to %" PRId64 " of layer %" PRId64
                        " of session '%s' have left its window of %" PRId64 " and are gone",
                        first, count, rows->dropped_from, rows->dropped - 1, layer->number,
                        session->id, session->window);
}

void session_window_move(const struct session *session, struct session_rows *rows)
{
    if (session->window > 0)
        session_rows_drop(rows, session->first_keys, window_begin(session, rows->length));
}
