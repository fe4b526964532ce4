/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_legacy.c - the legacy forms of a tokenizer's files: what each says, and files that
 * lie. tests/conformance/test_tokenizers.c compares their tokens with the reference's. */
#include "models/tokenizer/tokenizer.h"
#include "test.h"
#include "token_lines.h"

#include <dirent.h>
#include <unistd.h>

/* ----------------------------------------------------------------- helpers -- */

static char directory[64];

static int make_directory(void **state)
{
    strcpy(directory, "/tmp/attnd-legacy-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    DIR *folder = opendir(directory);
    if (!folder)
        return -1;
    for (struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    return rmdir(directory);
}

static void write_bytes(const char *name, const void *bytes, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static struct tokenizer *open_folder(void)
{
    struct tokenizer *tokenizer = NULL;
    struct fault fault = { .message = "no file" };
    if (!tokenizer_open(&tokenizer, directory, &fault) || !tokenizer)
        fail_msg("%s", fault.message);
    return tokenizer;
}

static void expect_refused(const char *words)
{
    struct tokenizer *tokenizer = NULL;
    struct fault fault = { 0 };
    if (tokenizer_open(&tokenizer, directory, &fault))
        fail_msg("the folder was taken; expected a fault with '%s'", words);
    assert_null(tokenizer);
    if (!strstr(fault.message, words))
        fail_msg("'%s' has no '%s'", fault.message, words);
    const char *colon = strchr(fault.message, ':');
    if (colon && strncmp(colon + 2, fault.message, (size_t)(colon + 2 - fault.message)) == 0)
        fail_msg("'%s' names the file twice", fault.message);
}

/* ------------------------------------------------------------------- vocab.txt -- */

#define LINES "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n##s\ncafe\n"

TEST(bert)
{
    write_text("vocab.txt", LINES);
    struct tokenizer *tokenizer = open_folder();
    assert_string_equal(tokenizer_kind(tokenizer), "WordPiece");
    assert_string_equal(tokenizer_file(tokenizer), "vocab.txt");
    token_lines_expect_ids(tokenizer, "The CATS [MASK] caf\xC3\xA9 dog", NULL, "2 5 6 7 4 8 1 3",
                           "00000000");
    token_lines_expect_ids(tokenizer, "the", "cats", "2 5 3 6 7 3", "000111");
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 2, 5, 6, 7, 3 }, 5, "the cats");
    tokenizer_free(tokenizer);
}

TEST(bert_cased)
{
    write_text("vocab.txt", LINES);
    write_text("tokenizer_config.json", JSON({"do_lower_case":false}));
    struct tokenizer *tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "The the caf\xC3\xA9", NULL, "2 1 5 1 3", NULL);
    tokenizer_free(tokenizer);
}

TEST(lines)
{
    write_text("vocab.txt",
               "[UNK]\r\n[CLS]\r\n[SEP]\r\nthe\r\ncat\r\nthe"); /* the last one counts */
    struct tokenizer *tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "the cat", NULL, "1 5 4 2", NULL);
    assert_int_equal(tokenizer_id_end(tokenizer), 6);
    tokenizer_free(tokenizer);
}

TEST(classes_of_words)
{
    write_text("vocab.txt", "<unk>\n<cls>\n<sep>\nthe\n<s>\n</s>\n[UNK]\n");
    write_text("config.json", JSON({"model_type":"funnel"}));
    struct tokenizer *tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "the", "the", "1 3 2 3 2", "20011");
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", JSON({"tokenizer_class":"MPNetTokenizerFast"}));
    tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "the", "the", "4 3 5 5 3 5", NULL);
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", JSON({"tokenizer_class":"BertJapaneseTokenizer"}));
    expect_refused("vocab.txt: how the tokenizer_class BertJapaneseTokenizer reads it");
    write_text("tokenizer_config.json", JSON({"tokenizer_class":"BertTokenizer"}));
    expect_refused("vocab.txt: the token [CLS], which is put around each text, is not in");
    write_text("tokenizer_config.json", "{");
    expect_refused("tokenizer_config.json: ");
    write_text("tokenizer_config.json", "[]");
    expect_refused("tokenizer_config.json is an array");
    write_text("tokenizer_config.json", "{}");
    write_text("vocab.txt", "a\n\xFF\n");
    expect_refused("vocab.txt: line 2 is not UTF-8");
}

