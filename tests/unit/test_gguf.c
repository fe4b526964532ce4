/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf.c - the reader of GGUF: values of every type, the table of tensors, and files that
 * break a rule. Every file ends at an unreadable page. */
#include "formats/gguf.h"
#include "gguf_quantize.h"
#include "gguf_write.h"
#include "guard.h"
#include "test.h"

#define BYTES(s) s, sizeof s - 1
#define ZEROS    "\0\0\0\0\0\0\0"
#define U32(n)   n "\0\0\0"
#define U64(n)   n ZEROS

#define HEAD(version, tensors, pairs) "GGUF" U32(version) U64(tensors) U64(pairs)
#define NAME_W                        U64("\1") "w"
#define FLAG                          U64("\1") "a" U32("\7") "\1"

/* The head of a file of one tensor, and that of a file of one pair. */
#define TENSOR HEAD("\3", "\1", "\0")
#define PAIR   HEAD("\3", "\0", "\1") U64("\1") "a"

/* A file in a guarded buffer, and its reader. */
struct guarded_file {
    struct guard_buffer guard;
    struct gguf file;
};

static bool open_guarded(struct guarded_file *guarded, const void *bytes, size_t size,
                         struct fault *fault)
{
    guarded->guard = guard_alloc(size);
    memcpy(guarded->guard.data, bytes, size);
    return gguf_read(&guarded->file, guarded->guard.data, size, fault);
}

static void close_guarded(struct guarded_file *guarded)
{
    gguf_free(&guarded->file);
    guard_free(&guarded->guard);
}

static struct guarded_file open_written(struct gguf_write *written)
{
    struct guarded_file guarded;
    struct fault fault = { .message = "" };
    size_t size;
    void *bytes = gguf_write_bytes(written, &size);
    if (!open_guarded(&guarded, bytes, size, &fault))
        fail_msg("%s", fault.message);
    free(bytes);
    gguf_write_free(written);
    return guarded;
}

/* ------------------------------------------------------------------ values -- */

TEST(integers_of_every_type)
{
    static const struct {
        const char *key;
        char type;
        int64_t integer;
        const char *name;
    } INTEGERS[] = {
        { "u8", 'B', 255, "u8" },          { "i8", 'b', -128, "i8" },
        { "u16", 'H', 65535, "u16" },      { "i16", 'h', -32768, "i16" },
        { "u32", 'I', 4294967295, "u32" }, { "i32", 'i', -2147483647 - 1, "i32" },
        { "u64", 'Q', INT64_MAX, "u64" },  { "i64", 'q', INT64_MIN, "i64" },
        { "one", 'b', 1, "i8" },
    };
    struct gguf_write *written = gguf_write_create(3);
    for (size_t i = 0; i < sizeof INTEGERS / sizeof INTEGERS[0]; i++)
        gguf_write_integer(written, INTEGERS[i].key, INTEGERS[i].type, INTEGERS[i].integer);
    struct guarded_file guarded = open_written(written);
    for (size_t i = 0; i < sizeof INTEGERS / sizeof INTEGERS[0]; i++) {
        const struct gguf_value *value = gguf_find(&guarded.file, INTEGERS[i].key);
        int64_t integer = 0;
        double number = 0;
        assert_non_null(value);
        assert_true(gguf_integer(value, &integer) && integer == INTEGERS[i].integer);
        assert_true(gguf_number(value, &number) && number == (double)INTEGERS[i].integer);
        assert_string_equal(gguf_type_name(value), INTEGERS[i].name);
        assert_false(gguf_flag(value, &(bool){ false }));
    }
    assert_null(gguf_find(&guarded.file, "u"));
    assert_null(gguf_find(&guarded.file, "u88"));
    close_guarded(&guarded);
}

