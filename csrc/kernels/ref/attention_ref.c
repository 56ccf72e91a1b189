#include "kernels/ref/attention_ref.h"
#include <string.h>
#include "kernels/ref/math_ref.h"

static float load(const void *p, int type, size_t i) {
    return type == KIPU_F32 ? ((const float *)p)[i] : kipu_half_to_float(((const uint16_t *)p)[i]);
}

static bool visible_lane(uint64_t visible, int j) { return visible >> j & 1; }

static void scores(float s[KIPU_CHUNK], const float *q, uint64_t visible, const kipu_attn_head *h, const kipu_attn_chunk *chunk) {
    for (int j = 0; j < KIPU_CHUNK; j++) {
        if (!visible_lane(visible, j)) continue;
        const void *k = chunk->k[j / 16];   /* [d_k][16] */
        s[j] = 0;
        for (int i = 0; i < h->d_k; i++) s[j] = fmaf(q[i], load(k, h->type_k, (size_t)i * 16 + j % 16), s[j]);
        s[j] *= h->scale;
        if (h->softcap != 0) s[j] = h->softcap * kipu_tanh(s[j] / h->softcap);
    }
}

/* NaN never wins. */
static float largest(const float s[KIPU_CHUNK], uint64_t visible) {
    float c = -INFINITY;
    for (int j = 0; j < KIPU_CHUNK; j++)
        if (visible_lane(visible, j) && s[j] > c) c = s[j];
    return c;
}

/* p_j of all lanes and their sum, in the order of the contract. */
static float weights(float p[KIPU_CHUNK], const float s[KIPU_CHUNK], uint64_t visible, float m) {
    float t[16];
    for (int j = 0; j < KIPU_CHUNK; j++) p[j] = visible_lane(visible, j) ? kipu_exp(s[j] - m) : 0.0f;
    for (int i = 0; i < 16; i++) t[i] = (p[i] + p[16 + i]) + (p[32 + i] + p[48 + i]);
    return kipu_tree16(t);
}

static void add_values(float *o, const float p[KIPU_CHUNK], uint64_t visible, const kipu_attn_head *h, const kipu_attn_chunk *chunk) {
    for (int j = 0; j < KIPU_CHUNK; j++) {
        if (!visible_lane(visible, j)) continue;
        const char *v = (const char *)chunk->v[j / 16] + (size_t)(j % 16) * chunk->v_stride;
        for (int i = 0; i < h->d_v; i++) o[i] = fmaf(p[j], load(v, h->type_v, i), o[i]);
    }
}

static void attend(float *m, float *l, float *o, const float *q, uint64_t visible, const kipu_attn_head *h, const kipu_attn_chunk *chunk) {
    float s[KIPU_CHUNK], p[KIPU_CHUNK];
    scores(s, q, visible, h, chunk);
    float c = largest(s, visible), m_new = c > *m ? c : *m;
    float a = *m == -INFINITY ? 0.0f : kipu_exp(*m - m_new);
    *l = fmaf(*l, a, weights(p, s, visible, m_new));
    for (int i = 0; i < h->d_v; i++) o[i] *= a;
    add_values(o, p, visible, h, chunk);
    *m = m_new;
}

void kipu_attention__ref(float *m, float *l, float *o, const float *q, const uint64_t *mask, int n_rows, const kipu_attn_head *head,
                         const kipu_attn_chunk *chunk, void *scratch) {
    (void)scratch;
    for (int r = 0; r < n_rows; r++) {
        uint64_t visible = mask[r] & chunk->present;
        if (visible) attend(&m[r], &l[r], o + (size_t)r * head->d_v, q + (size_t)r * head->d_k, visible, head, chunk);
    }
}

void kipu_attention_merge__ref(float *m, float *l, float *o, const float *m2, const float *l2, const float *o2, int n_rows, int32_t d_v) {
    for (int r = 0; r < n_rows; r++, o += d_v, o2 += d_v) {
        if (m2[r] == -INFINITY) continue;
        if (m[r] == -INFINITY) {
            m[r] = m2[r];
            l[r] = l2[r];
            memcpy(o, o2, sizeof(float) * (size_t)d_v);
            continue;
        }
        float top = m[r] > m2[r] ? m[r] : m2[r], a = kipu_exp(m[r] - top), b = kipu_exp(m2[r] - top);
        l[r] = fmaf(l[r], a, l2[r] * b);
        for (int i = 0; i < d_v; i++) o[i] = fmaf(o[i], a, o2[i] * b);
        m[r] = top;
    }
}