/* EsmTokenizer of tokenization_esm.py at 140c50b03d4e: its trie holds the whole vocabulary, what is
 * left is split at spaces, and " " stands between tokens that are put together. */
TEST(esm)
{
    write_text("vocab.txt", "<cls>\n<pad>\n<eos>\n<unk>\nL\nA\nG\nV\n<mask>\n");
    write_text("tokenizer_config.json", JSON({"tokenizer_class":"EsmTokenizer"}));
    struct tokenizer *tokenizer = open_folder();
    assert_string_equal(tokenizer_kind(tokenizer), "WordLevel");
    token_lines_expect_ids(tokenizer, "LAG<mask>V A", NULL, "0 4 5 6 8 7 5 2", "00000000");
    token_lines_expect_ids(tokenizer, "LxyA zz ", NULL, "0 4 3 5 3 2", NULL);
    token_lines_expect_ids(tokenizer, "LA", "V", "0 4 5 2 7 2", "000000");
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 0, 4, 5, 8, 2 }, 5, "L A");
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", "{}");
    write_text("config.json", JSON({"model_type":"esm"}));
    tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "GV", NULL, "0 6 7 2", NULL);
    tokenizer_free(tokenizer);
}

/* ------------------------------------------------------------------ vocab.json -- */

#define PAIRS                                                                                      \
    "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"a\":4,\"b\":5,\"\xC4\xA0\":6,\"ab\":7,"       \
    "\"\xC4\xA0"                                                                                   \
    "ab\":8,\"<mask>\":9}"
#define MERGES "#version: 0.2\na b\n\xC4\xA0 ab\n"

TEST(byte_pairs)
{
    write_text("vocab.json", PAIRS);
    expect_refused("vocab.json: there is no merges.txt");
    write_text("merges.txt", MERGES);
    struct tokenizer *tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "ab ab ba", NULL, "7 8 6 5 4", NULL);
    tokenizer_free(tokenizer);
    write_text("special_tokens_map.json",
               "{\"cls_token\":\"<s>\",\"sep_token\":\"</s>\","
               "\"mask_token\":{\"content\":\"<mask>\",\"lstrip\":true}}");
    tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "ab", "ab <mask>", "0 7 2 2 7 9 2", "0000000");
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json",
               "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true,"
               "\"bos_token\":{\"__type\":\"AddedToken\",\"content\":\"</s>\"}}");
    tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "ab", "ab", "2 7 7", "001");
    tokenizer_free(tokenizer);
}

/* Wav2Vec2CTCTokenizer: letters, of which repeated ones are one where a text is decoded. */
TEST(letters)
{
    static const int32_t IDS[] = { 0, 5, 5, 0, 5, 6, 6, 4, 4, 6, 0 };
    struct fault fault;
    struct text text;
    write_text("vocab.json", JSON({"<pad>":0,"<s>":1,"</s>":2,"<unk>":3,"|":4,"A":5,"B":6,"'":7}));
    write_text("tokenizer_config.json", JSON({"tokenizer_class":"Wav2Vec2CTCTokenizer"}));
    struct tokenizer *tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "AB BA'z", NULL, "5 6 4 6 5 7 3", "0000000");
    text_init(&text, SIZE_MAX);
    assert_true(tokenizer_decode(tokenizer, NULL, IDS, 11, false, &text, &fault));
    assert_int_equal(text.used, 5);
    assert_memory_equal(text.data, "AAB B", 5);
    text_free(&text);
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json",
               JSON({"tokenizer_class":"Wav2Vec2CTCTokenizer","word_delimiter_token":"B"}));
    tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "A A", NULL, "5 6 5", "000");
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json",
               JSON({"tokenizer_class":"Wav2Vec2CTCTokenizer","do_lower_case":true}));
    expect_refused("tokenizer_config.json sets do_lower_case, which is not read here");
}

