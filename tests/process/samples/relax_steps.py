"""A training loop of Relax that logs a step and reports it at its end."""

from argparse import Namespace

from telemetry.compat.relax import tracking_utils

args = Namespace()
args.use_metrics_service = True
args.use_tensorboard = True
args.tb_project_name = "my-project"
args.tb_experiment_name = "experiment-1"
args.use_wandb = False
args.use_clearml = False

tracking_utils.init_tracking(args)
total_steps = 3
for step in range(total_steps):
    loss, accuracy = 1 / (step + 1), step / total_steps
    metrics = {
        "step": step,
        "train/loss": loss,
        "train/accuracy": accuracy,
    }
    tracking_utils.log(args, metrics, "step")
    tracking_utils.flush_metrics(args, step)
