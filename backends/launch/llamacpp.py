"""llama.cpp's own OpenAI server over a GGUF file, as a process: `python -m backends.launch.llamacpp --help`.

Prints `listening on http://…` when requests are answered. Ends on SIGTERM or SIGINT, and when its parent is gone, so
that a crashed demo or test leaves no server behind. The `xllamacpp` wheel brings llama.cpp.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import xllamacpp

_HOST = "127.0.0.1"
_SIGNALS = {signal.SIGTERM, signal.SIGINT}
_PARENT_CHECK_S = 0.5


def main() -> None:
    options = _options()
    if not options.model.is_file():
        raise SystemExit(f"found no GGUF file at {options.model}; check --model")
    parent = os.getppid()
    # Blocked before the server's threads start: they inherit it, and the signals wait for this thread.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    server = xllamacpp.Server(_parameters(options))
    print(f"listening on {server.listening_address}", flush=True)
    while signal.sigtimedwait(_SIGNALS, _PARENT_CHECK_S) is None and os.getppid() == parent:
        pass
    # Not by way of the destructor, which waits for open streams: whoever ends this server wants it gone.
    os._exit(0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m backends.launch.llamacpp", description="Serve a GGUF file."
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="the GGUF file")
    parser.add_argument("--alias", required=True, metavar="NAME", help="the model name in /v1/models")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: 1)")
    parser.add_argument("--parallel", type=int, default=4, help="requests served at once (default: 4)")
    parser.add_argument(
        "--context", type=int, default=4096, help="tokens, shared by all requests (default: 4096)"
    )
    parser.add_argument(
        "--embeddings", action="store_true", help="give vectors of texts too: the mean of their tokens'"
    )
    return parser.parse_args()


def _parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.hostnames = [_HOST]
    parameters.port = options.port
    parameters.model.path = str(options.model)
    parameters.model_alias = {options.alias}
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = options.threads
    parameters.n_parallel = options.parallel
    parameters.n_ctx = options.context
    parameters.n_gpu_layers = 0
    if options.embeddings:
        parameters.embedding = True
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    parameters.endpoint_metrics = True
    parameters.use_jinja = True  # the model's own chat template
    parameters.offline = True
    parameters.ui = False
    return parameters


if __name__ == "__main__":
    main()
