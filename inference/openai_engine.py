"""The openai engine: any endpoint that speaks chat completions, such as vLLM, llama.cpp, Ollama or a hosted model.

One payload; the grammar stands in it twice, for vLLM and for llama.cpp, and only in guided runs::

    {"model": "qwen", "messages": [{"role": "user", "content": "You are an academic advisor ..."}], "temperature": 0.7,
     "top_p": 0.95, "max_tokens": 128, "seed": 1398012843, "chat_template_kwargs": {"enable_thinking": false},
     "structured_outputs": {"grammar": "root ::= ..."}, "grammar": "root ::= ..."}

What the endpoint refuses of these is found out before the run and left out. What a payload does not name (top_k, a
repetition penalty) is the server's own default and unknown here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import re
import sys
from collections.abc import Generator, Iterable
from itertools import islice
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from builders.errors import UserError
from inference.completions import FILTERED, Answer, Tally, read_answer
from inference.endpoint import Connection, Endpoint, RefusedError, UnansweredError, UnreachableError
from inference.requests import Completion, Request, Sampling

SAMPLED = ("seed", "temperature", "top_p")
"""Parameters whose values are recorded as unknown where the endpoint refuses them."""
DROPPABLE = ("chat_template_kwargs", "structured_outputs", "grammar", "top_p", "seed", "temperature", "max_tokens")
"""What a refusal may name, the least consequential first: one is left out at a time."""
PROBE = "Reply with the one word: ready"
PROBE_TOKENS = 256
"""Budget of a probe: some hosted reasoning models refuse a request whose budget ends while they reason."""
ODD_WORD = "coherent-7391"
"""What no model says unless a grammar leaves it nothing else."""
SHOWN_MODELS = 20
REASON = 40
"""Characters that a finish reason may have; it is the server's word."""

_PUBLIC_NAME = re.compile(r"(?!/)(?!.*//)[\w.+:@/-]{1,80}")


