/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - see page.h.
 *
 * The files hold no secrets, so they need no key; what the page asks of the API does. They are sent
 * as they lie, packed, to all who take gzip. A browser keeps them, and asks each time whether they
 * are still those of this daemon. */
#include "explorer/page.h"

#include "call/service.h"
#include "explorer/page_files.h"
#include "formats/coding.h"
#include "host/config.h"
#include "host/web_origin.h"
#include "json/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page runs and loads nothing but its own files, and speaks with nobody but this daemon. It may
 * be shown in pages of this machine, as notebooks are, and in those that may ask anyway. */
#define POLICY                                                                                     \
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "         \
    "form-action 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:* "            \
    "https://localhost:*"

static char policy[sizeof POLICY + (size_t)CONFIG_LIST_MAX * WEB_ORIGIN_BYTES] = POLICY;

void page_begin(const struct config *config)
{
    struct text text = text_in(policy, sizeof policy);
    text_raw(&text, POLICY);
    for (int i = 0; i < config->allow_origin.count; i++) {
        if (strchr(config->allow_origin.items[i], '['))
            continue; /* a policy cannot name an IPv6 address */
        text_raw(&text, " ");
        text_raw(&text, config->allow_origin.items[i]);
    }
    policy[text.used] = '\0';
}

const struct page_file *page_files_find(const char *path)
{
    for (int i = 0; i < PAGE_FILE_COUNT; i++)
        if (strcmp(PAGE_FILES[i].path, path) == 0)
            return &PAGE_FILES[i];
    return NULL;
}

static void add_headers(struct exchange *exchange, const struct page_file *file)
{
    exchange_add_constant(exchange, "ETag", file->tag);
    exchange_add_constant(exchange, "Cache-Control", "no-cache");
    exchange_add_constant(exchange, "Content-Security-Policy", policy);
    exchange_add_constant(exchange, "X-Content-Type-Options", "nosniff");
    exchange_add_constant(exchange, "Referrer-Policy", "no-referrer");
}

/* Whether the client has the file already. A weak tag may come without its W/ (RFC 9110, 13.1.2:
 * weak comparison). */
static bool is_known(const struct exchange *exchange, const struct page_file *file)
{
    const char *known = exchange_header(exchange, HTTP_HEADER_IF_NONE_MATCH);
    return known && (strcmp(known, "*") == 0 || strstr(known, strchr(file->tag, '"')) != NULL);
}

/* The file unpacked, malloc'd; NULL, with the fault, where there is no memory. */
static char *unpack(const struct page_file *file, struct exchange *exchange, struct fault *fault)
{
    void *memory = malloc(file->packed.size);
    struct byte_slice body = { memory, file->packed.size };
    if (!memory) {
        fault_no_memory(fault);
        return NULL;
    }
    memcpy(memory, file->packed.data, file->packed.size);
    if (coding_unpack(CODING_GZIP, &body, &memory, file->bytes, exchange_memory(exchange), fault))
        return memory;
    free(memory);
    return NULL;
}

/* The bytes of a file belong to the program. */
static void stay(void *owner)
{
    (void)owner;
}

static void reply(struct exchange *exchange, const struct page_file *file)
{
    struct fault fault;
    add_headers(exchange, file);
    exchange_vary_by_coding(exchange);
    if (is_known(exchange, file)) {
        exchange_reply(exchange, 304, NULL, NULL, 0);
        return;
    }
    if (exchange_answer_coding(exchange) == CODING_GZIP) {
        exchange_set_packed(exchange, true);
        exchange_reply_parts(exchange, 200, file->type, &file->packed, 1, stay, NULL);
        return;
    }
    char *data = unpack(file, exchange, &fault);
    if (data)
        exchange_reply(exchange, 200, file->type, data, file->bytes);
    else
        exchange_fail(exchange, &fault);
}

static void answer(struct exchange *exchange, const char *path)
{
    const struct service *service = exchange_context(exchange);
    const struct page_file *file = page_files_find(path);
    struct fault fault;
    if (service->config->explorer && file) {
        reply(exchange, file);
        return;
    }
    if (service->config->explorer)
        fault_set(&fault, FAULT_NOT_FOUND, "the explorer has no file '%.80s'; it begins at /",
                  path);
    else
        fault_set(&fault, FAULT_NOT_FOUND,
                  "the explorer is off (--explorer off); the API is at /v1, see /openapi.json");
    exchange_fail(exchange, &fault);
}

void page_get(struct exchange *exchange)
{
    answer(exchange, "index.html");
}

void page_file_get(struct exchange *exchange)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", exchange_param(exchange, 0), exchange_param(exchange, 1));
    answer(exchange, path);
}

void page_docs_get(struct exchange *exchange)
{
    char path[512];
    struct fault fault;
    snprintf(path, sizeof path, "docs/%s.md", exchange_param(exchange, 0));
    for (int i = 0; i < DOCS_FILE_COUNT; i++) {
        if (strcmp(DOCS_FILES[i].path, path) == 0) {
            reply(exchange, &DOCS_FILES[i]);
            return;
        }
    }
    fault_set(&fault, FAULT_NOT_FOUND,
              "there is no page '%.80s'; expected calls, types or flags: /docs/types",
              exchange_param(exchange, 0));
    exchange_fail(exchange, &fault);
}
