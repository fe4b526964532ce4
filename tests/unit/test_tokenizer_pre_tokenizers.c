/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_pre_tokenizers.c - the pieces that each pre-tokenizer cuts a text into, and the
 * bytes of the text that they stand for.
 *
 * The expected values are those of the reference implementation, tokenizers 0.22.2. */
#include "pipeline_case.h"
#include "test.h"

struct pre_tokenizer_case {
    const char *node, *text;
    const char *expected; /* of each piece its text and bytes: "a|0-1 " */
};

static const struct pre_tokenizer_case CASES[] = {
    { "{`type`:`BertPreTokenizer`}", "Hey, it's  ¡so! $5 a_b 中。x",
      "Hey|0-3 ,|3-4 it|5-7 '|7-8 s|8-9 ¡|11-13 so|13-15 !|15-16 $|17-18 5|18-19 a|20-21 _|21-22 "
      "b|22-23 中|24-27 。|27-30 x|30-31 " },
    { "{`type`:`Whitespace`}", "Hey, it's a_b  $5¢ naïve Ⓐb ١٢ e\314\201\342\200\215!",
      "Hey|0-3 ,|3-4 it|5-7 '|7-8 s|8-9 a_b|10-13 $|15-16 5|16-17 ¢|17-19 naïve|20-26 Ⓐb|27-31 "
      "١٢|32-36 e\314\201\342\200\215|37-43 !|43-44 " },
    { "{`type`:`Whitespace`}", "a\uA7CBb \uA7DC!", "a\uA7CBb|0-5 \uA7DC|6-9 !|9-10 " },
    { "{`type`:`WhitespaceSplit`}", " a\011b\343\200\200c  d\n", "a|1-2 b|3-4 c|7-8 d|10-11 " },
    { "{`type`:`Punctuation`}", "a--b, c¿", "a|0-1 -|1-2 -|2-3 b|3-4 ,|4-5  c|5-7 ¿|7-9 " },
    { "{`type`:`Punctuation`,`behavior`:`MergedWithNext`}", "a--b, c¿",
      "a|0-1 -|1-2 -b|2-4 , c|4-7 ¿|7-9 " },
    { "{`type`:`Punctuation`,`behavior`:`Contiguous`}", "!!a--b, c¿?",
      "!!|0-2 a|2-3 --|3-5 b|5-6 ,|6-7  c|7-9 ¿?|9-12 " },
    { "{`type`:`Digits`,`individual_digits`:true}", "a12 ½٣b",
      "a|0-1 1|1-2 2|2-3  |3-4 ½|4-6 ٣|6-8 b|8-9 " },
    { "{`type`:`Digits`,`individual_digits`:false}", "a12 ½٣b4",
      "a|0-1 12|1-3  |3-4 ½٣|4-8 b|8-9 4|9-10 " },
    { "{`type`:`CharDelimiterSplit`,`delimiter`:`—`}", "a—b——c-", "a|0-1 b|4-5 c-|11-13 " },
    { "{`type`:`FixedLength`,`length`:3}", "aé中🙂bcd", "aé中|0-6 🙂bc|6-12 d|12-13 " },
    { "{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_offsets`:true}",
      "Hi, I'm  the 1st—naïve “user” 🙂!\n",
      "Hi|0-2 ,|2-3 ĠI|3-5 'm|5-7 Ġ|7-8 Ġthe|8-12 Ġ1|12-14 st|14-16 âĢĶ|16-19 naÃ¯ve|19-25 "
      "ĠâĢľ|25-29 user|29-33 âĢĿ|33-36 ĠðŁĻĤ!|36-42 Ċ|42-43 " },
    { "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true}", "é it's 12a\n\n b",
      "ĠÃ©|0-2 Ġit|2-5 's|5-7 Ġ12|7-10 a|10-11 ĊĊ|11-13 Ġb|13-15 " },
    { "{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true}", " a", "Ġa|0-2 " },
    { "{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_offsets`:true,`use_regex`:false}", "a é",
      "aĠÃ©|0-4 " },
    { "{`type`:`Metaspace`,`replacement`:`▁`,`prepend_scheme`:`always`}", "a b  cé",
      "▁a|0-1 ▁b|1-3 ▁|3-4 ▁cé|4-8 " },
    { "{`type`:`Metaspace`,`replacement`:`▁`,`prepend_scheme`:`always`}", " a", "▁a|0-2 " },
    { "{`type`:`Metaspace`,`replacement`:`▁`,`prepend_scheme`:`always`}", "▁a", "▁a|0-4 " },
    { "{`type`:`Metaspace`,`replacement`:`▁`,`prepend_scheme`:`first`,`split`:false}", "a b ",
      "▁a▁b▁|0-4 " },
    { "{`type`:`Metaspace`,`replacement`:`▁`,`prepend_scheme`:`never`}", "a b ",
      "a|0-1 ▁b|1-3 ▁|3-4 " },
    { "{`type`:`Metaspace`,`replacement`:`_`,`add_prefix_space`:true}", "é b", "_é|0-2 _b|2-4 " },
    { "{`type`:`Sequence`,`pretokenizers`:[{`type`:`WhitespaceSplit`},{`type`:`Metaspace`,`"
      "replacement`:`▁`,`prepend_scheme`:`first`}]}",
      "é b  c", "▁é|0-2 b|3-4 c|6-7 " },
    { "{`type`:`Sequence`,`pretokenizers`:[{`type`:`WhitespaceSplit`},{`type`:`Metaspace`,`"
      "replacement`:`▁`,`prepend_scheme`:`always`}]}",
      "é b  c", "▁é|0-2 ▁b|3-4 ▁c|6-7 " },
    { "{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Removed`,`invert`:false}",
      "-the-final--end-", "the|1-4 final|5-10 end|12-15 " },
    { "{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Isolated`,`invert`:false}",
      "-the-final--end-", "-|0-1 the|1-4 -|4-5 final|5-10 -|10-11 -|11-12 end|12-15 -|15-16 " },
    { "{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`MergedWithPrevious`,`invert`:false}",
      "-the-final--end-", "-|0-1 the-|1-5 final-|5-11 -|11-12 end-|12-16 " },
    { "{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`MergedWithNext`,`invert`:false}",
      "-the-final--end-", "-the|0-4 -final|4-10 -|10-11 -end|11-15 -|15-16 " },
    { "{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Contiguous`,`invert`:false}",
      "-the-final--end-", "-|0-1 the|1-4 -|4-5 final|5-10 --|10-12 end|12-15 -|15-16 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`\\\\w+`},`behavior`:`Removed`,`invert`:true}",
      "-the-final--end-", "the|1-4 final|5-10 end|12-15 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`\\\\w+`},`behavior`:`Isolated`,`invert`:true}",
      "-the-final--end-", "-|0-1 the|1-4 -|4-5 final|5-10 --|10-12 end|12-15 -|15-16 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`\\\\w+`},`behavior`:`MergedWithPrevious`,`invert`:true}",
      "-the-final--end-", "-|0-1 the-|1-5 final--|5-12 end-|12-16 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`\\\\w+`},`behavior`:`MergedWithNext`,`invert`:true}",
      "-the-final--end-", "-the|0-4 -final|4-10 --end|10-15 -|15-16 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`\\\\w+`},`behavior`:`Contiguous`,`invert`:true}",
      "-the-final--end-", "-|0-1 the|1-4 -|4-5 final|5-10 --|10-12 end|12-15 -|15-16 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`b*`},`behavior`:`Isolated`,`invert`:false}", "abba é",
      "a|0-1 bb|1-3 a|3-4  |4-5 é|5-7 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`(?=e)`},`behavior`:`MergedWithNext`,`invert`:false}",
      "heel e", "h|0-1 e|1-2 el |2-5 e|5-6 " },
    { "{`type`:`Split`,`pattern`:{`String`:``},`behavior`:`Isolated`,`invert`:false}", "aé",
      "a|0-1 é|1-3 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{"
      "N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
      "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+`},`"
      "behavior`:`Isolated`,`invert`:false}",
      "Hi, I'm  the 1st—naïve “user” 🙂!\n",
      "Hi|0-2 ,|2-3  I|3-5 'm|5-7  |7-8  the|8-12  |12-13 1|13-14 st|14-16 —naïve|16-25  “|25-29 "
      "user|29-33 ”|33-36  🙂!\n|36-43 " },
    { "{`type`:`Split`,`pattern`:{`Regex`:`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{"
      "N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
      "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+`},`"
      "behavior`:`Removed`,`invert`:true}",
      "Hi, I'm  the 1st—naïve “user” 🙂!\n",
      "Hi|0-2 ,|2-3  I|3-5 'm|5-7  |7-8  the|8-12  |12-13 1|13-14 st|14-16 —naïve|16-25  “|25-29 "
      "user|29-33 ”|33-36  🙂!\n|36-43 " },
    { "{`type`:`Sequence`,`pretokenizers`:[{`type`:`Split`,`pattern`:{`Regex`:`\\\\p{N}{1,3}`},`"
      "behavior`:`Isolated`,`invert`:false},{`type`:`Split`,`pattern`:{`Regex`:`[一-龥]+`},`"
      "behavior`:`Isolated`,`invert`:false},{`type`:`ByteLevel`,`add_prefix_space`:false,`trim_"
      "offsets`:true,`use_regex`:false}]}",
      "1234中文 a", "123|0-3 4|3-4 ä¸Ńæĸĩ|4-10 Ġa|10-12 " },
    { "{`type`:`UnicodeScripts`}", "  abc где 中文カナー12 x",
      "abc |2-6 где |6-13 中文カナー|13-28 12 |28-31 x|31-32 " },
    { "{`type`:`UnicodeScripts`}", "ーa. b", "ー|0-3 a|3-4 . |4-6 b|6-7 " },
    { "{`type`:`UnicodeScripts`}", "ա\u0589,\u061Cا", "ա|0-2 \u0589,\u061C|2-7 ا|7-9 " },
    { "{`type`:`UnicodeScripts`}", "\u0953\u0954\u0951क", "\u0953\u0954|0-6 \u0951|6-9 क|9-12 " },
    { "{`type`:`UnicodeScripts`}", "я\u0560中", "я\u0560|0-4 中|4-7 " },
    { "{`type`:`Sequence`,`pretokenizers`:[]}", "a b", "a b|0-3 " },
};

