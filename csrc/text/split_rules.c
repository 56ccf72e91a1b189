#include "text/split_rules.h"
#include "text/unicode.h"

enum {
    LETTER = UNICODE_LETTER, NUMBER = UNICODE_NUMBER, PUNCTUATION = UNICODE_PUNCTUATION, SYMBOL = UNICODE_SYMBOL, MARK = UNICODE_MARK,
    SPACE = UNICODE_SPACE, NEWLINE = UNICODE_NEWLINE, OTHERS = UNICODE_OTHER | PUNCTUATION | SYMBOL | MARK,
    ANY = OTHERS | LETTER | NUMBER | SPACE
};

/* ---- pieces of rules */

typedef bool (*char_test)(const split_text *t, size_t at);
typedef struct char_range { uint32_t first, last; } char_range;

static bool is(const split_text *t, size_t at, unsigned kinds) { return at < t->end && (t->kind[at] & kinds); }

static bool is_char(const split_text *t, size_t at, uint32_t code) { return at < t->end && t->code[at] == code; }

static bool in(uint32_t code, uint32_t first, uint32_t last) { return code - first <= last - first; }

static bool in_ranges(uint32_t code, const char_range *ranges, size_t n) {
    for (size_t low = 0, high = n; low < high;) {
        size_t middle = (low + high) / 2;
        if (in(code, ranges[middle].first, ranges[middle].last)) return true;
        if (code < ranges[middle].first) high = middle;
        else low = middle + 1;
    }
    return false;
}

static size_t run(const split_text *t, size_t at, unsigned kinds) {
    while (is(t, at, kinds)) at++;
    return at;
}

static size_t run_test(const split_text *t, size_t at, char_test test) {
    while (at < t->end && test(t, at)) at++;
    return at;
}

static size_t run_digits(const split_text *t, size_t at) {
    while (at < t->end && in(t->code[at], '0', '9')) at++;
    return at;
}

/* A match that must not be empty: back to where it began if it is. */
static size_t unless_empty(size_t begin, size_t from, size_t to) { return to > from ? to : begin; }

static size_t after_blank(const split_text *t, size_t at) { return at + is_char(t, at, ' '); }

static size_t after_space(const split_text *t, size_t at) { return at + is(t, at, SPACE); }

static size_t blank_run(const split_text *t, size_t at, unsigned kinds) {
    size_t from = after_blank(t, at);
    return unless_empty(at, from, run(t, from, kinds));
}

/* ---- contractions */

static uint32_t letter_at(const split_text *t, size_t at, bool any_case) {
    uint32_t c = at < t->end ? t->code[at] : 0;
    return any_case && in(c, 'A', 'Z') ? c + 32 : c;
}

static size_t contraction(const split_text *t, size_t at, bool any_case) {
    if (!is_char(t, at, '\'')) return at;
    uint32_t a = letter_at(t, at + 1, any_case), b = letter_at(t, at + 2, any_case);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
    return at;
}

size_t kipu_split_contraction(split_text *t, size_t at) { return contraction(t, at, false); }
size_t kipu_split_contraction_any_case(split_text *t, size_t at) { return contraction(t, at, true); }

/* ---- optional blank, then a run */

size_t kipu_split_blank_letters(split_text *t, size_t at) { return blank_run(t, at, LETTER); }
size_t kipu_split_blank_numbers(split_text *t, size_t at) { return blank_run(t, at, NUMBER); }
size_t kipu_split_blank_others(split_text *t, size_t at) { return blank_run(t, at, OTHERS); }

size_t kipu_split_blank_others_newlines(split_text *t, size_t at) {
    size_t to = blank_run(t, at, OTHERS);
    return to > at ? run(t, to, NEWLINE) : at;
}

static bool newline_or_slash(const split_text *t, size_t at) { return t->code[at] == '/' || (t->kind[at] & NEWLINE); }

size_t kipu_split_blank_others_slashes(split_text *t, size_t at) {
    size_t to = blank_run(t, at, OTHERS);
    return to > at ? run_test(t, to, newline_or_slash) : at;
}

/* "~" is a symbol, but not in the reference's list of the ASCII ones. */
static bool sign(const split_text *t, size_t at) { return (t->kind[at] & (PUNCTUATION | SYMBOL)) && t->code[at] != '~'; }

size_t kipu_split_blank_signs_newlines(split_text *t, size_t at) {
    size_t from = after_blank(t, at), to = run_test(t, from, sign);
    return to > from ? run(t, to, NEWLINE) : at;
}

static bool unstopped(const split_text *t, size_t at) {
    static const uint32_t stops[] = {'(', '|', '.', ',', '!', '?', ')', 0x2026, 0x3002, 0xff0c, 0x3001, 0x0964, 0x06d4, 0x060c};
    if (t->kind[at] & SPACE) return false;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) if (t->code[at] == stops[i]) return false;
    return true;
}

size_t kipu_split_blank_unstopped(split_text *t, size_t at) {
    size_t from = after_blank(t, at);
    return unless_empty(at, from, run_test(t, from, unstopped));
}