TEST(numbers_flags_and_texts)
{
    struct gguf_write *written = gguf_write_create(2);
    gguf_write_number(written, "f32", 'f', 1.5);
    gguf_write_number(written, "f64", 'd', -0.1);
    gguf_write_integer(written, "most", 'Q', -1);
    gguf_write_bool(written, "yes", true);
    gguf_write_bool(written, "no", false);
    gguf_write_text(written, "text", "caf\xC3\xA9");
    gguf_write_text(written, "empty", "");
    gguf_write_value(written, "bytes", 8, BYTES(U64("\3") "\xFF\0z"));
    struct guarded_file guarded = open_written(written);
    const struct gguf *file = &guarded.file;
    double number;
    int64_t integer;
    bool flag;
    const char *text;
    size_t length;
    assert_int_equal(file->version, 2);
    assert_int_equal(file->pair_count, 8);
    assert_string_equal(file->pairs[0].key, "f32");
    assert_true(gguf_number(gguf_find(file, "f32"), &number) && number == 1.5);
    assert_true(gguf_number(gguf_find(file, "f64"), &number) && number == -0.1);
    assert_false(gguf_integer(gguf_find(file, "f64"), &integer));
    assert_false(gguf_integer(gguf_find(file, "most"), &integer));
    assert_true(gguf_number(gguf_find(file, "most"), &number) && number == 0x1p64);
    assert_true(gguf_flag(gguf_find(file, "yes"), &flag) && flag);
    assert_true(gguf_flag(gguf_find(file, "no"), &flag) && !flag);
    assert_false(gguf_integer(gguf_find(file, "yes"), &integer));
    assert_false(gguf_number(gguf_find(file, "text"), &number));
    assert_false(gguf_text(gguf_find(file, "yes"), &text, &length));
    assert_true(gguf_text(gguf_find(file, "text"), &text, &length));
    assert_int_equal(length, 5);
    assert_string_equal(text, "caf\xC3\xA9");
    assert_true(gguf_text(gguf_find(file, "empty"), &text, &length));
    assert_int_equal(length, 0);
    assert_string_equal(text, "");
    assert_true(gguf_text(gguf_find(file, "bytes"), &text, &length));
    assert_int_equal(length, 3);
    assert_memory_equal(text, "\xFF\0z\0", 4);
    close_guarded(&guarded);
}

TEST(arrays)
{
    static const char *const TEXTS[] = { "a", "", "ccc", "dd" };
    const int32_t integers[] = { 5, -6, 7 };
    const float floats[] = { 0.5F, -2 };
    struct gguf_write *written = gguf_write_create(3);
    gguf_write_texts(written, "texts", TEXTS, 4);
    gguf_write_numbers(written, "integers", 'i', integers, 3);
    gguf_write_numbers(written, "floats", 'f', floats, 2);
    gguf_write_texts(written, "none", TEXTS, 0);
    gguf_write_numbers(written, "flags", '?', "\0\1", 2);
    struct guarded_file guarded = open_written(written);
    const struct gguf_value *texts = gguf_find(&guarded.file, "texts");
    assert_int_equal(texts->type, GGUF_ARRAY);
    assert_int_equal(texts->element_type, GGUF_STRING);
    assert_int_equal(texts->count, 4);
    assert_string_equal(gguf_type_name(texts), "array of string");
    for (int i = 3; i >= 0; i--) {
        const struct gguf_value element = gguf_element(texts, i);
        const char *text;
        size_t length;
        assert_true(gguf_text(&element, &text, &length));
        assert_string_equal(text, TEXTS[i]);
        assert_int_equal(length, strlen(TEXTS[i]));
    }
    int64_t integer;
    double number;
    bool flag;
    struct gguf_value element = gguf_element(gguf_find(&guarded.file, "integers"), 1);
    assert_true(gguf_integer(&element, &integer) && integer == -6);
    element = gguf_element(gguf_find(&guarded.file, "floats"), 1);
    assert_true(gguf_number(&element, &number) && number == -2);
    element = gguf_element(gguf_find(&guarded.file, "flags"), 1);
    assert_true(gguf_flag(&element, &flag) && flag);
    assert_int_equal(gguf_find(&guarded.file, "none")->count, 0);
    assert_false(gguf_integer(gguf_find(&guarded.file, "integers"), &integer));
    close_guarded(&guarded);
}

#define TWO_TEXTS   U32("\10") U64("\2") U64("\2") "zz" U64("\0")
#define ONE_INTEGER U32("\5") U64("\1") U32("\3")
#define DEEP        U32("\11") U64("\1") U32("\11") U64("\2") ONE_INTEGER ONE_INTEGER

