"""Which engine answers: one description, from a command line or a recipe, that also travels to other machines.

``python -m inference generate --engine openai --base-url http://localhost:8000/v1 --model qwen ...`` becomes::

    EngineSettings(name="openai", base_url="http://localhost:8000/v1")
"""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact, resolve
from builders.errors import UserError
from inference.adapters import Adapter
from inference.requests import Engine, Sampling

UNVERSIONED = "unversioned"
"""Revision of a model behind an endpoint that does not tell it."""
BATCH_SIZE = {"transformers": 32, "vllm": 256}


@dataclass(frozen=True)
class EngineSettings:
    """An engine by name, and what is asked of it; None leaves a value to the engine.

    Attributes:
        name: transformers, vllm or openai.
        dtype: of the weights; auto is what the hardware multiplies fast.
        batch_size: prompts at once.
        context: tokens of prompt and answer that the engine makes room for.
        base_url: of an endpoint, before ``/chat/completions``.
        concurrency: requests on their way to an endpoint at most.
        timeout: seconds for one try.
        prices: USD per million tokens of prompts and of answers.
        key_variable: the environment variable that holds an endpoint's key.
        on: where engines run: None is this process, ``ray`` or ``ray://address`` the machines of a cluster.
        workers: engines on a cluster.
        window: requests that an engine draws ahead, to find those that begin alike.
    """

    name: str = "transformers"
    dtype: str | None = None
    batch_size: int | None = None
    context: int | None = None
    base_url: str | None = None
    concurrency: int | None = None
    timeout: float | None = None
    prices: tuple[float, float] | None = None
    key_variable: str | None = None
    on: str | None = None
    workers: int | None = None
    window: int | None = None


LOCAL, SERVED = ("transformers", "vllm"), ("openai",)
TAKEN_BY = {
    "dtype": LOCAL, "batch_size": LOCAL, "context": ("vllm",), "base_url": SERVED, "concurrency": SERVED,
    "timeout": SERVED, "prices": SERVED, "key_variable": SERVED,
}  # fmt: skip
"""The engines that take a setting."""
ANYWHERE = ("on", "workers")


def add_engine_options(command: argparse.ArgumentParser) -> None:
    """The options that choose and set an engine; each is None where it is not given."""
    command.add_argument("--engine", choices=[*LOCAL, *SERVED], help="(default: transformers, or the recipe's)")
    command.add_argument(
        "--dtype",
        choices=["auto", "bfloat16", "float16", "float32"],
        help="of the weights; auto, the default: bfloat16 where the hardware multiplies it, else float32",
    )
    command.add_argument(
        "--batch-size", type=int, metavar="N", help="prompts at once (default: 32, with vllm 256 and no barrier)"
    )
    command.add_argument(
        "--context", type=int, metavar="N", help="vllm: tokens of prompt and answer to make room for (default: model's)"
    )
    command.add_argument(
        "--base-url",
        metavar="URL",
        help="openai: the endpoint, e.g. http://localhost:8000/v1; --model is its name there",
    )
    command.add_argument("--concurrency", type=int, metavar="N", help="openai: requests on their way (default: 32)")
    command.add_argument("--timeout", type=float, metavar="S", help="openai: seconds for one try (default: 600)")
    command.add_argument(
        "--prices", type=float, nargs=2, metavar="USD", help="openai: per million tokens of prompts and of answers"
    )
    command.add_argument(
        "--key-variable", metavar="NAME", help="openai: environment variable of the key (default: OPENAI_API_KEY)"
    )
    command.add_argument(
        "--on", metavar="RAY", help="ray, or ray://host:10001: engines on the machines of a Ray cluster (default: here)"
    )
    command.add_argument(
        "--workers", type=int, metavar="N", help="with --on: engines (default: one for each GPU, else each machine)"
    )


