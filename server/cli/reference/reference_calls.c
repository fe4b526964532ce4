/* SPDX-License-Identifier: Apache-2.0 */
/* reference_calls.c - the page of operations: each with its scope, its section of the contract,
 * parameters, body and answers. */
#include "cli/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char detail_head[] = "| | type | |\n|---|---|---|";

/* ---------------------------------------------------------------------- the section of each -- */

/* Whether the first cell of a line has the path, or the beginning of it: `/v2/health/...`. */
static bool has_path(const char *cell, const char *end, const char *path)
{
    while ((cell = memchr(cell, '`', (size_t)(end - cell)))) {
        const char *close = memchr(cell + 1, '`', (size_t)(end - cell - 1));
        if (!close)
            return false;
        cell++;
        size_t length = (size_t)(close - cell);
        const bool is_beginning = length > 3 && memcmp(close - 3, "...", 3) == 0;
        length -= is_beginning ? 3 : 0;
        if (strncmp(cell, path, length) == 0 && (is_beginning || path[length] == '\0'))
            return true;
        cell = close + 1;
    }
    return false;
}

/* Prints where the links of a cell lead: sections of pages that lie in server/. */
static void print_targets(const char *cell, const char *end)
{
    const char *before = "";
    while ((cell = memmem(cell, (size_t)(end - cell), "](", 2))) {
        const int length = (int)strcspn(cell + 2, ")");
        fprintf(reference_out(), "%s`server/%.*s`", before, length, cell + 2);
        before = ", ";
        cell += 2 + length;
    }
}

/* Prints which sections explain the path: the targets in the last cell of its line. */
static void print_section(const char *table, const char *path)
{
    for (const char *line = table; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = line + strcspn(line, "\n");
        const char *cell_end =
            *line == '|' ? memchr(line + 1, '|', (size_t)(end - line - 1)) : NULL;
        if (!cell_end || strncmp(line, "| `/", 4) != 0 || !has_path(line, cell_end, path))
            continue;
        end -= 2; /* the space and the bar at its end */
        const char *cell = end;
        while (cell[-1] != '|')
            cell--;
        print_targets(cell, end);
        return;
    }
    reference_give_up("API.md has no endpoint %s", path);
}

/* -------------------------------------------------------------------------------- one of all -- */

static void print_scope(const cJSON *operation)
{
    const cJSON *ways = reference_member(operation, "security");
    if (!ways->child) {
        fputs("none", reference_out());
        return;
    }
    const cJSON *scopes = reference_member(ways->child, "bearer");
    if (!scopes->child)
        fputs("any key", reference_out());
    else
        fprintf(reference_out(), "`%s`", scopes->child->valuestring);
}

static bool is_header(const cJSON *parameter)
{
    return strcmp(reference_string(parameter, "in"), "header") == 0;
}

/* Parameters of the path and of its query. Headers are one line, since most calls have the same. */
static void print_parameters(const cJSON *document, const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const cJSON *parameter = reference_resolved(document, item);
        if (is_header(parameter))
            continue;
        fprintf(reference_out(), "| `%s`, %s | ", reference_string(parameter, "name"),
                strcmp(reference_string(parameter, "in"), "path") == 0 ? "in the path"
                                                                       : "in the query");
        reference_print_type(reference_member(parameter, "schema"), REFERENCE_TYPES_PAGE);
        fputs(" | ", reference_out());
        reference_print_cell(reference_string(parameter, "description"));
        fputs(" |\n", reference_out());
    }
}

static void print_headers(const cJSON *document, const cJSON *list, bool *is_first)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const cJSON *parameter = reference_resolved(document, item);
        if (!is_header(parameter))
            continue;
        fprintf(reference_out(), "%s`%s`", *is_first ? "| [headers](#headers): " : ", ",
                reference_string(parameter, "name"));
        *is_first = false;
    }
}

/* A line for each type of content; what is said of the whole stands in those that say nothing. */
static void print_content(const cJSON *owner, const char *what)
{
    const cJSON *media, *content = cJSON_GetObjectItemCaseSensitive(owner, "content");
    if (!content || !content->child) {
        fprintf(reference_out(), "| %s | | ", what);
        reference_print_cell(reference_string(owner, "description"));
        fputs(" |\n", reference_out());
    }
    cJSON_ArrayForEach(media, content) {
        const cJSON *schema = reference_member(media, "schema");
        const char *own = reference_string(schema, "description");
        fprintf(reference_out(), "| %s, `%s` | ", what, media->string);
        reference_print_type(schema, REFERENCE_TYPES_PAGE);
        fputs(" | ", reference_out());
        reference_print_cell(*own ? own : reference_string(owner, "description"));
        fputs(" |\n", reference_out());
    }
}

static void print_answers(const cJSON *responses)
{
    const cJSON *response;
    bool is_first = true;
    cJSON_ArrayForEach(response, responses) {
        if (!reference_name(response))
            print_content(response, response->string);
    }
    cJSON_ArrayForEach(response, responses) {
        if (!reference_name(response))
            continue;
        fprintf(reference_out(), "%s%s", is_first ? "| " : " ", response->string);
        is_first = false;
    }
    if (!is_first)
        fputs(" | [Fault](" REFERENCE_TYPES_PAGE "#fault) | [what each means](#faults) |\n",
              reference_out());
}