static void write_pieces(char *out, size_t out_size, const struct pieces *pieces)
{
    size_t used = 0;
    out[0] = 0;
    for (int64_t i = 0; i < pieces->count && used < out_size; i++) {
        const struct piece *piece = &pieces->list[i];
        const struct pieces_span span = pieces_span(pieces, piece->start, piece->end);
        used += (size_t)snprintf(out + used, out_size - used, "%.*s|%u-%u ",
                                 (int)(piece->end - piece->start), pieces->bytes + piece->start,
                                 span.start, span.end);
    }
}

TEST(pieces_are_those_of_the_reference)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct pre_tokenizer_case *expected = &CASES[i];
        struct pipeline_case step;
        struct step pre_tokenizer;
        struct pieces pieces;
        char shown[1024];
        pipeline_case_open(&step, expected->node);
        pipeline_case_assert(&step, pre_tokenizer_read(&step.build, step.node, &pre_tokenizer));
        pipeline_case_assert(&step,
                             pieces_init(&pieces, expected->text, (int64_t)strlen(expected->text),
                                         &step.limit, &step.arena, &step.fault)
                                 && pipeline_run(&pre_tokenizer, &pieces, &step.fault));
        write_pieces(shown, sizeof shown, &pieces);
        if (strcmp(shown, expected->expected) != 0)
            fail_msg("%s of \"%s\": %s; expected %s", expected->node, expected->text, shown,
                     expected->expected);
        pipeline_case_free(&step);
    }
}

