"""Made-up secrets, one or more for each rule, and ordinary texts that look a little like secrets.

The secrets are put together here, so that no scanner of repositories takes them for real ones.
"""

from __future__ import annotations

from typing import Final

_MIXED: Final = "a1B2c3D4e5F6g7H8i9J0"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

TOKENS: Final[dict[str, tuple[str, ...]]] = {
    "openai": ("sk-" + _MIXED * 2, "sk-proj-" + "a_b-9" * 8, "sk-" + _LETTERS[:20]),
    "anthropic": ("sk-ant-" + "api03-" + _MIXED * 2,),
    "github": ("ghp_" + _MIXED * 2, "gho_" + _MIXED * 2, "ghs_" + _MIXED * 2, "github_pat_" + _MIXED * 3),
    "gitlab": ("glpat-" + _MIXED, "gldt-" + _MIXED),
    "huggingface": ("hf_" + _LETTERS[:34],),
    "aws": ("AKIA" + "Z2Y3X4W5V6U7T8S9", "ASIA" + "Z2Y3X4W5V6U7T8S9"),
    "google": ("AIza" + _MIXED + "-_K1L2M3N4O5P6Q", "ya29." + "a0Af_" + _MIXED),
    "slack": (
        *("xoxb-" + "123456789012-" + _MIXED, "xapp-" + "1-A012-" + _MIXED),
        "hooks.slack.com/services/" + "T01ABCDEF/B01ABCDEF/" + _MIXED,
    ),
    "discord": (
        "discord.com/api/webhooks/" + "123456789012345678/" + _MIXED * 3,
        "discordapp.com/api/webhooks/" + "123456789012345678/" + _MIXED * 3,
    ),
    "telegram": ("api.telegram.org/bot" + "123456789:" + "AA" + _MIXED * 2,),
    "vault": ("hvs." + "CAES" + _MIXED,),
    "grafana": ("glsa_" + "aB3dE6gH9" * 4 + "_0a1b2c3d",),
    "digitalocean": ("dop_v1_" + "0123456789abcdef" * 4,),
    "replicate": ("r8_" + _MIXED * 2,),
    "perplexity": ("pplx-" + _MIXED * 2,),
    "linear": ("lin_api_" + _MIXED * 2,),
    "age": ("AGE-SECRET-KEY-" + "1" + "QPZRY9X8GF2TVDW0S3JN" * 3,),
    "stripe": ("sk_live_" + _MIXED, "rk_test_" + _MIXED, "whsec_" + _MIXED),
    "npm": ("npm_" + _LETTERS[:36],),
    "pypi": ("pypi-" + "AgEIcHlwaS5vcmc" + _MIXED * 2,),
    "wandb": ("wandb_v1_" + _MIXED * 2,),
    "groq": ("gsk_" + _MIXED * 2,),
    "nvidia": ("nvapi-" + _MIXED * 3,),
    "xai": ("xai-" + _MIXED * 3,),
    "databricks": ("dapi" + "0123456789abcdef" * 2,),
    "sendgrid": ("SG." + _MIXED + "." + _MIXED * 2,),
    "jwt": ("eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxIn0" + "." + _MIXED,),
    "private-key": (
        "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEow" + _MIXED + "\n" + _MIXED + "\n-----END RSA PRIVATE KEY-----",
    ),
}
"""Rule → secrets that it finds wherever they stand."""

PERSONAL: Final[dict[str, tuple[str, ...]]] = {
    "email": ("ann.b+c@mail.example.org", "jürgen@exämple.de"),
    "card": ("4111 1111 1111 1111", "5500-0000-0000-0004", "340000000000009", "4111111111111111"),
}

