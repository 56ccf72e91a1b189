/* The rules that pre-tokenizers are put together from. Names say what is matched, in order; "lead" is one optional character in front. */
#ifndef KIPU_TEXT_SPLIT_RULES_H
#define KIPU_TEXT_SPLIT_RULES_H

#include "text/pre_tokenizer.h"

/* 's 't 're 've 'm 'll 'd, lower case or any case */
size_t kipu_split_contraction(split_text *t, size_t at);
size_t kipu_split_contraction_any_case(split_text *t, size_t at);

/* optional blank, then a run */
size_t kipu_split_blank_letters(split_text *t, size_t at);
size_t kipu_split_blank_numbers(split_text *t, size_t at);
size_t kipu_split_blank_others(split_text *t, size_t at);           /* not whitespace, letter, number */
size_t kipu_split_blank_others_newlines(split_text *t, size_t at);  /* then a run of CR and LF */
size_t kipu_split_blank_others_slashes(split_text *t, size_t at);   /* then a run of CR, LF and "/" */
size_t kipu_split_blank_signs_newlines(split_text *t, size_t at);   /* punctuation and symbols, then a run of CR and LF */
size_t kipu_split_blank_unstopped(split_text *t, size_t at);        /* not whitespace and none of the full stops and commas of bloom */

/* optional lead, then a run */
size_t kipu_split_lead_letters(split_text *t, size_t at);           /* lead: not CR, LF, letter, number */
size_t kipu_split_lead_cased(split_text *t, size_t at);             /* upper* lower+ or upper+ lower* */
size_t kipu_split_lead_cased_contraction(split_text *t, size_t at);
size_t kipu_split_lead_letters_marks(split_text *t, size_t at);     /* lead: not CR, LF, letter, punctuation, symbol */
size_t kipu_split_ascii_sign_letters(split_text *t, size_t at);     /* one ASCII punctuation character, ASCII letters */
size_t kipu_split_space_letters(split_text *t, size_t at);          /* lead: whitespace */
size_t kipu_split_space_punctuation(split_text *t, size_t at);
size_t kipu_split_space_cased_scripts(split_text *t, size_t at);    /* letters of the scripts with upper and lower case */
size_t kipu_split_space_wide_punctuation(split_text *t, size_t at); /* ASCII from "!" on except digits, full-width, general punctuation */

/* numbers */
size_t kipu_split_number(split_text *t, size_t at);
size_t kipu_split_numbers(split_text *t, size_t at);
size_t kipu_split_3_numbers(split_text *t, size_t at);              /* one to three */
size_t kipu_split_3_digits(split_text *t, size_t at);               /* exactly three, ASCII */
size_t kipu_split_thousands(split_text *t, size_t at);              /* up to the next place with 3, 6, 9, ... digits behind it */

/* whitespace */
size_t kipu_split_newline(split_text *t, size_t at);
size_t kipu_split_spaces_to_newline(split_text *t, size_t at);      /* the part of a run up to its last CR or LF */
size_t kipu_split_spaces_but_last(split_text *t, size_t at);        /* a run except its last character when something follows */
size_t kipu_split_spaces(split_text *t, size_t at);
size_t kipu_split_last_spaces(split_text *t, size_t at);            /* a run at the end of the piece */
size_t kipu_split_indent(split_text *t, size_t at);                 /* tab, LF, four or two blanks */

/* runs and single characters */
size_t kipu_split_signs(split_text *t, size_t at);                  /* punctuation and $+<=>^~| */
size_t kipu_split_signs_backtick(split_text *t, size_t at);
size_t kipu_split_sign(split_text *t, size_t at);                   /* one punctuation or ASCII symbol */
size_t kipu_split_kana_han(split_text *t, size_t at);               /* ideographs, Hiragana, Katakana */
size_t kipu_split_asian(split_text *t, size_t at);                  /* U+0800..U+9FA5 and Hangul */

/* chameleon: <sentinel:digits>, IMGIMG + 1 to 4 letters A-I + Z */
size_t kipu_split_sentinel(split_text *t, size_t at);
size_t kipu_split_image(split_text *t, size_t at);

#endif
