"""The batch templates: what they launch, and that a run stopped by a signal resumes.

Small programs stand for the batch systems' commands and for the clock; the template, its
signals, the ranks and their checkpoints are real.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

CONFIG = """
[data]
name = "digits"
rows = 100
[objective]
name = "elastic-embedding"
perplexity = 10
[solver]
name = "gradient-descent"
[stop]
iterations = {iterations}
decrease = 0.0
[run]
checkpoint = 0.2
[output]
pictures = false
"""

#: Stands for coreutils' timeout: the time is up when a checkpoint has been written.
TIMEOUT = """
while [[ $1 == --* ]]; do [[ $1 != --signal=* ]] || signal=${1#*=}; shift; done
echo "$1" >> timeout.log; shift
"$@" & run=$!
until [ -e runs/7/checkpoint/latest ]; do kill -0 $run || break; sleep 0.05; done
kill -$signal $run
wait $run
"""

#: Seconds after which a job is taken to hang.
LIMIT = 240


class Cluster:
    """A folder to submit from, with stand-ins for the batch system's commands."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = environment
        (folder / "bin").mkdir()
        (folder / ".venv").symlink_to(Path(sys.prefix))
        (folder / "hpc").symlink_to(TOP / "hpc")
        self.command("scontrol", f'echo "$@" >> {folder}/scontrol.log')
        self.command("qsub", f'echo "$@" >> {folder}/qsub.log')
        self.command("srun", 'while [[ $1 == -* ]]; do shift; done; exec mpirun -n 2 "$@"')

    def command(self, name, script):
        program = self.folder / "bin" / name
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)

    def configure(self, iterations):
        (self.folder / "config.toml").write_text(CONFIG.format(iterations=iterations))

    def start(self, template, *arguments, **variables):
        path = f"{self.folder / 'bin'}:{self.environment['PATH']}"
        return subprocess.Popen(
            ["bash", TOP / "hpc" / template, *arguments],
            cwd=self.folder,
            env=self.environment | {"PATH": path} | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text().splitlines() if path.exists() else []

    def iterations(self, run):
        return json.loads((self.folder / run / "result.json").read_text())["iterations"]


@pytest.fixture
def cluster(tmp_path, rank_environment):
    return Cluster(tmp_path, rank_environment)


def finish(job):
    """Exit code and output of a job that ends by itself."""
    try:
        output, _ = job.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        output, _ = job.communicate()
        pytest.fail(f"the job hung\n{output}")
    return job.returncode, output


def newest_checkpoint(folder):
    latest = folder / "checkpoint" / "latest"
    return latest.read_text() if latest.exists() else ""


def wait_for_new_checkpoint(job, folder, before):
    deadline = time.monotonic() + LIMIT
    while newest_checkpoint(folder) == before:
        if job.poll() is not None or time.monotonic() > deadline:
            os.killpg(job.pid, signal.SIGKILL)
            code, output = finish(job)
            pytest.fail(f"no checkpoint came; the job ended with {code}\n{output}")
        time.sleep(0.05)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on PATH")
class TestSlurm:
    def start(self, cluster):
        return cluster.start("slurm.sh", "config.toml", SLURM_JOB_ID="7")

    def test_a_run_that_finishes_is_not_queued_again(self, cluster):
        cluster.configure(iterations=20)
        assert finish(self.start(cluster))[0] == 0
        assert cluster.iterations("runs/7") == 20
        assert cluster.log("scontrol") == []

    def test_bad_input_ends_the_job_and_is_not_queued_again(self, cluster):
        (cluster.folder / "config.toml").write_text("[objective]\nname = 'no-such-thing'\n")
        code, output = finish(self.start(cluster))
        assert code == 2, output
        assert cluster.log("scontrol") == []

    def test_a_signal_before_the_time_limit_requeues_the_job_which_resumes(self, cluster):
        cluster.configure(iterations=100_000_000)
        reached = []
        for _ in range(2):
            before = newest_checkpoint(cluster.folder / "runs/7")
            job = self.start(cluster)
            wait_for_new_checkpoint(job, cluster.folder / "runs/7", before)
            os.killpg(job.pid, signal.SIGUSR1)
            code, output = finish(job)
            assert code == 0, output  # scontrol's
            reached.append(cluster.iterations("runs/7"))
        assert cluster.log("scontrol") == ["requeue 7", "requeue 7"]
        assert 0 < reached[0] < reached[1]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on PATH")
class TestPBS:
    def start(self, cluster, **variables):
        job = {"PBS_O_WORKDIR": str(cluster.folder), "PBS_JOBID": "7", "CONFIG": "config.toml"}
        return cluster.start("pbs.sh", **job, **variables)

    def test_a_run_that_finishes_is_not_queued_again(self, cluster):
        cluster.configure(iterations=20)
        code, output = finish(self.start(cluster))
        assert code == 0, output
        assert cluster.iterations("runs/7") == 20
        assert cluster.log("qsub") == []

    def test_the_own_time_limit_queues_a_job_that_resumes_in_the_same_folder(self, cluster):
        cluster.configure(iterations=100_000_000)
        cluster.command("timeout", TIMEOUT)
        code, output = finish(self.start(cluster, LIMIT="8h"))
        assert code == 0, output
        assert cluster.log("timeout") == ["8h"]
        assert cluster.log("qsub") == ["-v CONFIG=config.toml,OUT=runs/7,LIMIT=8h hpc/pbs.sh"]
        assert cluster.iterations("runs/7") > 0

    def test_pre_emption_queues_a_job_that_resumes(self, cluster):
        cluster.configure(iterations=100_000_000)
        reached = []
        for _ in range(2):
            before = newest_checkpoint(cluster.folder / "runs/7")
            job = self.start(cluster)
            wait_for_new_checkpoint(job, cluster.folder / "runs/7", before)
            os.kill(job.pid, signal.SIGTERM)
            code, output = finish(job)
            assert code == 0, output
            reached.append(cluster.iterations("runs/7"))
        assert len(cluster.log("qsub")) == 2
        assert 0 < reached[0] < reached[1]


def test_templates_are_valid_shell_and_carry_their_directives():
    for name, directive in (("slurm.sh", "#SBATCH --signal=USR1@"), ("pbs.sh", "#PBS -l walltime")):
        path = TOP / "hpc" / name
        subprocess.run(["bash", "-n", path], check=True)
        assert directive in path.read_text()


def test_container_recipe_copies_what_set_up_needs():
    recipe = (TOP / "hpc" / "thalweg.def").read_text()
    files = recipe.partition("%files")[2].splitlines()[1].split()
    assert files[-1] == "/opt/thalweg/"
    assert all((TOP / name).exists() for name in files[:-1])
    assert {"pyproject.toml", "README.md", "framework", "plugins", "scripts"} <= set(files)
