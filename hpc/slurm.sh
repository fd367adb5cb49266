#!/bin/bash
# sbatch hpc/slurm.sh CONFIG.toml      (from the folder that holds .venv and hpc)
# Variables: SETUP, a file that loads modules or activates conda, read first; MPI, for srun --mpi
# ('srun --mpi=list' shows what there is); THALWEG, in place of .venv/bin/thalweg, such as
# 'apptainer run thalweg.sif'.
#SBATCH --job-name=thalweg
#SBATCH --nodes=2 --ntasks-per-node=64 --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@180
#SBATCH --requeue --open-mode=append
# A rank may need more memory than its cores are given: what 'thalweg plan CONFIG.toml --ranks 128'
# predicts, divided by --cpus-per-task, goes into --mem-per-cpu.
# Three minutes before the time limit (--signal), and on pre-emption, the ranks write a checkpoint
# and exit with 75; the job then queues again, or another where that is not permitted, and resumes
# in the same folder.
config=${1:?usage: sbatch hpc/slurm.sh CONFIG.toml}
out=${OUT:-runs/$SLURM_JOB_ID}
# shellcheck source=/dev/null
[ -z "${SETUP:-}" ] || . "$SETUP"
progress() { grep -sE '"(iterations|evaluations)"' "$out/result.json"; }
before=$(progress)
trap : TERM USR1 # this shell outlives the signal
# shellcheck disable=SC2086
srun ${MPI:+--mpi=$MPI} --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --cpu-bind=cores \
  ${THALWEG:-.venv/bin/thalweg} run "$config" --out "$out" --resume
code=$?
# Some launchers lose the code of a run that was handed a signal.
[ $code != 0 ] || ! grep -qs '"status": "interrupted"' "$out/result.json" || code=75
[ $code = 75 ] || exit $code
if [ "$(progress)" = "$before" ]; then
  echo "slurm.sh: no iteration within the time limit; raise --time" >&2
  exit $code
fi
scontrol requeue "$SLURM_JOB_ID" ||
  OUT=$out exec sbatch --dependency="afterany:$SLURM_JOB_ID" hpc/slurm.sh "$config"
