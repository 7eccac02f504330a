"""The transformers engine: batches of like prompts on whatever device is there, one random stream per request."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from builders.chat import render
from builders.errors import UserError
from builders.hardware import fast_dtype
from inference.adapters import attach
from inference.checkpoints import load_checkpoint, stop_ids
from inference.requests import Completion, Request, Sampling

BATCH_SIZE = 32
WINDOW = 8192
"""Requests among which those that begin alike are looked for."""


class TransformersEngine:
    """A causal language model that answers batches of prompts which begin alike."""

    name = "transformers"
    hidden: frozenset[str] = frozenset()

    def __init__(
        self, folder: Path, dtype: str = "auto", batch_size: int = BATCH_SIZE, adapter: Path | None = None
    ) -> None:
        """Loads model, tokenizer, adapter; ``dtype`` auto is bfloat16 where the hardware multiplies it, else float32.

        Raises:
            UserError: the folder is no model that transformers can load, or the adapter does not fit it.
        """
        import torch
        import transformers

        from inference.cpu_attention import use_grouped_attention
        from inference.prefill import shareable

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if dtype == "auto":
            dtype = fast_dtype()
        model, self.tokenizer = load_checkpoint(folder, dtype=getattr(torch, dtype))
        self.model = model.to(self.device).eval()
        self.stop_ids = stop_ids(self.model, self.tokenizer)
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}, {dtype}"
        if adapter is not None:
            self.model = attach(self.model, self.tokenizer, adapter, merge=dtype == "float32")
            self.version += f", peft {version('peft')}"
        # The checkpoint's own generation defaults (top_k, repetition penalty) are not P1's protocol.
        self.model.generation_config = transformers.GenerationConfig()
        self.batch_size = batch_size
        self.window = WINDOW
        self.shares_prefix = shareable(self.model)
        if self.shares_prefix:
            use_grouped_attention(self.model)
        self.pad_id = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else self.stop_ids[0]
        self._compiler: Any = None

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yields every request's completion once, batch by batch; prompts that begin alike run together.

        Raises:
            UserError: a prompt and the generation budget do not fit the model's context.
        """
        from inference.prefill import batches

        remaining = iter(requests)
        while window := list(itertools.islice(remaining, max(self.window, self.batch_size))):
            rendered = [(request, render(self.tokenizer, request.prompt, request.turns)) for request in window]
            self._check_context(max(len(ids) for _, ids in rendered), sampling.max_tokens)
            for batch in batches(rendered, self.batch_size):
                yield from self._batch(batch, sampling)

    def close(self) -> None:
        """Frees the model's memory; no answers after this."""
        del self.model

    def _check_context(self, prompt_tokens: int, max_tokens: int) -> None:
        context = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if context and prompt_tokens + max_tokens > context:
            raise UserError(
                f"the longest prompt has {prompt_tokens:,} tokens; with {max_tokens:,} new ones it exceeds the model's "
                f"context of {context:,}; lower --max-tokens"
            )

    def _batch(self, batch: list[tuple[Request, list[int]]], sampling: Sampling) -> Iterator[Completion]:
        import torch
        from transformers import GenerationConfig

        config = GenerationConfig(
            max_new_tokens=sampling.max_tokens, do_sample=False, eos_token_id=self.stop_ids, pad_token_id=self.pad_id
        )
        inputs = self._inputs([ids for _, ids in batch])
        processors = self._processors([request for request, _ in batch], sampling)
        with torch.inference_mode():
            output = self.model.generate(**inputs, generation_config=config, logits_processor=processors)
        answers = output[:, inputs["input_ids"].shape[1] :].tolist()
        for (request, prompt), row in zip(batch, answers, strict=True):
            yield self._completion(request, len(prompt), row)

    def _inputs(self, prompts: list[list[int]]) -> dict[str, Any]:
        """What ``generate`` is given for these prompts: prefilled where the model allows, else padded on the left."""
        import torch

        from inference.prefill import prefilled

        if self.shares_prefix:
            return prefilled(self.model, prompts, self.pad_id)
        longest = max(map(len, prompts))
        ids = torch.tensor([[self.pad_id] * (longest - len(p)) + p for p in prompts], device=self.device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        return {"input_ids": ids, "attention_mask": mask}

    def _processors(self, requests: list[Request], sampling: Sampling) -> list[Any]:
        from inference.sampling import SeededSampler

        sampler = SeededSampler([request.seed for request in requests], sampling.temperature, sampling.top_p)
        if requests[0].grammar is None:
            return [sampler]
        import xgrammar
        from xgrammar.contrib.hf import LogitsProcessor

        if self._compiler is None:
            vocabulary = self.model.config.get_text_config().vocab_size
            info = xgrammar.TokenizerInfo.from_huggingface(
                self.tokenizer, vocab_size=vocabulary, stop_token_ids=self.stop_ids
            )
            self._compiler = xgrammar.GrammarCompiler(info)
        return [LogitsProcessor([self._compiler.compile_grammar(request.grammar) for request in requests]), sampler]

    def _completion(self, request: Request, prompt_tokens: int, row: list[int]) -> Completion:
        end = next((i for i, token in enumerate(row) if token in self.stop_ids), None)
        text = str(self.tokenizer.decode(row[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False))
        tokens = len(row) if end is None else end + 1
        return Completion(request.item_id, text, "length" if end is None else "stop", prompt_tokens, tokens)