TEST(added_tokens)
{
    write_text("vocab.json", PAIRS);
    write_text("merges.txt", MERGES);
    write_text("added_tokens.json", JSON({"<new>":10,"<newer>":11}));
    write_text("tokenizer_config.json",
               "{\"additional_special_tokens\":[\"<new>\"],\"added_tokens_decoder\":{"
               "\"12\":{\"content\":\"<own>\",\"special\":true,\"rstrip\":true}}}");
    struct tokenizer *tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "ab<new><newer><own> ab", NULL, "7 10 11 12 7", NULL);
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 10, 11, 12, 7 }, 4, "<newer>ab");
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}");
    expect_refused("added_tokens_decoder");
    write_text("tokenizer_config.json", "{}");
    write_text("added_tokens.json", "{\"<new>\":-1}");
    expect_refused("added_tokens.json: <new>");
}

TEST(broken_pairs)
{
    write_text("vocab.json", PAIRS);
    write_text("merges.txt", "a b c\n");
    expect_refused("merges.txt: line 1 is not two tokens");
    write_text("merges.txt", "ab\n");
    expect_refused("merges.txt: line 1 is not two tokens");
    write_text("merges.txt", "a z\n");
    expect_refused("vocab.json: ");
    write_text("merges.txt", MERGES);
    write_text("vocab.json", JSON({"a":0,"b":0}));
    expect_refused("vocab.json: ");
    write_text("vocab.json", JSON({"a":"x"}));
    expect_refused("vocab.json: a is a string; expected an id");
    write_text("vocab.json", JSON({"a":1e9}));
    expect_refused("vocab.json: a is a number; expected an id");
    write_text("vocab.json", "{\"a\":0");
    expect_refused("vocab.json: ");
    write_text("vocab.json", JSON({"a":0}));
    write_text("merges.txt", "a z\n");
    expect_refused("vocab.json: model BPE: merges[0]");
}

/* ------------------------------------------------------------- tokenizer.model -- */

/* A message of protobuf that is being written; all sizes are below 128. */
struct message {
    char bytes[2048];
    size_t size;
};

