/* SPDX-License-Identifier: Apache-2.0 */
/* test_base64.c - base64 as RFC 4648 has it: its test vectors, every byte, and what is refused. */
#include "base/base64.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

/* RFC 4648, section 10. */
static const struct {
    const char *bytes, *text;
} VECTORS[] = {
    { "", "" },
    { "f", "Zg==" },
    { "fo", "Zm8=" },
    { "foo", "Zm9v" },
    { "foob", "Zm9vYg==" },
    { "fooba", "Zm9vYmE=" },
    { "foobar", "Zm9vYmFy" },
};

TEST(vectors)
{
    for (size_t i = 0; i < sizeof VECTORS / sizeof *VECTORS; i++) {
        char text[16] = "";
        unsigned char bytes[16];
        const size_t size = strlen(VECTORS[i].bytes), length = strlen(VECTORS[i].text);
        assert_int_equal(base64_length(size), length);
        base64_encode(text, (struct byte_slice){ VECTORS[i].bytes, size });
        assert_string_equal(text, VECTORS[i].text);
        assert_int_equal(base64_decode(text, length, bytes), size);
        assert_memory_equal(bytes, VECTORS[i].bytes, size);
    }
}

/* In place too. */
TEST(all_bytes)
{
    for (size_t size = 0; size <= 300; size++) {
        unsigned char *bytes = malloc(size + 1);
        const size_t length = base64_length(size);
        char *text = malloc(length + 1);
        assert_true(bytes && text);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)(i * 7 + size);
        base64_encode(text, (struct byte_slice){ bytes, size });
        assert_int_equal(base64_decode(text, length, (unsigned char *)text), size);
        assert_memory_equal(text, bytes, size);
        free(text);
        free(bytes);
    }
}

TEST(refused)
{
    static const char *const TEXTS[] = { "Z",    "Zg",   "Zg=",  "====",  "Z===",   "Zm9v\n",
                                         "Zm-v", "Zm_v", "Z=9v", " Zm9v", "Zm9vZg=" };
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        unsigned char bytes[16];
        assert_int_equal(base64_decode(TEXTS[i], strlen(TEXTS[i]), bytes), -1);
    }
    assert_true(base64_length(SIZE_MAX) == SIZE_MAX);
}

ALL_TESTS(NULL, NULL);
