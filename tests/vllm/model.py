"""A tiny Llama with random weights that vLLM serves offline: made in a moment, the same every time.

What it says is gibberish, mostly up to `max_tokens`; its scheduler, its KV memory and its ways to die are real.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

_VOCABULARY, _HIDDEN, _INNER, _LAYERS, _HEADS, _KV_HEADS, _HEAD = 1024, 128, 256, 2, 2, 1, 64
_CONTEXT = 8192
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_model(folder: Path) -> Path:
    """Configuration and tokenizer; vLLM makes up the weights itself (`--load-format dummy`)."""
    folder.mkdir(parents=True, exist_ok=True)
    _tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(_TOKENIZER_CONFIG))
    (folder / "config.json").write_text(json.dumps(_CONFIG))
    return folder


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = Path(str(textwrap.__file__)).read_text(encoding="utf-8").split()
    lines = [" ".join(words[at : at + 8]) for at in range(0, len(words), 8)]
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


_TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "unk_token": "<|endoftext|>",
    "model_max_length": _CONTEXT,
    "clean_up_tokenization_spaces": False,
    "chat_template": _TEMPLATE,
}
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": _HIDDEN,
    "intermediate_size": _INNER,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": _KV_HEADS,
    "head_dim": _HEAD,
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": _CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "torch_dtype": "float32",
}
