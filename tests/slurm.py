"""Cluster of Slurm on this machine, for tests: one node, with processes and a network of its own."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from plans import eventually

TASKS = 3
"""Number of tasks that run at once, whatever the number of cores."""
MOST_TASKS = 9
"""Largest number of tasks of an array."""
ADDRESS = "192.0.2.1"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Where Debian has its programs, and where no catnip is."""
NEEDS = ("unshare", "nsenter", "ip", "munged", "slurmctld", "slurmd", "sbatch", "squeue")
SPACES = ["--net", "--uts", "--pid", "--mount"]
INIT = f"""
hostname localhost
ip link set lo up
ip address add {ADDRESS}/32 dev lo
trap '' CHLD
echo ready
exec cat
"""
"""First process of the cluster: it reaps what has no parent, and all others end with it."""
CONFIGURATION = f"""
ClusterName=tests
SlurmctldHost=localhost({ADDRESS})
AuthType=auth/munge
AuthInfo=socket={{folder}}/munge.socket
SlurmUser=root
StateSaveLocation={{folder}}/state
SlurmdSpoolDir={{folder}}/spool
SlurmctldPidFile={{folder}}/slurmctld.pid
SlurmdPidFile={{folder}}/slurmd.pid
SlurmctldLogFile={{folder}}/slurmctld.log
SlurmdLogFile={{folder}}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MaxArraySize={MOST_TASKS + 1}
NodeName=node NodeHostname=localhost NodeAddr={ADDRESS} CPUs={TASKS}
PartitionName=all Nodes=node Default=YES
"""


def missing() -> str | None:
    """Returns the reason why there can be no cluster here; None if there can be one."""
    search = f"{os.environ['PATH']}:{PATH}"
    for name in NEEDS:
        if not shutil.which(name, path=search):
            return f"{name} is not installed"
    if os.geteuid():
        return "its daemons need root"
    spaces = ["unshare", *SPACES, "--fork", "--mount-proc", "true"]
    allowed = subprocess.run(spaces, capture_output=True, text=True, check=False)
    return allowed.stderr.strip() if allowed.returncode else None


@contextmanager
def cluster(folder: Path) -> "Iterator[Cluster]":
    """Runs a cluster during the block, whose files are in this folder. Nothing of it outlives the block."""
    command = ["unshare", *SPACES, "--fork", "--kill-child", "--mount-proc", "sh", "-ec", INIT]
    pipe = subprocess.PIPE
    with ExitStack() as daemons, subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as spaces:
        assert spaces.stdout is not None
        assert spaces.stdout.readline() == "ready\n"
        children = Path(f"/proc/{spaces.pid}/task/{spaces.pid}/children")
        try:
            yield Cluster(folder, int(children.read_text()), daemons)
        finally:
            spaces.communicate()


class Cluster:
    """Running cluster: its daemons, its jobs, and commands that are run in it."""

    def __init__(self, folder: Path, init: int, daemons: ExitStack) -> None:
        self._folder, self._daemons = folder, daemons
        self._enter = ["nsenter", f"--target={init}", *SPACES]
        self._environment = {"PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf"), "LANG": "C.UTF-8"}
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder))
        (folder / "cgroup.conf").write_text(f"CgroupPlugin={self._without_control_groups()}\n")
        (folder / "munge.key-file").write_bytes(os.urandom(64))
        (folder / "munge.key-file").chmod(0o600)
        files = ("key-file", "socket", "pid-file", "log-file", "seed-file")
        paths = [f"--{of}={folder}/munge.{of}" for of in files]
        self._start("munged", "--foreground", "--force", *paths)
        assert eventually((folder / "munge.socket").exists), self.told()
        self.start_controller()
        node = self._start("slurmd", "-D")
        assert eventually(lambda: self._is_idle() or node.poll() is not None), self.told()
        assert self._is_idle(), self.told()

    def run(self, *words: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Runs a command in the cluster."""
        # nsenter begins in the root folder.
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', str(cwd or self._folder), *map(str, words)]
        command = [*self._enter, *inside]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)

    def output(self, *words: object) -> str:
        """Returns what a command prints in the cluster; nothing if it fails."""
        done = self.run(*words)
        return done.stdout if done.returncode == 0 else ""

    def submit(self, script: Path, cwd: Path | None = None) -> int:
        """Submits a script as it is, and returns the number of its job."""
        done = self.run("sbatch", script, cwd=cwd)
        assert done.stdout.startswith("Submitted batch job "), done
        return int(done.stdout.split()[-1])

    def states(self, job: int) -> dict[int, str]:
        """Returns the state of each task of an array that has begun; none while no controller answers."""
        form = "--format=%K %T"
        lines = self.output("squeue", "--noheader", "--array", "--states=all", f"--job={job}", form)
        return {int(task): state for task, state in map(str.split, lines.splitlines())}

    def ended(self, job: int, tasks: int) -> dict[int, str]:
        """Waits until all tasks of an array have ended, and returns the state of each."""
        last: dict[int, str] = {}

        def is_over() -> bool:
            last.update(self.states(job))
            return len(last) == tasks and not {"PENDING", "RUNNING", "COMPLETING"} & {*last.values()}

        assert eventually(is_over), (last, self.told())
        return last

    def start_controller(self) -> None:
        """Starts the controller, which goes on with the jobs that it had before."""
        self._controller = self._start("slurmctld", "-D")

    def kill_controller(self) -> None:
        """Kills the controller as a crash would."""
        self.run("sh", "-c", f"kill -KILL $(cat {self._folder}/slurmctld.pid)")
        assert self._controller.wait(timeout=60) == -signal.SIGKILL

    def signal(self, number: signal.Signals, job: int, task: int | None = None) -> None:
        """Sends a signal to all processes of an array or of one of its tasks."""
        marks = {f"SLURM_ARRAY_JOB_ID={job}".encode()}
        marks |= {f"SLURM_ARRAY_TASK_ID={task}".encode()} if task is not None else set()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if marks <= {*(folder / "environ").read_bytes().split(b"\0")}:
                    os.kill(int(folder.name), number)

    def save(self, job: int) -> None:
        """Changes an array, and waits until the controller has saved it, which takes five seconds at most."""
        state, since_s = self._folder / "state" / "job_state", time.time()
        changed = self.run("scontrol", "update", f"jobid={job}", "comment=saved")
        assert changed.returncode == 0, changed
        assert eventually(lambda: state.exists() and state.stat().st_mtime > since_s), self.told()

    def told(self) -> str:
        """Returns the logs of the daemons, for a failure."""
        return "\n".join(file.read_text(errors="replace") for file in sorted(self._folder.glob("*log*")))

    def _is_idle(self) -> bool:
        return self.output("sinfo", "--noheader", "--format=%T") == "idle\n"

    def _without_control_groups(self) -> str:
        """Returns the plugin that leaves the machine's control groups alone, which older versions lack."""
        year, month = self.output("slurmd", "-V").split()[-1].split(".")[:2]
        return "disabled" if (int(year), int(month)) >= (23, 11) else "cgroup/v1"

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{words[0]}.out.log").open("ab") as log:
            daemon = subprocess.Popen([*self._enter, *words], env=self._environment, stdout=log, stderr=log)
        return self._daemons.enter_context(daemon)