NAMED: Final[tuple[tuple[str, str, str], ...]] = (
    ("password=", "hunter2!x", ""),
    ("the password: ", "hunter2!x", " was wrong"),
    ("AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG", ""),
    ("export WANDB_API_KEY=", "0123456789abcdef0123", "\n"),
    ('{"auth_token": "', "hunter2!x", '"}'),
    ('{\\"auth_token\\": \\"', "hunter2!x", '\\"}'),
    ("curl --token ", "hunter2!x", " http://h"),
    ("curl -u me:", "hunter2!x", " http://h"),
    ("postgres://me:", "hunter2!x", "@db/x"),
    ("https://h/b?x=1&sig=", "hunter2!x", "&y=2"),
    ("Authorization: Bearer ", "hunter2!x", "\n"),
    ("authorization: ", "hunter2!x", "\n"),
    ("sent Bearer ", "hunter2-x", ""),
    ("sent Basic ", "bWU6aHVudGVyMg==", ""),
    ("Set-Cookie: theme=dark; session=", "hunter2!x", ""),
    ("machine h login me password ", "hunter2!x", ""),
    ("db.password = '", "hunter 2 !x", "'"),
    ("X-Api-Key:", "hunter2!x", ""),
    ("python train.py --wandb-key ", "0123456789abcdef0123", " --lr 1"),
    ("encryption_key: ", "hunter2!x", ""),
    ("https://", "0123456789abcdef0123", "@sentry.example.com/42"),
    ("postgres://me:", "hunter/2!x", "@db/x"),
    ("GET https://h/v1?key=", "hunter2-x", "&y=2"),
    ("https://h/back?state=1&code=", "hunter2-x", ""),
    ("https://h/?q=password%3D", "hunter2!x", "%26y%3D2"),
    ("mysql -u root -p", "hunter2!x", " db"),
    ("sshpass -p ", "hunter2!x", " ssh me@h"),
    ("sshpass -p'", "hunter2!x", "' ssh me@h"),
    ("the password is ", "hunter2!x", ", he said"),
)
"""Text before, secret, and text after it."""

ORDINARY: Final = (
    "max_tokens=512",
    "--max-tokens 512 --token-count 3 --tokenizer gpt2",
    "eos_token=</s>, pad_token: <pad>, next_token=the",
    "time_per_token: 12.3ms, token: 5 of 9, tokens: 512",
    "author: me, bypass=1, compass=north, design: blue",
    "pass: 12, fail: 3, pass_rate=0.9",
    "auth: none, password=None, token: Optional, secret=false",
    "api_key_env=OPENAI_API_KEY token_path=/run/secrets/token",
    "sha256:" + "0123456789abcdef" * 4,
    "commit 0123456789abcdef0123456789abcdef01234567",
    "123e4567-e89b-12d3-a456-426614174000",
    "task-0123456789abcdef-experiment disk-0123456789abcdef",
    "hf_transformers_large_something_v2",
    "s3://bucket/checkpoints/step-120/model.pt, C:\\Users\\x.py, /etc/ssh/known_hosts",
    "sk-learn-baseline-v2-with-more-words1 --name sk-2024-learning-rate-sweep-01",
    "one_pass=keep, forward_pass: slow, second_token: late, use_token_healing: always",
    "token_level=mean, loss.token_mean: global, --token-workers auto, boi_token: <img>",
    "tcp://127.0.0.1:43343 http://host:8000/v1/chat?stream=true",
    "vllm:time_per_output_token_seconds token_latency prompt_tokens_total",
    "basic understanding of the bearer",
    "docker run -u 1000:1000 vllm/vllm-openai:v0.4.2",
    "12:30:05 user: ann, key: value, monkey=banana",
    '(sqlite3.OperationalError) unrecognized token: "9bad"',
    "eyJhbGciOiJIUzI1NiJ9 alone is only the head of a token",
    "AKIA is a prefix; sk- and ghp_ are prefixes too",
    "https://ann@git/x.git ssh://first.last@host/x https://h/a?key=loss&code=200 https://h:8000/a:b/c@d",
    "the password is required; the passphrase is not set",
    "mysql -P 3306 -u root; mysqldump --port=1 db; mkdir -p runs/x; cp -p a b; sshpass -f file ssh me@h",
    "hvs.x r8_small age discord.com/channels/1/2",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "p99 latency 12.3 ms at 1,000 requests/s (+3 %)",
)
"""Texts without a secret."""

NOT_PERSONAL: Final = (
    "git@github.com:org/repo.git",
    "1700000000000000000 ns since the epoch",
    "4111 1111 1111 1112 has a wrong check digit",
    "0.4111111111111111 4111111111111111.5",
    "model@1.2.3 @decorator user@host",
    "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
)
