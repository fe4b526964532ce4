/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_pre.c - the pre-tokenizers by the names of GGUF files. */
#include "models/tokenizer/gguf_pre.h"

#include "models/tokenizer/legacy.h"

#include <string.h>

/* Steps by name. WORDS and BYTES also write each byte as a visible character. */
#define DIGITS       "#digits"
#define NUMBERS      "#numbers"
#define PUNCTUATIONS "#punctuations"
#define WORDS        "#words"
#define BYTES        "#bytes"

static const struct named_step {
    const char *name, *node;
} NAMED_STEPS[] = {
    { DIGITS, "{\"type\":\"Digits\",\"individual_digits\":true}" },
    { NUMBERS, "{\"type\":\"Digits\",\"individual_digits\":false}" },
    { PUNCTUATIONS, "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}" },
    { WORDS, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
             "\"use_regex\":true}" },
    { BYTES, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
             "\"use_regex\":false}" },
};

/* --------------------------------------------------------------- patterns -- */

#define GPT2      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define ENDINGS   "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS   "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define OTHERS    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define LINES     "\\s*[\\r\\n]+"
#define SPACES    "\\s+(?!\\S)|\\s+"
#define REST      "|" OTHERS "|" LINES "|" SPACES
#define CASE_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES "|" SPACES

#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE_WORD  "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(after) BEFORE_WORD UPPER "*" LOWER "+" after "|" BEFORE_WORD UPPER "+" LOWER "*" after

#define LLAMA3 ENDINGS "|" LETTERS "|\\p{N}{1,3}" REST
#define QWEN2  ENDINGS "|" LETTERS "|\\p{N}" REST
#define GPT4O  CASED(ENDINGS "?") "|\\p{N}{1,3}" CASE_REST
#define TEKKEN CASED("") "|\\p{N}" CASE_REST

/* Of the two last: the categories of letters that are no Han, which is a run of its own. */
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI                                                                                       \
    "[\\p{Han}]+|" BEFORE_WORD KIMI_UPPER "*" KIMI_LOWER "+" ENDINGS "?|" BEFORE_WORD KIMI_UPPER   \
    "+" KIMI_LOWER "*" ENDINGS "?|\\p{N}{1,3}" REST

#define CJK          "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define MARK_LETTERS "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define SYMBOL_WORDS                                                                               \
    MARK_LETTERS "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES  \
                 "|" SPACES
#define DEEPSEEK_HAN "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK_LETTERS                                                                           \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"            \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"                 \
    "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"         \
    "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"                           \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}"                 \
    "\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                  \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"         \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}"                  \
    "\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"                 \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}"                 \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"         \
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"
#define DEEPSEEK_MARKS                                                                             \
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}"                         \
    "\\x{3000}-\\x{3002}]+"
/* Threes from the end of a run. Only the start of a run is looked ahead from, so that a long run
 * takes no square of its length. */
#define AFMOE_DIGITS "(?<!\\p{N})\\p{N}{1,2}(?=(?:\\p{N}{3})+(?!\\p{N}))|\\p{N}{3}|\\p{N}{1,2}"
#define AFMOE_SCRIPTS                                                                              \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}"                \
    "\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}"                   \
    "\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}"                   \
    "\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"
#define YOUTU_SCRIPTS                                                                              \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|"                                                   \
    "[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}"                    \
    "\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"                                  \
    "[\\x{3105}-\\x{312F}]+|" CJK
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define LONG_SPACES                                                                                \
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"               \
    "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define NEWLINES "[^\\n]+|[\\n]+"

/* ------------------------------------------------------------------ table -- */