def chosen_settings(arguments: argparse.Namespace, base: EngineSettings = EngineSettings()) -> EngineSettings:
    """The settings that a command line asks for, on top of a recipe's.

    Raises:
        UserError: an option is for another engine, makes no sense, or is missing.
    """
    values: dict[str, Any] = {name: getattr(arguments, name) for name in (*TAKEN_BY, *ANYWHERE)}
    if values["prices"] is not None:
        values["prices"] = tuple(values["prices"])
    given = {name: value for name, value in values.items() if value is not None}
    name = arguments.engine or base.name
    for option in given:
        if name not in TAKEN_BY.get(option, (name,)):
            raise UserError(f"--{option.replace('_', '-')} is for --engine {' or '.join(TAKEN_BY[option])}, not {name}")
    if name != base.name:
        base = EngineSettings(name)
    settings = dataclasses.replace(base, **given)
    check_settings(settings)
    return settings


def check_settings(settings: EngineSettings) -> None:
    """Refuses settings that no engine could run with.

    Raises:
        UserError: names the option.
    """
    units = {"batch_size": "prompts", "context": "tokens", "concurrency": "requests", "workers": "engines"}
    for option, unit in units.items():
        value = getattr(settings, option)
        if value is not None and value < 1:
            raise UserError(f"--{option.replace('_', '-')} is {value}; give a number of {unit}, at least 1")
    if settings.timeout is not None and not 0 < settings.timeout < float("inf"):
        raise UserError(f"--timeout is {settings.timeout}; give a number of seconds")
    if settings.name in SERVED and settings.base_url is None:
        raise UserError("--engine openai needs --base-url, e.g. http://localhost:8000/v1")
    if settings.on is not None and settings.on != "ray" and not settings.on.startswith("ray://"):
        raise UserError(f"--on is {settings.on!r}; give ray, or ray://host:port")
    if settings.workers is not None and settings.on is None:
        raise UserError("--workers is for --on ray")


def model_artifact(settings: EngineSettings, reference: str) -> Artifact:
    """The model that a reference names: a snapshot, or what an endpoint serves under that name.

    An endpoint does not tell a revision: one that is known may be given, ``name@revision``, and is recorded.

    Raises:
        UserError: there is no such model.
    """
    if settings.name not in SERVED:
        return resolve(reference, "model")
    name, _, revision = reference.partition("@")
    if not name:
        raise UserError(f"--model {reference!r} names no model; give the name that the endpoint serves it under")
    return Artifact(name, Path(), revision or UNVERSIONED, reference)


def alone(settings: EngineSettings) -> EngineSettings:
    """The settings of one engine of those on a cluster."""
    return dataclasses.replace(settings, on=None, workers=None)


def load_engine(
    settings: EngineSettings, model: Artifact, adapter: Adapter | None, sampling: Sampling, guided: bool
) -> Engine:
    """The engine, with the model and its adapter in place.

    Raises:
        UserError: the model cannot be loaded or reached, the adapter does not fit, or a library is missing.
    """
    if settings.on is not None:
        from inference.cluster import Assignment, RayEngine

        return RayEngine(settings.on, settings.workers, Assignment(alone(settings), model, adapter, sampling, guided))
    folder = adapter.path if adapter else None
    if settings.name == "openai":
        from inference.openai_engine import OpenAIEngine

        if adapter is not None:
            raise UserError("--adapter is for an engine that loads the model; give --model the adapter's served name")
        options: dict[str, Any] = {
            "concurrency": settings.concurrency,
            "timeout": settings.timeout,
            "key_variable": settings.key_variable,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return OpenAIEngine(
            str(settings.base_url), model.id, **given, prices=settings.prices, guided=guided, sampling=sampling
        )
    dtype, batch_size = settings.dtype or "auto", settings.batch_size or BATCH_SIZE[settings.name]
    engine: TransformersEngine | VllmEngine
    if settings.name == "vllm":
        from inference.vllm_engine import VllmEngine

        engine = VllmEngine(model.path, dtype, settings.context, folder, batch_size)
    else:
        from inference.transformers_engine import TransformersEngine

        engine = TransformersEngine(model.path, dtype, batch_size, folder)
    engine.window = settings.window or engine.window
    return engine
