/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_decoders.c - the text that each decoder makes of tokens.
 *
 * The expected values are those of the reference implementation, tokenizers 0.22.2. */
#include "pipeline_case.h"
#include "test.h"

struct decoder_case {
    const char *node;
    const char *tokens; /* with " ; " between them */
    const char *expected;
};

static const struct decoder_case CASES[] = {
    { "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true,`use_regex`:true}",
      "Hello ; Ġworld ; Ċ", "Hello world\n" },
    { "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true}", "Ã ; © ; ðŁ ; ĻĤ",
      "é🙂" },
    { "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true}",
      "Ã ; a ; ðŁĻ ; b ; é ; ô ; ĸ ; ł", "�a�b����" },
    { "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true}", "<|end|> ; x y ; Ġz",
      "<|end|>x y z" },
    { "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true}", "Ãł ; ĢĢ ; í ; ł ; Ģ",
      "à�����" },
    { "{`type`:`ByteFallback`}", "a ; <0xC3> ; <0xA9> ; b", "aéb" },
    { "{`type`:`ByteFallback`}", "<0xC3> ; <0x41> ; <0xFF> ; x ; <0x4g> ; <0x41>", "���x<0x4g>A" },
    { "{`type`:`Fuse`}", "a ; b ; ", "ab" },
    { "{`type`:`Sequence`,`decoders`:[{`type`:`Replace`,`pattern`:{`String`:`▁`},`content`:` "
      "`},{`type`:`ByteFallback`},{`type`:`Fuse`},{`type`:`Strip`,`content`:` "
      "`,`start`:1,`stop`:0}]}",
      "▁Hey ; ▁▁é ; <0xE4> ; <0xB8> ; <0xAD>", "Hey  é中" },
    { "{`type`:`Strip`,`content`:`H`,`start`:1,`stop`:0}", "Hey ; HHey ; ey", "eyHeyey" },
    { "{`type`:`Strip`,`content`:`y`,`start`:0,`stop`:2}", "Hey ; Heyyy ;  y y", "HeHey y " },
    { "{`type`:`WordPiece`,`prefix`:`##`,`cleanup`:true}",
      "he ; ##llo ; , ; do ; not ; do ;  n't ; ##. ; . ; ##", "hello, do not do n't.." },
    { "{`type`:`WordPiece`,`prefix`:`##`,`cleanup`:false}", "##a ; ##b ; c ; .", "##ab c ." },
    { "{`type`:`BPEDecoder`,`suffix`:`</w>`}", "hel ; lo</w> ; x</w> ; y</w>", "hello x y" },
    { "{`type`:`CTC`,`pad_token`:`<pad>`,`word_delimiter_token`:`|`,`cleanup`:true}",
      "<pad> ; <pad> ; h ; e ; e ; l ; <pad> ; l ; o ; | ; | ; w ; <pad>", "hello w" },
    { "{`type`:`CTC`,`pad_token`:`<pad>`,`word_delimiter_token`:`|`,`cleanup`:false}",
      "a ; | ; <pad> ; a ; a|<pad>b", "a|aa|b" },
    { "{`type`:`Metaspace`,`replacement`:`▁`,`prepend_scheme`:`always`,`split`:true}",
      "▁Hey▁you ; ▁a ; b▁", "Heyyou ab " },
    { "{`type`:`Metaspace`,`replacement`:`▁`,`prepend_scheme`:`never`}", "▁Hey ; ▁a", " Hey a" },
    { "{`type`:`Metaspace`,`replacement`:`_`,`add_prefix_space`:true}", "_a ; _b", "a b" },
    { "{`type`:`Replace`,`pattern`:{`String`:`a`},`content`:`--`}", "banana ; x ; aa",
      "b--n--n--x----" },
    { "{`type`:`Replace`,`pattern`:{`Regex`:`[0-9]+|$`},`content`:`#`}", "a12b ; 7", "a#b##" },
    { "{`type`:`Replace`,`pattern`:{`String`:`ab`},`content`:``}", "abcab ; ab", "c" },
    { "{`type`:`Sequence`,`decoders`:[]}", "a ; b", "ab" },
    { "{`type`:`Sequence`,`decoders`:[{`type`:`Fuse`},{`type`:`Replace`,`pattern`:{`String`:`lo "
      "w`},`content`:`LOW`}]}",
      "hello ;  world", "helLOWorld" },
};

