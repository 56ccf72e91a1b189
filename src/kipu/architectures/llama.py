"""llama, and what is converted as it: mistral, smollm, tinyllama, yi. Touvron et al. 2023."""
from .._recorder import NORM
from ._blocks import attend, gated_ffn, head, qkv, rope


def hyper_params(hp):
    hp.rope_type = NORM
    if hp.n_rot != hp.head_dim_k:
        raise ValueError(f"metadata key 'llama.rope.dimension_count' is {hp.n_rot}, expected {hp.head_dim_k}")
    if hp.n_expert:
        raise NotImplementedError("llama with experts (mixtral) is not supported yet")
    hp.kq_scale = hp.number("attention.scale", 0.0) or None


def build(g, m):
    hp = m.hp
    table = m.matrix("token_embd", hp.n_embd, hp.n_vocab)
    factors = m.vector("rope_freqs", hp.n_rot // 2, optional=True)
    x = g.embed(table)
    for il in range(hp.n_layer):
        b = m.block(il)
        h = g.name(g.rms_norm(x, b.vector("attn_norm", hp.n_embd), hp.norm_eps), "attn_norm", il)
        q, k, v = qkv(g, b, hp, h, bias="optional")
        q, k = rope(g, hp, q, factors), rope(g, hp, k, factors)
        bias = b.bias("attn_output", hp.n_embd, optional=True)
        x = g.name(attend(g, b, hp, q, k, v, il, hp.kq_scale, bias=bias) + x, "ffn_inp", il)
        h = g.name(g.rms_norm(x, b.vector("ffn_norm", hp.n_embd), hp.norm_eps), "ffn_norm", il)
        x = g.name(gated_ffn(g, b, hp, h) + x, "l_out", il)
    head(g, m, x, table)
