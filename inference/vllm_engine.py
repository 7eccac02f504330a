"""The vLLM engine: paged batches that are refilled as answers end, the serving of P1's own runs (P1 Appendix A).

vLLM runs inside this process: ended in whatever way, nothing is left behind. Prompts that begin alike are handed over
one after the other, so that their common beginning is read from its prefix cache, and an answer is yielded in the step
in which it ends, however long its neighbours go on. An engine on a CPU, with an adapter, names itself in the outputs::

    {"engine_version": "vllm 0.32.0, torch 2.13.0+cpu, float32, not batch-invariant, head top-p, lora", ...}

*Batch-invariant* (GPUs) means that an answer does not depend on what runs beside it, to the bit. Without it sums are
ordered otherwise in another batch, and a token that is nearly as likely as the first may win.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

from builders.chat import render
from builders.errors import UserError
from inference.adapters import PROBE
from inference.requests import Completion, Request, Sampling
from inference.vllm_start import (
    fast_dtype_of,
    prepare,
    read_model,
    reason,
    served_names,
    start,
    top_p_params,
    version_of,
)

SEATS = 256
"""Answers written at once: P1's batch of Direct prompts."""
WINDOW = 8192
"""Requests among which those that begin alike are looked for."""
COLDEST = 0.01
"""vLLM raises a temperature between 0 and this one to it."""


