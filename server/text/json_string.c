/* json_string.c - see json_string.h. */
#include "text/json_string.h"

#include <string.h>

bool json_string_read(const char *string, struct arena *arena, struct byte_slice *bytes)
{
    const char *nul = strstr(string, JSON_STRING_NUL);
    *bytes = (struct byte_slice){ string, strlen(string) };
    if (!nul)
        return true;
    char *copy = arena_alloc(arena, bytes->size);
    if (!copy)
        return false;
    char *end = copy;
    for (; nul; nul = strstr(string, JSON_STRING_NUL)) {
        const size_t size = (size_t)(nul - string);
        memcpy(end, string, size);
        end += size;
        *end++ = '\0';
        string = nul + sizeof JSON_STRING_NUL - 1;
    }
    const size_t rest = strlen(string);
    memcpy(end, string, rest);
    *bytes = (struct byte_slice){ copy, (size_t)(end - copy) + rest };
    return true;
}
