#include "text/pre_tokenizer.h"
#include <string.h>
#include "text/split_rules.h"

/* ---- steps: alternatives in the order in which they are tried */

static const split_rule gpt2[] = {
    kipu_split_contraction, kipu_split_blank_letters, kipu_split_blank_numbers, kipu_split_blank_others, kipu_split_spaces_but_last,
    kipu_split_spaces, NULL
};
static const split_rule llama3[] = {
    kipu_split_contraction_any_case, kipu_split_lead_letters, kipu_split_3_numbers, kipu_split_blank_others_newlines,
    kipu_split_spaces_to_newline, kipu_split_spaces_but_last, kipu_split_spaces, NULL
};
static const split_rule qwen2[] = {
    kipu_split_contraction_any_case, kipu_split_lead_letters, kipu_split_number, kipu_split_blank_others_newlines,
    kipu_split_spaces_to_newline, kipu_split_spaces_but_last, kipu_split_spaces, NULL
};
static const split_rule seed_coder[] = {
    kipu_split_contraction_any_case, kipu_split_lead_letters, kipu_split_number, kipu_split_blank_others,
    kipu_split_spaces_to_newline, kipu_split_spaces_but_last, kipu_split_spaces, NULL
};
static const split_rule gpt4o[] = {
    kipu_split_lead_cased_contraction, kipu_split_3_numbers, kipu_split_blank_others_slashes,
    kipu_split_spaces_to_newline, kipu_split_spaces_but_last, kipu_split_spaces, NULL
};
static const split_rule tekken[] = {
    kipu_split_lead_cased, kipu_split_number, kipu_split_blank_others_slashes,
    kipu_split_spaces_to_newline, kipu_split_spaces_but_last, kipu_split_spaces, NULL
};
static const split_rule deepseek3[] = {
    kipu_split_ascii_sign_letters, kipu_split_lead_letters_marks, kipu_split_blank_signs_newlines,
    kipu_split_spaces_to_newline, kipu_split_spaces_but_last, kipu_split_spaces, NULL
};
static const split_rule number[] = {kipu_split_number, NULL};
static const split_rule numbers[] = {kipu_split_numbers, NULL};
static const split_rule numbers_3[] = {kipu_split_3_numbers, NULL};
static const split_rule digits_3[] = {kipu_split_3_digits, NULL};
static const split_rule thousands[] = {kipu_split_thousands, NULL};
static const split_rule newline[] = {kipu_split_newline, NULL};
static const split_rule last_spaces[] = {kipu_split_last_spaces, NULL};
static const split_rule indent[] = {kipu_split_indent, NULL};
static const split_rule signs[] = {kipu_split_signs, NULL};
static const split_rule signs_backtick[] = {kipu_split_signs_backtick, NULL};
static const split_rule sign[] = {kipu_split_sign, NULL};
static const split_rule kana_han[] = {kipu_split_kana_han, NULL};
static const split_rule asian[] = {kipu_split_asian, NULL};
static const split_rule unstopped[] = {kipu_split_blank_unstopped, NULL};
static const split_rule space_letters[] = {kipu_split_space_letters, NULL};
static const split_rule space_punctuation[] = {kipu_split_space_punctuation, NULL};
static const split_rule cased_scripts[] = {kipu_split_space_cased_scripts, NULL};
static const split_rule wide_punctuation[] = {kipu_split_space_wide_punctuation, NULL};
static const split_rule sentinel[] = {kipu_split_sentinel, NULL};
static const split_rule image[] = {kipu_split_image, NULL};

/* ---- pre-tokenizers: steps one after the other */

static const split_step gpt2_steps[] = {gpt2, NULL};
static const split_step starcoder_steps[] = {number, gpt2, NULL};
static const split_step llama3_steps[] = {llama3, NULL};
static const split_step qwen2_steps[] = {qwen2, NULL};
static const split_step seed_coder_steps[] = {seed_coder, NULL};
static const split_step falcon_steps[] = {signs_backtick, gpt2, digits_3, NULL};
static const split_step default_steps[] = {signs, gpt2, numbers, digits_3, NULL};
static const split_step gpt4o_steps[] = {gpt4o, NULL};
static const split_step tekken_steps[] = {tekken, NULL};
static const split_step deepseek3_steps[] = {numbers_3, kana_han, deepseek3, NULL};
static const split_step deepseek_llm_steps[] = {newline, cased_scripts, wide_punctuation, last_spaces, asian, numbers, NULL};
static const split_step deepseek_coder_steps[] = {newline, space_letters, space_punctuation, asian, number, NULL};
static const split_step bloom_steps[] = {unstopped, NULL};
static const split_step viking_steps[] = {unstopped, number, NULL};
static const split_step superbpe_steps[] = {numbers, thousands, NULL};
static const split_step chameleon_steps[] = {sentinel, image, indent, number, sign, gpt2, NULL};

