/* scripts.c - UnicodeScripts: cuts where the script of the characters changes, as SentencePiece
 * does.
 *
 * Hiragana, Katakana and the prolonged sound mark count as Han. A space, and a character of none of
 * the scripts, belongs to the script before it; at the start of a piece it is dropped, as in the
 * reference. The scripts are those of Unicode 9, which the reference knows. */
#include "tokenizer/pre_tokenizer_types.h"
#include "tokenizer/split.h"

#include "text/text.h"

/* The most frequent ones first. Han is written out in write_members(). */
static const char *const SCRIPTS[] = {
    "Latin",
    "Common",
    "Han",
    "Inherited",
    "Adlam",
    "Ahom",
    "AnatolianHieroglyphs",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "BassaVah",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "CanadianAboriginal",
    "Carian",
    "CaucasianAlbanian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Duployan",
    "EgyptianHieroglyphs",
    "Elbasan",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "ImperialAramaic",
    "InscriptionalPahlavi",
    "InscriptionalParthian",
    "Javanese",
    "Kaithi",
    "Kannada",
    "KayahLi",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Lepcha",
    "Limbu",
    "LinearA",
    "LinearB",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "MeeteiMayek",
    "MendeKikakui",
    "MeroiticCursive",
    "MeroiticHieroglyphs",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "NewTaiLue",
    "Newa",
    "Nko",
    "Ogham",
    "OlChiki",
    "OldHungarian",
    "OldItalic",
    "OldNorthArabian",
    "OldPermic",
    "OldPersian",
    "OldSouthArabian",
    "OldTurkic",
    "Oriya",
    "Osage",
    "Osmanya",
    "PahawhHmong",
    "Palmyrene",
    "PauCinHau",
    "PhagsPa",
    "Phoenician",
    "PsalterPahlavi",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "SignWriting",
    "Sinhala",
    "SoraSompeng",
    "Sundanese",
    "SylotiNagri",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "TaiLe",
    "TaiTham",
    "TaiViet",
    "Takri",
    "Tamil",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Ugaritic",
    "Vai",
    "WarangCiti",
    "Yi",
};
enum { SCRIPT_COUNT = sizeof SCRIPTS / sizeof *SCRIPTS, HAN = 2 };

/* The members of a script, for a class of characters. */
static void write_members(struct text *pattern, int script)
{
    text_format(pattern, "\\p{%s}", SCRIPTS[script]);
    if (script == HAN)
        text_raw(pattern, "\\p{Hiragana}\\p{Katakana}\\x{30FC}");
}

/* An expression whose matches are the runs of one script. Classes are intersected without what
 * belongs to no script by itself (the space) or to another one (U+30FC, which is Common). */
static void write_pattern(struct text *pattern)
{
    text_raw(pattern, "(?<none>[^");
    for (int i = 0; i < SCRIPT_COUNT; i++)
        write_members(pattern, i);
    text_raw(pattern, "]){0}");
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        text_raw(pattern, i > 0 ? "|(?!" : "(?!");
        text_raw(pattern, i == HAN ? " )[" : "[ \\x{30FC}])[");
        write_members(pattern, i);
        text_raw(pattern, i == HAN ? "](?:[" : "](?:(?!\\x{30FC})[ ");
        write_members(pattern, i);
        text_raw(pattern, i == HAN ? " ]|\\g<none>)*" : "]|\\g<none>)*");
    }
}

static bool scripts_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    return split_by_pattern(state, pieces, fault);
}

bool scripts_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    (void)node;
    struct split_pattern *split = pipeline_alloc(build, 1, sizeof *split);
    if (!split)
        return false;
    struct text pattern;
    text_init(&pattern, REGEX_PATTERN_BYTES_MAX);
    write_pattern(&pattern);
    if (text_finish(&pattern, build->fault))
        split->regex = pipeline_regex(build, pattern.data, pattern.used);
    text_free(&pattern);
    split->behavior = SPLIT_REMOVED;
    split->invert = true;
    *(struct pre_tokenizer *)step = (struct pre_tokenizer){ scripts_run, split };
    return split->regex != NULL;
}