static struct byte_slice TOKENS[32];

/* The tokens lie in the string. */
static struct decoder_texts cut(const char *tokens, struct pipeline_case *step)
{
    struct decoder_texts texts = { .texts = TOKENS, .arena = &step->arena, .limit = &step->limit };
    for (const char *end; tokens; tokens = end ? end + 3 : NULL) {
        end = strstr(tokens, " ; ");
        TOKENS[texts.count++] =
            (struct byte_slice){ tokens, end ? (size_t)(end - tokens) : strlen(tokens) };
    }
    return texts;
}

TEST(texts_are_those_of_the_reference)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct decoder_case *expected = &CASES[i];
        struct pipeline_case step;
        struct step decoder;
        char shown[256];
        size_t used = 0;
        pipeline_case_open(&step, expected->node);
        pipeline_case_assert(&step, decoder_read(&step.build, step.node, &decoder));
        struct decoder_texts texts = cut(expected->tokens, &step);
        pipeline_case_assert(&step, decoder_run(&decoder, &texts, &step.fault));
        shown[0] = 0;
        for (int64_t k = 0; k < texts.count; k++)
            used += (size_t)snprintf(shown + used, sizeof shown - used, "%.*s",
                                     (int)texts.texts[k].size, (const char *)texts.texts[k].data);
        if (strcmp(shown, expected->expected) != 0)
            fail_msg("%s of %s: \"%s\"; expected \"%s\"", expected->node, expected->tokens, shown,
                     expected->expected);
        pipeline_case_free(&step);
    }
}

/* The reference fails here: there is nothing to decode, or nothing left to strip. */
TEST(nothing_is_decoded_to_nothing)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct pipeline_case step;
        struct step decoder;
        pipeline_case_open(&step, CASES[i].node);
        pipeline_case_assert(&step, decoder_read(&step.build, step.node, &decoder));
        struct decoder_texts texts = { .texts = TOKENS,
                                       .arena = &step.arena,
                                       .limit = &step.limit };
        assert_true(decoder_run(&decoder, &texts, &step.fault));
        for (int64_t k = 0; k < texts.count; k++)
            assert_int_equal(texts.texts[k].size, 0);
        pipeline_case_free(&step);
    }
    struct pipeline_case step;
    struct step decoder;
    pipeline_case_open(&step, "{`type`:`Strip`,`content`:`a`,`start`:2,`stop`:3}");
    pipeline_case_assert(&step, decoder_read(&step.build, step.node, &decoder));
    struct decoder_texts texts = cut("aaa ; a ; ba", &step);
    assert_true(decoder_run(&decoder, &texts, &step.fault));
    assert_int_equal(texts.texts[0].size, 0);
    assert_int_equal(texts.texts[1].size, 0);
    assert_int_equal(texts.texts[2].size, 1);
    pipeline_case_free(&step);
}

TEST(wrong_nodes_are_refused)
{
    static const char *const wrong[][2] = {
        { "{`type`:`Encode`}", "'Encode' is not known" },
        { "{}", "type is missing" },
        { "{`type`:`WordPiece`,`prefix`:`##`}", "cleanup is missing" },
        { "{`type`:`BPEDecoder`}", "suffix is missing" },
        { "{`type`:`CTC`,`pad_token`:`p`,`cleanup`:true}", "word_delimiter_token is missing" },
        { "{`type`:`Metaspace`,`replacement`:`ab`}", "expected one character" },
        { "{`type`:`Replace`,`pattern`:{`String`:`a`}}", "content is missing" },
        { "{`type`:`Replace`,`pattern`:{`String`:`a`,`Regex`:`a`},`content`:``}", "pattern" },
        { "{`type`:`Strip`,`content`:`a`,`start`:-1,`stop`:0}", "start is -1" },
        { "{`type`:`Sequence`,`decoders`:{}}", "decoders is" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pipeline_case step;
        struct step decoder;
        pipeline_case_open(&step, wrong[i][0]);
        pipeline_case_assert_refused(&step, decoder_read(&step.build, step.node, &decoder),
                                     wrong[i][1]);
        pipeline_case_free(&step);
    }
}