enum { LLAMA3 = PRE_IGNORE_MERGES | PRE_ADD_BOS, KEEP = PRE_KEEP_SPACES };

static const pre_tokenizer table[] = {
    {"default", default_steps, 0},
    {"llama3", llama3_steps, LLAMA3}, {"llama-v3", llama3_steps, LLAMA3}, {"llama-bpe", llama3_steps, LLAMA3},
    {"falcon3", llama3_steps, LLAMA3}, {"falcon-h1", llama3_steps, LLAMA3}, {"pixtral", llama3_steps, LLAMA3},
    {"dbrx", llama3_steps, 0}, {"smaug-bpe", llama3_steps, 0},
    {"glm4", llama3_steps, PRE_NO_BOS}, {"chatglm-bpe", llama3_steps, PRE_NO_BOS},
    {"gpt-2", gpt2_steps, 0}, {"phi-2", gpt2_steps, 0}, {"jina-es", gpt2_steps, 0}, {"jina-de", gpt2_steps, 0},
    {"jina-v2-es", gpt2_steps, 0}, {"jina-v2-de", gpt2_steps, 0}, {"gigachat", gpt2_steps, 0}, {"a.x-4.0", gpt2_steps, 0},
    {"mellum", gpt2_steps, 0}, {"mpt", gpt2_steps, 0}, {"olmo", gpt2_steps, 0}, {"jais", gpt2_steps, 0}, {"trillion", gpt2_steps, KEEP},
    {"jina-v1-en", gpt2_steps, PRE_ADD_SEP}, {"jina-v2-code", gpt2_steps, PRE_ADD_SEP}, {"roberta-bpe", gpt2_steps, PRE_ADD_SEP},
    {"starcoder", starcoder_steps, 0}, {"refact", starcoder_steps, 0}, {"command-r", starcoder_steps, KEEP},
    {"smollm", starcoder_steps, KEEP}, {"codeshell", starcoder_steps, 0}, {"exaone", starcoder_steps, 0},
    {"minerva-7b", starcoder_steps, 0},
    {"qwen2", qwen2_steps, KEEP}, {"deepseek-r1-qwen", qwen2_steps, KEEP}, {"megrez", qwen2_steps, 0}, {"stablelm2", qwen2_steps, 0},
    /* "whitespace, then one newline" matches what "whitespace, then newlines" does: both reach the last newline of the run */
    {"bailingmoe", qwen2_steps, KEEP}, {"seed-coder", seed_coder_steps, KEEP},
    {"falcon", falcon_steps, 0},
    {"gpt-4o", gpt4o_steps, KEEP}, {"llama4", gpt4o_steps, KEEP},
    {"tekken", tekken_steps, LLAMA3 | KEEP},
    {"deepseek-v3", deepseek3_steps, KEEP}, {"deepseek-llm", deepseek_llm_steps, KEEP}, {"deepseek-coder", deepseek_coder_steps, KEEP},
    {"bloom", bloom_steps, 0}, {"poro-chat", bloom_steps, KEEP}, {"gpt3-finnish", bloom_steps, 0}, {"viking", viking_steps, KEEP},
    {"superbpe", superbpe_steps, KEEP},
    {"chameleon", chameleon_steps, PRE_ADD_BOS | KEEP},
};

const pre_tokenizer *kipu_pre_tokenizer_find(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == size && memcmp(table[i].name, name, size) == 0) return &table[i];
    return NULL;
}

/* ---- the driver */

static size_t first_match(split_step rules, split_text *t, size_t at) {
    for (; *rules; rules++) {
        size_t to = (*rules)(t, at);
        if (to > at) return to;
    }
    return at;
}

/* Splits the piece t->begin .. t->end; the ends of its parts go to out, their number is returned. */
static size_t split_piece(split_step rules, split_text *t, uint32_t *out) {
    size_t n = 0, open = t->begin;   /* open: where what has not matched begins */
    for (size_t at = t->begin; at < t->end;) {
        size_t to = first_match(rules, t, at);
        if (to == at) {
            at++;
            continue;
        }
        if (open < at) out[n++] = (uint32_t)at;
        out[n++] = (uint32_t)to;
        open = at = to;
    }
    if (open < t->end) out[n++] = (uint32_t)t->end;
    return n;
}

const uint32_t *kipu_pre_tokenize(const pre_tokenizer *pre, const uint32_t *code, const uint8_t *kind, size_t n, uint32_t *ends,
                                  uint32_t *other, size_t *n_pieces) {
    size_t pieces = n > 0;
    if (n) ends[0] = (uint32_t)n;
    for (const split_step *step = pre->steps; *step; step++) {
        size_t found = 0, begin = 0;
        for (size_t i = 0; i < pieces; begin = ends[i++]) {
            split_text t = {code, kind, begin, ends[i], 0};
            found += split_piece(*step, &t, other + found);
        }
        uint32_t *swap = ends;
        ends = other;
        other = swap;
        pieces = found;
    }
    *n_pieces = pieces;
    return ends;
}