class VllmEngine:
    """A causal language model in vLLM that always has up to ``seats`` prompts in work."""

    name = "vllm"
    hidden: frozenset[str] = frozenset()

    def __init__(
        self,
        folder: Path,
        dtype: str = "auto",
        context: int | None = None,
        adapter: Path | None = None,
        seats: int = SEATS,
    ) -> None:
        """Starts the engine and, with an adapter, makes sure that vLLM applies it.

        Args:
            folder: the model.
            dtype: of the weights; auto is bfloat16 where the hardware multiplies it, else float32.
            context: tokens that a prompt and its answer may have; None is the model's own, as far as memory allows.
            adapter: folder of a LoRA adapter that every answer is written with.
            seats: answers written at once.

        Raises:
            UserError: vLLM is not installed or cannot serve the model, or the adapter does not fit it.
        """
        config, self.tokenizer, self.stop_ids = read_model(folder, adapter)
        invariant = prepare(config)
        dtype = fast_dtype_of(config) if dtype == "auto" else dtype
        self.seats = seats
        self.window = WINDOW
        self.engine: Any = start(folder, config, dtype, context, adapter, seats)
        self.context = int(self.engine.model_config.max_model_len)
        self.version = version_of(dtype, invariant, adapter is not None)
        self._lora: Any = None
        try:
            base = self._probe(folder)
            if adapter is not None:
                self._lora = self._attach(adapter, config, base)
        except BaseException:
            self.close()
            raise

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yields every request's completion once, each as it ends.

        Raises:
            UserError: a prompt and the generation budget do not fit the context, or vLLM cannot draw at this
                temperature.
        """
        if 0 < sampling.temperature < COLDEST:
            raise UserError(f"vLLM draws at no temperature between 0 and {COLDEST}; it is {sampling.temperature}")
        waiting = self._ordered(iter(requests), sampling.max_tokens)
        running: dict[str, tuple[Request, list[int]]] = {}
        numbers = itertools.count()
        try:
            while True:
                for request, ids in itertools.islice(waiting, 2 * self.seats - len(running)):
                    key = str(next(numbers))
                    running[key] = (request, ids)
                    self._add(key, ids, _params(request, sampling, self.stop_ids))
                if not running:
                    return
                ended = [(*running.pop(output.request_id), output.outputs[0]) for output in self.engine.step()]
                yield from itertools.starmap(self._completion, ended)
        finally:
            if running:
                self.engine.abort_request(list(running))

    def close(self) -> None:
        """Frees the model's memory; no answers after this. The end of the process does the same."""
        self.engine.engine_core.shutdown()

    def _ordered(self, requests: Iterator[Request], max_tokens: int) -> Iterator[tuple[Request, list[int]]]:
        """Requests with their prompts' ids, a window at a time, those that begin alike one after the other."""
        while window := list(itertools.islice(requests, max(self.window, self.seats))):
            rendered = [(request, render(self.tokenizer, request.prompt, request.turns)) for request in window]
            self._check_context(max(len(ids) for _, ids in rendered), max_tokens)
            yield from sorted(rendered, key=lambda pair: pair[1])

    def _check_context(self, prompt_tokens: int, max_tokens: int) -> None:
        if prompt_tokens + max_tokens > self.context:
            raise UserError(
                f"the longest prompt has {prompt_tokens:,} tokens; with {max_tokens:,} new ones it exceeds the model's "
                f"context of {self.context:,}; lower --max-tokens"
            )

    def _add(self, key: str, ids: list[int], params: Any) -> None:
        from vllm.inputs import tokens_input

        # The engine's adapter or none for all: on a CPU, vLLM gives a neighbour without one the adapter of the others.
        self.engine.add_request(key, tokens_input(ids), params, lora_request=self._lora)

    def _completion(self, request: Request, prompt: list[int], answer: Any) -> Completion:
        if answer.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"vLLM ended the answer to {request.item_id} with {answer.finish_reason!r}")
        row = list(answer.token_ids)
        end = next((i for i, token in enumerate(row) if token in self.stop_ids), None)
        text = str(self.tokenizer.decode(row[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False))
        tokens = len(row) if end is None else end + 1
        return Completion(request.item_id, text, "length" if end is None else "stop", len(prompt), tokens)

    def _attach(self, folder: Path, config: Any, base: list[float]) -> Any:
        """Loads the adapter and returns what requests name it by; ``base`` is what the model gives without it."""
        from vllm.lora.request import LoRARequest

        try:
            with served_names(folder.resolve(), config) as served:
                lora = LoRARequest("adapter", 1, str(served))
                self.engine.add_lora(lora)
        except Exception as error:  # whatever vLLM's readers meet
            raise UserError(f"{folder}: the adapter does not fit the model ({reason(error)})") from error
        if names := self.engine.apply_model(_unplaced)[0]:
            raise UserError(
                f"{folder}: the adapter does not fit the model ({len(names)} layers without a place: {names[0]})"
            )
        adapted = self._probe(folder, lora)
        if not all(math.isfinite(value) for value in adapted):
            raise UserError(f"{folder}: the adapter makes the model's logits infinite or not a number")
        if adapted == base:
            raise UserError(f"{folder}: the adapter changes nothing; it was not trained, or its weights are all zero")
        return lora

    def _probe(self, folder: Path, lora: Any = None) -> list[float]:
        """Log-probabilities of a sentence's tokens, from nothing else running.

        An engine that starts may still have no kernel for the model, and say so only now.
        """
        from vllm import SamplingParams
        from vllm.inputs import tokens_input
        from vllm.sampling_params import RequestOutputKind

        ids = self.tokenizer.encode(PROBE)
        params = SamplingParams(
            temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
        )
        outputs: list[Any] = []
        try:
            self.engine.add_request("probe", tokens_input(ids), params, lora_request=lora)
            while not outputs:
                outputs = self.engine.step()
        except Exception as error:  # vLLM's own have no common base
            raise UserError(f"{folder}: vLLM cannot serve it ({reason(error)})") from error
        ranked = outputs[0].prompt_logprobs
        return [float(ranked[place][token].logprob) for place, token in enumerate(ids) if place]


def _params(request: Request, sampling: Sampling, stop_ids: list[int]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    return SamplingParams(
        temperature=sampling.temperature,
        **top_p_params(sampling.top_p),
        max_tokens=sampling.max_tokens,
        seed=request.seed,
        stop_token_ids=stop_ids,
        structured_outputs=None if request.grammar is None else StructuredOutputsParams(grammar=request.grammar),
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _unplaced(model: Any) -> list[str]:
    """Layers of the loaded adapter that are none of the model's; vLLM leaves them out without a word."""
    manager = model.lora_manager
    return sorted(set(manager.get_adapter(1).loras) - set(manager.modules))
