"""Online article popularity: a content strategist reads a new Mashable article (UCI 332).

The outcome is ``shares`` >= 1,400, the median of the 39,644 articles. The copies at hand are two pieces of the
original, rounded to nine digits; ``read`` therefore keeps six significant digits of every number, so that the pieces
and the original give the same rows. It also turns the seven weekday flags into the column ``weekday`` and the six
channel flags into ``channel``. Articles for which the table counts no word of text are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, count, listed, number
from builders.tables import read_csv

POPULAR_SHARES = 1400
NUMBERS = (
    "n_tokens_title",
    "n_tokens_content",
    "num_hrefs",
    "num_imgs",
    "num_videos",
    "kw_avg_avg",
    "self_reference_avg_sharess",
    "shares",
)
WEEKDAYS = {
    f"weekday_is_{day.lower()}": day
    for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
}
CHANNELS = {
    "data_channel_is_lifestyle": "lifestyle",
    "data_channel_is_entertainment": "entertainment",
    "data_channel_is_bus": "business",
    "data_channel_is_socmed": "social media",
    "data_channel_is_tech": "technology",
    "data_channel_is_world": "world",
}
NO_CHANNEL = "none"


def read(files: Sequence[bytes]) -> list[Row]:
    """The articles of the original or of its pieces, each once, with the columns described above."""
    articles = {row["url"]: row for data in files for row in read_csv(data)}
    return [_article(row) for row in articles.values()]


def _article(row: Row) -> Row:
    kept = {"url": row["url"], **{name: _six_digits(row[name]) for name in NUMBERS}}
    return {**kept, "weekday": _flagged(row, WEEKDAYS), "channel": _flagged(row, CHANNELS) or NO_CHANNEL}


def _six_digits(cell: str) -> str:
    """Rounded by way of nine digits, so that a cell just below a half gives what its rounded copy gives."""
    return f"{float(f'{float(cell):.9g}'):.6g}"


def _flagged(row: Row, flags: dict[str, str]) -> str:
    return next((word for flag, word in flags.items() if float(row[flag]) == 1), "")


def outcome(row: Row) -> int | None:
    return None if row["n_tokens_content"] == "0" else int(float(row["shares"]) >= POPULAR_SHARES)


def _earlier_articles(cell: str) -> str:
    if cell == "0":
        return "it links to no earlier article on the site with a known share count"
    return f"the earlier articles on the site that it links to averaged {number(cell, 0)}"


def evidence(row: Row) -> str:
    channel = "without a channel label" if row["channel"] == NO_CHANNEL else f"in the {row['channel']} channel"
    article = a_or_an(f"{number(row['n_tokens_content'])}-word article").capitalize()
    contents = listed(
        [count(row["num_hrefs"], "link"), count(row["num_imgs"], "image"), count(row["num_videos"], "video")],
    )
    return (
        f"{article} {channel} was published on a {row['weekday']} under a headline of "
        f"{count(row['n_tokens_title'], 'word')}. It contains {contents}. Earlier articles with its keywords averaged "
        f"{number(row['kw_avg_avg'], 0)} shares, and {_earlier_articles(row['self_reference_avg_sharess'])}."
    )


DOMAIN = Domain(
    name="article_popularity",
    status="seen",
    setup=(
        "You are a content strategist at an online news publisher forecasting whether a newly published article will "
        "be widely shared."
    ),
    event="the article becomes widely shared (popular)",
    source=Source(
        id="uci:332",
        title="Online News Popularity",
        creators="Fernandes, K., Vinagre, P., Cortez, P., and Sernadela, P. (2015)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/332",
        archive="https://archive.ics.uci.edu/static/public/332/online+news+popularity.zip",
        member="OnlineNewsPopularity/OnlineNewsPopularity.csv",
        sha256=None,  # the copies at hand are pieces
        rows=39644,
        copies={
            "online-news-early9874.csv": "abc3cdb762848a43781daaa7de82c8e575d217b044a604f5f76e137aef777128",
            "online-news-late4954.csv": "5cb4fb5ed2cbbba5de552de0410a78c8abd976c503ebadab92f3f5bc7acfb121",
        },
        partial=True,
    ),
    covariates=(
        "n_tokens_title",
        "n_tokens_content",
        "num_hrefs",
        "num_imgs",
        "num_videos",
        "kw_avg_avg",
        "self_reference_avg_sharess",
        "weekday",
        "channel",
    ),
    read=read,
    outcome=outcome,
    evidence=evidence,
    key=lambda row: row["url"],
)
