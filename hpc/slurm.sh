#!/bin/bash
# sbatch hpc/slurm.sh CONFIG.toml      (from the folder that holds .venv)
#SBATCH --job-name=thalweg
#SBATCH --nodes=2 --ntasks-per-node=16 --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@180
#SBATCH --requeue --open-mode=append
# Three minutes before the time limit (--signal), and on pre-emption, the ranks write a checkpoint
# and exit with 75; the job then queues again and resumes in the same folder.
config=${1:?usage: sbatch hpc/slurm.sh CONFIG.toml}
out=runs/$SLURM_JOB_ID
trap : TERM USR1 # this shell outlives the signal
srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --cpu-bind=cores \
  .venv/bin/thalweg run "$config" --out "$out" --resume
code=$?
# Some launchers lose the code of a run that was handed a signal.
[ $code != 0 ] || ! grep -qs '"status": "interrupted"' "$out/result.json" || code=75
[ $code != 75 ] || exec scontrol requeue "$SLURM_JOB_ID"
exit $code
