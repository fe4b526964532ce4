/* SPDX-License-Identifier: Apache-2.0 */
/* beams.c [--ids] [URL [BEGINNING]] - beam search: the most probable of many ways to go on, each a
 * session. Compiled as story.c is, with beams.c in its place.
 *
 * Each step goes on with BEAMS texts, and keeps the best BEAMS of all their continuations. Where
 * two of them begin alike, the second is a fork of the first's session: it shares all that is
 * there, and what both append is their own. Prints the log of the probability of each text, given
 * its beginning, and the text. */
#include "text.h"

#include <stdio.h>
#include <string.h>

enum { BEAMS = 4, STEPS = 24, TOP = BEAMS + 2 }; /* BOS and EOS may be among them */

struct beam {
    char session[DAEMON_ID_BYTES];
    int tokens[TOKENS_MAX];
    int count;
    double logprob;
};

/* One token behind one of the beams. */
struct choice {
    int beam, token;
    double logprob; /* of the whole */
};

/* Puts a choice where it belongs among the best, the most probable first; their new number. */
static int insert(struct choice best[BEAMS], int count, struct choice choice)
{
    int at = count;
    while (at > 0 && best[at - 1].logprob < choice.logprob)
        at--;
    if (at == BEAMS)
        return count;
    const int kept = count < BEAMS ? count : BEAMS - 1;
    memmove(best + at + 1, best + at, (size_t)(kept - at) * sizeof *best);
    best[at] = choice;
    return kept + 1;
}

/* The best continuations of all beams, whose first `done` tokens are in their sessions. */
static int choose(struct daemon *daemon, const struct beam *beams, int beam_count, int done,
                  struct choice best[BEAMS])
{
    struct prediction next;
    int count = 0;
    for (int b = 0; b < beam_count; b++) {
        const struct beam *beam = &beams[b];
        text_go_on(daemon, beam->session, beam->tokens + done, beam->count - done, done, 1, TOP,
                   &next);
        for (int i = 0; i < TOP; i++)
            if (next.ids[i] != BOS && next.ids[i] != EOS)
                count = insert(best, count,
                               (struct choice){ b, next.ids[i], beam->logprob + next.logprobs[i] });
    }
    return count;
}

/* The first child of a beam goes on in its session, others fork it; one without children ends. */
static void follow(struct daemon *daemon, struct beam beams[BEAMS], int beam_count,
                   const struct choice *best, int count)
{
    static struct beam next[BEAMS];
    int children[BEAMS] = { 0 };
    for (int i = 0; i < count; i++) {
        const struct beam *parent = &beams[best[i].beam];
        next[i] = *parent;
        if (children[best[i].beam]++ > 0)
            daemon_fork(daemon, parent->session, next[i].session);
        next[i].tokens[next[i].count++] = best[i].token;
        next[i].logprob = best[i].logprob;
    }
    for (int b = 0; b < beam_count; b++)
        if (children[b] == 0)
            daemon_delete(daemon, beams[b].session);
    memcpy(beams, next, sizeof next);
}

int main(int argc, char **argv)
{
    const int ids = argc > 1 && strcmp(argv[1], "--ids") == 0;
    const char *const *arguments = (const char *const *)argv + 1 + ids;
    static struct beam beams[BEAMS];
    struct choice best[BEAMS];
    struct daemon daemon;
    int beam_count = 1, done = 0;

    daemon_open(&daemon, arguments[0] ? arguments[0] : "http://127.0.0.1:8080");
    daemon_make_session(&daemon, MODEL, beams[0].session);
    beams[0].count = text_tokens(&daemon, arguments[0] && arguments[1] ? arguments[1] : "Tom had",
                                 beams[0].tokens);
    for (int step = 0; step < STEPS && beams[0].count < TOKENS_MAX; step++) {
        const int count = choose(&daemon, beams, beam_count, done, best);
        done = beams[0].count;
        follow(&daemon, beams, beam_count, best, count);
        beam_count = count;
    }
    for (int b = 0; b < beam_count; b++) {
        printf("%.4f ", beams[b].logprob);
        text_print(&daemon, beams[b].tokens, beams[b].count, ids);
        daemon_delete(&daemon, beams[b].session);
    }
    daemon_close(&daemon);
    return 0;
}