class OpenAIEngine:
    """A model behind a chat completions endpoint; up to ``concurrency`` requests are on their way at once.

    Attributes:
        version: what the endpoint tells of itself and which parameters it refused; no address.
        hidden: which of ``seed``, ``temperature`` and ``top_p`` it refused.
    """

    name = "openai"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        concurrency: int = 32,
        timeout: float = 600.0,
        attempts: int = 8,
        prices: tuple[float, float] | None = None,
        key_variable: str = "OPENAI_API_KEY",
        guided: bool = False,
        sampling: Sampling | None = None,
        backoff: float = 1.0,
    ) -> None:
        """Finds out what the endpoint serves and which parameters it takes, with a few small requests.

        Args:
            base_url: the address before ``/chat/completions``, e.g. ``http://localhost:8000/v1``.
            model: the name under which the endpoint serves the model.
            concurrency: requests on their way at most.
            timeout: seconds for one try, from the connection to the last byte.
            attempts: tries of a request before it counts as unanswered.
            prices: USD per million tokens of prompts and of answers.
            key_variable: the environment variable that holds the key; without one, no key is sent.
            guided: whether requests will carry grammars, which the endpoint must then follow.
            sampling: the values that are tried out, best those of the run: some models take only their own.
            backoff: seconds that the pause after a first fault lasts at most; it doubles from fault to fault.

        Raises:
            UserError: an argument makes no sense, nothing answers, the key is missing or wrong, the model is not
                served, or the endpoint ignores grammars.
        """
        if prices is not None and not all(0 <= price < math.inf for price in prices):
            raise UserError(f"the prices are {prices}; give two amounts of USD per million tokens, of at least 0")
        self.endpoint = Endpoint(base_url, concurrency, timeout, attempts, key_variable, backoff)
        self.model = model
        self.prices = prices
        self.guided = guided
        self.left_out: set[str] = set()
        self.connect(sampling if sampling is not None else Sampling())

    def __repr__(self) -> str:
        return f"OpenAIEngine({self.endpoint.base_url!r}, {self.model!r})"

    def close(self) -> None:
        """Nothing is kept between runs: connections end with each."""

    # --- Before a run -------------------------------------------------------------------------------------------------

    def connect(self, sampling: Sampling) -> None:
        """Asks the endpoint what it serves and tries out the payload; sets ``version`` and ``hidden``.

        Raises:
            UserError: nothing answers, the key is missing or wrong, the model is not served, or grammars are ignored.
        """
        base_url = self.endpoint.base_url
        with asyncio.Runner() as runner:
            try:
                runner.run(self._connect(dataclasses.replace(sampling, max_tokens=PROBE_TOKENS)))
            except RefusedError as refusal:
                raise UserError(self.endpoint.explain(refusal)) from None
            except UnreachableError as fault:
                raise UserError(f"{base_url}: {fault}; start the server, or check the base URL") from None
            except UnansweredError as error:
                raise UserError(f"{base_url}: no answer after {self._tries()} (last: {error}); try later") from None

    def _tries(self) -> str:
        return "1 try" if self.endpoint.attempts == 1 else f"{self.endpoint.attempts} tries"

    async def _connect(self, sampling: Sampling) -> None:
        connection = Connection(self.endpoint)
        try:
            software = await self._software(connection)
            answer = await self._try_out(connection, Request("probe", PROBE, sampling.base_seed), sampling)
            if self.guided:
                await self._try_grammar(connection, sampling)
        finally:
            await connection.close()
        self.hidden = frozenset(self.left_out.intersection(SAMPLED))
        parts = ["chat completions of an endpoint", software]
        if answer.model != self.model and (resolved := self._public(answer.model)):
            parts.append(f"as {resolved}")
        parts += [f"without {name}" for name in (*SAMPLED, "chat_template_kwargs") if name in self.left_out]
        self.version = ", ".join(filter(None, parts))

    async def _software(self, connection: Connection) -> str:
        """Checks that the model is served; what the endpoint tells of its software, e.g. ``vllm 0.11.0``."""
        base_url = self.endpoint.base_url
        served = _served(await connection.get(f"{base_url}/models"))
        if not served:
            return ""
        found = next((name for name in _aliases(self.model) if name in served), None)
        if found is None:
            names = ", ".join(self.endpoint.shown(name, 80) for name in sorted(served)[:SHOWN_MODELS])
            more = f" and {len(served) - SHOWN_MODELS:,} more" if len(served) > SHOWN_MODELS else ""
            raise UserError(f"{base_url} serves no model {self.model!r}; it serves {names}{more}")
        software = self._public(served[found])
        if software != "vllm":
            return software
        # vLLM tells its version beside its API.
        parts = urlsplit(base_url)
        told = await connection.get(urlunsplit(parts._replace(path=f"{parts.path.removesuffix('/v1')}/version")))
        return f"vllm {self._public(told.get('version') if isinstance(told, dict) else None)}".strip()

    def _public(self, name: Any) -> str:
        """A server's name for something, if it is short and neither a path nor an address; else ""."""
        return self.endpoint.redact(name) if isinstance(name, str) and _PUBLIC_NAME.fullmatch(name) else ""

    async def _try_out(self, connection: Connection, request: Request, sampling: Sampling) -> Answer:
        """The answer to a probe, after leaving out, one by one, the parameters that the endpoint refuses."""
        while True:
            try:
                return await self._ask(connection, request, sampling)
            except RefusedError as refusal:
                if (name := self._refused(refusal, self.payload(request, sampling))) is None:
                    raise
                self._leave_out(name)

    def _refused(self, refusal: RefusedError, payload: dict[str, Any]) -> str | None:
        """The parameter of the payload that a refusal is about, if it is about one."""
        if refusal.status not in (400, 422):
            return None
        sent = [name for name in DROPPABLE if name in payload]
        if refusal.param in sent:
            return refusal.param
        named = (name for name in sent if re.search(rf"\b{name}\b", refusal.text))
        # Not every server names the field; this one is foreign to most hosted models and to vLLM's Mistral models.
        return next(named, "chat_template_kwargs" if "chat_template_kwargs" in sent else None)

    def _leave_out(self, name: str) -> None:
        self.left_out.add(name)
        instead = {
            "max_tokens": "max_completion_tokens is sent instead",
            "chat_template_kwargs": "a model that can reason before it answers is not told not to",
        }
        recorded = "it is recorded as unknown" if name in SAMPLED else "it is left out"
        print(f"openai: the endpoint refuses {name}; {instead.get(name, recorded)}", file=sys.stderr)

    async def _try_grammar(self, connection: Connection, sampling: Sampling) -> None:
        request = Request("probe", PROBE, sampling.base_seed, f'root ::= "{ODD_WORD}"')
        answer = await self._try_out(connection, request, sampling)
        if answer.text.strip() != ODD_WORD:
            raise UserError(
                f"{self.endpoint.base_url} ignores grammars: it answered {self.endpoint.shown(answer.text, 80)!r} "
                f"where only {ODD_WORD!r} was allowed; run without --guided, or serve the model with vLLM or llama.cpp"
            )

    # --- The run ------------------------------------------------------------------------------------------------------

    def payload(self, request: Request, sampling: Sampling) -> dict[str, Any]:
        """What is sent for a request, without what the endpoint refuses."""
        fields = {
            "model": self.model,
            "messages": request.messages,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        if request.grammar is not None:
            if not self.guided:
                raise ValueError(f"{request.item_id}: a grammar, but nobody asked whether the endpoint follows one")
            fields |= {"structured_outputs": {"grammar": request.grammar}, "grammar": request.grammar}
        if "max_tokens" in self.left_out:
            fields["max_completion_tokens"] = sampling.max_tokens
        return {name: value for name, value in fields.items() if name not in self.left_out}

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yields every request's completion once, as they arrive, and ends with a line on stderr that sums them up.

        After a request without an answer no new ones are sent; those on their way are still waited for and yielded.

        Raises:
            UserError: requests got no answer in all their tries, or the endpoint refuses one.
        """
        from tqdm.auto import tqdm

        tally, failures = Tally(self.prices), list[Failure]()
        waiting, running = iter(requests), set[asyncio.Task[Completion | Failure]]()
        with asyncio.Runner() as runner:
            connection = Connection(self.endpoint)
            try:
                while True:
                    room = 0 if failures else self.endpoint.concurrency - len(running)
                    for request in islice(waiting, room):
                        answering = self._complete(connection, request, sampling, tally)
                        running.add(runner.get_loop().create_task(answering))
                    if not running:
                        break
                    done, running = runner.run(asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED))
                    outcomes = [task.result() for task in done]
                    failures += [outcome for outcome in outcomes if isinstance(outcome, Failure)]
                    for outcome in outcomes:
                        if isinstance(outcome, Completion):
                            tally.add(outcome)
                            yield outcome
            finally:
                runner.run(_stop(connection, running))
                if tally.answers or connection.retried or failures:
                    # A progress bar may stand on the line.
                    tqdm.write(f"{self.name}: {tally.summary(connection.retried)}", file=sys.stderr)
        if failures:
            raise UserError(self._problem(failures))

    async def _complete(
        self, connection: Connection, request: Request, sampling: Sampling, tally: Tally
    ) -> Completion | Failure:
        try:
            answer = await self._ask(connection, request, sampling)
        except (RefusedError, UnansweredError) as error:
            return Failure(request.item_id, error)
        if answer.replaced:
            tally.notes["with lone surrogates, replaced"] += 1
        text = self.endpoint.redact(answer.text, answer=True)
        reason = self.endpoint.shown(answer.finish_reason, REASON)
        return Completion(request.item_id, text, reason, answer.prompt_tokens, answer.completion_tokens)

    async def _ask(self, connection: Connection, request: Request, sampling: Sampling) -> Answer:
        try:
            return await connection.post("/chat/completions", self.payload(request, sampling), read_answer)
        except RefusedError as refusal:
            # Azure answers so where its filter stops the prompt; an error here would end every run at this item.
            if refusal.status == 400 and refusal.code == "content_filter":
                return FILTERED
            raise

    def _problem(self, failures: list[Failure]) -> str:
        """Why the run stopped, as one line: a refusal, which will not pass, before what may."""
        for failure in failures:
            if isinstance(failure.error, RefusedError):
                return f"{self.endpoint.explain(failure.error)}; the item is {failure.item_id}"
        got = "1 request" if len(failures) == 1 else f"{len(failures):,} requests"
        return (
            f"{got} got no answer after {self._tries()} (last: {failures[-1].error}); run the same command again to "
            "go on"
        )


@dataclasses.dataclass(frozen=True)
class Failure:
    """A request that got no answer, and why."""

    item_id: str
    error: RefusedError | UnansweredError


async def _stop(connection: Connection, running: set[asyncio.Task[Completion | Failure]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await connection.close()


def _served(listing: Any) -> dict[str, Any]:
    """{name: owner} of a model list; empty if it is none."""
    models = listing.get("data") if isinstance(listing, dict) else listing
    models = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return {model["id"]: model.get("owned_by") for model in models if isinstance(model.get("id"), str)}


def _aliases(model: str) -> tuple[str, ...]:
    """The names under which endpoints list what they take as ``model``: Ollama, Gemini, a provider's suffix."""
    return model, f"{model}:latest", f"models/{model}", model.rpartition(":")[0]