TEST(arrays_in_arrays)
{
    struct gguf_write *written = gguf_write_create(3);
    gguf_write_value(written, "nested", 9,
                     BYTES(U32("\11") U64("\3") TWO_TEXTS ONE_INTEGER TWO_TEXTS));
    gguf_write_value(written, "deep", 9, BYTES(DEEP));
    struct guarded_file guarded = open_written(written);
    const struct gguf_value *nested = gguf_find(&guarded.file, "nested");
    assert_int_equal(nested->count, 3);
    assert_string_equal(gguf_type_name(nested), "array of arrays");
    struct gguf_value inner = gguf_element(nested, 2), element = gguf_element(&inner, 0);
    const char *text;
    size_t length;
    int64_t integer;
    assert_int_equal(inner.count, 2);
    assert_true(gguf_text(&element, &text, &length));
    assert_string_equal(text, "zz");
    inner = gguf_element(nested, 1);
    element = gguf_element(&inner, 0);
    assert_true(gguf_integer(&element, &integer) && integer == 3);
    inner = gguf_element(gguf_find(&guarded.file, "deep"), 0);
    inner = gguf_element(&inner, 1);
    element = gguf_element(&inner, 0);
    assert_true(gguf_integer(&element, &integer) && integer == 3);
    close_guarded(&guarded);
}

/* A vocabulary as long as the longest: reading it and each of its words takes no time to speak of.
 */
TEST(many_texts)
{
    enum { COUNT = 300000 };
    const char **texts = malloc(COUNT * sizeof *texts);
    char(*words)[8] = malloc(COUNT * sizeof *words);
    assert_true(texts && words);
    for (int i = 0; i < COUNT; i++) {
        snprintf(words[i], sizeof words[i], "%d", i);
        texts[i] = words[i];
    }
    struct gguf_write *written = gguf_write_create(3);
    gguf_write_texts(written, "tokens", texts, COUNT);
    struct guarded_file guarded = open_written(written);
    const struct gguf_value *tokens = gguf_find(&guarded.file, "tokens");
    for (int i = 0; i < COUNT; i++) {
        const struct gguf_value element = gguf_element(tokens, i);
        const char *text;
        size_t length;
        assert_true(gguf_text(&element, &text, &length) && strcmp(text, texts[i]) == 0);
    }
    close_guarded(&guarded);
    free(texts);
    free(words);
}

/* ----------------------------------------------------------------- tensors -- */

TEST(tensors_of_every_type)
{
    struct gguf_write *written = gguf_write_create(3);
    float *values = calloc(3 * 512, sizeof *values);
    assert_non_null(values);
    for (int i = 0; gguf_block_at(i); i++)
        gguf_write_tensor(written, gguf_block_at(i)->name, gguf_block_at(i)->name, 2,
                          (int64_t[]){ 3, 512 }, values);
    free(values);
    struct guarded_file guarded = open_written(written);
    const char *end = NULL;
    for (int i = 0; gguf_block_at(i); i++) {
        const struct gguf_block *block = gguf_block_at(i);
        const struct gguf_tensor *tensor = gguf_tensor_find(&guarded.file, block->name);
        assert_ptr_equal(tensor, &guarded.file.tensors[i]);
        assert_string_equal(tensor->type, block->name);
        assert_int_equal(tensor->rank, 2);
        assert_int_equal(tensor->shape[0], 3);
        assert_int_equal(tensor->shape[1], 512);
        assert_int_equal(tensor->size, 3 * 512 / block->count * block->bytes);
        assert_int_equal(tensor->block_count, block->count);
        assert_int_equal(tensor->block_bytes, block->bytes);
        assert_int_equal(((const char *)tensor->data - (const char *)guarded.guard.data) % 32, 0);
        assert_true(!end || (const char *)tensor->data - end < 32);
        end = (const char *)tensor->data + tensor->size;
    }
    assert_null(gguf_tensor_find(&guarded.file, "Q4"));
    close_guarded(&guarded);
}

