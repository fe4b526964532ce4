/* SPDX-License-Identifier: Apache-2.0 */
/* legacy_classes.c - the classes of transformers whose vocabulary can be read without a
 * tokenizer.json.
 *
 * A class that is not here is refused by its name, because its code may change ids or texts in ways
 * that the files do not say. */
#include "models/tokenizer/legacy.h"

#include <string.h>

#define WORDPIECE                                                                                  \
    "{`added_tokens`:@added,"                                                                      \
    "`normalizer`:{`type`:`BertNormalizer`,`clean_text`:true,"                                     \
    "`handle_chinese_chars`:@flag:tokenize_chinese_chars,"                                         \
    "`strip_accents`:@flag:strip_accents,`lowercase`:@flag:do_lower_case},"                        \
    "`pre_tokenizer`:{`type`:`BertPreTokenizer`},"                                                 \
    "`model`:{`type`:`WordPiece`,`unk_token`:@token:unk_token,"                                    \
    "`continuing_subword_prefix`:`##`,`max_input_chars_per_word`:100,`vocab`:@vocab},"             \
    "`post_processor`:@template,"                                                                  \
    "`decoder`:{`type`:`WordPiece`,`prefix`:`##`,`cleanup`:true}}"

/* Every token is found wherever it stands; what is left is one unknown token for each word. Source:
 * tokenization_esm.py of esm at 140c50b03d4e. */
#define ESM                                                                                        \
    "{`added_tokens`:@every,`normalizer`:null,`pre_tokenizer`:{`type`:`WhitespaceSplit`},"         \
    "`model`:{`type`:`WordLevel`,`unk_token`:@token:unk_token,`vocab`:@vocab},"                    \
    "`post_processor`:@template,`decoder`:null}"

/* Letters, each a token. Source: Wav2Vec2CTCTokenizer of
 * transformers' wav2vec2/tokenization_wav2vec2.py. */
#define CTC                                                                                        \
    "{`added_tokens`:@added,"                                                                      \
    "`normalizer`:{`type`:`Replace`,`pattern`:{`String`:` `},"                                     \
    "`content`:@token:word_delimiter_token},"                                                      \
    "`pre_tokenizer`:{`type`:`Split`,`pattern`:{`Regex`:`[\\\\s\\\\S]`},`behavior`:`Isolated`,"    \
    "`invert`:false},"                                                                             \
    "`model`:{`type`:`WordLevel`,`unk_token`:@token:unk_token,`vocab`:@vocab},"                    \
    "`post_processor`:@template,`decoder`:{`type`:`CTC`,`pad_token`:@token:pad_token,"             \
    "`word_delimiter_token`:@token:word_delimiter_token,`cleanup`:true}}"

#define BERT_DEFAULTS                                                                              \
    "do_lower_case=true strip_accents=null tokenize_chinese_chars=true unk_token=[UNK] "           \
    "sep_token=[SEP] pad_token=[PAD] cls_token=[CLS] mask_token=[MASK]"

#define ROBERTA_DEFAULTS                                                                           \
    "bos_token=<s> eos_token=</s> sep_token=</s> cls_token=<s> unk_token=<unk> pad_token=<pad> "   \
    "mask_token=<mask> mask_takes_space=true"

#define GPT2_DEFAULTS "bos_token=<|endoftext|> eos_token=<|endoftext|> unk_token=<|endoftext|>"

#define MODEL_BPE                                                                                  \
    "`model`:{`type`:`BPE`,`continuing_subword_prefix`:``,`end_of_word_suffix`:``,"                \
    "`fuse_unk`:false,`vocab`:@vocab,`merges`:@merges},"

#define BYTE_LEVEL_DECODER                                                                         \
    "`decoder`:{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true,`use_regex`:true}"

#define BYTE_LEVEL                                                                                 \
    "`pre_tokenizer`:{`type`:`ByteLevel`,`add_prefix_space`:@flag:add_prefix_space,"               \
    "`trim_offsets`:true,`use_regex`:true}," BYTE_LEVEL_DECODER ","

#define GPT2                                                                                       \
    "{`added_tokens`:@added," BYTE_LEVEL MODEL_BPE "`normalizer`:null,"                            \
    "`post_processor`:@template}"

#define ROBERTA                                                                                    \
    "{`added_tokens`:@added," BYTE_LEVEL MODEL_BPE "`normalizer`:null,"                            \
    "`post_processor`:{`type`:`RobertaProcessing`,`sep`:@entry:sep_token,"                         \
    "`cls`:@entry:cls_token,`trim_offsets`:true,"                                                  \
    "`add_prefix_space`:@flag:add_prefix_space}}"