static const struct gguf_pre PRES[] = {
    { .names = "default",
      .steps = { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]", BYTES } },
    { .names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
      .steps = { LLAMA3, BYTES },
      .ignores_merges = true,
      .adds_bos = true },
    { .names = "dbrx smaug-bpe glm4 chatglm-bpe", .steps = { LLAMA3, BYTES } },
    { .names = "minicpm5",
      .steps = { "\\p{N}{1,3}", ENDINGS "|" LETTERS "|\\p{N}+" REST, BYTES },
      .ignores_merges = true },
    { .names = "jais-2",
      .steps = { ENDINGS "|" LETTERS "|\\p{N}{1,3}|" OTHERS "|" LINES "|" LONG_SPACES, BYTES } },
    { .names = "qwen2 kormo f2llmv2", .normalizer = "NFC", .steps = { QWEN2, BYTES } },
    { .names = "deepseek-r1-qwen megrez stablelm2 hunyuan solar-open grok-2",
      .steps = { QWEN2, BYTES } },
    { .names = "qwen35",
      .normalizer = "NFC",
      .steps = { ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"
                         "[\\r\\n]*|" LINES "|" SPACES,
                 BYTES } },
    { .names = "ufakzeka", .steps = { LETTERS "|\\p{N}" REST, BYTES } },
    { .names = "laguna", .steps = { NEWLINES, QWEN2, BYTES } },
    { .names = "bailingmoe bailingmoe2 llada-moe",
      .steps = { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
                 "?[^\\s\\p{L}\\p{N}]++"
                 "[\\r\\n]*|\\s*[\\r\\n]|" SPACES,
                 BYTES } },
    { .names = "seed-coder",
      .steps = { ENDINGS "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES "|" SPACES,
                 BYTES } },
    { .names = "exaone-moe",
      .steps = { ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
                         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" SPACES,
                 BYTES } },
    { .names = "tekken", .steps = { TEKKEN, BYTES }, .ignores_merges = true, .adds_bos = true },
    { .names = "gpt-4o llama4 kanana2 talkie minimax-m2", .steps = { GPT4O, BYTES } },
    { .names = "granite-embed-multi-97m", .steps = { GPT4O, BYTES }, .ignores_merges = true },
    { .names = "tiny_aya cohere2moe", .steps = { "\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O, BYTES } },
    { .names = "kimi-k2", .steps = { KIMI, BYTES } },
    { .names = "youtu",
      .steps = { YOUTU_SCRIPTS,
                 CASED("(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?") "|\\p{"
                                                                                     "N}" CASE_REST,
                 BYTES },
      .ignores_merges = true },
    { .names = "deepseek-llm",
      .steps = { "[\\r\\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, "\\s+$", DEEPSEEK_HAN, "\\p{N}+",
                 BYTES } },
    { .names = "deepseek-coder",
      .steps = { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_HAN, DIGITS, BYTES } },
    { .names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
      .steps = { "\\p{N}{1,3}", CJK, SYMBOL_WORDS, BYTES } },
    { .names = "spark2_5",
      .steps = { "\\p{N}{1,3}", CJK,
                 (MARK_LETTERS "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                               "?[\\p{P}\\p{S}]+|[\\r\\n]|" SPACES),
                 "\\p{N}", BYTES } },
    { .names = "afmoe", .steps = { AFMOE_DIGITS, AFMOE_SCRIPTS, SYMBOL_WORDS, BYTES } },
    { .names = "falcon", .steps = { PUNCTUATIONS, WORDS, NUMBERS, "[0-9][0-9][0-9]" } },
    { .names = "command-r", .normalizer = "NFC", .steps = { DIGITS, WORDS } },
    { .names = "starcoder refact smollm codeshell exaone minerva-7b mellum2",
      .steps = { DIGITS, WORDS } },
    { .names = "mpt olmo", .normalizer = "NFC", .steps = { WORDS } },
    { .names = "gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling jina-es "
               "jina-de",
      .steps = { WORDS } },
    { .names = "modern-bert jina-v2-es jina-v2-de", .steps = { WORDS }, .mask_takes_space = true },
    { .names = "roberta-bpe jina-v1-en jina-v2-code",
      .steps = { WORDS },
      .adds_sep = true,
      .mask_takes_space = true },
    { .names = "bloom poro-chat gpt3-finnish", .steps = { BLOOM, BYTES } },
    { .names = "viking", .steps = { BLOOM, "\\p{N}", BYTES } },
    { .names = "superbpe", .steps = { "\\p{N}+", "(?=(\\d{3})+(?!\\d))", BYTES } },
    { .names = "chameleon",
      .steps = { "<sentinel:[0-9]+>|(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )",
                 DIGITS, "[\\p{P}!-/:-@\\[-`{-~]", WORDS },
      .adds_bos = true },
    { .names = "gemma4 granite-embed-multi-311m",
      .steps = { NEWLINES },
      .adds_bos = true,
      .is_text = true },
    { .names = "sarvam-moe", .steps = { NEWLINES }, .is_text = true },
};

const struct gguf_pre *gguf_pre_find(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof PRES / sizeof *PRES; i++) {
        const char *names = PRES[i].names;
        size_t known_size;
        for (const char *known; (known = legacy_list_next(&names, &known_size));)
            if (known_size == size && memcmp(known, name, size) == 0)
                return &PRES[i];
    }
    return NULL;
}

void gguf_pre_write_normalizer(const struct gguf_pre *pre, struct text *text)
{
    if (pre->is_text)
        text_raw(text, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
                       "\"\xE2\x96\x81\"}");
    else if (pre->normalizer)
        text_format(text, "{\"type\":\"%s\"}", pre->normalizer);
    else
        text_raw(text, "null");
}

static void write_step(const char *step, struct text *text)
{
    for (size_t i = 0; i < sizeof NAMED_STEPS / sizeof *NAMED_STEPS; i++)
        if (strcmp(NAMED_STEPS[i].name, step) == 0) {
            text_raw(text, NAMED_STEPS[i].node);
            return;
        }
    text_raw(text, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
    text_string(text, step);
    text_raw(text, "},\"behavior\":\"Isolated\",\"invert\":false}");
}

void gguf_pre_write(const struct gguf_pre *pre, struct text *text)
{
    text_raw(text, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < GGUF_PRE_STEPS_MAX && pre->steps[i]; i++) {
        text_raw(text, i > 0 ? "," : "");
        write_step(pre->steps[i], text);
    }
    text_raw(text, "]}");
}