TEST(alignment_and_padding)
{
    static const float VALUES[] = { 1, 2, 3 };
    for (uint32_t alignment = 8; alignment <= 128; alignment *= 2) {
        struct gguf_write *written = gguf_write_create(3);
        gguf_write_alignment(written, alignment);
        gguf_write_tensor(written, "a", "F32", 1, (int64_t[]){ 3 }, VALUES);
        gguf_write_tensor(written, "b", "F32", 4, (int64_t[]){ 1, 1, 3, 1 }, VALUES);
        size_t size;
        char *bytes = gguf_write_bytes(written, &size);
        /* The padding behind the last tensor may be missing. */
        size = size - (alignment - 12 % alignment) % alignment;
        struct guarded_file guarded;
        struct fault fault = { .message = "" };
        if (!open_guarded(&guarded, bytes, size, &fault))
            fail_msg("%s", fault.message);
        assert_int_equal(guarded.file.alignment, alignment);
        assert_memory_equal(guarded.file.tensors[1].data, VALUES, sizeof VALUES);
        assert_ptr_equal((const char *)guarded.file.tensors[1].data + 12,
                         (const char *)guarded.guard.data + size);
        assert_int_equal(guarded.file.tensors[1].shape[2], 3);
        close_guarded(&guarded);
        assert_false(open_guarded(&guarded, bytes, size - 1, &fault));
        assert_non_null(strstr(fault.message, "tensor 'b' has 12 bytes"));
        close_guarded(&guarded);
        free(bytes);
        gguf_write_free(written);
    }
}