#define CLIP                                                                                       \
    "{`added_tokens`:@added,`normalizer`:{`type`:`Sequence`,`normalizers`:["                       \
    "{`type`:`NFC`},"                                                                              \
    "{`type`:`Replace`,`pattern`:{`Regex`:`\\\\s+`},`content`:` `},"                               \
    "{`type`:`Lowercase`}]},"                                                                      \
    "`pre_tokenizer`:{`type`:`Sequence`,`pretokenizers`:[{`type`:`Split`,"                         \
    "`pattern`:{`Regex`:`'s|'t|'re|'ve|'m|'ll|'d|[\\\\p{L}]+|[\\\\p{N}]|"                          \
    "[^\\\\s\\\\p{L}\\\\p{N}]+`},`behavior`:`Removed`,`invert`:true},"                             \
    "{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_offsets`:true,"                            \
    "`use_regex`:true}]},"                                                                         \
    "`model`:{`type`:`BPE`,`unk_token`:@token:unk_token,"                                          \
    "`continuing_subword_prefix`:``,`end_of_word_suffix`:`</w>`,`fuse_unk`:false,"                 \
    "`vocab`:@vocab,`merges`:@merges},"                                                            \
    "`post_processor`:{`type`:`RobertaProcessing`,`sep`:@entry:eos_token,"                         \
    "`cls`:@entry:bos_token,`trim_offsets`:false,`add_prefix_space`:false}," BYTE_LEVEL_DECODER    \
    "}"

#define QWEN2                                                                                      \
    "{`added_tokens`:@added,`normalizer`:{`type`:`NFC`},"                                          \
    "`pre_tokenizer`:{`type`:`Sequence`,`pretokenizers`:[{`type`:`Split`,"                         \
    "`pattern`:{`Regex`:`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"              \
    "\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"             \
    "\\\\s+(?!\\\\S)|\\\\s+`},`behavior`:`Isolated`,`invert`:false},"                              \
    "{`type`:`ByteLevel`,`add_prefix_space`:@flag:add_prefix_space,"                               \
    "`trim_offsets`:true,`use_regex`:false}]}," MODEL_BPE                                          \
    "`post_processor`:@template," BYTE_LEVEL_DECODER "}"

#define SENTENCEPIECE                                                                              \
    "{`added_tokens`:@added,`normalizer`:@sentencepiece:normalizer,"                               \
    "`pre_tokenizer`:@sentencepiece:pre_tokenizer,`model`:@sentencepiece:model,"                   \
    "`post_processor`:@template,`decoder`:@sentencepiece:decoder}"

#define ALBERT_NORMALIZERS                                                                         \
    "{`type`:`Replace`,`pattern`:{`String`:`\\u0060\\u0060`},`content`:`\\``},"                    \
    "{`type`:`Replace`,`pattern`:{`String`:`''`},`content`:`\\``},"                                \
    "?!keep_accents{`type`:`NFKD`},"                                                               \
    "?!keep_accents{`type`:`StripAccents`},"                                                       \
    "?do_lower_case{`type`:`Lowercase`},"

#define LLAMA_SINGLE "add_bos_token?bos_token:0 $A:0 add_eos_token?eos_token:0"
#define LLAMA_PAIR   LLAMA_SINGLE " add_bos_token?bos_token:1 $B:1 add_eos_token?eos_token:1"
#define BERT_SINGLE  "cls_token:0 $A:0 sep_token:0"
#define BERT_PAIR    BERT_SINGLE " $B:1 sep_token:1"
#define ROBERTA_PAIR "cls_token:0 $A:0 sep_token:0 sep_token:0 $B:0 sep_token:0"

