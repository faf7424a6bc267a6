# The verbs are the same on a laptop and in CI. They need python3 (3.11 or newer), make and gcc.
#
#   make demo        a tour on real parts, then serve until Ctrl-C (ONCE=1: end after the tour; PORT=…: of the gateway)
#   make test        everything the quick tests need, then the tests
#   make test-full   the slower ones: torch, deploy tools, clients that others wrote (450 MB into the cache folder, once)
#   make test-vllm   a real vLLM beside a real llama.cpp (2.5 GB into the cache folder, once); says so where there is none
#   make fuzz        what reads bytes from outside, guided by coverage (TARGET=sse, body, errors or encodings; SECONDS=60)
#   make install, format, check, bench NAME=http, constraints, clean

PYTHON ?= python3
DATA ?= .echogate

# Everything here starts interpreters by the dozen; byte code is what makes them start quickly.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK = 1

PIP_INSTALL = -m pip install --constraint constraints.txt
PYTEST = -m pytest

.PHONY: install format check test test-full test-vllm demo bench fuzz constraints clean
.DELETE_ON_ERROR:

install: .venv/installed

format: .venv/installed
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

check: .venv/installed
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

test: .venv/installed
	.venv/bin/python -m tests.prepare
	.venv/bin/python $(PYTEST) -n 2 -m "not full and not vllm" $(AGAIN)

# The clients of others are installed outside the checkout, once, while the first tests run; theirs come late and wait.
test-full: .venv-full/installed
	.venv-full/bin/python -m tests.prepare
	.venv-full/bin/python -m tests.suites.environment & \
	.venv-full/bin/python $(PYTEST) -n 2 --dist loadfile -m "full and not vllm" $(AGAIN); status=$$?; wait; exit $$status

# Its environment lies outside the checkout, so that a machine pays for it once; it is installed while nothing else runs.
test-vllm: .venv/installed
	.venv/bin/python -m tests.vllm.environment
	.venv/bin/python -m tests.prepare
	.venv/bin/python $(PYTEST) -m vllm tests/vllm $(AGAIN)

demo: .venv-demo/installed
	@.venv-demo/bin/python -m gateway.embedded.demo --data-dir $(DATA) $(if $(PORT),--port $(PORT)) $(if $(ONCE),--once)

bench: .venv/installed
	@test -n "$(NAME)" || { echo "error: say which one, for example: make bench NAME=http" >&2; exit 2; }
	.venv/bin/python -m bench.$(NAME)

TARGET ?= sse
SECONDS ?= 60

fuzz: .venv-fuzz/installed
	.venv-fuzz/bin/python -m tests.fuzz $(TARGET) -max_total_time=$(SECONDS) -max_len=4096

.venv-fuzz/installed: EXTRAS = fuzz
.venv/installed: EXTRAS = dev,models
.venv-demo/installed: EXTRAS = demo,models
.venv-full/installed: EXTRAS = dev,models,sentence-transformers,deploy-checks

# torch before what depends on it: where pip is shown CPU wheels (PIP_FIND_LINKS or an index of them), it takes those.
.venv-full/installed: FIRST = torch

.venv/installed .venv-demo/installed .venv-full/installed .venv-fuzz/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"error: Python 3.11 or newer is needed, {sys.version}")'
	$(PYTHON) -m venv $(@D)
	$(if $(FIRST),$(@D)/bin/python $(PIP_INSTALL) $(FIRST))
	$(@D)/bin/python $(PIP_INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@

# What a fresh install of everything resolves to today. `+cpu` and the like are taken off: they name where a wheel came
# from, not what is in it.
constraints:
	rm -rf .venv-constraints
	$(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install torch==2.13.0 \
		'.[demo,dev,fuzz,models,sentence-transformers,deploy-checks]'
	echo "# Made by make constraints." > constraints.txt
	.venv-constraints/bin/python -m pip freeze --exclude echogate | sed -e 's/+[a-z0-9.]*$$//' >> constraints.txt
	rm -rf .venv-constraints

clean:
	rm -rf .venv .venv-* $(DATA) .hypothesis .mypy_cache .ruff_cache build dist
