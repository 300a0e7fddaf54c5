"""Scripts that run the shares of a plan: a job array of Slurm, a job of Kubernetes, or processes here."""

import shlex
from collections.abc import Callable, Sequence

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
#SBATCH --job-name={shlex.quote(name)}
#SBATCH --array=1-{shares}
#SBATCH --cpus-per-task=1
#SBATCH --output=slurm-%A_%a.out
# Submit it again after a failure: what is there is not run again.
exec {shlex.join(words)} --threads "${{SLURM_CPUS_PER_TASK:-1}}" --shard "$SLURM_ARRAY_TASK_ID/{shares}"
"""


def parallel(words: Sequence[str], shares: int, name: str) -> str:
    """Returns a shell script that runs the shares on all cores of this machine, one process for each core."""
    del name
    command = f"{shlex.join(words)} --threads 1 --quiet --shard '{{}}/{shares}'"
    return f"""\
#!/bin/sh
# One process for each core; JOBS sets another number.
# Start it again after a failure: what is there is not run again.
seq {shares} | xargs -P "${{JOBS:-$(nproc)}}" -I '{{}}' {command}
"""


def kubernetes(words: Sequence[str], shares: int, name: str) -> str:
    """Returns an indexed Job: the image must have CATNIP and the scenario, the claim a common disk."""
    command = shlex.join(words)
    share = f"$((JOB_COMPLETION_INDEX + 1))/{shares}"
    label = "".join(one if one.isalnum() else "-" for one in name.lower()).strip("-") or "catnip"
    script = f'exec {command} --threads 1 --shard "{share}"'
    return f"""\
apiVersion: batch/v1
kind: Job
metadata:
  name: {label}
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
        elif parameter.name not in without and value != parameter.get_default(context):
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
    return written if value else []


def _quoted(text: str) -> str:
    """Returns a text as a double-quoted scalar of YAML."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