static const struct legacy_class CLASSES[] = {
    { .file = "vocab.txt",
      .names = "BertTokenizer DistilBertTokenizer ElectraTokenizer MobileBertTokenizer "
               "LayoutLMTokenizer RetriBertTokenizer SqueezeBertTokenizer ConvBertTokenizer "
               "DPRQuestionEncoderTokenizer DPRContextEncoderTokenizer DPRReaderTokenizer",
      .model_types = "bert distilbert electra mobilebert layoutlm squeezebert convbert dpr",
      .defaults = BERT_DEFAULTS,
      .single = BERT_SINGLE,
      .pair = BERT_PAIR,
      .text = WORDPIECE },
    { .file = "vocab.txt",
      .names = "FunnelTokenizer",
      .model_types = "funnel",
      .defaults = "do_lower_case=true strip_accents=null tokenize_chinese_chars=true "
                  "unk_token=<unk> sep_token=<sep> pad_token=<pad> cls_token=<cls> "
                  "mask_token=<mask> bos_token=<s> eos_token=</s>",
      .single = "cls_token:2 $A:0 sep_token:0",
      .pair = "cls_token:2 $A:0 sep_token:0 $B:1 sep_token:1",
      .text = WORDPIECE },
    { .file = "vocab.txt",
      .names = "MPNetTokenizer",
      .model_types = "mpnet",
      .defaults = "do_lower_case=true strip_accents=null tokenize_chinese_chars=true "
                  "unk_token=[UNK] sep_token=</s> pad_token=<pad> cls_token=<s> "
                  "mask_token=<mask> bos_token=<s> eos_token=</s>",
      .single = BERT_SINGLE,
      .pair = "cls_token:0 $A:0 sep_token:0 sep_token:0 $B:1 sep_token:1",
      .text = WORDPIECE },
    { .file = "vocab.txt",
      .names = "EsmTokenizer",
      .model_types = "esm",
      .defaults = "unk_token=<unk> cls_token=<cls> pad_token=<pad> mask_token=<mask> "
                  "eos_token=<eos>",
      .single = "cls_token:0 $A:0 eos_token:0",
      .pair = "cls_token:0 $A:0 eos_token:0 $B:0 eos_token:0",
      .text = ESM },
    { .file = "vocab.json",
      .names = "GPT2Tokenizer CodeGenTokenizer GPTNeoXTokenizer",
      .model_types = "gpt2 gptj gpt_neo gpt_neox codegen",
      .defaults = GPT2_DEFAULTS,
      .single = "add_bos_token?bos_token:0 $A:0",
      .pair = "add_bos_token?bos_token:0 $A:0 $B:1",
      .text = GPT2 },
    { .file = "vocab.json",
      .names = "",
      .model_types = "opt",
      .defaults = "add_bos_token=true bos_token=</s> eos_token=</s> unk_token=</s> pad_token=<pad>",
      .single = "add_bos_token?bos_token:0 $A:0",
      .pair = "add_bos_token?bos_token:0 $A:0 $B:1",
      .text = GPT2 },
    { .file = "vocab.json",
      .names = "RobertaTokenizer LongformerTokenizer BartTokenizer LEDTokenizer",
      .model_types = "roberta longformer bart led",
      .defaults = ROBERTA_DEFAULTS,
      .text = ROBERTA },
    { .file = "vocab.json",
      .names = "DebertaTokenizer",
      .model_types = "deberta",
      .defaults = "bos_token=[CLS] eos_token=[SEP] sep_token=[SEP] cls_token=[CLS] "
                  "unk_token=[UNK] pad_token=[PAD] mask_token=[MASK] mask_takes_space=true",
      .single = BERT_SINGLE,
      .pair = BERT_PAIR,
      .text = GPT2 },
    { .file = "vocab.json",
      .names = "CLIPTokenizer",
      .model_types = "clip clip_text_model",
      .defaults = "bos_token=<|startoftext|> eos_token=<|endoftext|> unk_token=<|endoftext|> "
                  "pad_token=<|endoftext|>",
      .text = CLIP },
    { .file = "vocab.json",
      .names = "Qwen2Tokenizer",
      .model_types = "qwen2 qwen2_moe qwen3 qwen3_moe",
      .defaults = "eos_token=<|endoftext|> pad_token=<|endoftext|> unk_token=<|endoftext|>",
      .single = "$A:0",
      .pair = "$A:0 $B:1",
      .text = QWEN2 },
    { .file = "vocab.json",
      .names = "WhisperTokenizer",
      .model_types = "whisper",
      .defaults = GPT2_DEFAULTS,
      .single = "<|startoftranscript|>:0 <|notimestamps|>:0 $A:0 eos_token:0",
      .pair = "<|startoftranscript|>:0 <|notimestamps|>:0 $A:0 $B:1 eos_token:1",
      .text = GPT2 },
    { .file = "vocab.json",
      .names = "Wav2Vec2CTCTokenizer Wav2Vec2Tokenizer",
      .model_types = "wav2vec2 hubert wavlm",
      .defaults = "bos_token=<s> eos_token=</s> unk_token=<unk> pad_token=<pad> "
                  "word_delimiter_token=|",
      .single = "$A:0",
      .pair = "$A:0 $B:0",
      .text = CTC,
      .refused = "do_lower_case" },
    { .file = "tokenizer.model",
      .names = "PreTrainedTokenizer",
      .model_types = "",
      .defaults = "",
      .single = LLAMA_SINGLE,
      .pair = LLAMA_PAIR,
      .text = SENTENCEPIECE },
    { .file = "tokenizer.model",
      .names = "LlamaTokenizer CodeLlamaTokenizer GemmaTokenizer",
      .model_types = "llama mistral mixtral phi3 gemma gemma2 gemma3 gemma3_text transformer",
      .defaults = "add_bos_token=true bos_token=<s> eos_token=</s> unk_token=<unk>",
      .single = LLAMA_SINGLE,
      .pair = LLAMA_PAIR,
      .text = SENTENCEPIECE },
    { .file = "tokenizer.model",
      .names = "T5Tokenizer",
      .model_types = "t5 mt5",
      .defaults = "eos_token=</s> unk_token=<unk> pad_token=<pad> extra_ids=100",
      .single = "$A:0 eos_token:0",
      .pair = "$A:0 eos_token:0 $B:0 eos_token:0",
      .text = SENTENCEPIECE,
      .head = "",
      .tail = "<extra_id_*>" },
    { .file = "tokenizer.model",
      .names = "XLMRobertaTokenizer",
      .model_types = "xlm-roberta",
      .defaults = ROBERTA_DEFAULTS,
      .single = BERT_SINGLE,
      .pair = ROBERTA_PAIR,
      .text = SENTENCEPIECE,
      .head = "<s> <pad> </s> <unk>",
      .skipped = 3,
      .tail = "<mask>" },
    { .file = "tokenizer.model",
      .names = "CamembertTokenizer",
      .model_types = "camembert",
      .defaults = ROBERTA_DEFAULTS,
      .single = BERT_SINGLE,
      .pair = ROBERTA_PAIR,
      .text = SENTENCEPIECE,
      .head = "<s>NOTUSED <pad> </s>NOTUSED <unk> <unk>NOTUSED=-100",
      .skipped = 1,
      .tail = "<mask>" },
    { .file = "tokenizer.model",
      .names = "AlbertTokenizer",
      .model_types = "albert",
      .defaults = "do_lower_case=true bos_token=[CLS] eos_token=[SEP] unk_token=<unk> "
                  "sep_token=[SEP] pad_token=<pad> cls_token=[CLS] mask_token=[MASK] "
                  "mask_takes_space=true",
      .single = BERT_SINGLE,
      .pair = BERT_PAIR,
      .text = SENTENCEPIECE,
      .normalizers = ALBERT_NORMALIZERS,
      .lowers_number_commas = true },
    /* Its spm.model has no [MASK]. Source: tokenization_deberta_v2.py at 031f3ef39db9. */
    { .file = "tokenizer.model",
      .names = "DebertaV2Tokenizer",
      .model_types = "deberta-v2",
      .defaults = "do_lower_case=false split_by_punct=false bos_token=[CLS] eos_token=[SEP] "
                  "unk_token=[UNK] sep_token=[SEP] pad_token=[PAD] cls_token=[CLS] "
                  "mask_token=[MASK]",
      .single = BERT_SINGLE,
      .pair = BERT_PAIR,
      .text = SENTENCEPIECE,
      .normalizers = "?do_lower_case{`type`:`Lowercase`},",
      .numbers_missing = true },
};

