/* name_list.h - names in a message, as many as have room: "a, b and 7 more". */
#ifndef ATTND_NAME_LIST_H
#define ATTND_NAME_LIST_H

#include <stddef.h>
#include <stdint.h>

struct name_list {
    char *text; /* the caller's, of so many bytes; a string at any time */
    size_t bytes, used;
    int64_t left; /* out */
};

/* Of 40 bytes or more, of which the last of the list may take 32. */
struct name_list name_list_in(char *text, size_t bytes);

/* Once one had no room, all that follow are counted only. */
void name_list_add(struct name_list *list, const char *name);

/* Says how many were left out. */
void name_list_end(struct name_list *list);

#endif