static void put_bytes(struct message *message, int field, const void *bytes, size_t size)
{
    assert_true(size < 128);
    message->bytes[message->size++] = (char)(field << 3 | 2);
    message->bytes[message->size++] = (char)size;
    memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

static void put_number(struct message *message, int field, int value)
{
    const int key = field << 3;
    if (key >= 128)
        message->bytes[message->size++] = (char)(key | 128);
    message->bytes[message->size++] = (char)(key >= 128 ? key >> 7 : key);
    message->bytes[message->size++] = (char)value;
}

static void put_piece(struct message *model, const char *text, float score, int type)
{
    struct message piece = { .size = 0 };
    put_bytes(&piece, 1, text, strlen(text));
    piece.bytes[piece.size++] = 2 << 3 | 5;
    memcpy(piece.bytes + piece.size, &score, 4);
    piece.size += 4;
    if (type != 1)
        put_number(&piece, 3, type);
    put_bytes(model, 1, piece.bytes, piece.size);
}

#define SPACE "\xE2\x96\x81"

static struct message small_model(int model_type, bool is_plain)
{
    struct message model = { .size = 0 }, trainer = { .size = 0 }, normalizer = { .size = 0 };
    put_piece(&model, "<unk>", 0, 2);
    put_piece(&model, "<s>", 0, 3);
    put_piece(&model, "</s>", 0, 3);
    put_piece(&model, "ab", -1, 1);
    put_piece(&model, SPACE "ab", -2, 1);
    put_piece(&model, SPACE SPACE, -3, 1);
    put_piece(&model, "a", -4, 1);
    put_piece(&model, "b", -5, 1);
    put_piece(&model, SPACE, -6, 1);
    put_piece(&model, "<own>", 0, 4);
    put_number(&trainer, 3, model_type);
    put_bytes(&model, 2, trainer.bytes, trainer.size);
    put_number(&normalizer, 4, is_plain ? 0 : 1);
    put_bytes(&model, 3, normalizer.bytes, normalizer.size);
    return model;
}

TEST(sentencepiece_bpe)
{
    const struct message model = small_model(2, true);
    write_bytes("tokenizer.model", model.bytes, model.size);
    struct tokenizer *tokenizer = open_folder();
    assert_string_equal(tokenizer_kind(tokenizer), "BPE");
    assert_string_equal(tokenizer_file(tokenizer), "tokenizer.model");
    token_lines_expect_ids(tokenizer, "ab   ba", NULL, "4 5 8 7 6", NULL);
    token_lines_expect_ids(tokenizer, "ab</s>ab<own>ab", NULL, "4 2 4 9 4", NULL);
    token_lines_expect_ids(tokenizer, "xyab", NULL, "8 0 3",
                           NULL); /* unknown characters in a row are one */
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 1, 4, 5, 8, 7 }, 5, "ab   b");
    tokenizer_free(tokenizer);
    write_text("config.json", "{\"model_type\":\"llama\"}");
    tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "ab", "ab", "1 4 1 4", "0011");
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", "{\"tokenizer_class\":\"LlamaTokenizer\",\"legacy\":false,"
                                        "\"add_eos_token\":true}");
    tokenizer = open_folder();
    token_lines_expect_ids(tokenizer, "ab</s>ab", NULL, "1 4 2 3 2", NULL);
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", "{\"tokenizer_class\":\"MBartTokenizer\"}");
    expect_refused("MBartTokenizer");
}

TEST(sentencepiece_unigram)
{
    const struct message model = small_model(1, false);
    write_bytes("spiece.model", model.bytes, model.size);
    struct tokenizer *tokenizer = open_folder();
    assert_string_equal(tokenizer_kind(tokenizer), "Unigram");
    assert_string_equal(tokenizer_file(tokenizer), "spiece.model");
    token_lines_expect_ids(tokenizer, "  ab   ab  ", NULL, "4 4", NULL);
    tokenizer_free(tokenizer);
    write_text("config.json", JSON({"model_type":"t5"}));
    tokenizer = open_folder();
    assert_int_equal(tokenizer_find(tokenizer, "<extra_id_99>"), 10);
    assert_int_equal(tokenizer_find(tokenizer, "<extra_id_0>"), 109);
    token_lines_expect_ids(tokenizer, "ab", "ab", "4 2 4 2", "0000");
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", JSON({"tokenizer_class":"XLMRobertaTokenizer"}));
    tokenizer = open_folder();
    assert_int_equal(tokenizer_find(tokenizer, "<mask>"), 11);
    token_lines_expect_ids(tokenizer, "ab ? <mask>", "ab", "0 5 9 3 11 2 2 5 2", NULL);
    tokenizer_free(tokenizer);
}

static struct message deberta_model(void)
{
    struct message model = { .size = 0 }, trainer = { .size = 0 };
    put_piece(&model, "[PAD]", 0, 3);
    put_piece(&model, "[CLS]", 0, 3);
    put_piece(&model, "[SEP]", 0, 3);
    put_piece(&model, "[UNK]", 0, 2);
    put_piece(&model, SPACE "ab", -2, 1);
    put_piece(&model, SPACE, -6, 1);
    put_piece(&model, "a", -4, 1);
    put_piece(&model, "b", -5, 1);
    put_piece(&model, ",", -3, 1);
    put_number(&trainer, 3, 1);
    put_number(&trainer, 40, 3);
    put_bytes(&model, 2, trainer.bytes, trainer.size);
    return model;
}

