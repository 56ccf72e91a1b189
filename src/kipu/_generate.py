"""kipu run: prompt in, text out as it comes."""
import codecs
import sys
import time

import kipu

from ._chat import render


def chat_prompt(model, prompt):
    """The prompt inside the model's own template."""
    template = model.metadata.get("tokenizer.chat_template")
    if not template:
        raise ValueError("the model has no chat template")
    vocab = kipu.llama_model_get_vocab(model.handle)
    text = lambda token: kipu.llama_vocab_get_text(vocab, token).decode("utf-8", "replace") if token >= 0 else ""
    return render(template, [{"role": "user", "content": prompt}], bos=text(kipu.llama_vocab_bos(vocab)),
                  eos=text(kipu.llama_vocab_eos(vocab)))


def prompt_bytes(prompt):
    """The bytes that the user typed: what is not UTF-8 comes from the command line as surrogates."""
    return prompt.encode("utf-8", "surrogateescape")


def prompt_tokens(model, args):
    """Token ids of the prompt. A template that writes the first token itself must not get a second one."""
    if not args.chat:
        return list(model.tokenize(prompt_bytes(args.prompt), add_special=True, parse_special=False))
    tokens = list(model.tokenize(chat_prompt(model, args.prompt), add_special=True, parse_special=True))
    bos = kipu.llama_vocab_bos(kipu.llama_model_get_vocab(model.handle))
    return tokens[1:] if tokens[:2] == [bos, bos] else tokens


def make_sampler(temp, seed):
    """Greedy for temperature 0, else top-k 40, top-p 0.95, min-p 0.05 and the temperature."""
    chain = kipu.llama_sampler_chain_init(kipu.llama_sampler_chain_default_params())
    if temp <= 0:
        kipu.llama_sampler_chain_add(chain, kipu.llama_sampler_init_greedy())
        return chain
    seed = kipu.LLAMA_DEFAULT_SEED if seed is None else seed
    for sampler in (kipu.llama_sampler_init_top_k(40), kipu.llama_sampler_init_top_p(0.95, 1), kipu.llama_sampler_init_min_p(0.05, 1),
                    kipu.llama_sampler_init_temp(temp), kipu.llama_sampler_init_dist(seed)):
        kipu.llama_sampler_chain_add(chain, sampler)
    return chain


class Stream:
    """Writes pieces as text; a character that is not complete yet waits for its other bytes."""

    def __init__(self, out):
        self.out, self.decoder = out, codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, piece, final=False):
        self.out.write(self.decoder.decode(piece, final))
        self.out.flush()


def continue_text(model, ctx, tokens, n, sampler, stream):
    """Samples, shows and decodes until n tokens, an end token, a full context or Ctrl-C.

    Returns
    -------
    (seconds of the prompt, seconds of generation, tokens made, whether Ctrl-C ended it)
    """
    vocab = kipu.llama_model_get_vocab(model.handle)
    started = time.perf_counter()
    for at in range(0, len(tokens), ctx.n_batch):
        ctx.decode(tokens[at : at + ctx.n_batch])
    prompt_done = time.perf_counter()
    made, interrupted = 0, False
    try:
        while made < n:
            token = kipu.llama_sampler_sample(sampler, ctx.handle, -1)
            if kipu.llama_vocab_is_eog(vocab, token):
                break
            made += 1
            stream.write(model.token_to_piece(token, special=False))
            if made == n or len(tokens) + made > ctx.n_ctx:
                break
            ctx.decode([token])
    except KeyboardInterrupt:
        interrupted = True
    return prompt_done - started, time.perf_counter() - prompt_done, made, interrupted


def generate(path, args):
    """The command. Text to standard output, speeds to standard error, also if Ctrl-C ended the text (then KeyboardInterrupt)."""
    if args.n < 0:
        raise ValueError(f"-n must be at least 0, got {args.n}")
    if args.seed is not None and not 0 <= args.seed < 2**32:
        raise ValueError(f"--seed must be in 0..{2**32 - 1}, got {args.seed}")
    started = time.perf_counter()
    model = kipu.Model(path)
    tokens = prompt_tokens(model, args)
    if not tokens:
        raise ValueError("the prompt has no tokens")
    n_ctx = args.ctx or min(len(tokens) + args.n, max(model.hyper_params.n_ctx_train, len(tokens) + 1))
    if len(tokens) > n_ctx:
        raise ValueError(f"the prompt has {len(tokens)} tokens, the context only {n_ctx} (--ctx)")
    threads = {} if args.threads is None else {"n_threads": args.threads, "n_threads_batch": args.threads}
    ctx = model.context(n_ctx=n_ctx, **threads)
    loaded = time.perf_counter() - started
    stream = Stream(sys.stdout)
    if not args.chat:
        stream.write(prompt_bytes(args.prompt))
    prompt_s, made_s, made, interrupted = continue_text(model, ctx, tokens, args.n, make_sampler(args.temp, args.seed), stream)
    stream.write(b"\n", final=True)
    print(f"load {loaded:.2f} s | prompt {len(tokens)} tokens, {len(tokens) / prompt_s:.1f} tokens/s | "
          f"generation {made} tokens, {made / made_s if made else 0:.1f} tokens/s", file=sys.stderr)
    if interrupted:
        raise KeyboardInterrupt