/* ---- optional lead, then letters */

size_t kipu_split_lead_letters(split_text *t, size_t at) {
    size_t from = at + !is(t, at, NEWLINE | LETTER | NUMBER);
    return unless_empty(at, from, run(t, from, LETTER));
}

/* The reference knows case for ASCII only: every other letter is upper and lower case at once. */
static bool upper(const split_text *t, size_t at) { return (t->kind[at] & LETTER) && !in(t->code[at], 'a', 'z'); }
static bool lower(const split_text *t, size_t at) { return (t->kind[at] & LETTER) && !in(t->code[at], 'A', 'Z'); }

/* upper* lower+ as a backtracking matcher finds it: the upper run gives back characters until one of them can be the lower part. */
static size_t upper_lower(const split_text *t, size_t from) {
    size_t turn = run_test(t, from, upper);
    size_t to = run_test(t, turn, lower);
    if (to > turn) return to;
    while (turn > from && !lower(t, turn - 1)) turn--;
    return turn > from ? turn : from;
}

static size_t cased(const split_text *t, size_t at) {
    size_t from = at + !is(t, at, NEWLINE | LETTER | NUMBER);
    size_t to = upper_lower(t, from);
    if (to == from) to = run_test(t, run_test(t, from, upper), lower);
    return unless_empty(at, from, to);
}

size_t kipu_split_lead_cased(split_text *t, size_t at) { return cased(t, at); }

size_t kipu_split_lead_cased_contraction(split_text *t, size_t at) {
    size_t to = cased(t, at);
    return to > at ? contraction(t, to, true) : at;
}

size_t kipu_split_lead_letters_marks(split_text *t, size_t at) {
    size_t from = at + !(is(t, at, NEWLINE | LETTER) || sign(t, at));
    size_t to = run(t, from, LETTER | MARK);
    return to > from ? to : run(t, at, MARK);   /* a lone mark is no lead but the run itself */
}

static bool ascii_letter(const split_text *t, size_t at) { return in(t->code[at] | 32, 'a', 'z'); }

size_t kipu_split_ascii_sign_letters(split_text *t, size_t at) {
    uint32_t c = t->code[at];
    if (!in(c, '!', '~') || in(c, '0', '9') || ascii_letter(t, at)) return at;
    return unless_empty(at, at + 1, run_test(t, at + 1, ascii_letter));
}

size_t kipu_split_space_letters(split_text *t, size_t at) {
    size_t from = after_space(t, at);
    return unless_empty(at, from, run(t, from, LETTER));
}

size_t kipu_split_space_punctuation(split_text *t, size_t at) {
    size_t from = after_space(t, at);
    return unless_empty(at, from, run(t, from, PUNCTUATION));
}

/* Latin, Greek and Coptic, Cyrillic, Armenian, Georgian, Cherokee, letter-like, Glagolitic, Deseret, Osage, Old Hungarian, Warang Citi,
 * Adlam: the letters that deepseek-llm names. */
