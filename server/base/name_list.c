/* name_list.c - see name_list.h. */
#include "base/name_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REST_BYTES = 32 }; /* ", ", the longest end and the NUL byte */

struct name_list name_list_in(char *text, size_t bytes)
{
    text[0] = '\0';
    return (struct name_list){ .text = text, .bytes = bytes };
}

void name_list_add(struct name_list *list, const char *name)
{
    if (list->left > 0 || list->used + strlen(name) + REST_BYTES > list->bytes)
        list->left++;
    else
        list->used += (size_t)snprintf(list->text + list->used, list->bytes - list->used, "%s%s",
                                       list->used > 0 ? ", " : "", name);
}

void name_list_end(struct name_list *list)
{
    if (list->left > 0)
        snprintf(list->text + list->used, list->bytes - list->used, "%s%" PRId64 " more",
                 list->used > 0 ? " and " : "", list->left);
}
