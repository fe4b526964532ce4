/* openapi.c - the description of every path, as OpenAPI 3.1.
 *
 * It is written by hand in openapi.json, and the assembler copies that file into the program.
 * tests/http/test_openapi.c checks it against what the daemon does. */
#include "api/openapi.h"

#include "json/text.h"

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
    text_init(&text, openapi_document_size);
    text_bytes(&text, openapi_document, openapi_document_size);
    exchange_reply_text(exchange, 200, "application/json", &text);
}
