/* session_text.h - what a session is, as JSON. */
#ifndef ATTND_SESSION_TEXT_H
#define ATTND_SESSION_TEXT_H

#include "session/session.h"
#include "text/text.h"

void session_text_write(const struct session *session, struct text *text);

#endif