static bool cut_token(const void *state, struct pieces *pieces, const struct piece *piece,
                      struct fault *fault)
{
    (void)state, (void)piece, (void)fault;
    pieces_cut_token(pieces, 2, 5, 7);
    return true;
}

/* No step touches an added token, and the text around it is cut as before. */
TEST(added_tokens_stay)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct pipeline_case step;
        struct step pre_tokenizer;
        struct pieces pieces;
        pipeline_case_open(&step, CASES[i].node);
        pipeline_case_assert(&step, pre_tokenizer_read(&step.build, step.node, &pre_tokenizer));
        assert_true(pieces_init(&pieces, "- <s>", 5, &step.limit, &step.arena, &step.fault));
        assert_true(pieces_split(&pieces, NULL, cut_token, NULL, &step.fault));
        assert_true(pipeline_run(&pre_tokenizer, &pieces, &step.fault));
        assert_int_equal(pieces.count, 1);
        assert_int_equal(pieces.list[0].id, 7);
        assert_int_equal(pieces.list[0].start, 2);
        assert_int_equal(pieces.list[0].end, 5);
        pipeline_case_free(&step);
    }
}

TEST(wrong_nodes_are_refused)
{
    static const char *const wrong[][2] = {
        { "{`type`:`Tokenize`}", "'Tokenize' is not known" },
        { "{`type`:`Digits`}", "individual_digits is missing" },
        { "{`type`:`Digits`,`individual_digits`:1}", "individual_digits is" },
        { "{`type`:`CharDelimiterSplit`,`delimiter`:`ab`}", "expected one character" },
        { "{`type`:`CharDelimiterSplit`,`delimiter`:``}", "expected one character" },
        { "{`type`:`FixedLength`,`length`:0}", "length is 0" },
        { "{`type`:`ByteLevel`,`trim_offsets`:true}", "add_prefix_space is missing" },
        { "{`type`:`Metaspace`}", "replacement is missing" },
        { "{`type`:`Metaspace`,`replacement`:`_`,`prepend_scheme`:`often`}", "'often'" },
        { "{`type`:`Metaspace`,`replacement`:`_`,`prepend_scheme`:`first`,`add_prefix_space`:"
          "false}",
          "add_prefix_space is false" },
        { "{`type`:`Punctuation`,`behavior`:`Split`}", "'Split'" },
        { "{`type`:`Split`,`pattern`:{`String`:`a`},`behavior`:`Isolated`}", "invert is missing" },
        { "{`type`:`Split`,`pattern`:{},`behavior`:`Isolated`,`invert`:false}", "pattern" },
        { "{`type`:`Split`,`pattern`:{`Regex`:`(a`},`behavior`:`Isolated`,`invert`:false}",
          "no regular expression" },
        { "{`type`:`Sequence`}", "pretokenizers is missing" },
        { "{`type`:`Sequence`,`pretokenizers`:[{`type`:`Whitespace`},{`type`:`X`}]}", "'X'" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pipeline_case step;
        struct step pre_tokenizer;
        pipeline_case_open(&step, wrong[i][0]);
        pipeline_case_assert_refused(
            &step, pre_tokenizer_read(&step.build, step.node, &pre_tokenizer), wrong[i][1]);
        pipeline_case_free(&step);
    }
}
