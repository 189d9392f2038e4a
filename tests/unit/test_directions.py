"""The direction in which a value gets better, by the words in its name."""

from __future__ import annotations

import pytest

from telemetry.common.directions import Better, better_of_name, words_of


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("loss", "lower"),
        ("train/loss", "lower"),
        ("evalLoss", "lower"),
        ("loss/mean", "lower"),
        ("perplexity", "lower"),
        ("word_error_rate", "lower"),
        ("ttft", "lower"),
        ("step_duration", "lower"),
        ("accuracy", "higher"),
        ("val_acc", "higher"),
        ("acc5", "higher"),
        ("f1", "higher"),
        ("eval/F1", "higher"),
        ("r2", "higher"),
        ("reward/mean", "higher"),
        ("bleu", "higher"),
        ("tokens_per_s", "higher"),
        ("samples/s", "higher"),
        ("samples per second", "higher"),
        ("requests_per_min", "higher"),
        ("loss/min", "lower"),
        ("critic/score/min", "higher"),
        ("hyper_min", "neither"),
        ("lr", "neither"),
        ("grad_norm", "neither"),
        ("loss_scale", "neither"),
        ("reward_std", "neither"),
        ("temperature", "neither"),
        ("", "neither"),
    ],
)
def test_the_last_word_with_a_meaning_decides(name: str, better: Better) -> None:
    """Losses and errors are better when lower, scores when higher, settings and sizes neither."""
    assert better_of_name(name) == better


def test_a_loss_of_a_reward_model_is_a_loss() -> None:
    """The last of two words with opposite meanings is the thing, and the first is its kind."""
    assert (better_of_name("reward_model/loss"), better_of_name("loss/accuracy")) == ("lower", "higher")


def test_words_end_at_capitals_and_signs() -> None:
    """Camel case, dots, slashes and underscores all end a word."""
    assert words_of("evalLoss/Top5.HTTPErrors_x") == ["eval", "loss", "top5", "http", "errors", "x"]