static void print_operation(const cJSON *document, const cJSON *path, const cJSON *operation,
                            const char *table)
{
    const cJSON *shared = cJSON_GetObjectItemCaseSensitive(path, "parameters");
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(operation, "parameters");
    const cJSON *body = cJSON_GetObjectItemCaseSensitive(operation, "requestBody");
    const char *description = reference_string(operation, "description");
    bool is_first = true;
    fputs("### ", stdout);
    reference_print_method(operation->string, path->string);
    fputs("\n\n", stdout);
    reference_paragraph_begin();
    const char *summary = reference_string(operation, "summary");
    fprintf(reference_out(), "%s%s Explained in ", summary, strchr(summary, '?') ? "" : ".");
    print_section(table, path->string);
    fputs(". Scope: ", reference_out());
    print_scope(operation);
    fputs(*description ? ". " : ".", reference_out());
    reference_print_cell(description);
    reference_paragraph_end();
    reference_rows_begin();
    print_parameters(document, shared);
    print_parameters(document, own);
    print_headers(document, shared, &is_first);
    print_headers(document, own, &is_first);
    if (!is_first)
        fputs(" | | |\n", reference_out());
    if (body)
        print_content(body, cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(body, "required"))
                                ? "body"
                                : "body, if any");
    print_answers(reference_member(operation, "responses"));
    reference_rows_end(detail_head);
}

/* ------------------------------------------------------------------------------- what is shared --
 */

static void print_shared_headers(const cJSON *components)
{
    const cJSON *item;
    puts("## Headers\n\n| header of a request | type | |\n|---|---|---|");
    cJSON_ArrayForEach(item, reference_member(components, "parameters")) {
        if (!is_header(item))
            continue;
        printf("| `%s` | ", reference_string(item, "name"));
        reference_print_type(reference_member(item, "schema"), REFERENCE_TYPES_PAGE);
        fputs(" | ", stdout);
        reference_print_cell(reference_string(item, "description"));
        puts(" |");
    }
    puts("\nA request may also bring `Authorization: Bearer KEY` or `X-Api-Key: KEY`: "
         "`server/API.md#keys`.\n");
    reference_paragraph_begin();
    fputs("Answers have `X-Request-Id`, `Attnd-Replica` and, of a call that computes, "
          "`Server-Timing`; those that say when to come again have `Retry-After`: "
          "`server/API.md#headers`.",
          reference_out());
    reference_paragraph_end();
}

/* Whether an operation has the answer of the components under this status. */
static bool has_answer(const cJSON *document, const char *status, const char *name)
{
    const cJSON *path, *operation;
    cJSON_ArrayForEach(path, reference_member(document, "paths")) {
        cJSON_ArrayForEach(operation, path) {
            const cJSON *responses = cJSON_GetObjectItemCaseSensitive(operation, "responses");
            const cJSON *response = cJSON_GetObjectItemCaseSensitive(responses, status);
            const char *used = reference_name(response);
            if (used && strcmp(used, name) == 0)
                return true;
        }
    }
    return false;
}

static void print_faults(const cJSON *document)
{
    const cJSON *item;
    puts("## Faults\n\nThe codes within each status are in `server/API.md#faults`.\n\n"
         "| status | |\n|---|---|");
    for (int status = 400; status < 600; status++) {
        char text[8];
        snprintf(text, sizeof text, "%d", status);
        cJSON_ArrayForEach(
            item, reference_member(reference_member(document, "components"), "responses")) {
            if (!has_answer(document, text, item->string))
                continue;
            printf("| %s | ", text);
            reference_print_cell(reference_string(item, "description"));
            puts(" |");
        }
    }
}

/* --------------------------------------------------------------------------------- the page -- */

/* Calls visit for each operation with the tag. */
static void each_of(const cJSON *document, const char *tag, const char *table,
                    void (*visit)(const cJSON *document, const cJSON *path, const cJSON *operation,
                                  const char *table))
{
    const cJSON *path, *operation;
    cJSON_ArrayForEach(path, reference_member(document, "paths")) {
        cJSON_ArrayForEach(operation, path) {
            if (reference_is_operation(operation)
                && strcmp(reference_member(operation, "tags")->child->valuestring, tag) == 0)
                visit(document, path, operation, table);
        }
    }
}

static void print_line(const cJSON *document, const cJSON *path, const cJSON *operation,
                       const char *table)
{
    (void)document;
    (void)table;
    fputs("| ", stdout);
    reference_print_call("", operation->string, path->string);
    fputs(" | ", stdout);
    print_scope(operation);
    fputs(" | ", stdout);
    reference_print_cell(reference_string(operation, "summary"));
    puts(" |");
}

void reference_calls(const cJSON *document, const char *table)
{
    const cJSON *tag;
    puts("# Reference: every operation\n");
    reference_paragraph_begin();
    fputs("Made from [openapi.json](/openapi.json). The pages `API*.md` in the sources, in "
          "`server/`, explain all of it, [" REFERENCE_TYPES_PAGE "](" REFERENCE_TYPES_PAGE
          ") says what bodies hold, [" REFERENCE_FLAGS_PAGE "](" REFERENCE_FLAGS_PAGE
          ") has the flags and variables. `HEAD` is taken where `GET` is. The scope is what a key "
          "needs, where the daemon has "
          "keys.",
          reference_out());
    reference_paragraph_end();
    cJSON_ArrayForEach(tag, reference_member(document, "tags")) {
        const char *name = reference_string(tag, "name");
        printf("## %s\n\n%s\n\n| operation | scope | |\n|---|---|---|\n", name,
               reference_string(tag, "description"));
        each_of(document, name, table, print_line);
        puts("");
        each_of(document, name, table, print_operation);
    }
    print_shared_headers(reference_member(document, "components"));
    print_faults(document);
}
