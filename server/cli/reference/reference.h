/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - the pages that a daemon serves at /docs, made of openapi.json and of the table of
 * flags.
 *
 * This room is a program of the build, no part of the daemon. All its functions write Markdown to
 * standard output. What they cannot make a page of ends the program with 1 and a line that says
 * why. */
#ifndef ATTND_REFERENCE_H
#define ATTND_REFERENCE_H

#include "json/json.h"

#include <stdio.h>

#define REFERENCE_CALLS_PAGE "calls"
#define REFERENCE_TYPES_PAGE "types"
#define REFERENCE_FLAGS_PAGE "flags"

/* /docs/calls: every operation. table is the text of API.md, whose table of endpoints says which
 * section of the contract explains each; a path that it does not have is an error. */
void reference_calls(const cJSON *document, const char *table);

/* /docs/types: every type of a body, with its fields. */
void reference_types(const cJSON *document);

/* /docs/flags: every flag of the daemon with its variable, value and default; what each
 * command says to --help. */
void reference_flags(void);

/* Ends the program with 1. what is a part of a sentence: "API.md has no line for /v1/x". */
_Noreturn void reference_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The member of an object; ends the program where it is not there. */
const cJSON *reference_member(const cJSON *object, const char *name);

/* The string of a member; "" where it is not there. */
const char *reference_string(const cJSON *object, const char *name);

/* What "#/components/KIND/NAME" of a $ref stands for; the object itself where it has none. */
const cJSON *reference_resolved(const cJSON *document, const cJSON *object);

/* NAME of the object's "#/components/KIND/NAME"; NULL where it has no $ref. */
const char *reference_name(const cJSON *object);

/* Whether the member of a path is an operation: get, put, post, patch or delete. */
bool reference_is_operation(const cJSON *member);

/* A link to an operation's section on page, "" being the page itself. */
void reference_print_call(const char *page, const char *method, const char *path);

/* The heading of an operation: "POST /v1/attention". */
void reference_print_method(const char *method, const char *path);

/* A text within a cell of a table: no character of it means anything to Markdown. */
void reference_print_cell(const char *text);

/* The type that a schema describes, in words, for a cell; types with names are links to page. */
void reference_print_type(const cJSON *schema, const char *page);

/* A paragraph between two calls: what is printed is broken into lines of at most 120 columns. */
void reference_paragraph_begin(void);
void reference_paragraph_end(void);

/* The same for the rows of a table, before which head is printed. Nothing is, where there is no
 * row. */
void reference_rows_begin(void);
void reference_rows_end(const char *head);

/* Where to print: standard output, or the paragraph or the rows that have begun. */
FILE *reference_out(void);

#endif
