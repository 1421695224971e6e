"""The command `demo`, which serves a page on which a model can be tried."""

import argparse

from elmo_hf.bundled import NAME
from elmo_hf.errors import ElmoError

from .shared import Commands, silence_libraries


def add_demo(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf demo`."""
    parser = commands.add_parser(
        "demo",
        parents=[shared],
        help="serve a page on which you try a model in your browser",
        description="Serve a page on which you write sentences and see a word's neighbours, the similarity of words, "
        "words filled in, perplexity word by word, and the layers. It needs no network. Ctrl-C ends it. Needs pip "
        'install "elmo_hf[demo]".',
        epilog="example: elmo-hf demo my-elmo elmo-small-en --open",
    )
    parser.add_argument(
        "models",
        nargs="*",
        default=[NAME],
        metavar="MODEL",
        help="the models to choose from on the page: folders, or names on the Hub (default: elmo-small-en). On this "
        "machine you can type other ones on the page; visitors from elsewhere cannot",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to serve at (default: 127.0.0.1, which only this machine reaches; 0.0.0.0: the network, too)",
    )
    parser.add_argument("--port", type=int, metavar="N", help="port (default: the first free one from 7860)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.set_defaults(run=_demo, wrong_usage=parser.error)


def _demo(options: argparse.Namespace) -> int:
    if options.port is not None and not 0 < options.port < 2**16:
        options.wrong_usage("--port must be from 1 to 65535")
    try:
        from elmo_hf.demo.page import start
    except ImportError as error:
        raise ElmoError(str(error)) from error

    silence_libraries()
    page = start(options.models, host=options.host, port=options.port, open_browser=options.open)
    print(f"The page is at {page.local_url} (Ctrl-C ends it).", flush=True)
    page.block_thread()
    return 0


__all__ = ["add_demo"]
