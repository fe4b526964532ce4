/* SPDX-License-Identifier: Apache-2.0 */
/* openapi.c - the description of every path, as OpenAPI 3.1.
 *
 * It is written by hand in openapi.json, and the assembler copies that file into the program; the
 * version stands in version.h alone, and takes the place of VERSION_MARK in an answer.
 * tests/http/test_openapi.c checks the document against what the daemon does. */
#include "api/openapi.h"

#include "base/version.h"
#include "json/text.h"

#include <assert.h>
#include <string.h>

#define VERSION_MARK "@VERSION@"

extern const char openapi_document[];
extern const uint64_t openapi_document_size;

/* The path is relative to the root of the repository, where the compiler runs. */
__asm__(".pushsection .rodata\n"
        "openapi_document:\n"
        ".incbin \"server/openapi.json\"\n"
        "openapi_document_end:\n"
        ".balign 8\n"
        "openapi_document_size:\n"
        ".quad openapi_document_end - openapi_document\n"
        ".popsection\n");

void openapi_get(struct exchange *exchange)
{
    struct text text;
    const char *mark =
        memmem(openapi_document, openapi_document_size, VERSION_MARK, strlen(VERSION_MARK));
    assert(mark);
    const char *rest = mark + strlen(VERSION_MARK);
    text_init(&text, openapi_document_size);
    text_bytes(&text, openapi_document, (size_t)(mark - openapi_document));
    text_raw(&text, ATTND_VERSION);
    text_bytes(&text, rest, (size_t)(openapi_document + openapi_document_size - rest));
    exchange_reply_text(exchange, 200, "application/json", &text);
}
