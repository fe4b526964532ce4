/* SPDX-License-Identifier: Apache-2.0 */
/* framing_message.h - the messages of tests/http/framing_messages.txt and probe_messages.txt. */
#ifndef FRAMING_MESSAGE_H
#define FRAMING_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

struct framing_message {
    char *name;
    char section[16], made_of_it[48]; /* the words behind the name */
    char *bytes;                      /* as they go over the wire */
    size_t size;

    /* What framing_messages.txt says is made of it. */
    int taken;    /* requests that are answered; 0: refused, -1: not told */
    long refused; /* with this status; 0: with any, or without a word */
};

struct framing_messages {
    struct framing_message *items;
    int count;
};

/* Reads a file of lines of that form. Fails the test if one is not. */
void framing_messages_read_file(struct framing_messages *messages, const char *file);

/* Reads framing_messages.txt. */
void framing_messages_read(struct framing_messages *messages);
void framing_messages_free(struct framing_messages *messages);

/* How often a log contains one of the two targets of a message, "t" or "hidden". */
int framing_message_count(const struct framing_message *message, const char *target,
                          const char *log);

#endif
