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

import numpy as np
import pytest

TOP = Path(__file__).parents[2]

LAUNCHER = os.environ.get("THALWEG_MPIRUN") or shutil.which("mpirun")

needs_mpirun = pytest.mark.skipif(LAUNCHER is None, reason="there is no mpirun")

CONFIG = """
[data]
path = "points.npy"
[objective]
name = "elastic-embedding"
perplexity = 10
[solver]
name = "gradient-descent"
[stop]
iterations = 100_000_000
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
LIMIT = 600


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
        if LAUNCHER:
            self.command("mpirun", f'exec {LAUNCHER} "$@"')
        self.command("srun", 'while [[ $1 == -* ]]; do shift; done; exec mpirun -n 2 "$@"')

    def command(self, name, script):
        program = self.folder / "bin" / name
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)

    def configure(self):
        (self.folder / "config.toml").write_text(CONFIG)
        # A file, for scikit-learn takes long to load in each process.
        np.save(self.folder / "points.npy", np.random.default_rng(0).normal(size=(100, 8)))

    def start(self, template, *arguments, **variables):
        path = f"{self.folder / 'bin'}:{self.environment['PATH']}"
        return subprocess.Popen(
            ["bash", TOP / "hpc" / template, *arguments],
            cwd=self.folder, env=self.environment | {"PATH": path} | variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip

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


class TestSlurm:
    def start(self, cluster):
        return cluster.start("slurm.sh", "config.toml", SLURM_JOB_ID="7")

    @pytest.mark.parametrize("code", [0, 2, 3])
    def test_a_run_that_ends_is_not_queued_again(self, cluster, code):
        cluster.command("srun", f'echo "$@" >> {cluster.folder}/srun.log; exit {code}')
        assert finish(self.start(cluster))[0] == code
        assert cluster.log("srun")[0].endswith("run config.toml --out runs/7 --resume")
        assert cluster.log("scontrol") == []

    def test_a_site_is_set_up_and_its_launcher_named(self, cluster):
        cluster.command("srun", f'echo "$@" >> {cluster.folder}/srun.log; echo $LOADED; exit 0')
        (cluster.folder / "site.sh").write_text("export LOADED=modules\n")
        variables = {"SETUP": "./site.sh", "MPI": "pmix", "THALWEG": "apptainer run thalweg.sif"}
        job = cluster.start("slurm.sh", "config.toml", SLURM_JOB_ID="7", **variables)
        assert finish(job) == (0, "modules\n")
        line = cluster.log("srun")[0]
        assert line.startswith("--mpi=pmix --cpus-per-task=1")
        assert line.endswith("apptainer run thalweg.sif run config.toml --out runs/7 --resume")

    def interrupted(self, cluster, iterations):
        """srun that ends as an interrupted run does, after so many iterations."""
        result = f'{{\n"status": "interrupted",\n"iterations": {iterations}\n}}'
        cluster.command("srun", f"mkdir -p runs/7; echo '{result}' > runs/7/result.json; exit 75")

    def test_a_run_without_progress_is_not_queued_again(self, cluster):
        self.interrupted(cluster, 5)
        assert finish(self.start(cluster))[0] == 0
        code, output = finish(self.start(cluster))
        assert code == 75
        assert "no iteration within the time limit" in output
        assert cluster.log("scontrol") == ["requeue 7"]

    def test_where_jobs_may_not_queue_again_another_follows(self, cluster):
        self.interrupted(cluster, 5)
        cluster.command("scontrol", "exit 1")
        cluster.command("sbatch", f'echo "$OUT $@" >> {cluster.folder}/sbatch.log')
        assert finish(self.start(cluster))[0] == 0
        assert cluster.log("sbatch") == ["runs/7 --dependency=afterany:7 hpc/slurm.sh config.toml"]

    @pytest.mark.slow
    @needs_mpirun
    def test_a_signal_before_the_time_limit_requeues_the_job_which_resumes(self, cluster):
        cluster.configure()
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


class TestPBS:
    def start(self, cluster, **variables):
        job = {"PBS_O_WORKDIR": str(cluster.folder), "PBS_JOBID": "7", "CONFIG": "config.toml"}
        return cluster.start("pbs.sh", **job, **variables)

    @pytest.mark.parametrize("code", [0, 2, 3])
    def test_a_run_that_ends_is_not_queued_again(self, cluster, code):
        cluster.command("mpirun", f'echo "$@" >> {cluster.folder}/mpirun.log; exit {code}')
        assert finish(self.start(cluster))[0] == code
        assert cluster.log("mpirun")[0].endswith("run config.toml --out runs/7 --resume")
        assert cluster.log("qsub") == []

    def test_a_rank_gets_the_cores_of_its_threads(self, cluster):
        cluster.command("mpirun", f'echo "$@" >> {cluster.folder}/mpirun.log; echo Open MPI')
        assert finish(self.start(cluster, OMP_NUM_THREADS="4"))[0] == 0
        assert cluster.log("mpirun")[1].startswith("--map-by slot:PE=4 .venv/bin/thalweg run")

    @pytest.mark.slow
    @needs_mpirun
    def test_the_own_time_limit_and_pre_emption_queue_a_job_that_resumes(self, cluster):
        cluster.configure()
        cluster.command("timeout", TIMEOUT)
        code, output = finish(self.start(cluster, LIMIT="8h"))
        assert code == 0, output
        assert cluster.log("timeout") == ["8h"]
        queued = "-v CONFIG=config.toml,OUT=runs/7,LIMIT={},SETUP=,THALWEG= hpc/pbs.sh"
        assert cluster.log("qsub") == [queued.format("8h")]
        reached = cluster.iterations("runs/7")
        assert reached > 0

        (cluster.folder / "bin" / "timeout").unlink()
        before = newest_checkpoint(cluster.folder / "runs/7")
        job = self.start(cluster, OUT="runs/7", LIMIT="9h")
        wait_for_new_checkpoint(job, cluster.folder / "runs/7", before)
        os.kill(job.pid, signal.SIGTERM)
        code, output = finish(job)
        assert code == 0, output
        assert cluster.log("qsub")[1:] == [queued.format("9h")]
        assert cluster.iterations("runs/7") > reached


def test_templates_are_valid_shell_and_carry_their_directives():
    for name, directive in (("slurm.sh", "#SBATCH --signal=USR1@"), ("pbs.sh", "#PBS -l walltime")):
        path = TOP / "hpc" / name
        subprocess.run(["bash", "-n", path], check=True)
        assert directive in path.read_text()
