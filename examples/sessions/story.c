/* SPDX-License-Identifier: Apache-2.0 */
/* story.c [--ids] [URL [BEGINNING]] - the story teller over a session: the past stays in the
 * daemon, and each token takes one request of one token, however long the story is.
 *
 *     make run     # in one terminal
 *     cc -O2 examples/sessions/story.c examples/sessions/text.c examples/sessions/daemon.c \
 *         $(pkg-config --cflags --libs libcurl libcjson) -o build/story
 *     build/story  # in another
 *
 * examples/story-teller.c sends all tokens again for each new one, and the daemon computes all of
 * them. POST /v1/sessions/{session}/trace computes the new one alone. Both always take the most
 * probable token, so they tell the same story. */
#include "text.h"

#include <string.h>

int main(int argc, char **argv)
{
    const int ids = argc > 1 && strcmp(argv[1], "--ids") == 0;
    const char *const *arguments = (const char *const *)argv + 1 + ids;
    char session[DAEMON_ID_BYTES];
    int tokens[TOKENS_MAX], done = 0;
    struct prediction next;
    struct daemon daemon;

    daemon_open(&daemon, arguments[0] ? arguments[0] : "http://127.0.0.1:8080");
    daemon_make_session(&daemon, MODEL, session);
    int count = text_tokens(&daemon, arguments[0] && arguments[1] ? arguments[1] : "", tokens);
    while (count < TOKENS_MAX) {
        /* At first all of the beginning, then one token. */
        text_go_on(&daemon, session, tokens + done, count - done, done, 1, 1, &next);
        if (next.ids[0] == BOS || next.ids[0] == EOS)
            break;
        done = count;
        tokens[count++] = next.ids[0];
    }
    text_print(&daemon, tokens, count, ids);
    daemon_delete(&daemon, session);
    daemon_close(&daemon);
    return 0;
}
