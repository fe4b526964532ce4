/* SPDX-License-Identifier: Apache-2.0 */
/* reference_text.c - words, cells, links and paragraphs of the pages; see reference.h. */
#include "cli/reference/reference.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 120 };

static FILE *kept; /* what a paragraph, or the rows of a table, have so far; NULL: none has begun */
static char *kept_text;
static size_t kept_bytes;

_Noreturn void reference_give_up(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("make_reference: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

FILE *reference_out(void)
{
    return kept ? kept : stdout;
}

/* ---------------------------------------------------------------------------- the document -- */

const cJSON *reference_member(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!member)
        reference_give_up("the document has no '%s' where it is asked for", name);
    return member;
}

const char *reference_string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

const char *reference_name(const cJSON *object)
{
    const char *target = reference_string(object, "$ref");
    return *target ? strrchr(target, '/') + 1 : NULL;
}

const cJSON *reference_resolved(const cJSON *document, const cJSON *object)
{
    char kind[32];
    const char *name = reference_name(object);
    if (!name)
        return object;
    if (sscanf(reference_string(object, "$ref"), "#/components/%31[^/]/", kind) != 1)
        reference_give_up("'%s' is not in the components", reference_string(object, "$ref"));
    return reference_member(reference_member(reference_member(document, "components"), kind), name);
}

bool reference_is_operation(const cJSON *member)
{
    return cJSON_GetObjectItemCaseSensitive(member, "operationId") != NULL;
}

/* ----------------------------------------------------------------------------------- words -- */

void reference_print_method(const char *method, const char *path)
{
    for (const char *c = method; *c; c++)
        fputc(toupper((unsigned char)*c), reference_out());
    fprintf(reference_out(), " %s", path);
}

/* The anchor that GitHub gives the heading. */
void reference_print_call(const char *page, const char *method, const char *path)
{
    fputs("[`", reference_out());
    reference_print_method(method, path);
    fprintf(reference_out(), "`](%s#%s-", page, method);
    for (const char *c = path; *c; c++)
        if (isalnum((unsigned char)*c) || *c == '_' || *c == '-')
            fputc(tolower((unsigned char)*c), reference_out());
    fputc(')', reference_out());
}

void reference_print_cell(const char *text)
{
    for (const char *c = text; *c; c++) {
        const bool is_in_word =
            c > text && isalnum((unsigned char)c[-1]) && isalnum((unsigned char)c[1]);
        if (strchr("|*<\\`", *c) || (*c == '_' && !is_in_word))
            fputc('\\', reference_out());
        fputc(*c, reference_out());
    }
}

/* -------------------------------------------------------------------- paragraphs and tables -- */

static void keep(void)
{
    kept = open_memstream(&kept_text, &kept_bytes);
    if (!kept)
        reference_give_up("no memory");
}

static void end_keeping(void)
{
    if (fclose(kept) != 0)
        reference_give_up("no memory");
    kept = NULL;
}

void reference_paragraph_begin(void)
{
    keep();
}

/* Of UTF-8, the bytes that begin a character. */
static int columns_of(const char *word)
{
    int columns = 0;
    for (; *word; word++)
        columns += (*word & 0xc0) != 0x80;
    return columns;
}

void reference_paragraph_end(void)
{
    end_keeping();
    int column = 0;
    char *rest = NULL;
    for (char *word = strtok_r(kept_text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const int columns = columns_of(word);
        const bool fits = column + 1 + columns <= COLUMNS_MAX;
        printf("%s%s", column == 0 ? "" : fits ? " " : "\n", word);
        column = column == 0 || !fits ? columns : column + 1 + columns;
    }
    fputs("\n\n", stdout);
    free(kept_text);
}

void reference_rows_begin(void)
{
    keep();
}

void reference_rows_end(const char *head)
{
    end_keeping();
    if (*kept_text)
        printf("%s\n%s\n", head, kept_text);
    free(kept_text);
}
