"""The direction in which a value gets better, by the words in its name."""

from __future__ import annotations

import re
from typing import Final, Literal

Better = Literal["lower", "higher", "neither"]

_WORD: Final = re.compile(r"[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*|\d+")
_PER_TIME: Final = re.compile(r".*(?:/(?:s|sec|second)|[ _./-]per[ _.-]?(?:s|sec|secs|second|min|minute|h|hour))")

TROUBLE: Final = frozenset(
    {
        *("error", "errors", "failure", "failures", "failed", "fail", "fails", "timeout", "timeouts"),
        *("retry", "retries", "dropped", "drops", "drop", "lost", "missed", "misses", "rejected", "evictions"),
        *("exceptions", "aborted", "aborts", "overflows"),
    }
)
"""Words for things that should not happen."""
TIME: Final = frozenset(
    {"latency", "latencies", "duration", "delay", "lag", "wait", "ttft", "tpot", "itl", "rtt", "elapsed"}
)
"""Words for times that somebody waits for."""
SPEED: Final = frozenset({"throughput", "qps", "rps", "tps", "bandwidth", "goodput", "attainment"})

_LOWER: Final = frozenset(
    {
        *("loss", "losses", "nll", "perplexity", "ppl", "bpb", "bpc", "regret", "divergence"),
        *("err", "mse", "rmse", "mae", "mape", "wer", "cer", "fid", "eer", "brier", "ece"),
    }
)
_HIGHER: Final = frozenset(
    {
        *("accuracy", "acc", "precision", "recall", "sensitivity", "specificity", "f1", "auc", "auroc", "auprc"),
        *("bleu", "rouge", "meteor", "chrf", "ndcg", "mrr", "iou", "miou", "dice", "psnr", "ssim", "r2", "score"),
        *("reward", "rewards", "return", "returns", "success", "solved", "win", "wins", "winrate", "elo", "mfu"),
    }
)
_SETTINGS: Final = frozenset(
    {
        *("scale", "weight", "weights", "coef", "coefficient", "target", "threshold", "schedule", "lr", "std"),
        *("var", "variance", "norm", "count", "step", "steps", "epoch", "epochs", "tokens", "samples"),
    }
)
"""Words that make a name one of a setting or a size: `loss_scale` is not a loss."""


_COUNTS: Final = frozenset({"epoch", "epochs", "current_epoch", "global_step"})
"""Last parts of names of values that only count, as the axis itself does."""


def is_count(name: str) -> bool:
    """Return whether a value of steps only tells where the loop is, such as `epoch` or `train/global_step`."""
    return re.split(r"[/.]", name.lower())[-1] in _COUNTS


def words_of(name: str) -> list[str]:
    """Return the words of a name in small letters: `evalLoss/top5` has eval, loss and top5."""
    return [word.lower() for word in _WORD.findall(name)]


def better_of_name(name: str) -> Better:
    """Return whether lower or higher values of this name are better.

    The last word with a meaning decides: `accuracy/loss` is a loss, `loss_scale` is neither.
    """
    if _PER_TIME.fullmatch(name.lower()):
        return "higher"
    for word in reversed(words_of(name)):
        for form in (word, word.rstrip("0123456789")):
            if form in _SETTINGS:
                return "neither"
            if form in _LOWER or form in TROUBLE or form in TIME:
                return "lower"
            if form in _HIGHER or form in SPEED:
                return "higher"
    return "neither"
