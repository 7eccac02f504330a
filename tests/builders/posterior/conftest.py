"""The instances of each config and the built folder, made once."""

from pathlib import Path

import pytest

from builders.folders import Written
from builders.posterior.benchmark import config_instances, write_posterior
from builders.posterior.instance import Instance

Instances = dict[str, list[Instance]]
Build = tuple[Path, list[Written], list[str]]


@pytest.fixture(scope="session")
def instances() -> Instances:
    """config -> its instances; not to be changed."""
    return {config: config_instances(config) for config in ("synthetic", "weather", "clinical")}


@pytest.fixture(scope="session")
def posterior_build(instances: Instances, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """(folder, files, lines told) of the whole benchmark; not to be changed."""
    folder, told = tmp_path_factory.mktemp("posterior") / "posterior", list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builders.posterior.benchmark.config_instances", lambda config, simsum: instances[config])
        return folder, write_posterior(folder, tell=told.append), told