static const char_range cased_scripts[] = {
    {0x41, 0x5a}, {0x61, 0x7a}, {0xb5, 0xb5}, {0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0x1ba}, {0x1bc, 0x1bf}, {0x1c4, 0x293}, {0x295, 0x2af},
    {0x370, 0x373}, {0x376, 0x377}, {0x37b, 0x37d}, {0x37f, 0x37f}, {0x386, 0x386}, {0x388, 0x38a}, {0x38c, 0x38c}, {0x38e, 0x3a1},
    {0x3a3, 0x3f5}, {0x3f7, 0x481}, {0x48a, 0x52f}, {0x531, 0x556}, {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd},
    {0x1c90, 0x1cba}, {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b}, {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15}, {0x1f18, 0x1f1d},
    {0x1f20, 0x1f45}, {0x1f48, 0x1f4d}, {0x1f50, 0x1f57}, {0x1f59, 0x1f59}, {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d},
    {0x1f80, 0x1fb4}, {0x1fb6, 0x1fbc}, {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc}, {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210a, 0x2113}, {0x2115, 0x2115},
    {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212a, 0x212d}, {0x212f, 0x2134}, {0x2139, 0x2139},
    {0x213c, 0x213f}, {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2184}, {0x2c00, 0x2c7b}, {0x2c7e, 0x2ce4}, {0x2ceb, 0x2cee},
    {0x2cf2, 0x2cf3}, {0xa640, 0xa66d}, {0xa680, 0xa69b}, {0xa722, 0xa76f}, {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf},
    {0xfb00, 0xfb06}, {0xfb13, 0xfb17}, {0xff21, 0xff3a}, {0xff41, 0xff5a}, {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};

static bool cased_script(const split_text *t, size_t at) {
    return in_ranges(t->code[at], cased_scripts, sizeof cased_scripts / sizeof *cased_scripts);
}

size_t kipu_split_space_cased_scripts(split_text *t, size_t at) {
    size_t from = after_space(t, at);
    return unless_empty(at, from, run_test(t, from, cased_script));
}

/* ":-~" is taken at its word, so ASCII letters are in it. U+3000 is whitespace and therefore not. */
static const char_range wide_punctuation[] = {
    {'!', '/'}, {':', '~'}, {0x2018, 0x201f}, {0x3001, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e},
};

static bool is_wide_punctuation(const split_text *t, size_t at) {
    return in_ranges(t->code[at], wide_punctuation, sizeof wide_punctuation / sizeof *wide_punctuation);
}

size_t kipu_split_space_wide_punctuation(split_text *t, size_t at) {
    size_t from = after_space(t, at);
    return unless_empty(at, from, run_test(t, from, is_wide_punctuation));
}

/* ---- numbers */

size_t kipu_split_number(split_text *t, size_t at) { return at + is(t, at, NUMBER); }
size_t kipu_split_numbers(split_text *t, size_t at) { return run(t, at, NUMBER); }

size_t kipu_split_3_numbers(split_text *t, size_t at) {
    size_t to = at;
    while (to < at + 3 && is(t, to, NUMBER)) to++;
    return to;
}

size_t kipu_split_3_digits(split_text *t, size_t at) {
    for (size_t i = at; i < at + 3; i++) if (i >= t->end || !in(t->code[i], '0', '9')) return at;
    return at + 3;
}

/* The end of the run is kept from call to call: a run of n digits is measured once, not n / 3 times. */
size_t kipu_split_thousands(split_text *t, size_t at) {
    for (at++; at < t->end; at++) {
        if (at >= t->digits_end) t->digits_end = run_digits(t, at);
        if (t->digits_end > at && (t->digits_end - at) % 3 == 0) return at;
    }
    return at;
}

/* ---- whitespace */

size_t kipu_split_newline(split_text *t, size_t at) { return at + is(t, at, NEWLINE); }
size_t kipu_split_spaces(split_text *t, size_t at) { return run(t, at, SPACE); }

size_t kipu_split_spaces_to_newline(split_text *t, size_t at) {
    size_t last = at;
    for (size_t i = at; is(t, i, SPACE); i++) if (t->kind[i] & NEWLINE) last = i + 1;
    return last;
}

size_t kipu_split_spaces_but_last(split_text *t, size_t at) {
    size_t to = run(t, at, SPACE);
    return to > at && to < t->end ? to - 1 : to;
}

/* Only asked at the beginning of a run: had the run reached the end, its first character would have matched. */
size_t kipu_split_last_spaces(split_text *t, size_t at) {
    if (at > t->begin && is(t, at - 1, SPACE)) return at;
    return run(t, at, SPACE) == t->end ? t->end : at;
}

size_t kipu_split_indent(split_text *t, size_t at) {
    if (is_char(t, at, '\t') || is_char(t, at, '\n')) return at + 1;
    size_t blanks = 0;
    while (blanks < 4 && is_char(t, at + blanks, ' ')) blanks++;
    return at + (blanks & ~(size_t)1);
}

/* ---- runs and single characters */

static bool one_of(uint32_t code, const char *list) {
    while (*list && (unsigned char)*list != code) list++;
    return *list;
}

static bool plain_sign(const split_text *t, size_t at) { return (t->kind[at] & PUNCTUATION) || one_of(t->code[at], "$+<=>^~|"); }
static bool sign_or_backtick(const split_text *t, size_t at) { return plain_sign(t, at) || t->code[at] == '`'; }

size_t kipu_split_signs(split_text *t, size_t at) { return run_test(t, at, plain_sign); }
size_t kipu_split_signs_backtick(split_text *t, size_t at) { return run_test(t, at, sign_or_backtick); }
size_t kipu_split_sign(split_text *t, size_t at) { return at + sign_or_backtick(t, at); }

static bool kana_han(const split_text *t, size_t at) { return in(t->code[at], 0x4e00, 0x9fa5) || in(t->code[at], 0x3040, 0x30ff); }

static bool asian(const split_text *t, size_t at) {
    return (in(t->code[at], 0x800, 0x9fa5) || in(t->code[at], 0xac00, 0xd7ff)) && !(t->kind[at] & SPACE);
}

size_t kipu_split_kana_han(split_text *t, size_t at) { return run_test(t, at, kana_han); }
size_t kipu_split_asian(split_text *t, size_t at) { return run_test(t, at, asian); }

/* ---- chameleon */

static size_t word(const split_text *t, size_t at, const char *text) {
    size_t to = at;
    for (; *text; text++) if (!is_char(t, to++, (unsigned char)*text)) return at;
    return to;
}

size_t kipu_split_sentinel(split_text *t, size_t at) {
    size_t from = word(t, at, "<sentinel:");
    if (from == at) return at;
    size_t to = run_digits(t, from);
    return to > from && is_char(t, to, '>') ? to + 1 : at;
}

size_t kipu_split_image(split_text *t, size_t at) {
    size_t from = word(t, at, "IMGIMG"), to = from;
    if (from == at) return at;
    while (to < from + 4 && to < t->end && in(t->code[to], 'A', 'I')) to++;
    return to > from && is_char(t, to, 'Z') ? to + 1 : at;
}