enum { CLASS_COUNT = sizeof CLASSES / sizeof CLASSES[0] };

/* Whether a word of the list is the first `size` bytes of name. */
static bool list_has(const char *list, const char *name, size_t size)
{
    size_t word_size;
    for (const char *word; (word = legacy_list_next(&list, &word_size));)
        if (word_size == size && memcmp(word, name, size) == 0)
            return true;
    return false;
}

/* The first class of the file that has the name, or where it is NULL the type, of config.json.
 * Where both are NULL: the first one. */
static const struct legacy_class *find(const char *file, const char *name, const char *type)
{
    size_t size = strlen(name ? name : type ? type : "");
    if (name && size > 4 && strcmp(name + size - 4, "Fast") == 0)
        size -= 4;
    for (int i = 0; i < CLASS_COUNT; i++)
        if (strcmp(CLASSES[i].file, file) == 0
            && (name   ? list_has(CLASSES[i].names, name, size)
                : type ? list_has(CLASSES[i].model_types, type, size)
                       : true))
            return &CLASSES[i];
    return NULL;
}

/* A string of config.json; NULL: there is none. */
static const char *model_string(const struct legacy_config *config, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config->model.root, key));
}

const struct legacy_class *legacy_class_find(const char *file, const struct legacy_config *config,
                                             struct fault *fault)
{
    const char *name = cJSON_GetStringValue(legacy_config_field(config, "tokenizer_class"));
    const char *type = model_string(config, "model_type");
    name = name ? name : model_string(config, "tokenizer_class");
    const struct legacy_class *found = name || type ? find(file, name, type) : NULL;
    if (found || !name) {
        /* With no file that names a known class, the vocabulary is what its form is mostly. */
        const bool has_frame = strcmp(file, "vocab.json") == 0
                               && legacy_config_token(config, "cls_token")
                               && legacy_config_token(config, "sep_token");
        return found ? found : find(file, has_frame ? "RobertaTokenizer" : NULL, NULL);
    }
    fault_set(fault, FAULT_OPTION,
              "%s: how the tokenizer_class %s reads it is not known here; the tokenizer needs a "
              "tokenizer.json",
              file, name);
    return NULL;
}