/* A file cut anywhere ends in a fault with words. */
TEST(every_length)
{
    struct gguf_write *written = gguf_write_create(3);
    static const char *const TEXTS[] = { "one", "two" };
    gguf_write_texts(written, "texts", TEXTS, 2);
    gguf_write_text(written, "name", "value");
    gguf_write_tensor(written, "w", "F32", 1, (int64_t[]){ 8 },
                      (const float[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
    size_t size;
    char *bytes = gguf_write_bytes(written, &size);
    for (size_t length = 0; length < size; length++) {
        struct guarded_file guarded;
        struct fault fault = { .message = "" };
        assert_false(open_guarded(&guarded, bytes, length, &fault));
        assert_int_equal(fault.code, FAULT_BINARY);
        assert_true(fault.message[0] != '\0');
        close_guarded(&guarded);
    }
    free(bytes);
    gguf_write_free(written);
}

/* ------------------------------------------------------------------ faults -- */

static const struct {
    const char *bytes;
    size_t size;
    enum fault_code code;
    const char *words;
} REFUSED[] = {
    { BYTES(""), FAULT_BINARY, "does not begin with GGUF" },
    { BYTES("GGU"), FAULT_BINARY, "does not begin with GGUF" },
    { BYTES("GGML" ZEROS ZEROS ZEROS), FAULT_BINARY, "does not begin with GGUF" },
    { BYTES("PK\3\4" ZEROS ZEROS), FAULT_BINARY, "zip archive" },
    { BYTES("version https://git-lfs.github.com/spec/v1\n"), FAULT_BINARY, "git lfs pull" },
    { BYTES("<!doctype html><html>"), FAULT_BINARY, "download the file" },
    { BYTES("GGUF\3\0"), FAULT_BINARY, "cut" },
    { BYTES(HEAD("\0", "\0", "\0")), FAULT_BINARY, "its version is 0; expected 2 or 3" },
    { BYTES(HEAD("\1", "\0", "\0")), FAULT_BINARY, "its version is 1; expected 2 or 3" },
    { BYTES(HEAD("\4", "\0", "\0")), FAULT_BINARY, "its version is 4; expected 2 or 3" },
    { BYTES("GGUF\0\0\0\3" ZEROS ZEROS ZEROS), FAULT_BINARY, "big-endian" },
    { BYTES(HEAD("\3", "\1", "\0")), FAULT_BINARY, "it has 1 tensors" },
    { BYTES(HEAD("\3", "\0", "\1")), FAULT_BINARY, "it has 1 keys" },
    { BYTES("GGUF" U32("\3") "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF" U64("\0")), FAULT_BINARY,
      "it has 18446744073709551615 tensors" },

    { BYTES(HEAD("\3", "\0", "\1") U64("\0") FLAG), FAULT_BINARY, "key 0 has 0 bytes" },
    { BYTES(HEAD("\3", "\0", "\1") U64("\2") "\xC3" FLAG), FAULT_BINARY, "UTF-8" },
    { BYTES(HEAD("\3", "\0", "\1") U64("\3") "a\0b" FLAG), FAULT_BINARY, "byte 1" },
    { BYTES(HEAD("\3", "\0", "\1") "\0\0\0\0\0\0\0\1" FLAG), FAULT_BINARY,
      "a string has 72057594037927936 bytes; 14 follow" },
    { BYTES(HEAD("\3", "\0", "\2") FLAG FLAG), FAULT_DUPLICATE, "key 'a' occurs twice" },
    { BYTES(PAIR U32("\15") ZEROS), FAULT_BINARY, "key 'a': its type is 13; expected a number" },
    { BYTES(PAIR U32("\7") "\2"), FAULT_BINARY, "key 'a': a bool is 2" },
    { BYTES(PAIR U32("\4") "\2"), FAULT_BINARY, "key 'a': the file is cut" },
    { BYTES(PAIR U32("\10") U64("\5") "four"), FAULT_BINARY,
      "key 'a': a string has 5 bytes; 4 follow" },
    { BYTES(PAIR U32("\11") U32("\7") U64("\2") "\1\2"), FAULT_BINARY, "a bool is 2" },
    { BYTES(PAIR U32("\11") U32("\4") U64("\2") "1234567"), FAULT_BINARY,
      "key 'a': an array has 2 elements; the 7 bytes that follow in the file hold at most 1" },
    { BYTES(PAIR U32("\11") U32("\10") U64("\2") U64("\0")), FAULT_BINARY,
      "an array has 2 elements; the 8 bytes" },
    { BYTES(PAIR U32("\11") U32("\14") "\0\0\0\0\0\0\0\x20" ZEROS), FAULT_BINARY,
      "an array has 2305843009213693952 elements" },
    { BYTES(PAIR U32("\11") U32("\11") U64("\1") U32("\11") U64("\1") U32("\11") U64("\1")
                U32("\11") U64("\1") U32("\4") U64("\0")),
      FAULT_BINARY, "key 'a': arrays lie in arrays more than 4 deep" },

    { BYTES(HEAD("\3", "\0", "\1") U64("\21") "general.alignment" U32("\5") U32("\40")),
      FAULT_BINARY, "general.alignment is i32; expected u32" },
    { BYTES(HEAD("\3", "\0", "\1") U64("\21") "general.alignment" U32("\4") U32("\0")),
      FAULT_BINARY, "general.alignment is 0; expected a power of two" },
    { BYTES(HEAD("\3", "\0", "\1") U64("\21") "general.alignment" U32("\4") U32("\4")),
      FAULT_BINARY, "at least 8" },
    { BYTES(HEAD("\3", "\0", "\1") U64("\21") "general.alignment" U32("\4") U32("\60")),
      FAULT_BINARY, "general.alignment is 48; expected a power of two" },

    { BYTES(TENSOR U64("\0") U32("\1") U64("\4") U32("\0") U64("\0") "...."), FAULT_BINARY,
      "the name of tensor 0 has 0 bytes" },
    { BYTES(TENSOR U64(
          "\100") "1234567890123456789012345678901234567890123456789012345678901234" U32("\1")),
      FAULT_BINARY, "the name of tensor 0 has 64 bytes; expected 1 to 63" },
    { BYTES(TENSOR NAME_W U32("\0") U64("\4") U32("\0") U64("\0")), FAULT_BINARY,
      "tensor 'w': it has 0 dimensions; expected 1 to 4" },
    { BYTES(TENSOR NAME_W U32("\5") U64("\4") U32("\0") U64("\0")), FAULT_BINARY,
      "it has 5 dimensions" },
    { BYTES(TENSOR NAME_W U32("\2") U64("\4") U64("\0") U32("\0") U64("\0")), FAULT_BINARY,
      "tensor 'w': a dimension is 0" },
    { BYTES(TENSOR NAME_W U32("\1") "\0\0\0\0\0\0\0\x80" U32("\0") U64("\0")), FAULT_BINARY,
      "tensor 'w': its shape overflows" },
    { BYTES(TENSOR NAME_W U32("\2") "\0\0\0\0\1\0\0\0"
                                    "\0\0\0\x80\0\0\0\0" U32("\0") U64("\0")),
      FAULT_BINARY, "tensor 'w': its shape overflows" },
    { BYTES(TENSOR NAME_W U32("\1") "\0\0\0\0\0\0\0\x70" U32("\0") U64("\0")), FAULT_BINARY,
      "tensor 'w': its shape overflows" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\4") U32("\53") U64("\0")), FAULT_DTYPE,
      "tensor 'w': its type is 43, which is unknown" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\4") "\xFF\xFF\xFF\xFF" U64("\0")), FAULT_DTYPE,
      "its type is 4294967295, which is unknown" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\4") U32("\4") U64("\0")), FAULT_DTYPE,
      "its type is Q4_2, which ggml has removed" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\40") U32("\37") U64("\0")), FAULT_DTYPE,
      "its type is Q4_0_4_4, which ggml has removed" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\60") U32("\10") U64("\0")), FAULT_BINARY,
      "tensor 'w': a row has 48 elements; Q8_0 takes multiples of 32" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\200") U32("\14") U64("\0")), FAULT_BINARY,
      "a row has 128 elements; Q4_K takes multiples of 256" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\4") U32("\0") U64("\40") ZEROS ZEROS ZEROS), FAULT_BINARY,
      "tensor 'w': its offset is 32; expected 0" },
    { BYTES(TENSOR NAME_W U32("\1") U64("\4") U32("\0") U64("\0")), FAULT_BINARY,
      "tensor 'w' has 16 bytes from byte 64 on; the file has 57: it is cut" },
    { BYTES(HEAD("\3", "\2", "\0") NAME_W U32("\1") U64("\1") U32("\0") U64("\0") NAME_W U32("\1")
                U64("\1") U32("\0") U64("\40")),
      FAULT_DUPLICATE, "tensor 'w' occurs twice" },
    { BYTES(HEAD("\3", "\2", "\0") NAME_W U32("\1") U64("\1") U32("\0") U64("\0") U64("\1") "v" U32(
          "\1") U64("\1") U32("\0") U64("\4") ZEROS ZEROS ZEROS ZEROS ZEROS),
      FAULT_BINARY, "tensor 'v': its offset is 4; expected 32, where the tensor before it ends" },
};

TEST(refused)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        struct guarded_file guarded;
        struct fault fault = { .message = "" };
        if (open_guarded(&guarded, REFUSED[i].bytes, REFUSED[i].size, &fault))
            fail_msg("file %zu is taken; expected \"%s\"", i, REFUSED[i].words);
        if (fault.code != REFUSED[i].code || !strstr(fault.message, REFUSED[i].words))
            fail_msg("file %zu: \"%s\"; expected \"%s\"", i, fault.message, REFUSED[i].words);
        assert_null(guarded.file.pairs);
        close_guarded(&guarded);
    }
}

/* A name that is too long for a message is cut behind a whole character. */
TEST(long_names_in_faults)
{
    enum { LETTERS = 79 };
    struct gguf_write *written = gguf_write_create(3);
    char key[LETTERS + 8];
    memset(key, 'k', LETTERS);
    snprintf(key + LETTERS, sizeof key - LETTERS, "\xC3\xA9z");
    gguf_write_value(written, key, 13, "", 0);
    size_t size;
    void *bytes = gguf_write_bytes(written, &size);
    struct guarded_file guarded;
    struct fault fault = { .message = "" };
    assert_false(open_guarded(&guarded, bytes, size, &fault));
    assert_non_null(strstr(fault.message, "kk': its type is 13"));
    assert_null(strstr(fault.message, "\xC3"));
    close_guarded(&guarded);
    free(bytes);
    gguf_write_free(written);
}
