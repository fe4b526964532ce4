/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - tokens of stories260K, and what the daemon predicts behind them in a session. */
#ifndef TEXT_H
#define TEXT_H

#include "daemon.h"

enum { TOKENS_MAX = 257, TOP_MAX = 8 };
enum { BOS = 1, EOS = 2 }; /* <s>, </s>: a story ends before either */

extern const char MODEL[]; /* its name at the daemon */

/* The most probable tokens, the most probable first. */
struct prediction {
    int ids[TOP_MAX];
    double logprobs[TOP_MAX];
};

/* The tokens of a text, <s> first; their number. */
int text_tokens(struct daemon *daemon, const char *text, int tokens[TOKENS_MAX]);

/* Prints the tokens as text, or with ids as numbers, and a line's end. */
void text_print(struct daemon *daemon, const int *tokens, int count, int ids);

/* Puts tokens behind the `at` that a session has, in one request, and predicts `top` tokens behind
 * each of the last `wanted` of them. */
void text_go_on(struct daemon *daemon, const char *session, const int *tokens, int count, int at,
                int wanted, int top, struct prediction *predictions);

#endif
