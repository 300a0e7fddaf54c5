"""Scripts that run the shares of a plan: a job array of Slurm, a job of Kubernetes, or processes here."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from catnip._core import InputError

MOST_OF_ARRAY = 1001
"""Largest number of tasks of a job array in Slurm, unless MaxArraySize is set."""


def slurm(words: Sequence[str], shares: int, name: str) -> str:
    """Returns a script for sbatch: an array with a task for each share, which may be submitted again."""
    if shares > MOST_OF_ARRAY - 1:
        raise InputError(
            f"--emit: slurm={shares}: arrays have at most {MOST_OF_ARRAY - 1} tasks (MaxArraySize)"
        )
    return f"""\
#!/bin/sh
#SBATCH --job-name={_label(name)}
#SBATCH --array=1-{shares}
#SBATCH --cpus-per-task=1
#SBATCH --output=slurm-%A_%a.out
# Submit it again after a failure: what is there is not run again.
# If sbatch says "Invalid job array specification", {shares} tasks are more than this cluster allows: one less
# than MaxArraySize of `scontrol show config`. Print a script with fewer shares.
cd {_folder()} || exit
exec {_command(words)} --threads "${{SLURM_CPUS_PER_TASK:-1}}" --shard "$SLURM_ARRAY_TASK_ID/{shares}"
"""


def parallel(words: Sequence[str], shares: int, name: str) -> str:
    """Returns a shell script that runs the shares on all cores of this machine, one process for each core."""
    del name
    command = f"{_command(words)} --threads 1 --quiet --shard '{{}}/{shares}'"
    return f"""\
#!/bin/sh
# One process for each core; JOBS sets another number.
# Start it again after a failure: what is there is not run again.
cd {_folder()} || exit
seq {shares} | xargs -P "${{JOBS:-$(nproc)}}" -I '{{}}' {command}
"""


def kubernetes(words: Sequence[str], shares: int, name: str) -> str:
    """Returns an indexed Job: the image must have CATNIP and the scenario, the claim a common disk."""
    command = shlex.join(words)
    share = f"$((JOB_COMPLETION_INDEX + 1))/{shares}"
    script = f'exec {command} --threads 1 --shard "{share}"'
    return f"""\
apiVersion: batch/v1
kind: Job
metadata:
  name: {_label(name).lower()}
spec:
  completionMode: Indexed
  completions: {shares}
  parallelism: {min(shares, 10)}
  backoffLimitPerIndex: 3
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: catnip
          image: CATNIP_IMAGE  # with CATNIP and the scenario's files
          workingDir: /results
          command: ["/bin/sh", "-c", {_quoted(script)}]
          resources: {{ requests: {{ cpu: "1" }} }}
          volumeMounts: [{{ name: results, mountPath: /results }}]
      volumes:
        - name: results
          persistentVolumeClaim: {{ claimName: CATNIP_CLAIM }}  # of ReadWriteMany, with locks
"""


KINDS: dict[str, Callable[[Sequence[str], int, str], str]] = {
    "kubernetes": kubernetes,
    "parallel": parallel,
    "slurm": slurm,
}


def words_of(context: click.Context, without: Sequence[str]) -> list[str]:
    """Returns the line of a command, without some of its options and those that have their default."""
    words = ["catnip", str(context.info_name)]
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if not isinstance(parameter, click.Option):
            words.append(str(value))
        elif parameter.name not in without and value not in (None, parameter.get_default(context)):
            words += _written(parameter, value)
    return words


def _written(option: click.Option, value: object) -> list[str]:
    name = max(option.opts, key=len)
    if option.is_flag:
        return [name] if value else []
    values = value if option.multiple and isinstance(value, list | tuple) else [value]
    written: list[str] = []
    for one in values:
        written += [name, "=".join(map(str, one)) if isinstance(one, tuple) else str(one)]
    return written


def _command(words: Sequence[str]) -> str:
    """Returns a command line that runs where PATH does not lead to this installation, as in a job."""
    program, *others = words
    beside = Path(sys.executable).with_name(program)
    return shlex.join([str(beside) if os.access(beside, os.X_OK) else program, *others])


def _folder() -> str:
    """Returns this folder, to which the paths of a command are relative, as a word of a shell."""
    return shlex.quote(str(Path.cwd()))


def _label(name: str) -> str:
    """Returns a name as a job may have it: letters, digits and dashes, at most 63."""
    allowed = (one if one.isascii() and one.isalnum() else "-" for one in name)
    return "".join(allowed)[:63].strip("-") or "catnip"


def _quoted(text: str) -> str:
    """Returns a text as a double-quoted scalar of YAML."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
