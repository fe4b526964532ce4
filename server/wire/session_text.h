/* session_text.h - what a session is, as JSON. */
#ifndef ATTND_SESSION_TEXT_H
#define ATTND_SESSION_TEXT_H

#include "session/session.h"
#include "text/text.h"

void session_text_write(const struct session *session, struct text *text);

/* The id and the length of its shortest layer after the call whose turn it is, without braces. */
void session_text_write_length(const struct session *session, struct text *text);

#endif