/* The spm.model of DeBERTa-v3 ends before [MASK], which gets the next id. */
TEST(deberta)
{
    const struct message model = deberta_model();
    write_bytes("spm.model", model.bytes, model.size);
    write_text("config.json", JSON({"model_type":"deberta-v2"}));
    struct tokenizer *tokenizer = open_folder();
    assert_string_equal(tokenizer_file(tokenizer), "spm.model");
    assert_int_equal(tokenizer_find(tokenizer, "[MASK]"), 9);
    token_lines_expect_ids(tokenizer, "ab, [MASK] ab", NULL, "1 4 8 9 4 2", NULL);
    token_lines_expect_ids(tokenizer, "ab", "ab", "1 4 2 4 2", "00011");
    token_lines_expect_ids(tokenizer, "AB", NULL, "1 5 3 2", NULL);
    token_lines_expect_ids(tokenizer, "ab,ab", NULL, "1 4 8 6 7 2", NULL);
    tokenizer_free(tokenizer);
    write_text("tokenizer_config.json", JSON({"tokenizer_class":"DebertaV2TokenizerFast","do_lower_case":true,
                     "split_by_punct":true}));
    write_text("added_tokens.json", JSON({"[NEW]":9,"[MASK]":10}));
    tokenizer = open_folder();
    assert_int_equal(tokenizer_find(tokenizer, "[MASK]"), 10);
    token_lines_expect_ids(tokenizer, "AB,ab", NULL, "1 4 5 8 4 2", NULL);
    tokenizer_free(tokenizer);
}

/* Every beginning of the file is taken or refused, and names the file. */
TEST(cut_model)
{
    const struct message model = small_model(2, true);
    for (size_t size = 0; size < model.size; size++) {
        write_bytes("tokenizer.model", model.bytes, size);
        struct tokenizer *tokenizer = NULL;
        struct fault fault = { 0 };
        if (!tokenizer_open(&tokenizer, directory, &fault))
            assert_non_null(strstr(fault.message, "tokenizer.model: "));
        tokenizer_free(tokenizer);
    }
}

static void expect_model_refused(struct message model, const char *words)
{
    write_bytes("tokenizer.model", model.bytes, model.size);
    expect_refused(words);
}

TEST(lying_models)
{
    expect_model_refused(small_model(4, true), "tokenizer.model: model_type is 4");
    struct message model = small_model(1, true);
    put_piece(&model, "", 0, 1);
    expect_model_refused(model, "piece 10 has no length");
    model = small_model(1, true);
    put_piece(&model, "\xC3", 0, 1);
    expect_model_refused(model, "piece 10 is not UTF-8");
    model = small_model(1, true);
    put_piece(&model, "c", NAN, 1);
    expect_model_refused(model, "the score of piece 10 is not finite");
    model = small_model(2, true);
    put_piece(&model, "ab", 0, 1);
    expect_model_refused(model, "tokenizer.model: ");
    model = small_model(1, true);
    struct message trainer = { .size = 0 };
    put_number(&trainer, 40, 99);
    put_bytes(&model, 2, trainer.bytes, trainer.size);
    expect_model_refused(model, "unk_id is 99; the file has 10 pieces");
    model = small_model(1, true);
    trainer.size = 0;
    put_number(&trainer, 24, 1);
    put_bytes(&model, 2, trainer.bytes, trainer.size);
    expect_model_refused(model, "treat_whitespace_as_suffix");
}

TEST(no_file)
{
    struct tokenizer *tokenizer;
    struct fault fault;
    write_text("merges.txt", MERGES);
    assert_true(tokenizer_open(&tokenizer, directory, &fault));
    assert_null(tokenizer);
}

/* The files of forms that are not read are named, unless there is a file that is read. */
TEST(foreign_forms)
{
    write_text("tiktoken.model", "IQ== 0\n");
    expect_refused("tiktoken.model: this form of tokenizer is not read");
    write_text("tekken.json", "{}");
    expect_refused("tekken.json: this form of tokenizer is not read");
    write_text("vocab.txt", LINES);
    tokenizer_free(open_folder());
}

EACH_TEST(make_directory, remove_directory);
