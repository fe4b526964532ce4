/* SPDX-License-Identifier: Apache-2.0 */
/* speculative.c [--ids] [URL [BEGINNING]] - speculative decoding: several tokens a request, and the
 * same text as one by one. Compiled as story.c is, with
 * speculative.c in its place.
 *
 * A draft guesses the next tokens, here those that stood behind the last two when these two came
 * before: it costs nothing, and stories repeat themselves. One request verifies all guesses: its
 * predictions say what the model itself would have taken behind each. Guesses that agree are kept,
 * and the first that does not is replaced by the model's own token. POST truncate takes the keys
 * and values of the wrong ones out of the session again. */
#include "text.h"

#include <stdio.h>
#include <string.h>

enum { GUESSES = 6 };

struct story {
    int tokens[TOKENS_MAX + GUESSES]; /* with the guesses behind them */
    int count;
    int done; /* tokens that are in the session */
};

/* Writes guesses of what comes next behind the tokens; their number. */
static int guess(struct story *story)
{
    int *tokens = story->tokens, count = story->count, found = 0;
    for (int i = count - 3; i >= 0 && found == 0; i--)
        if (tokens[i] == tokens[count - 2] && tokens[i + 1] == tokens[count - 1])
            for (; found < GUESSES && i + 2 + found < count; found++)
                tokens[count + found] = tokens[i + 2 + found];
    return found;
}

/* Takes the guesses that the model agrees with, and one token of its own; predictions are behind
 * the last token and behind each guess. False: the story ends. */
static int verify(struct story *story, const struct prediction *predictions, int guess_count)
{
    for (int i = 0; i <= guess_count; i++) {
        const int own = predictions[i].ids[0];
        if (own == BOS || own == EOS)
            return 0;
        const int is_guessed = i < guess_count && story->tokens[story->count] == own;
        story->tokens[story->count++] = own;
        if (story->count == TOKENS_MAX)
            return 0;
        if (!is_guessed)
            break;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const int ids = argc > 1 && strcmp(argv[1], "--ids") == 0;
    const char *const *arguments = (const char *const *)argv + 1 + ids;
    char session[DAEMON_ID_BYTES];
    struct prediction predictions[GUESSES + 1];
    struct story story = { .done = 0 };
    struct daemon daemon;
    int requests = 0, goes_on = 1;

    daemon_open(&daemon, arguments[0] ? arguments[0] : "http://127.0.0.1:8080");
    daemon_make_session(&daemon, MODEL, session);
    story.count =
        text_tokens(&daemon, arguments[0] && arguments[1] ? arguments[1] : "", story.tokens);
    const int beginning = story.count;
    while (goes_on && story.count < TOKENS_MAX) {
        const int guesses = guess(&story);
        const int end = story.count + guesses;
        text_go_on(&daemon, session, story.tokens + story.done, end - story.done, story.done,
                   guesses + 1, 1, predictions);
        goes_on = verify(&story, predictions, guesses);
        /* The last token is the model's own, and not in the session yet. */
        story.done = story.count - 1;
        if (goes_on && story.done < end)
            daemon_truncate(&daemon, session, story.done);
        requests++;
    }
    text_print(&daemon, story.tokens, story.count, ids);
    fprintf(stderr, "%d tokens in %d requests\n", story.count - beginning, requests);
    daemon_delete(&daemon, session);
    daemon_close(&daemon);
    return 0;
}
