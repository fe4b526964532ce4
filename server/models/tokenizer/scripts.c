/* SPDX-License-Identifier: Apache-2.0 */
/* scripts.c - UnicodeScripts: cuts where the script of the characters changes, as SentencePiece
 * does.
 *
 * Hiragana, Katakana and the prolonged sound mark count as Han. A space, and a character of none of
 * the scripts, belongs to the script before it; at the start of a piece it is dropped, as in the
 * reference. The scripts are those of Unicode 9, which the reference knows: characters that came
 * later, LATER, belong to none. They were found by asking the reference implementation, tokenizers
 * 0.22.2, for every character. */
#include "models/tokenizer/pre_tokenizer.h"
#include "json/text.h"

#include <string.h>

/* Each with a space behind; the most frequent ones first. */
static const char SCRIPTS[] =
    "Latin Common Han Inherited Adlam Ahom AnatolianHieroglyphs Arabic Armenian Avestan "
    "Balinese Bamum BassaVah Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid "
    "CanadianAboriginal Carian CaucasianAlbanian Chakma Cham Cherokee Coptic Cuneiform "
    "Cypriot Cyrillic Deseret Devanagari Duployan EgyptianHieroglyphs Elbasan Ethiopic "
    "Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Hangul Hanunoo Hatran Hebrew "
    "ImperialAramaic InscriptionalPahlavi InscriptionalParthian Javanese Kaithi Kannada "
    "KayahLi Kharoshthi Khmer Khojki Khudawadi Lao Lepcha Limbu LinearA LinearB Lisu Lycian "
    "Lydian Mahajani Malayalam Mandaic Manichaean Marchen MeeteiMayek MendeKikakui "
    "MeroiticCursive MeroiticHieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean "
    "NewTaiLue Newa Nko Ogham OlChiki OldHungarian OldItalic OldNorthArabian OldPermic "
    "OldPersian OldSouthArabian OldTurkic Oriya Osage Osmanya PahawhHmong Palmyrene "
    "PauCinHau PhagsPa Phoenician PsalterPahlavi Rejang Runic Samaritan Saurashtra Sharada "
    "Shavian Siddham SignWriting Sinhala SoraSompeng Sundanese SylotiNagri Syriac Tagalog "
    "Tagbanwa TaiLe TaiTham TaiViet Takri Tamil Tangut Telugu Thaana Thai Tibetan Tifinagh "
    "Tirhuta Ugaritic Vai WarangCiti Yi ";

static const uint32_t LATER[][2] = {
    { 0x560, 0x560 },     { 0x588, 0x588 },     { 0x5EF, 0x5EF },     { 0x61D, 0x61D },
    { 0x7FD, 0x7FF },     { 0x860, 0x89F },     { 0x8B5, 0x8B5 },     { 0x8BE, 0x8D3 },
    { 0x9FC, 0x9FE },     { 0xA76, 0xA76 },     { 0xAFA, 0xAFF },     { 0xB55, 0xB55 },
    { 0xC04, 0xC04 },     { 0xC3C, 0xC3C },     { 0xC5D, 0xC5D },     { 0xC77, 0xC77 },
    { 0xC84, 0xC84 },     { 0xCDD, 0xCDD },     { 0xD00, 0xD00 },     { 0xD04, 0xD04 },
    { 0xD3B, 0xD3C },     { 0xD81, 0xD81 },     { 0xE86, 0xE86 },     { 0xE89, 0xE89 },
    { 0xE8C, 0xE8C },     { 0xE8E, 0xE93 },     { 0xE98, 0xE98 },     { 0xEA0, 0xEA0 },
    { 0xEA8, 0xEA9 },     { 0xEAC, 0xEAC },     { 0xEBA, 0xEBA },     { 0x170D, 0x170D },
    { 0x1715, 0x171F },   { 0x180F, 0x180F },   { 0x1878, 0x1878 },   { 0x1ABF, 0x1ACE },
    { 0x1B4C, 0x1B4C },   { 0x1B7D, 0x1B7E },   { 0x1C90, 0x1CBF },   { 0x1CF7, 0x1CF7 },
    { 0x1CFA, 0x1CFA },   { 0x1DF6, 0x1DFA },   { 0x20BF, 0x20C0 },   { 0x23FF, 0x23FF },
    { 0x2B97, 0x2B97 },   { 0x2BBA, 0x2BBC },   { 0x2BC9, 0x2BC9 },   { 0x2BD2, 0x2BEB },
    { 0x2BF0, 0x2BFF },   { 0x2C2F, 0x2C2F },   { 0x2C5F, 0x2C5F },   { 0x2E45, 0x2E5D },
    { 0x312E, 0x312F },   { 0x31BB, 0x31BF },   { 0x32FF, 0x32FF },   { 0x4DB6, 0x4DBF },
    { 0x9FD6, 0x9FFF },   { 0xA7AF, 0xA7AF },   { 0xA7B8, 0xA7F6 },   { 0xA82C, 0xA82C },
    { 0xA8FE, 0xA8FF },   { 0xAB66, 0xAB6B },   { 0xFBC2, 0xFBC2 },   { 0xFD40, 0xFD4F },
    { 0xFDCF, 0xFDCF },   { 0xFDFE, 0xFDFF },   { 0x1019C, 0x1019C }, { 0x1032D, 0x1032F },
    { 0x10780, 0x107BA }, { 0x10A34, 0x10A35 }, { 0x10A48, 0x10A48 }, { 0x11070, 0x11075 },
    { 0x110C2, 0x110CD }, { 0x11144, 0x11147 }, { 0x111CE, 0x111CF }, { 0x1133B, 0x1133B },
    { 0x1145A, 0x1145A }, { 0x1145E, 0x11461 }, { 0x116B8, 0x116B9 }, { 0x1171A, 0x1171A },
    { 0x11740, 0x11746 }, { 0x11AB0, 0x11ABF }, { 0x11FB0, 0x11FFF }, { 0x13430, 0x13438 },
    { 0x16F45, 0x16F4F }, { 0x16F7F, 0x16F87 }, { 0x16FE2, 0x16FE3 }, { 0x16FF0, 0x16FF1 },
    { 0x187ED, 0x187F7 }, { 0x18AF3, 0x18AFF }, { 0x18D00, 0x18D08 }, { 0x1AFF0, 0x1AFFE },
    { 0x1B002, 0x1B167 }, { 0x1CF00, 0x1CFC3 }, { 0x1D1E9, 0x1D1EA }, { 0x1D2E0, 0x1D2F3 },
    { 0x1D372, 0x1D378 }, { 0x1DF00, 0x1DF1E }, { 0x1E7E0, 0x1E7FE }, { 0x1E94B, 0x1E94B },
    { 0x1EC71, 0x1ED3D }, { 0x1F10D, 0x1F10F }, { 0x1F12F, 0x1F12F }, { 0x1F16C, 0x1F16F },
    { 0x1F1AD, 0x1F1AD }, { 0x1F260, 0x1F265 }, { 0x1F6D3, 0x1F6DF }, { 0x1F6F7, 0x1F6FC },
    { 0x1F7D5, 0x1F7F0 }, { 0x1F8B0, 0x1F90F }, { 0x1F91F, 0x1F91F }, { 0x1F928, 0x1F92F },
    { 0x1F931, 0x1F932 }, { 0x1F93F, 0x1F93F }, { 0x1F94C, 0x1F94F }, { 0x1F95F, 0x1F97F },
    { 0x1F992, 0x1F9BF }, { 0x1F9C1, 0x1FBF9 }, { 0x2A6D7, 0x2A6DF }, { 0x2B735, 0x2B739 },
    { 0x2CEB0, 0x2EE5D }, { 0x30000, 0x323AF }
};

