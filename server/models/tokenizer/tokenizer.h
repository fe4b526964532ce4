/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.h - text to tokens and back, by the tokenizer files of a checkpoint.
 *
 * The files are executed as they are: tokenizer.json, else vocab.txt (BERT), else vocab.json and
 * merges.txt (GPT-2, RoBERTa), else tokenizer.model (SentencePiece), or the metadata of a GGUF
 * file. A step of a pipeline that is not known here is a fault that names it, and no step is ever
 * skipped.
 *
 * Source: the pipeline of Hugging Face tokenizers, https://github.com/huggingface/tokenizers. */
#ifndef ATTND_TOKENIZER_H
#define ATTND_TOKENIZER_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "json/text.h"

/* Does not change once it is made; any number of threads may use it at once. */
struct tokenizer;

struct token {
    int32_t id;
    int32_t sequence;   /* 0: of the text; 1: of the pair */
    int64_t start, end; /* the bytes of its sequence's UTF-8 text that it stands for, which may be
                           none; both 0 where is_of_text is false */
    bool is_of_text;    /* made of a text; false: the template added it */
    bool is_special;    /* the template added it, or it is a special token of the vocabulary */
    uint8_t type;       /* token type id: what the template says, else 0 */
};

struct token_list {
    struct token *tokens;
    int64_t count;
};

/* Says whether the request is over that a text is encoded or decoded for. It is asked every few
 * milliseconds, on the thread that does so. */
struct tokenizer_stop {
    bool (*is_stopped)(void *owner);
    void *owner;
};

/* Opens the tokenizer of a checkpoint's folder. Where the folder has none of the files, returns
 * true and *tokenizer is NULL. On false the fault names the file and what is wrong in it. The
 * caller owns the tokenizer. */
bool tokenizer_open(struct tokenizer **tokenizer, const char *directory, struct fault *fault);
void tokenizer_free(struct tokenizer *tokenizer); /* NULL is fine */

/* Opens the tokenizer that the metadata of a GGUF file describe. name is the file's, for messages
 * and tokenizer_file(); neither is kept. Where the metadata describe none, returns true and
 * *tokenizer is NULL. On false the fault names the file and the key that is wrong. */
struct gguf;
bool tokenizer_open_gguf(struct tokenizer **tokenizer, const struct gguf *file, const char *name,
                         struct fault *fault);

/* Encodes text, and the pair unless it is NULL, into tokens in the arena. special: the template
 * adds its tokens ([CLS], <s>); special tokens in the text are recognised in any case. Where stop
 * is not NULL and says so, the encoding ends early with a fault. Else the fault is memory, or is
 * about the text ("/text", "/pair"): invalid UTF-8, a pair where the template has none, a pattern
 * that takes too long on this text. */
bool tokenizer_encode(const struct tokenizer *tokenizer, const struct tokenizer_stop *stop,
                      struct byte_slice text, const struct byte_slice *pair, bool special,
                      struct arena *arena, struct token_list *list, struct fault *fault);

/* The same for one of many that share a text or a pair: known has the tokens of each without the
 * template, and is set where its tokens are NULL. known NULL: as above. On false a part of it may
 * be set. */
bool tokenizer_encode_known(const struct tokenizer *tokenizer, const struct tokenizer_stop *stop,
                            struct byte_slice text, const struct byte_slice *pair, bool special,
                            struct token_list known[2], struct arena *arena,
                            struct token_list *list, struct fault *fault);

/* Appends the text of the tokens. skip_special leaves out special tokens of the vocabulary. Bytes
 * that are no UTF-8 become U+FFFD. stop is as in tokenizer_encode(). Else the fault is memory, or
 * an id without a token ("/tokens/INDEX"). */
bool tokenizer_decode(const struct tokenizer *tokenizer, const struct tokenizer_stop *stop,
                      const int32_t *ids, int64_t count, bool skip_special, struct text *text,
                      struct fault *fault);

/* The token as the vocabulary has it; NULL: no token has this id. */
const char *tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id);

/* Whether it is a special token of the vocabulary, which is left out where a text is decoded. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);

/* What a token adds to a text, byte for byte. */
struct token_piece {
    bool is_byte; /* one byte of a character, of a tokenizer that falls back to bytes */
    bool is_special;
    struct byte_slice bytes; /* that decoding leaves; of a special token its name, which is none of
                                the text */
};

/* The piece of a token behind the token before, -1: at the text's start. Special tokens, and ids
 * without a token, count as none before. Lies in the arena. The fault is memory. */
bool tokenizer_piece(const struct tokenizer *tokenizer, int32_t before, int32_t id,
                     struct arena *arena, struct token_piece *piece, struct fault *fault);

/* The bytes as UTF-8, with U+FFFD for what is none. Data is NULL where there is no memory. */
struct byte_slice tokenizer_repair(struct byte_slice bytes, struct arena *arena);

/* 1 + the largest id. */
int64_t tokenizer_id_end(const struct tokenizer *tokenizer);

/* 1 + the largest id of the vocabulary without the added tokens. */
int64_t tokenizer_vocabulary_end(const struct tokenizer *tokenizer);

/* The id of a token; -1: the vocabulary has no such token. */
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *token);

/* The special tokens that end a text by their names ("<|im_end|>"); a GGUF file names but one of
 * them. Where messages end with "<|return|>" and "<|call|>", "<|end|>" ends a part of one. Returns
 * how many there are. tokenizer may be NULL. */
enum { TOKENIZER_ENDS_MAX = 16 };
int tokenizer_ends(const struct tokenizer *tokenizer, int32_t ids[TOKENIZER_ENDS_MAX]);

/* For clients: the model of the pipeline ("BPE", "WordPiece", "Unigram", "WordLevel") and the file
 * that it was read from ("tokenizer.json"). */
const char *tokenizer_kind(const struct tokenizer *tokenizer);
const char *tokenizer_file(const struct tokenizer *tokenizer);

#endif
