"""gemma3: gemma2 with head norms in place of soft caps; five layers of six see a window and rotate by their own base. Gemma Team 2025."""
from math import sqrt

from .._recorder import GELU, NEOX
from ._blocks import attend, gated_ffn, head, head_norms, qkv, rope

LAYERS_27B = 62
WINDOW_BASE = 10000.0


def hyper_params(hp):
    hp.rope_type = NEOX
    hp.window(6, hp.integer("attention.sliding_window"))
    hp.kq_scale = 1 / sqrt(hp.n_embd / hp.n_head if hp.n_layer == LAYERS_27B else hp.head_dim_k)


def rotate(g, hp, x, il):
    return rope(g, hp, x, base=WINDOW_BASE, scale=1.0, fixed=True) if hp.swa_layers[il] else rope(g, hp, x)


def build(g, m):
    hp = m.hp
    table = m.matrix("token_embd", hp.n_embd, hp.n_vocab)
    x = g.embed(table, sqrt(hp.n_embd), scale_vectors=False)
    for il in range(hp.n_layer):
        b = m.block(il)
        h = g.name(g.rms_norm(x, b.vector("attn_norm", hp.n_embd), hp.norm_eps), "attn_norm", il)
        q, k, v = qkv(g, b, hp, h)
        q, k = head_norms(g, b, hp, q, k)
        q, k = rotate(g, hp, q, il), rotate(g, hp, k, il)
        a = attend(g, b, hp, q, k, v, il, hp.kq_scale)
        a = g.name(g.rms_norm(a, b.vector("post_attention_norm", hp.n_embd), hp.norm_eps), "attn_post_norm", il)
        x = g.name(a + x, "sa_out", il)
        h = g.name(g.rms_norm(x, b.vector("ffn_norm", hp.n_embd), hp.norm_eps), "ffn_norm", il)
        f = gated_ffn(g, b, hp, h, GELU)
        f = g.name(g.rms_norm(f, b.vector("post_ffw_norm", hp.n_embd), hp.norm_eps), "ffn_post_norm", il)
        x = g.name(f + x, "l_out", il)
    head(g, m, x, table)