struct name {
    const char *text;
    int size;
};

/* The next name of *names, which moves on; .size is 0 behind the last one. */
static struct name next_script(const char **names)
{
    const struct name name = { *names, (int)strcspn(*names, " ") };
    *names += name.size + (name.size > 0);
    return name;
}

static bool is_script(struct name name, const char *script)
{
    return (size_t)name.size == strlen(script) && memcmp(name.text, script, strlen(script)) == 0;
}

/* The members of a script, for a class of characters. */
static void write_members(struct text *pattern, struct name script)
{
    text_format(pattern, "\\p{%.*s}", script.size, script.text);
    if (is_script(script, "Han"))
        text_raw(pattern, "\\p{Hiragana}\\p{Katakana}\\x{30FC}");
    if (is_script(script, "Common"))
        text_raw(pattern, "\\x{589}\\x{61C}");
    if (is_script(script, "Devanagari"))
        text_raw(pattern, "\\x{953}\\x{954}");
}

/* The characters that the reference counts to another script than the engine: U+30FC to Han and not
 * to Common, U+0589 and U+061C to Common and not to Armenian and Arabic, U+0953 and U+0954 to
 * Devanagari and not to Inherited. */
static const char *not_of(struct name script)
{
    if (is_script(script, "Han"))
        return "";
    if (is_script(script, "Inherited"))
        return "(?![\\x{953}\\x{954}])";
    return is_script(script, "Arabic") || is_script(script, "Armenian") ? "(?![\\x{589}\\x{61C}])"
                                                                        : "(?!\\x{30FC})";
}

/* A space is Common to the engine. */
void scripts_write_pattern(struct text *pattern)
{
    struct name script;
    text_raw(pattern, "(?<none>[ ");
    for (size_t i = 0; i < sizeof LATER / sizeof *LATER; i++)
        text_format(pattern, "\\x{%x}-\\x{%x}", LATER[i][0], LATER[i][1]);
    text_raw(pattern, "]|[^");
    for (const char *names = SCRIPTS; (script = next_script(&names)).size > 0;)
        write_members(pattern, script);
    text_raw(pattern, "]){0}(?!\\g<none>)(?:");
    for (const char *names = SCRIPTS; (script = next_script(&names)).size > 0;) {
        const char *other = not_of(script);
        text_format(pattern, "%s%s[", script.text > SCRIPTS ? "|" : "", other);
        write_members(pattern, script);
        text_format(pattern, "](?:\\g<none>|%s[", other);
        write_members(pattern, script);
        text_raw(pattern, "])*");
    }
    text_raw(pattern, ")");
}
