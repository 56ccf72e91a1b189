"""gemma2: gemma with norms behind attention and feed-forward, soft caps, and a window on every other layer. Gemma Team 2024."""
from math import sqrt

from .._recorder import GELU, NEOX
from ._blocks import attend, gated_ffn, head, qkv, rope

LAYERS_27B = 46


def hyper_params(hp):
    hp.rope_type = NEOX
    hp.window(2, hp.integer("attention.sliding_window", 4096))
    hp.attn_softcap = hp.number("attn_logit_softcapping", 50.0)
    hp.final_softcap = hp.number("final_logit_softcapping", 30.0)
    hp.kq_scale = 1 / sqrt(hp.n_embd / hp.n_head if hp.n_layer == LAYERS_27B else hp.head_dim_k)


def build(g, m):
    hp = m.hp
    table = m.matrix("token_embd", hp.n_embd, hp.n_vocab)
    x = g.embed(table, sqrt(hp.n_embd))
    for il in range(hp.n_layer):
        b = m.block(il)
        h = g.name(g.rms_norm(x, b.vector("attn_norm", hp.n_embd), hp.norm_eps), "attn_norm", il)
        q, k, v = qkv(g, b, hp, h)
        q, k = rope(g, hp, q), rope(g, hp, k)
        a = attend(g, b, hp, q, k, v, il, hp.kq_scale, hp.attn_softcap)
        a = g.name(g.rms_norm(a, b.vector("post_attention_norm", hp.n_embd), hp.norm_eps), "attn_post_norm", il)
        x = g.name(a + x, "sa_out", il)
        h = g.name(g.rms_norm(x, b.vector("ffn_norm", hp.n_embd), hp.norm_eps), "ffn_norm", il)
        f = gated_ffn(g, b, hp, h, GELU)
        f = g.name(g.rms_norm(f, b.vector("post_ffw_norm", hp.n_embd), hp.norm_eps), "ffn_post_norm", il)
        x = g.name(f + x, "l_out", il)
    head(g, m, x, table, hp.final_softcap)
