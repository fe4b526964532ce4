/* SPDX-License-Identifier: Apache-2.0 */
/* make_reference.c - a program of the build: writes one page of the reference to standard output.
 *
 *     make_reference calls|types|flags
 *
 * It reads server/openapi.json and server/API.md, so it runs at the root of the repository. */
#include "cli/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of a file, which lasts as long as the program. */
static char *text_of(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "r");
    if (!file || getdelim(&text, &size, '\0', file) < 0)
        reference_give_up("%s cannot be read", path);
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    const char *page = argc == 2 ? argv[1] : "";
    char *text = text_of("server/openapi.json"), *table = text_of("server/API.md");
    cJSON *document = cJSON_Parse(text);
    if (!document)
        reference_give_up("server/openapi.json is no JSON");
    if (strcmp(page, "calls") == 0)
        reference_calls(document, table);
    else if (strcmp(page, "types") == 0)
        reference_types(document);
    else if (strcmp(page, "flags") == 0)
        reference_flags();
    else
        reference_give_up("expected calls, types or flags");
    cJSON_Delete(document);
    free(text);
    free(table);
    return fflush(stdout) == 0 ? 0 : 1;
}
